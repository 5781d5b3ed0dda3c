//! One batch of checks: what is asked, what Redis says, and what that means.
//!
//! A batch has one round or [two](super::rounds), and each round is a proof of its own: it says "absent" of an id by what was
//! read in that round, and by nothing else. A round is one pipeline, in this order:
//!
//! | commands of a round | why they are there |
//! |---|---|
//! | a BITFIELD for some ids of one key: some bits of each, then the seal | one step: with the right seal, the filter was whole when these very bits were read. A clear bit of an id is enough |
//! | in the last of them, or one more: all bits of the newest insert of this process | read no earlier than any other bit: a copy from before that insert, put back with its seal, lacks one |
//! | the numbers, if Redis has them | behind all bits: what has changed by then may have changed before |
//! | the statement, and the last two seals | behind all bits, too: another process may have found the filter lost, or turned the seal over |
//!
//! | between the two rounds | becomes of an id that was absent in the first | of one that is asked for again |
//! |---|---|---|
//! | nothing | it was answered | a clear bit among its others proves its absence |
//! | the filter is lost, emptied or replaced, or one command of the second has no seal | it was answered, and the filter was whole then | unknown, unless all its bits are set |
//! | an old copy is put back, the numbers change, or the statement is taken back | the same | unknown, unless all its bits are set |
//!
//! "Present" needs no proof: bits of two filters may say it.

use std::iter::repeat_n;
use std::ops::Range;
use std::sync::Arc;

use ::redis::{Pipeline, Value};
use tokio::time::{Instant, timeout_at};

use super::asked::Asked;
use super::bits::{self, Part};
use super::known::{Believed, Known, read_numbers};
use super::layout::Place;
use super::module::{self, Info};
use super::record::Stated;
use super::site::Site;
use super::trust::Trust;
use crate::error::StoreError;
use crate::store::redis::link::connection::Connection;
use crate::store::redis::link::queue;
use crate::store::redis::refusal::doubt;
use crate::store::redis::reply::Reply;
use crate::verdict::{Doubt, Proof, Verdict};

const STEP: &str = "a check of a foreign filter";

type Waiting = queue::Place<Asked, Verdict>;

impl Site {
    /// Sends one batch after the other, for as long as it is polled.
    pub(super) async fn send_checks(self: Arc<Self>) {
        let mut waiting = Vec::new();
        loop {
            let under_way = self.queue.take(&mut waiting).await;
            self.answer(&mut waiting).await;
            drop(under_way);
        }
    }

    /// Answers all of these checks, and leaves none.
    pub(super) async fn answer(&self, waiting: &mut Vec<Waiting>) {
        let (Some(live), Some(known)) = (self.checks.current(), self.trust.known()) else {
            return refuse(waiting.drain(..), Doubt::Disconnected);
        };
        // Another connection may lead to another Redis, and other numbers to other bits.
        let strangers = waiting.extract_if(.., |one| {
            !Arc::ptr_eq(&one.live, &live) || !Arc::ptr_eq(&one.asked.known, &known)
        });
        refuse(strangers, Doubt::Changing);
        waiting.sort_unstable_by(|one, other| one.asked.place.cmp(&other.asked.place));
        let begun = Instant::now();
        let mut bits = self.rounds.first(waiting.len());
        while !waiting.is_empty() {
            let asking = self.ask(&live, &known, waiting, &bits);
            let asked = timeout_at(begun + self.check_deadline, asking).await;
            let (held, whole) = match asked.unwrap_or(Err(Doubt::Timeout)) {
                Ok(answer) => answer,
                Err(doubt) => return refuse(waiting.drain(..), doubt),
            };
            // Looked at again: another batch may have found the filter lost meanwhile.
            let is_live = known.run == live.process.run && self.checks.uses(&live);
            let believed = if is_live { known.believed().and(whole) } else { Err(Doubt::Changing) };
            if bits.start == 0 {
                self.rounds.note(&held, begun.elapsed(), self.check_deadline);
            }
            give(waiting, held, believed, bits.end);
            bits = bits.end..usize::MAX;
            if is_live && believed == Err(Doubt::Changing) {
                // The next poll would be up to a second later.
                self.trust.look_again(live.wire(), &live.process, &known).await;
            }
        }
    }

    /// Asks for these bits of each id; says which ids have them all, and whether what an absence rests on still is as it
    /// was. Ends trust if it is not.
    async fn ask(
        &self,
        live: &Arc<Connection>,
        known: &Known,
        waiting: &[Waiting],
        bits: &Range<usize>,
    ) -> Result<(Vec<bool>, Result<(), Doubt>), Doubt> {
        // Behind the others: a filter that was put back from a copy lacks the newest insert.
        let newest = known.believed().ok().and_then(|believed| believed.newest.load_full());
        let places = alike(waiting).map(|alike| &alike[0].asked.place);
        let round = Round::new(&self.trust, known, places, bits, newest.as_deref());
        let floor = known.believed().map_or(0, Believed::floor);
        let commands = round.commands();
        let replies =
            self.checks.ask_for(waiting.len(), live, &commands, self.check_deadline).await;
        let read = replies.and_then(|replies| round.read(replies, floor));
        let (held, whole) = match read.map_err(|error| doubt(&error)) {
            Ok((mut held, whole)) => {
                let has_newest = newest.is_none() || held.pop() == Some(true);
                // A rebuild need not have it: its transaction may have been given up.
                let is_other = whole == Err(Doubt::Changing);
                let whole = if has_newest || is_other { whole } else { Err(Doubt::Foreign) };
                (Ok((held, whole)), whole)
            }
            Err(lost @ (Doubt::WrongType | Doubt::Gone)) => (Err(lost), Err(lost)),
            Err(doubt) => return Err(doubt),
        };
        if let (Err(doubt), Ok(believed)) = (whole, known.believed())
            && !matches!(doubt, Doubt::Changing | Doubt::Full)
        {
            self.trust.lose(believed, doubt);
            // At once: a process that starts now would find all as it was, if the filter was away for a moment.
            self.trust.revoke(live.wire(), known).await;
        }
        held
    }
}

