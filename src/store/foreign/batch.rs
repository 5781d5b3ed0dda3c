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

use tokio::time::{Instant, timeout_at};

use super::known::Known;
use super::round::{Asked, Found, Round};
use super::site::{Connection, Site};
use crate::store::link::node::{Checks, Node, refuse};
use crate::store::link::queue;
use crate::store::link::refusal::doubt;
use crate::store::link::transport::pipeline;
use crate::verdict::{Doubt, Proof, Verdict};

type PendingCheck = queue::PendingCheck<(), Asked, Verdict>;

impl Checks for Site {
    type Identity = ();
    type Asked = Asked;
    type Answer = Verdict;

    async fn answer(
        &self,
        node: &Arc<Node<(), Asked, Verdict>>,
        live: &Arc<Connection>,
        waiting: &mut Vec<PendingCheck>,
    ) {
        let Some(known) = self.trust.known() else {
            return refuse(waiting.drain(..), Doubt::Disconnected);
        };
        // Other numbers lead to other bits.
        let strangers = waiting.extract_if(.., |one| !Arc::ptr_eq(&one.asked.known, &known));
        refuse(strangers, Doubt::Changing);
        waiting.sort_unstable_by(|one, other| one.asked.place.cmp(&other.asked.place));
        let begun = Instant::now();
        let mut bits = self.rounds.first(waiting.len());
        while !waiting.is_empty() {
            let asking = self.ask(live, &known, waiting, &bits);
            let asked = timeout_at(begun + self.check_deadline, asking).await;
            let (held, whole) = match asked.unwrap_or(Err(Doubt::Timeout)) {
                Ok(answer) => answer,
                Err(doubt) => return refuse(waiting.drain(..), doubt),
            };
            // Looked at again: another batch may have found the filter lost meanwhile.
            let is_live = known.run == live.process.run && node.checks.uses(live);
            let believed = if is_live { known.believed().and(whole) } else { Err(Doubt::Changing) };
            if bits.start == 0 {
                self.rounds.note(&held, begun.elapsed(), self.check_deadline);
            }
            give(waiting, held, believed, bits.end);
            bits = bits.end..usize::MAX;
            let is_old = || self.trust.known().is_some_and(|now| Arc::ptr_eq(&now, &known));
            if is_live && believed == Err(Doubt::Changing) && is_old() {
                // The next poll would be up to a second later. The next batch tries again.
                self.trust.look(&*live.transport(), &live.process).await.ok();
            }
        }
    }
}

impl Site {
    /// Asks for these bits of each id; says which ids have them all, and whether what an absence rests on still is as it
    /// was. Ends trust if it is not.
    async fn ask(
        &self,
        live: &Arc<Connection>,
        known: &Known,
        waiting: &[PendingCheck],
        bits: &Range<usize>,
    ) -> Result<Found, Doubt> {
        // Behind the others: a filter that was put back from a copy lacks the newest insert.
        let newest = known.believed().ok().and_then(|believed| believed.newest.load_full());
        let places = alike(waiting).map(|alike| &alike[0].asked.place);
        let round = Round::new(&self.trust, known, places, bits, newest.as_deref());
        let commands = pipeline(round.commands());
        let replies =
            self.node.checks.ask_for(waiting.len(), live, &commands, self.check_deadline).await;
        let read = replies.and_then(|replies| round.read(replies));
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
        self.trust.heed(&*live.transport(), known, whole).await;
        held
    }
}

/// Returns checks of one id together: they share a place in the commands, and the reply.
fn alike(waiting: &[PendingCheck]) -> impl Iterator<Item = &[PendingCheck]> + Clone {
    waiting.chunk_by(|one, other| one.asked.place == other.asked.place)
}

/// Answers the checks that are decided, and keeps those of ids that have more bits than were asked for up to here.
fn give(
    waiting: &mut Vec<PendingCheck>,
    held: Vec<bool>,
    believed: Result<(), Doubt>,
    asked: usize,
) {
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

#[cfg(test)]
mod tests;
