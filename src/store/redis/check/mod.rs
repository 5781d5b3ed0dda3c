//! The check: one round trip, and another one where a fence proves nothing, or the filter was replaced.
//!
//! Checks that queue while batches are under way are the next batch (`store/link/queue.rs` says when it leaves). A batch asks each
//! shard by one fence (`catch_up`) for all ids that this process's copy lacks, and for the others one by one.

pub(super) mod answer;
mod batch;
mod catch_up;

use std::sync::Arc;

use tokio::time::Instant;

use super::connection::Asked;
use super::connection::Identity;
use super::shard::Shard;
use super::shards::Shards;
use crate::id::{Digest, Id, KeyedDigest};
use crate::store::link::node::SentCheck;
use crate::store::{Answer, Lookup, Lookups, Sought};
use crate::verdict::Doubt;

impl Shards {
    /// Asks for ids. The answer comes within the deadline, whatever Redis does.
    pub(crate) fn check(self: &Arc<Self>, ids: &[Sought<'_>], at: Instant) -> Answer<Lookups> {
        let sent = ids.iter().map(|&(id, made)| {
            let (shard, made) = self.place(id, made);
            self.send(shard, digest_of(id, made), true, at, ids.len() == 1)
        });
        SentCheck::answers(sent)
    }

    /// Asks for an id by itself, whatever this process's copy holds.
    pub(crate) async fn look_up(self: &Arc<Self>, id: &Id) -> Lookup {
        let (shard, made) = self.place(id, None);
        self.look_up_digest(shard, digest_of(id, made)).await
    }

    pub(crate) async fn look_up_digest(
        self: &Arc<Self>,
        shard: &Shard,
        digest: impl FnOnce(&Identity) -> Option<Digest>,
    ) -> Lookup {
        match self.send(shard, digest, false, Instant::now(), true) {
            Ok(sent) => sent.answer().await,
            Err(doubt) => Lookup::unknown(doubt),
        }
    }

    fn send(
        self: &Arc<Self>,
        shard: &Shard,
        digest: impl FnOnce(&Identity) -> Option<Digest>,
        may_fence: bool,
        at: Instant,
        alone: bool,
    ) -> Result<SentCheck, Doubt> {
        let node = shard.at.load();
        let sent = node.link.see(|live| {
            let digest = live.identity.see(shard.number, digest)??;
            Some(node.check(self, live, Asked { digest, may_fence }, at, alone))
        });
        sent.unwrap_or_else(|| {
            shard.note_doubt(Doubt::Disconnected);
            Err(Doubt::Disconnected)
        })
    }
}

/// Makes an id's digest with the key of a session, unless it was made before.
fn digest_of(id: &Id, made: Option<KeyedDigest>) -> impl FnOnce(&Identity) -> Option<Digest> {
    move |joined| Some(joined.digester.digest_once(id, made).digest)
}
