//! The check: what is known of an id, in one round trip.
//!
//! Checks merge: what queued while two batches were under way is the next one. It leaves when it is full, with the
//! reply to one of them, or when a sixteenth of the deadline has passed, so that a Redis that is far away answers in time,
//! too. With less than two under way a check leaves at once.

pub(super) mod answer;
mod batch;
mod catch_up;
pub(super) mod fence;

use std::sync::Arc;

use tokio::time::{Instant, timeout_at};

use self::fence::Round;
use super::incarnation::identity::Identity;
use super::shard::Shard;
use super::shards::Shards;
use crate::id::{Digest, Id, KeyedDigest};
use crate::store::link::node::SentCheck;
use crate::store::{Answer, Lookup, Lookups, NullClaim, Sought};
use crate::verdict::{Doubt, Verdict};

impl Shards {
    /// Asks for ids, one alone or several from the queue, and returns the answer, which comes within the deadline, whatever
    /// Redis does. Ids that this process's copy lacks wait for a fence.
    pub(crate) fn check(self: &Arc<Self>, ids: &[Sought<'_>], at: Instant) -> Answer<Lookups> {
        let sent = ids.iter().map(|sought| self.send(*sought, at, ids.len() == 1));
        Answer::to_all(sent, Sent::answer)
    }

    fn send(
        self: &Arc<Self>,
        (id, made): Sought<'_>,
        at: Instant,
        alone: bool,
    ) -> Result<Sent, Doubt> {
        let (shard, made) = self.place(id, made);
        if !shard.is_of_many
            && let Some(live) = &*shard.filter.load()
            && let Some(made) = shard.copies.lacks(live, id, made)
            && !(alone && shard.fence.rests() && shard.at.load().is_idle())
        {
            let shards = Arc::clone(self);
            let round = shard.fence.join(made)?;
            return Ok(Sent::Fence { round, shards, shard: shard.number, made, at });
        }
        self.send_by_itself(id, made, at, alone)
    }

    /// Asks for an id by itself, whatever this process's copy holds.
    pub(crate) async fn look_up(self: &Arc<Self>, id: &Id) -> Lookup {
        match self.send_by_itself(id, None, Instant::now(), true) {
            Ok(sent) => sent.answer().await,
            Err(doubt) => Lookup::unknown(doubt),
        }
    }

    fn send_by_itself(
        self: &Arc<Self>,
        id: &Id,
        made: Option<KeyedDigest>,
        at: Instant,
        alone: bool,
    ) -> Result<Sent, Doubt> {
        let (shard, made) = self.place(id, made);
        let digest = |joined: &Identity| Some(joined.digester.digest_once(id, made).digest);
        let (sent, asked_us) = self.send_digest(shard, digest, at, alone)?;
        Ok(Sent::ByItself(sent, asked_us))
    }

    /// What Redis itself says of a digest.
    pub(crate) async fn look_up_digest(
        self: &Arc<Self>,
        shard: &Shard,
        made: &KeyedDigest,
    ) -> Verdict {
        match self.send_digest(shard, |joined| made.by(&joined.digester), Instant::now(), true) {
            Ok((sent, _)) => {
                sent.answer().await.map_or_else(Verdict::Unknown, |found| found.verdict)
            }
            Err(doubt) => Verdict::Unknown(doubt),
        }
    }

    /// Returns also when, by Redis's clock, µs.
    fn send_digest(
        self: &Arc<Self>,
        shard: &Shard,
        digest: impl FnOnce(&Identity) -> Option<Digest>,
        at: Instant,
        alone: bool,
    ) -> Result<(SentCheck<Lookup>, i64), Doubt> {
        let node = shard.at.load();
        let Some((live, digest)) = node.link.current().and_then(|live| {
            let digest = live.identity.see(shard.number, digest)??;
            Some((live, digest))
        }) else {
            shard.note_doubt(Doubt::Disconnected);
            return Err(Doubt::Disconnected);
        };
        let asked_us = live.redis_us(at);
        let deadline = at + self.check_deadline;
        Ok((node.check(self, live, digest, deadline, alone)?, asked_us))
    }
}

/// What was asked of Redis.
enum Sent {
    /// And when, by Redis's clock, µs.
    ByItself(SentCheck<Lookup>, i64),
    Fence {
        round: Arc<Round>,
        shards: Arc<Shards>,
        shard: usize,
        made: KeyedDigest,
        at: Instant,
    },
}

impl Sent {
    async fn answer(self) -> Lookup {
        let (sent, asked_us) = match self {
            Self::ByItself(sent, asked_us) => (sent, asked_us),
            Self::Fence { round, shards, shard, made, at } => {
                let deadline = at + shards.check_deadline;
                let Ok(proven) = timeout_at(deadline, round.proven()).await else {
                    return Lookup::unknown(Doubt::Timeout);
                };
                if let Some(said) = proven.and_then(|copy| fence::said(copy, &made)) {
                    return said;
                }
                let digest = |joined: &Identity| made.by(&joined.digester);
                match shards.send_digest(&shards.all[shard], digest, at, false) {
                    Ok(sent) => sent,
                    Err(doubt) => return Lookup::unknown(doubt),
                }
            }
        };
        let lookup = sent.answer().await.unwrap_or_else(Lookup::unknown);
        Lookup { claim: NullClaim { asked_us, ..lookup.claim }, ..lookup }
    }
}
