//! What a check asks for, and one round of commands about some ids: what is asked, what Redis says, and what that means.

use std::ops::Range;
use std::sync::Arc;

use ::redis::{Cmd, Value};

use super::bitmap::{self, Part};
use super::known::{Believed, Known, read_numbers};
use super::layout::{Kind, Place};
use super::module;
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
    /// Each id's once, and the newest insert's behind them.
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
        let parts = places.clone().map(|place| part(place, bits));
        let newest_part = newest.map(|place| part(place, &(0..usize::MAX)));
        let parts = parts.chain(newest_part).collect();
        let floor = known.believed().map_or(0, Believed::floor);
        Self { trust, known, places: places.chain(newest).collect(), parts, floor }
    }

    /// Returns its commands.
    pub(super) fn commands(&self) -> Vec<Cmd> {
        let Self { trust, known, places, parts, .. } = self;
        let mut commands = match trust.layout.kind() {
            Kind::Bitmap => bitmap::ask(&trust.keys, known.seal(), parts).collect(),
            Kind::Module => {
                let ids = places.iter().map(|place| &*place.id);
                module::ask(&trust.keys, ids, known.seal())
            }
        };
        commands.extend(trust.config());
        commands.push(Stated::ask(&trust.keys.statement));
        commands
    }

    /// Reads their replies.
    pub(super) fn read(&self, mut replies: Vec<Value>) -> Result<Found, StoreError> {
        let Self { trust, known, places, parts, floor } = self;
        let stated = Stated::read(Reply::new(STEP, replies.pop().unwrap_or(Value::Nil)))?;
        let mut replies = replies.into_iter();
        let (held, whole) = match trust.layout.kind() {
            Kind::Bitmap => {
                let (held, seals) = bitmap::read(known.seal(), parts, &mut replies)?;
                let is_whole = seals.into_iter().all(|seal| stated.names(seal));
                (held, if is_whole { Ok(()) } else { Err(Doubt::Foreign) })
            }
            Kind::Module => {
                let (held, has_seal, info) =
                    module::read(places.len(), known.seal(), &mut replies)?;
                match &known.believed {
                    Ok(believed) if has_seal => (held, believed.has_grown(*floor, info)),
                    _ => (held, Err(Doubt::Foreign)),
                }
            }
        };
        let numbers = read_numbers(replies.next().map(|reply| Reply::new(STEP, reply)))?;
        let whole = if numbers == known.config { whole } else { Err(Doubt::Foreign) };
        let Ok(believed) = &known.believed else { return Ok((held, Ok(()))) };
        // A filter that is not what it was is no loss where a later statement is of another.
        Ok((held, believed.is_stated(stated.on.as_deref()).and(whole)))
    }
}

/// Returns these of an id's bits, as far as it has them.
fn part<'a>(place: &'a Place, part: &Range<usize>) -> Part<'a> {
    let end = part.end.min(place.bits.len());
    (place.key, &place.bits[part.start.min(end)..end])
}
