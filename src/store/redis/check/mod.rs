//! The check: what is known of an id. One round trip tells; another one where a fence proves nothing, or the filter was replaced.
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
use crate::verdict::Doubt;

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
        self.send_digest(shard, digest_of(id, made), at, alone).map(Sent::ByItself)
    }

    /// Asks for an id by itself, whatever this process's copy holds.
    pub(crate) async fn look_up(self: &Arc<Self>, id: &Id) -> Lookup {
        let (shard, made) = self.place(id, None);
        self.look_up_digest(shard, digest_of(id, made)).await
    }

    /// Asks for a digest by itself.
    pub(crate) async fn look_up_digest(
        self: &Arc<Self>,
        shard: &Shard,
        digest: impl FnOnce(&Identity) -> Option<Digest>,
    ) -> Lookup {
        match self.send_digest(shard, digest, Instant::now(), true) {
            Ok(sent) => sent.answer().await,
            Err(doubt) => Lookup::unknown(doubt),
        }
    }

    fn send_digest(
        self: &Arc<Self>,
        shard: &Shard,
        digest: impl FnOnce(&Identity) -> Option<Digest>,
        at: Instant,
        alone: bool,
    ) -> Result<ByItself, Doubt> {
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
        Ok(ByItself(node.check(self, live, digest, deadline, alone)?, asked_us))
    }
}

/// Makes an id's digest with the key of a session, unless it was made.
fn digest_of(id: &Id, made: Option<KeyedDigest>) -> impl FnOnce(&Identity) -> Option<Digest> {
    move |joined| Some(joined.digester.digest_once(id, made).digest)
}

/// What was asked of Redis.
enum Sent {
    ByItself(ByItself),
    Fence { round: Arc<Round>, shards: Arc<Shards>, shard: usize, made: KeyedDigest, at: Instant },
}

impl Sent {
    async fn answer(self) -> Lookup {
        let (round, shards, shard, made, at) = match self {
            Self::ByItself(sent) => return sent.answer().await,
            Self::Fence { round, shards, shard, made, at } => (round, shards, shard, made, at),
        };
        let deadline = at + shards.check_deadline;
        let Ok(proven) = timeout_at(deadline, round.proven()).await else {
            return Lookup::unknown(Doubt::Timeout);
        };
        if let Some(said) = proven.and_then(|copy| fence::said(copy, &made)) {
            return said;
        }
        let digest = |joined: &Identity| made.by(&joined.digester);
        match shards.send_digest(&shards.all[shard], digest, at, false) {
            Ok(sent) => sent.answer().await,
            Err(doubt) => Lookup::unknown(doubt),
        }
    }
}

/// A check of one id, and when it was asked for by Redis's clock, µs.
struct ByItself(SentCheck<Lookup>, i64);

impl ByItself {
    async fn answer(self) -> Lookup {
        let Self(sent, asked_us) = self;
        let lookup = sent.answer().await.unwrap_or_else(Lookup::unknown);
        Lookup { claim: NullClaim { asked_us, ..lookup.claim }, ..lookup }
    }
}
