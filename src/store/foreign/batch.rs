//! One batch of checks: what is asked, what Redis says, and what that means.
//!
//! A check is one BITFIELD, which reads an id's bits and the seal in one step. Behind all of a batch the numbers and the
//! statement are read: what has changed by then may have changed before.

use std::sync::Arc;

use ::redis::{Pipeline, Value, cmd};
use tokio::time::timeout;

use super::asked::Asked;
use super::layout::Place;
use super::module::{self, Info};
use super::record::ON;
use super::site::Site;
use super::trust::{Believed, Known, read_config};
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
    async fn answer(&self, waiting: &mut Vec<Waiting>) {
        let (Some(live), Some(known)) = (self.checks.current(), self.trust.known()) else {
            return refuse(waiting.drain(..), Doubt::Disconnected);
        };
        // Another connection may lead to another Redis, and other numbers to other bits.
        let strangers = waiting.extract_if(.., |one| {
            !Arc::ptr_eq(&one.live, &live) || !Arc::ptr_eq(&one.asked.known, &known)
        });
        refuse(strangers, Doubt::Changing);
        if waiting.is_empty() {
            return;
        }
        // Checks of one id share a place in the commands, and the reply.
        waiting.sort_unstable_by(|one, other| one.asked.place.cmp(&other.asked.place));
        let mut places: Vec<_> = waiting.iter().map(|one| one.asked.place.clone()).collect();
        places.dedup();
        let asking = self.ask(&live, &known, &places, waiting.len());
        let asked = timeout(self.check_deadline, asking).await.unwrap_or(Err(Doubt::Timeout));
        let (held, whole) = match asked {
            Ok(answer) => answer,
            Err(doubt) => return refuse(waiting.drain(..), doubt),
        };
        // Looked at again: another batch may have found the filter lost meanwhile.
        let is_live = known.run == live.process.run && self.checks.uses(&live);
        let believed = if is_live { known.believed().and(whole) } else { Err(Doubt::Changing) };
        let mut answers = places.iter().zip(held).peekable();
        for one in waiting.drain(..) {
            while answers.next_if(|(place, _)| **place != one.asked.place).is_some() {}
            let answer = match (answers.peek(), believed) {
                (Some((_, true)), _) => Ok(Verdict::Present),
                (Some((_, false)), Ok(())) => Ok(Verdict::Absent(Proof::Filter)),
                (Some((_, false)), Err(doubt)) => Err(doubt),
                (None, _) => Err(Doubt::Odd),
            };
            one.answer.send(answer).ok();
        }
    }

    /// Asks which of these places have all their bits set, and whether what an absence rests on still is as it was. Ends
    /// trust if it is not.
    async fn ask(
        &self,
        live: &Arc<Connection>,
        known: &Known,
        places: &[Place],
        callers: usize,
    ) -> Result<(Vec<bool>, Result<(), Doubt>), Doubt> {
        // Behind the others: a filter that was put back from a copy lacks the newest insert.
        let newest = known.believed().ok().and_then(|believed| believed.newest.load_full());
        let places: Vec<&Place> = places.iter().chain(newest.as_deref()).collect();
        let floor = known.believed().map_or(0, Believed::floor);
        let commands = self.commands(known, &places);
        let replies = self.checks.ask_for(callers, live, &commands, self.check_deadline).await;
        let read = replies.and_then(|replies| self.read(known, &places, replies, floor));
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

    /// Returns the commands of a batch.
    fn commands(&self, known: &Known, places: &[&Place]) -> Pipeline {
        let mut commands = Pipeline::with_capacity(places.len() + 2);
        if self.trust.layout.is_module() {
            let (key, seal) = (self.trust.key_of(0), known.believed.as_ref().ok());
            let seal = seal.map(|believed| &believed.record.seal);
            commands.add_command(module::ask(key, places.iter().map(|place| &*place.id), seal));
            commands.add_command(Info::ask(key));
            // Behind it, too: so it was asked of the filter that the seal is in.
            if seal.is_some() {
                commands.add_command(module::ask(key, [], seal));
                commands.add_command(module::try_write(&self.trust.record));
            }
        }
        let bitmaps = if self.trust.layout.is_module() { &[] } else { places };
        for place in bitmaps {
            let mut command = cmd("BITFIELD");
            command.arg(self.trust.key_of(place.key));
            for bit in &place.bits {
                command.arg("GET").arg("u1").arg(*bit);
            }
            if let Ok(believed) = &known.believed {
                believed.record.seal.ask(&mut command);
            }
            commands.add_command(command);
        }
        if let Some(command) = self.trust.config() {
            commands.add_command(command);
        }
        commands.add_command(cmd("HGET").arg(&self.trust.record).arg(ON).clone());
        commands
    }

    /// Reads which places have all their bits set, and whether what an absence rests on still is as it was.
    fn read(
        &self,
        known: &Known,
        places: &[&Place],
        replies: Vec<Value>,
        floor: u64,
    ) -> Result<(Vec<bool>, Result<(), Doubt>), StoreError> {
        let mut replies = replies.into_iter();
        if self.trust.layout.is_module() {
            return read_module(known, places.len(), replies, floor);
        }
        let mut held = Vec::with_capacity(places.len());
        let mut whole = Ok(());
        for place in places {
            let reply = Reply::new(STEP, replies.next().ok_or_else(odd)?).array()?;
            let mut fields = reply.into_iter();
            let mut all = true;
            for _ in &place.bits {
                all &= fields.next().ok_or_else(odd)?.int()? == 1;
            }
            if let Ok(believed) = &known.believed
                && !believed.record.seal.is(&fields.next().ok_or_else(odd)?)?
            {
                whole = Err(Doubt::Foreign);
            }
            held.push(all);
        }
        if self.trust.config().is_some() && read_config(replies.next())? != known.config {
            whole = Err(Doubt::Foreign);
        }
        let on = Reply::new(STEP, replies.next().ok_or_else(odd)?).optional_bytes()?;
        if let Ok(believed) = &known.believed {
            whole = believed.stands(whole, on.as_deref());
        }
        Ok((held, whole))
    }
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
    let on = next()?.optional_bytes()?;
    let has_seal = sealed.into_iter().all(|one| one);
    let whole = if has_seal { believed.has_grown(floor, info) } else { Err(Doubt::Foreign) };
    Ok((held, believed.stands(whole, on.as_deref())))
}

fn refuse(waiting: impl Iterator<Item = Waiting>, doubt: Doubt) {
    for one in waiting {
        one.answer.send(Err(doubt)).ok();
    }
}
