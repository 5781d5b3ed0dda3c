//! One rebuild on Redis, of the shards that are due. Each step carries the fencing token, so that a rebuild that was overtaken
//! changes nothing any more. The steps are those of [`rebuild`](crate::rebuild).

mod begin;
mod lease;
mod recent;
mod swap;
mod upload;

use std::ops::Range;
use std::sync::Arc;

use ::redis::cmd;
use futures_util::future::{join_all, try_join_all};
use tokio::time::Instant;

use self::lease::{CALL, Lease};
use super::connection::{Connection, Identity};
use super::shard::Shard;
use super::shards::Shards;
use super::view::View;
use crate::error::{RebuildError, StoreError};
use crate::filter::Header;
use crate::id::Digest;
use crate::refusal::Refusal;
use crate::store::link::reply::{Reply, odd};
use crate::store::link::script::Script;
use crate::store::link::session::Purpose;
use crate::store::scan::{Filled, Scan, empty, lost};
use crate::store::{LiveFilter, Progress, RebuildStep};
use crate::verdict::Doubt;

pub(crate) struct RedisBuild {
    shards: Arc<Shards>,
    due: Vec<Due>,
    /// Whether each of them has to be leased.
    all: bool,
    builds: Vec<ShardBuild>,
    /// Why other shards are left out.
    failed: Vec<StoreError>,
}

struct Due {
    shard: Arc<Shard>,
    view: View,
}

struct ShardBuild {
    shard: Arc<Shard>,
    lease: Lease,
    /// When the lease was taken, by Redis's clock, µs.
    leased_us: i64,
    /// Inserts sent longer ago than this, µs, belong to transactions that are over.
    window_us: i64,
    identity: Arc<Identity>,
    header: Header,
    /// What was inserted before the lease, and may be in open transactions.
    recent: Vec<Digest>,
}

impl RedisBuild {
    /// A part of the shards speaks for all: chance fills them alike.
    pub(crate) fn previous(&self) -> Option<u64> {
        let known: Option<Vec<u64>> = self.due.iter().map(|due| due.view.live.items()).collect();
        let all = self.shards.all.len() as u64;
        let due = self.due.len() as u64;
        Some(known?.iter().sum::<u64>() * all / due.max(1))
    }

    pub(crate) fn keep_lease(&self) -> impl Future<Output = ()> + use<> {
        let kept = join_all(self.builds.iter().map(|build| build.lease.keep()));
        async { drop(kept.await) }
    }

    /// Notes the source's identity in each shard that is due, unless one has another's. Leaves out shards that cannot be asked.
    pub(crate) async fn identify(
        &mut self,
        source: &str,
        accepts_loss: bool,
    ) -> Result<Option<String>, StoreError> {
        let mut other = None;
        // First read from all: an identity that could not be read is not overwritten.
        for noting in [None, Some(source)] {
            let told = join_all(self.due.iter().map(|due| due.identity(noting))).await;
            for (due, noted) in std::mem::take(&mut self.due).into_iter().zip(told) {
                match noted {
                    Ok(noted) => {
                        other = other.or(noted.filter(|noted| noted != source && !accepts_loss));
                        self.due.push(due);
                    }
                    Err(error) => self.failed.push(error),
                }
            }
            if other.is_some() {
                return Ok(other);
            }
        }
        if self.due.is_empty() { self.failed.pop().map_or(Ok(None), Err) } else { Ok(None) }
    }

    /// *Recent*: returns once a scan may begin, with how many ids it may miss. Where one shard fails, the next attempt may leave it
    /// out.
    pub(crate) async fn read_recent(&mut self) -> Result<(Scan, u64), StoreError> {
        try_join_all(self.builds.iter_mut().map(ShardBuild::read_recent)).await?;
        let first = self.builds.first().ok_or_else(lost)?;
        let mut filters = vec![None; self.shards.all.len()];
        for build in &self.builds {
            filters[build.shard.number] = Some(Arc::new(empty(build.header.geometry).await?));
        }
        let recent = self.builds.iter().map(|build| build.recent.len() as u64).sum();
        Ok((Scan::new(&first.identity.digester, filters), recent))
    }

