//! Audits this process's copy by the live filter: a damaged copy would refuse ids that exist.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::id::{Id, KeyedDigest};
use crate::random;
use crate::store::redis::shard::Shard;
use crate::store::redis::shards::Shards;
use crate::verdict::Verdict;

const PERIOD: Duration = Duration::from_secs(1);

impl Shards {
    /// Asks Redis once a second for one id that a fence has refused.
    pub(crate) async fn audit_copies(self: Arc<Self>) {
        loop {
            sleep(PERIOD).await;
            let shard = &self.all[random::scatter() as usize % self.all.len()];
            if let Some(refused) = shard.copies.refused() {
                self.audit_copy(shard, &refused).await;
            }
        }
    }

    /// Audits the copy by an id that was found although it was refused.
    pub(crate) async fn audit_copy_of(self: &Arc<Self>, id: &Id) {
        if let (Some(made), None) = self.copied(id) {
            self.audit_copy(self.shard_of(id), &made).await;
        }
    }

    /// Drops a shard's copy if it lacks an id that the live filter holds.
    async fn audit_copy(self: &Arc<Self>, shard: &Shard, made: &KeyedDigest) {
        let found = self.look_up_digest(shard, |joined| made.by(&joined.digester)).await;
        if found.verdict != Verdict::Present {
            return;
        }
        let live = shard.filter.load_full();
        let copy = live.and_then(|live| shard.copies.to_fence(&live));
        // The id may have been inserted meanwhile.
        if let Some(copy) = copy
            && copy.lacks(made)
            && shard.catch_up(&copy).await
            && copy.lacks(made)
        {
            shard.copies.drop_damaged(&copy);
            tracing::error!(
                filter = &*self.name,
                generation = %copy.header.generation,
                "this process's copy of the filter lacks an id that the filter holds: it is dropped, and no other is made of this \
                 filter"
            );
        }
    }
}
