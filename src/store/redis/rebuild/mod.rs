//! One rebuild on Redis, of the shards that are due. Each step carries the fencing token, so that a rebuild that was overtaken
//! changes nothing any more. The steps are those of [`rebuild`](crate::rebuild).

mod begin;
pub(crate) mod build;
mod catch_up;
pub(super) mod journal;
mod lease;
mod pace;
mod swap;
mod upload;
mod verify;
mod wait;

use std::sync::Arc;

use ::redis::cmd;
use futures_util::future::join_all;

use self::build::ShardBuild;
use self::lease::CALL;
use self::pace::Pace;
use self::wait::FirstSwapWait;
use super::shards::Shards;
use crate::error::{RebuildError, StoreError};
use crate::filter::Sizing;
use crate::refusal::Refusal;
use crate::store::link::reply::{Reply, odd};
use crate::store::link::transport::one;
use crate::store::scan::{Given, Scan};
use crate::store::{Live, Progress, RebuildStep};

/// A rebuild of some shards, or of all, from one scan.
pub(crate) struct RedisBuild {
    shards: Arc<Shards>,
    pub(crate) scan: Scan,
    /// In the order of the shards, one at least.
    builds: Vec<ShardBuild>,
    /// Why others are left out.
    failed: Vec<StoreError>,
}

impl RedisBuild {
    /// Of a part of the shards it can be told for all: chance fills them alike.
    pub(crate) fn previous(&self) -> Option<u64> {
        let known: Option<Vec<u64>> = self.builds.iter().map(|build| build.previous).collect();
        let all = self.shards.all.len() as u64;
        let built = self.builds.len() as u64;
        Some(known?.iter().sum::<u64>() * all / built.max(1))
    }

    pub(crate) fn keep_lease(&self) -> impl Future<Output = ()> + use<> {
        let kept = self.builds.iter().map(|build| {
            let lease = build.lease.keep();
            let wait = FirstSwapWait::of(build).count();
            async { tokio::join!(lease, wait).0 }
        });
        let kept = join_all(kept);
        async { drop(kept.await) }
    }

    pub(crate) async fn identify(
        &self,
        source: &str,
        accepts_loss: bool,
    ) -> Result<Option<String>, StoreError> {
        let shard = &self.shards.all[0];
        let connection = shard.connected(|node| &node.bulk, CALL).await?;
        let meta = &shard.known.keys.meta;
        let asked = one(cmd("HGET").arg(meta).arg("source").clone());
        let noted = connection.ask(&asked, CALL).await?.pop().unwrap_or_default();
        let noted = Reply::new("the source's identity", noted);
        let noted = if noted.is_nil() { None } else { Some(noted.text()?) };
        let other = noted.filter(|noted| noted != source && !accepts_loss);
        if other.is_none() {
            let note = cmd("HSET").arg(meta).arg("source").arg(source).clone();
            connection.ask(&one(note), CALL).await?;
        }
        Ok(other)
    }

    pub(crate) async fn prepare(&mut self, sizing: Sizing) -> Result<u64, StoreError> {
        // Beside another filter it may be cut into another number of shards.
        let shards = self.shards.all.len() as u32;
        let sizing = Sizing::sharded(sizing.capacity, sizing.rate, shards);
        let sizing = sizing.map_err(|error| odd("the size of a filter", error))?;
        self.make_sure_of_room(sizing).await?;
        let Some(first) = self.builds.first() else { return Ok(0) };
        let wanted = |shard| self.builds.iter().any(|build| build.shard.number == shard);
        self.scan.begin(&first.digester, sizing, wanted).await
    }

    /// Leaves out the shards of nodes that would have no room.
    /// Fails where none of them has.
    async fn make_sure_of_room(&mut self, sizing: Sizing) -> Result<(), StoreError> {
        let one = sizing.one().bytes();
        let mut with_room = Vec::new();
        let mut failed = Vec::new();
        while let Some(build) = self.builds.first() {
            let node = build.shard.node();
            let is_there = |build: &ShardBuild| Arc::ptr_eq(&build.shard.node(), &node);
            let (mut there, elsewhere) = self.builds.drain(..).partition(is_there);
            self.builds = elsewhere;
            match room(&there, one).await {
                Ok(()) => with_room.append(&mut there),
                Err(error) if error.is(Refusal::OUT_OF_MEMORY) => {
                    join_all(there.iter_mut().map(|build| build.lease.release())).await;
                    let reason = error.to_string();
                    let full = || StoreError::given_up(Refusal::OUT_OF_MEMORY, &*reason);
                    failed.extend(there.iter().map(|_| full()));
                }
                Err(error) => return Err(error),
            }
        }
        with_room.sort_unstable_by_key(|build| build.shard.number);
        self.builds = with_room;
        match failed.pop() {
            Some(error) if self.builds.is_empty() => Err(error),
            last => {
                self.failed.extend(failed.into_iter().chain(last));
                Ok(())
            }
        }
    }

    /// Puts each shard live, one after the other, and returns them as one, and how many ids were replayed. One that fails
    /// keeps what it had, and keeps none of the others.
    pub(crate) async fn put_live(&mut self, at: &Progress) -> Result<(Live, u64), RebuildError> {
        let given = self.scan.end().await?;
        let pace = Pace::new();
        let mut failed = std::mem::take(&mut self.failed);
        let all = (failed.len() + self.builds.len()) as u64;
        let mut rebuilt = None::<Live>;
        let mut replayed = 0;
        for (build, given) in self.builds.iter_mut().zip(given) {
            match build.put_live(given, &pace, at).await {
                Ok((live, ids)) => {
                    rebuilt = Some(rebuilt.map_or(live, |others| others.with(live)));
                    replayed += ids;
                }
                Err(error) => failed.push(error),
            }
        }
        let failures = failed.len() as u64;
        match (failed.into_iter().next(), rebuilt) {
            (None, Some(live)) => Ok((live, replayed)),
            (Some(error), _) if all == 1 => Err(error.into()),
            (Some(first), _) => Err(RebuildError::Shards { failures, all, first }),
            (None, None) => Err(RebuildError::Busy),
        }
    }

    pub(crate) async fn release(mut self) {
        join_all(self.builds.iter_mut().map(|build| build.lease.release())).await;
    }
}

/// Fails if the node of these would have no room. The shards are put live one after the other, so what is new in those before
/// counts, and one that is built.
async fn room(builds: &[ShardBuild], one: u64) -> Result<(), StoreError> {
    let [others @ .., last] = builds else { return Ok(()) };
    let more = |build: &ShardBuild| one.saturating_sub(build.live_len);
    last.room(others.iter().map(more).sum::<u64>() + one).await
}

impl ShardBuild {
    /// Takes the steps after the scan, of what it gave to this shard.
    async fn put_live(
        &mut self,
        given: Given,
        pace: &Pace,
        at: &Progress,
    ) -> Result<(Live, u64), StoreError> {
        at.enter(RebuildStep::Journal);
        let journalled = self.read_journal(&given.filter).await?;
        at.enter(RebuildStep::Allocate);
        at.to_upload(self.allocate(&given).await?);
        at.enter(RebuildStep::Upload);
        self.upload(&given.filter, pace, at).await?;
        at.enter(RebuildStep::CatchUp);
        self.catch_up().await?;
        at.enter(RebuildStep::Replay);
        let replayed = self.replay().await?;
        at.enter(RebuildStep::Verify);
        self.verify(&given).await?;
        at.enter(RebuildStep::Swap);
        Ok((self.swap().await?, journalled + replayed))
    }
}
