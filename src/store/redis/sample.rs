//! Audits the live filter by the record of recent inserts, and this process's copy by the live filter.
//!
//! A check cannot see bits that were cleared under a sound header and trailer, by hand or by a fault of the memory. So each second
//! a process looks up one id of the record, all of which are in each live filter, and one id that a fence has refused.

use std::sync::Arc;
use std::time::Duration;

use ::redis::cmd;
use tokio::time::sleep;

use super::incarnation::identity::Identity;
use super::shard::Shard;
use super::shards::Shards;
use crate::error::StoreError;
use crate::filter::Header;
use crate::id::{Digest, Id, KeyedDigest};
use crate::random;
use crate::store::link::session::Purpose;
use crate::verdict::{Proof, Verdict};

const PERIOD: Duration = Duration::from_secs(1);
const DEADLINE: Duration = Duration::from_millis(500);

impl Shards {
    pub(crate) async fn look_into_samples(self: Arc<Self>) {
        loop {
            sleep(PERIOD).await;
            let shard = &self.all[random::scatter() as usize % self.all.len()];
            if let Some(refused) = shard.copies.refused() {
                self.audit_copy(shard, &refused).await;
            }
            if let Some(header) = shard.filter.load_full()
                && let Ok(true) = self.lacks_sample(shard, &header).await
                && shard.distrust(None, header.generation).await.is_ok()
            {
                tracing::error!(
                    filter = &*self.name,
                    generation = %header.generation,
                    "the live filter lacks a recent insert, and is out of use until it is rebuilt"
                );
            }
        }
    }

    /// Drops a shard's copy if it lacks an id that the live filter holds.
    async fn audit_copy(self: &Arc<Self>, shard: &Shard, made: &KeyedDigest) {
        let by_key = |joined: &Identity| made.by(&joined.digester);
        if self.look_up_digest(shard, by_key).await.verdict != Verdict::Present {
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
            shard.copies.drops(&copy);
            tracing::error!(
                filter = &*self.name,
                generation = %copy.header.generation,
                "this process's copy of the filter lacks an id that the filter holds: it is dropped, and no other is made of this \
                 filter"
            );
        }
    }

    /// Audits the copy by an id that was found although it was refused.
    pub(crate) async fn audit_copy_of(self: &Arc<Self>, id: &Id) {
        if let (Some(made), None) = self.copied(id) {
            self.audit_copy(self.shard_of(id), &made).await;
        }
    }

    /// Whether a shard's live filter lacks an id that the record holds; false where that cannot be told.
    async fn lacks_sample(
        self: &Arc<Self>,
        shard: &Shard,
        header: &Header,
    ) -> Result<bool, StoreError> {
        let Some(bulk) = shard.current(Purpose::Rebuilds) else { return Ok(false) };
        let ids = bulk.identity.fleet.load().record.map_or(0, |record| record.ids);
        let rank = random::scatter() % ids.max(1);
        let mut read = cmd("ZREVRANGE");
        read.arg(&shard.known.keys.recent).arg(rank).arg(rank);
        let found = bulk.ask("ZREVRANGE", read, DEADLINE).await?;
        let Some(member) = found.array()?.pop() else { return Ok(false) };
        // The floor is a member, too.
        let Ok(digest) = <[u8; Digest::LEN]>::try_from(member.bytes()?) else { return Ok(false) };
        let digest = Digest::from_bytes(digest);
        let found = self.look_up_digest(shard, |_| Some(digest)).await;
        Ok(found.verdict == Verdict::Absent(Proof::Filter)
            && found.claim.generation == Some(header.generation))
    }
}
