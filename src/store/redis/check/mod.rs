//! The check: what is known of an id, in one round trip.
//!
//! Checks merge: what queued while two batches were under way is the next one. It leaves when it is full, with the
//! reply to one of them, or when a sixteenth of the deadline has passed, so that a Redis that is far away answers in time,
//! too. With less than two under way a check leaves at once.

pub(super) mod answer;
mod batch;

use std::sync::Arc;

use tokio::time::Instant;

use super::incarnation::identity::Identity;
use super::shards::Shards;
use crate::store::link::node::SentCheck;
use crate::store::{Answer, Lookup, Lookups, NullClaim, Sought};
use crate::verdict::Doubt;

impl Shards {
    /// Asks for ids, one alone or several from the queue, and returns the answer, which comes within the deadline, whatever
    /// Redis does.
    pub(crate) fn check(self: &Arc<Self>, ids: &[Sought<'_>], at: Instant) -> Answer<Lookups> {
        let sent = ids.iter().map(|sought| self.send(*sought, at, ids.len() == 1));
        Answer::to_all(sent, async |(sent, asked_us): (SentCheck<Lookup>, _)| {
            let lookup = sent.answer().await.unwrap_or_else(Lookup::unknown);
            Lookup { claim: NullClaim { asked_us, ..lookup.claim }, ..lookup }
        })
    }

    /// Asks for an id; returns also when, by Redis's clock, µs.
    fn send(
        self: &Arc<Self>,
        (id, made): Sought<'_>,
        at: Instant,
        alone: bool,
    ) -> Result<(SentCheck<Lookup>, i64), Doubt> {
        let (shard, made) = self.place(id, made);
        let node = shard.at.load();
        let Some((live, digest)) = node.checks.current().and_then(|live| {
            let by = |joined: &Identity| joined.digester.digest_once(id, made).digest;
            let digest = live.identity.see(shard.number, by)?;
            Some((live, digest))
        }) else {
            shard.note_doubt(Doubt::Disconnected);
            return Err(Doubt::Disconnected);
        };
        let asked_us = live.redis_us(at);
        let deadline = at + self.check_deadline;
        let sent = node.check(self, live, digest, deadline, alone)?;
        Ok((sent, asked_us))
    }
}
