//! What a check asks for, and one round of commands about some ids: what is asked, what Redis says, and what that means.

use std::ops::Range;
use std::sync::Arc;

use ::redis::{Cmd, Value};

use super::kind::{Found, Part, Query};
use super::known::{Believed, Known, read_numbers};
use super::layout::Place;
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

/// What is asked.
pub(super) struct Round<'a> {
    trust: &'a Trust,
    asked: Query<'a>,
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
        let places = places.chain(newest).collect();
        Self { trust, asked: Query { keys: &trust.keys, known, places, parts, floor } }
    }

    /// Returns its commands.
    pub(super) fn commands(&self) -> Vec<Cmd> {
        let Self { trust, asked } = self;
        let mut commands = trust.kind.ask(asked);
        commands.extend(trust.config());
        commands.push(Stated::ask(&trust.keys.statement));
        commands
    }

    /// Reads their replies.
    pub(super) fn read(&self, mut replies: Vec<Value>) -> Result<Found, StoreError> {
        let Self { trust, asked } = self;
        let stated = Stated::read(Reply::new(STEP, replies.pop().unwrap_or(Value::Nil)))?;
        trust.note_hand_over(stated.on.as_deref());
        let mut replies = replies.into_iter();
        let (held, whole) = trust.kind.read(asked, &mut replies, &stated)?;
        let numbers = read_numbers(replies.next().map(|reply| Reply::new(STEP, reply)))?;
        let whole = if numbers == asked.known.config { whole } else { Err(Doubt::Foreign) };
        let believed = asked.known.believed.as_ref();
        Ok((held, believed.map_or(Ok(()), |believed| believed.stands(whole, &stated))))
    }
}

/// Returns these of an id's bits, as far as it has so many.
fn part<'a>(place: &'a Place, part: &Range<usize>) -> Part<'a> {
    let end = part.end.min(place.bits.len());
    (place.key, &place.bits[part.start.min(end)..end])
}