/// What one round of a batch asks for.
pub(super) struct Round<'a> {
    trust: &'a Trust,
    known: &'a Known,
    /// Each once, and the newest insert behind them.
    places: Vec<&'a Place>,
    /// What is asked of a bitmap.
    parts: Vec<Part<'a>>,
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
        let parts = places.clone().map(|place| Part::of(place, bits));
        let newest_part = newest.map(|place| Part::of(place, &(0..usize::MAX)));
        let parts = parts.chain(newest_part).collect();
        Self { trust, known, places: places.chain(newest).collect(), parts }
    }

    /// Returns its commands.
    pub(super) fn commands(&self) -> Pipeline {
        let Self { trust, ref places, .. } = *self;
        let mut commands = Pipeline::new();
        if trust.layout.is_module() {
            let (key, seal) = (trust.key_of(0), self.known.seal());
            commands.add_command(module::ask(key, places.iter().map(|place| &*place.id), seal));
            commands.add_command(Info::ask(key));
            // Behind it, too: so it was asked of the filter that the seal is in.
            if seal.is_some() {
                commands.add_command(module::ask(key, [], seal));
                commands.add_command(module::try_write(&trust.record));
            }
        } else {
            for command in bits::ask(trust, self.known.seal(), &self.parts) {
                commands.add_command(command);
            }
        }
        if let Some(command) = trust.config() {
            commands.add_command(command);
        }
        commands.add_command(Stated::ask(&trust.record));
        commands
    }

    /// Reads which of its places have all their bits set, and whether what an absence rests on still is as it was.
    pub(super) fn read(
        &self,
        replies: Vec<Value>,
        floor: u64,
    ) -> Result<(Vec<bool>, Result<(), Doubt>), StoreError> {
        let mut replies = replies.into_iter();
        if self.trust.layout.is_module() {
            return read_module(self.known, self.places.len(), replies, floor);
        }
        let (held, seals) = bits::read(self.known.seal(), &self.parts, &mut replies)?;
        let mut replies = replies.map(|reply| Reply::new(STEP, reply));
        let config = self.trust.config().and_then(|_| replies.next());
        let is_same = read_numbers(config)? == self.known.config;
        let stated = Stated::read(replies.next().ok_or_else(odd)?)?;
        let Ok(believed) = &self.known.believed else { return Ok((held, Ok(()))) };
        let is_whole = is_same && seals.into_iter().all(|seal| stated.names(seal));
        let found = if is_whole { Ok(()) } else { Err(Doubt::Foreign) };
        Ok((held, believed.stands(found, &stated)))
    }
}

/// Returns checks of one id together: they share a place in the commands, and the reply.
fn alike(waiting: &[Waiting]) -> impl Iterator<Item = &[Waiting]> + Clone {
    waiting.chunk_by(|one, other| one.asked.place == other.asked.place)
}

/// Answers the checks that are decided, and keeps those of ids that have more bits than were asked for up to here.
fn give(waiting: &mut Vec<Waiting>, held: Vec<bool>, believed: Result<(), Doubt>, asked: usize) {
    let of_each = alike(waiting).zip(held).flat_map(|(alike, held)| repeat_n(held, alike.len()));
    let of_each: Vec<bool> = of_each.collect();
    let mut undecided = Vec::new();
    for (one, held) in waiting.drain(..).zip(of_each) {
        let answer = match (held, believed) {
            (true, _) if one.asked.place.bits.len() > asked => {
                undecided.push(one);
                continue;
            }
            (true, _) => Ok(Verdict::Present),
            (false, Ok(())) => Ok(Verdict::Absent(Proof::Filter)),
            (false, Err(doubt)) => Err(doubt),
        };
        one.answer.send(answer).ok();
    }
    undecided.retain(|one| !one.answer.is_closed());
    waiting.append(&mut undecided);
}

fn odd() -> StoreError {
    StoreError::Odd { step: STEP, answer: "too few replies".to_owned() }
}

/// Reads which of so many ids a module has, and whether what an absence rests on still is as it was.
fn read_module(
    known: &Known,
    ids: usize,
    replies: impl Iterator<Item = Value>,
    floor: u64,
) -> Result<(Vec<bool>, Result<(), Doubt>), StoreError> {
    let mut replies = replies.map(|reply| Reply::new(STEP, reply));
    let mut next = || replies.next().ok_or_else(odd);
    let Ok(believed) = &known.believed else {
        let held = module::flags(next()?, ids)?;
        Info::read(next()?)?;
        return Ok((held, Ok(())));
    };
    let seal = module::SEALED as usize;
    let mut held = module::flags(next()?, ids + seal)?;
    let mut sealed = held.split_off(ids);
    let info = Info::read(next()?)?;
    sealed.extend(module::flags(next()?, seal)?);
    next()?.int()?;
    let stated = Stated::read(next()?)?;
    let has_seal = sealed.into_iter().all(|one| one);
    let whole = if has_seal { believed.has_grown(floor, info) } else { Err(Doubt::Foreign) };
    Ok((held, believed.stands(whole, &stated)))
}

fn refuse(waiting: impl Iterator<Item = Waiting>, doubt: Doubt) {
    for one in waiting {
        one.answer.send(Err(doubt)).ok();
    }
}

#[cfg(test)]
mod tests;
