//! The check: one round trip, and another one where the filter was replaced.
//!
//! An id that this process's copy lacks waits for a [fence](fence), which proves absent all that wait for it. Others are asked for
//! by themselves: those that queue while batches are under way are the next [batch](batch) (`store/link/queue.rs` says when it leaves).

pub(super) mod answer;
mod batch;
mod fence;
pub(super) mod fences;

use std::sync::Arc;

use smallvec::SmallVec;
use tokio::time::Instant;

use self::fence::{Fenced, Lead};
use self::fences::Joined;
use super::connection::{Identity, JoinedAll, RedisNode};
use super::shard::Shard;
use super::shards::Shards;
use crate::id::{Id, KeyedDigest};
use crate::store::link::node::SentCheck;
use crate::store::{Answer, Lookup, Lookups, Sought};
use crate::verdict::Doubt;

/// A check that has been asked for.
enum Sent {
    ById(SentCheck),
    Fenced(Fenced),
}

impl Shards {
    /// Asks for ids. The answer comes within the deadline, whatever Redis does.
    pub(crate) fn check(self: &Arc<Self>, ids: &[Sought<'_>], at: Instant) -> Answer<Lookups> {
        let mut leads = SmallVec::<[Lead; 1]>::new();
        let sent = ids.iter().map(|&(id, made)| {
            let (shard, made) = self.place(id, made);
            self.send(shard, digest_of(id, made), at, ids.len() == 1, &mut leads)
        });
        let sent: SmallVec<[Result<Sent, Doubt>; 1]> = sent.collect();
        // All ids of a list have joined by now.
        leads.into_iter().for_each(|lead| lead.start(self));
        let unsent = |sent: &Result<Sent, Doubt>| sent.as_ref().err().copied().map(Lookup::unknown);
        if let Some(lookups) = sent.iter().map(unsent).collect() {
            return Answer::Ready(lookups);
        }
        let shards = Arc::clone(self);
        Answer::Pending(Box::pin(async move {
            let mut lookups = Lookups::with_capacity(sent.len());
            for sent in sent {
                lookups.push(match sent {
                    Ok(Sent::ById(sent)) => sent.answer().await,
                    Ok(Sent::Fenced(fenced)) => fenced.answer(&shards).await,
                    Err(doubt) => Lookup::unknown(doubt),
                });
            }
            lookups
        }))
    }

    /// Asks for an id by itself, whatever this process's copy holds.
    pub(crate) async fn look_up(self: &Arc<Self>, id: &Id) -> Lookup {
        let (shard, made) = self.place(id, None);
        self.look_up_by_id(shard, digest_of(id, made), Instant::now()).await
    }

    async fn look_up_by_id(
        self: &Arc<Self>,
        shard: &Shard,
        digest: impl FnOnce(&Identity) -> Option<KeyedDigest>,
        at: Instant,
    ) -> Lookup {
        let sent = shard.session(digest).and_then(|(node, live, made)| {
            let alone = node.alone();
            node.check(self, live, made.digest, at, alone)
        });
        match sent {
            Ok(sent) => sent.answer().await,
            Err(doubt) => Lookup::unknown(doubt),
        }
    }

    /// Asks for an id: by a fence where the copy lacks it. The leads of new fences are added to `leads`.
    fn send(
        self: &Arc<Self>,
        shard: &Shard,
        digest: impl FnOnce(&Identity) -> Option<KeyedDigest>,
        at: Instant,
        is_one: bool,
        leads: &mut SmallVec<[Lead; 1]>,
    ) -> Result<Sent, Doubt> {
        let (node, live, id) = shard.session(digest)?;
        let alone = || is_one.then(|| node.alone()).flatten();
        let alone = if shard.may_fence(&id) {
            let room = shard.known.settings().checks_in_flight as usize;
            match live.identity.fences.join(shard.number, id.digest, room, at, alone)? {
                Joined::Alone(alone) => Some(alone),
                Joined::Fence { fence, is_first } => {
                    if is_first {
                        leads.push(Lead::new(&node, &live, &fence));
                    }
                    let asked_us = live.redis_us(at);
                    return Ok(Sent::Fenced(Fenced {
                        fence,
                        shard: shard.number,
                        id,
                        at,
                        asked_us,
                    }));
                }
            }
        } else {
            alone()
        };
        node.check(self, live, id.digest, at, alone).map(Sent::ById)
    }
}

impl Shard {
    /// Returns the session in use, and an id's digest by its key.
    fn session(
        &self,
        digest: impl FnOnce(&Identity) -> Option<KeyedDigest>,
    ) -> Result<(Arc<RedisNode>, Arc<JoinedAll>, KeyedDigest), Doubt> {
        let node = self.node();
        let live = node.link.current();
        let made = live.as_ref().and_then(|live| live.identity.see(self.number, digest)?);
        live.zip(made).map(|(live, made)| (node, live, made)).ok_or_else(|| {
            self.note_doubt(Doubt::Disconnected);
            Doubt::Disconnected
        })
    }

    /// Whether a fence may answer for an id: the copy of the live filter lacks it.
    fn may_fence(&self, id: &KeyedDigest) -> bool {
        self.filter.load().as_ref().is_some_and(|live| self.copies.may_refuse(live, id))
    }
}

/// Makes an id's digest with the key of a session, unless it was made before.
fn digest_of(id: &Id, made: Option<KeyedDigest>) -> impl FnOnce(&Identity) -> Option<KeyedDigest> {
    move |joined| Some(joined.digester.digest_once(id, made))
}