    /// Puts each shard live, one after the other, and returns them as one. A shard that fails keeps its filter.
    pub(crate) async fn put_live(
        &mut self,
        given: Vec<Filled>,
        at: &Progress,
    ) -> Result<LiveFilter, RebuildError> {
        let mut failed = std::mem::take(&mut self.failed);
        let all = (failed.len() + self.builds.len()) as u64;
        let mut rebuilt = None::<LiveFilter>;
        let mut through = Instant::now();
        for (build, given) in self.builds.iter().zip(given) {
            match build.finish(given, &mut through, at).await {
                Ok(live) => rebuilt = Some(rebuilt.map_or(live, |others| others.with(live))),
                Err(error) => failed.push(error),
            }
        }
        let failures = failed.len() as u64;
        match (failed.into_iter().next(), rebuilt) {
            (None, Some(live)) => Ok(live),
            (Some(error), _) if all == 1 => Err(error.into()),
            (Some(first), _) => Err(RebuildError::Shards { failures, all, first }),
            (None, None) => Err(RebuildError::Busy),
        }
    }

    pub(crate) async fn release(self) {
        join_all(self.builds.iter().map(|build| build.lease.release())).await;
    }
}

impl Due {
    /// Reads the identity of the source that a shard has noted, or notes this one.
    async fn identity(&self, source: Option<&str>) -> Result<Option<String>, StoreError> {
        let connection = self.shard.connected(Purpose::Rebuilds, CALL).await?;
        let mut command = cmd(if source.is_some() { "HSET" } else { "HGET" });
        command.arg(&self.shard.known.keys.meta).arg("source").arg(source);
        let noted = connection.ask("the source's identity", command, CALL).await?;
        if source.is_some() || noted.is_nil() { Ok(None) } else { noted.text().map(Some) }
    }
}

impl ShardBuild {
    /// Returns a connection to the Redis process that the rebuild began on.
    async fn same_redis(&self) -> Result<Connection, StoreError> {
        let connection = self.shard.connected(Purpose::Rebuilds, CALL).await?;
        if connection.on.process.run == self.header.run {
            Ok(connection)
        } else {
            let reason = "redis is another process than when the rebuild began".to_owned();
            Err(StoreError::GivenUp { doubt: Doubt::Suspect, reason })
        }
    }

    async fn run(
        &self,
        script: &Script,
        keys: &[&str],
        args: &[&[u8]],
    ) -> Result<Reply, StoreError> {
        self.same_redis().await?.script(script, keys, args, CALL).await
    }

    /// Takes the steps after the scan.
    async fn finish(
        &self,
        given: Filled,
        through: &mut Instant,
        at: &Progress,
    ) -> Result<LiveFilter, StoreError> {
        self.recent.iter().for_each(|digest| given.filter.insert(digest));
        at.enter(RebuildStep::Upload);
        at.to_upload(given.filter.byte_len() as u64);
        self.upload(&given.filter, through, at).await?;
        at.enter(RebuildStep::Verify);
        self.verify(&given.filter).await?;
        at.enter(RebuildStep::Swap);
        self.swap(given.ids).await
    }
}

/// Cuts a filter's blocks into pieces of `of` blocks.
fn pieces(blocks: u32, of: u32) -> impl Iterator<Item = Range<u32>> {
    let from = (0..blocks).step_by(of as usize);
    from.map(move |from| from..blocks.min(from.saturating_add(of)))
}

/// Reads what a step's script answers. Any answer but `OK` ends the rebuild.
fn outcome(step: &'static str, answer: &str) -> Result<(), StoreError> {
    match answer {
        "OK" => Ok(()),
        "LOST" | "OTHER" => Err(StoreError::lost(step)),
        "FENCED" => {
            let reason = format!("a newer rebuild took over before {step}");
            Err(StoreError::given_up(Refusal::FENCED, reason))
        }
        "UNVOUCHED" => Err(StoreError::unvouched(None)),
        _ => Err(odd(step, answer)),
    }
}
