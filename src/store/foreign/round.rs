//! What a check asks for, and one round of commands about some ids: what is asked, what Redis says, and what that means.

use std::ops::Range;
use std::sync::Arc;

use ::redis::{Cmd, Value};

use super::bits::{self, Part};
use super::known::{Believed, Known, read_numbers};
use super::layout::Place;
use super::module::{self, Info};
use super::record::Stated;
use super::trust::Trust;
use crate::error::StoreError;
use crate::store::link::reply::Reply;
use crate::verdict::Doubt;

const STEP: &str = "a check of a foreign filter";

/// What a check asks for.
pub(super) struct Asked {
    /// What the place was computed by.
    pub(super) known: Arc<Known>,
    pub(super) place: Place,
}

impl Asked {
    /// Computes where an id is, or says why there is no filter to ask.
    pub(super) fn new(trust: &Trust, known: Arc<Known>, id: &[u8]) -> Result<Self, Doubt> {
        if let Err(Doubt::NoFilter) = known.believed() {
            return Err(Doubt::NoFilter);
        }
        let size = *known.size.as_ref().map_err(|_| Doubt::Foreign)?;
        let place = trust.layout.place(size, id);
        Ok(Self { known, place })
    }
}

/// Which ids have all the bits that were asked for, and whether what an absence rests on still is as it was.
pub(super) type Found = (Vec<bool>, Result<(), Doubt>);

/// What is asked.
pub(super) struct Round<'a> {
    trust: &'a Trust,
    known: &'a Known,
    /// Each once, and the newest insert behind them.
    places: Vec<&'a Place>,
    /// What is asked of a bitmap.
    parts: Vec<Part<'a>>,
    /// How many ids a module's filter is known to have.
    floor: u64,
}

impl<'a> Round<'a> {
    /// Has these bits asked for of each place, those of one key side by side.
    pub(super) fn new(
        trust: &'a Trust,
        known: &'a Known,
        places: impl Iterator<Item = &'a Place> + Clone,
        bits: &Range<usize>,
        newest: Option<&'a Place>,
    ) -> Self {
        let parts = places.clone().map(|place| bits::part(place, bits));
        let newest_part = newest.map(|place| bits::part(place, &(0..usize::MAX)));
        let parts = parts.chain(newest_part).collect();
        let floor = known.believed().map_or(0, Believed::floor);
        Self { trust, known, places: places.chain(newest).collect(), parts, floor }
    }

    /// Returns its commands.
    pub(super) fn commands(&self) -> Vec<Cmd> {
        let Self { trust, ref places, .. } = *self;
        let seal = self.known.seal();
        let mut commands = Vec::new();
        if trust.layout.is_module() {
            let key = trust.key_of(0);
            commands.push(module::ask(key, places.iter().map(|place| &*place.id), seal));
            commands.push(Info::ask(key));
            // Behind it, too: so it was asked of the filter that the seal is in.
            if seal.is_some() {
                commands.push(module::ask(key, [], seal));
                commands.push(module::try_write(&trust.record));
            }
        } else {
            commands.extend(bits::ask(trust, seal, &self.parts));
        }
        commands.extend(trust.config());
        commands.push(Stated::ask(&trust.record));
        commands
    }

    /// Reads their replies.
    pub(super) fn read(&self, mut replies: Vec<Value>) -> Result<Found, StoreError> {
        let stated = Stated::read(Reply::new(STEP, replies.pop().unwrap_or(Value::Nil)))?;
        self.trust.note_hand_over(stated.on.as_deref());
        let (held, found) = if self.trust.layout.is_module() {
            self.read_module(replies)?
        } else {
            self.read_bitmap(replies, &stated)?
        };
        let believed = self.known.believed.as_ref();
        Ok((held, believed.map_or(Ok(()), |believed| believed.stands(found, &stated))))
    }

    fn read_bitmap(&self, replies: Vec<Value>, stated: &Stated) -> Result<Found, StoreError> {
        let mut replies = replies.into_iter();
        let (held, seals) = bits::read(self.known.seal(), &self.parts, &mut replies)?;
        let numbers = read_numbers(replies.next().map(|reply| Reply::new(STEP, reply)))?;
        let is_whole =
            numbers == self.known.config && seals.into_iter().all(|seal| stated.names(seal));
        Ok((held, if is_whole { Ok(()) } else { Err(Doubt::Foreign) }))
    }

    fn read_module(&self, replies: Vec<Value>) -> Result<Found, StoreError> {
        let mut replies = replies.into_iter();
        let mut next = || Reply::new(STEP, replies.next().unwrap_or(Value::Nil));
        let seal = self.known.seal().map_or(0, |_| module::SEALED as usize);
        let mut held = module::flags(next(), self.places.len() + seal)?;
        let mut sealed = held.split_off(self.places.len());
        let info = Info::read(next())?;
        let Ok(believed) = &self.known.believed else { return Ok((held, Ok(()))) };
        sealed.extend(module::flags(next(), seal)?);
        next().int()?;
        let has_seal = sealed.into_iter().all(|one| one);
        let grown =
            if has_seal { believed.has_grown(self.floor, info) } else { Err(Doubt::Foreign) };
        Ok((held, grown))
    }
}
