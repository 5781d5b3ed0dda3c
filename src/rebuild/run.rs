//! One rebuild, from the lease to the swap.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::shortfall::Shortfall;
use super::sink::{IdSink, To};
use super::source::ErasedSource;
use crate::error::RebuildError;
use crate::extract::IdExtractor;
use crate::filter::Sizing;
use crate::settings::Settings;
use crate::store::{Build, Progress, RebuildReport, RebuildStep, Store};
use crate::verdict::Doubt;

/// How often a source that outgrows its filter is scanned at most.
const SCANS: u64 = 3;
/// The head-room for a filter that is sized from a count, not by the application.
const HEAD_ROOM: f64 = 1.5;

/// Why a rebuild is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    ByHand,
    /// The application asked for it, and takes a filter of far fewer ids than the one before, or of none.
    AcceptingLoss,
    /// The live filter is old enough.
    Schedule,
    /// A process asked for it, or the filter has settled for long enough.
    Due,
    /// More ids were inserted than the live filter was sized for.
    Crowded,
    NoTrust(Doubt),
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ByHand | Self::AcceptingLoss => f.write_str("by hand"),
            Self::Schedule => f.write_str("by schedule"),
            Self::Due => f.write_str("asked for, or the time to settle is over"),
            Self::Crowded => f.write_str("the filter holds more ids than it is sized for"),
            Self::NoTrust(doubt) => doubt.fmt(f),
        }
    }
}

/// What the rebuilds of one filter work with, and what each has to know of those before it.
pub(super) struct Runner {
    pub(super) store: Arc<Store>,
    pub(super) source: Option<Arc<dyn ErasedSource>>,
    pub(super) extractor: Arc<dyn IdExtractor>,
    pub(super) settings: Settings,
    pub(super) progress: Progress,
    /// The ids of the last generation that this process put live, where the store does not know.
    pub(super) last_items: AtomicU64,
    /// The ids that a scan gave which outgrew its filter, if no rebuild has succeeded since.
    pub(super) outgrown: AtomicU64,
    pub(super) shortfall: Shortfall,
}

impl Runner {
    /// Runs a rebuild to its end. Of a store's filters those are rebuilt whose build began before this moment of its clock, µs.
    /// Where the source outgrows its filter, the lease is given back, and all begins again with a larger one: what was allocated
    /// under a lease is never allocated anew.
    pub(super) async fn run(
        &self,
        cause: Cause,
        before_us: i64,
    ) -> Result<RebuildReport, RebuildError> {
        let began = Instant::now();
        for scans in 1..=SCANS {
            if let Some(report) = self.attempt(cause, before_us, scans).await? {
                self.last_items.store(report.ids, Ordering::Relaxed);
                self.outgrown.store(0, Ordering::Relaxed);
                return Ok(RebuildReport { scans, took: began.elapsed(), ..report });
            }
        }
        let ids = self.outgrown.load(Ordering::Relaxed);
        Err(RebuildError::GivenUp {
            reason: format!(
                "the source outgrew its filter in each of {SCANS} scans, at last with {ids} ids"
            ),
            advice: "Raise capacity: the table grows faster than it is scanned.",
        })
    }

    /// Tries once; returns nothing where the source outgrew its filter.
    async fn attempt(
        &self,
        cause: Cause,
        before_us: i64,
        scans: u64,
    ) -> Result<Option<RebuildReport>, RebuildError> {
        let source = self.source()?;
        self.progress.enter(RebuildStep::Lease);
        let mut build = self.store.begin(before_us).await?.ok_or(RebuildError::Busy)?;
        let previous = build.previous().unwrap_or(self.last_items.load(Ordering::Relaxed));
        if let Some(own) = source.identity()
            && let Some(filters) = build.identify(&own, cause == Cause::AcceptingLoss).await?
        {
            return Err(RebuildError::OtherSource { own, filters });
        }
        let counted = source.count().await.map_err(RebuildError::Source)?;
        let expected = counted.unwrap_or(previous).max(self.outgrown.load(Ordering::Relaxed));
        let sizing = self.sized_for(expected)?;
        let last = self.progress.status().last;
        // A database that is away costs the store nothing but the first attempt.
        if let Some(Err(error)) = &last
            && let RebuildError::Source(_) = **error
        {
            self.probe().await?;
        }
        let ended = match build.lease(sizing).await {
            Ok(Some(room)) => {
                // Not before: a process for which there is no lease or no room tries once a second.
                match last {
                    _ if scans > 1 => {}
                    Some(Err(_)) => tracing::debug!(%cause, "a rebuild begins"),
                    _ => tracing::info!(%cause, "a rebuild begins"),
                }
                let kept = build.keep_lease();
                tokio::select! {
                    biased;
                    report = self.steps(&mut build, cause, room, previous) => report,
                    () = kept => Err(RebuildError::Busy),
                }
            }
            Ok(None) => Err(RebuildError::Busy),
            Err(error) => Err(error.into()),
        };
        build.release().await;
        ended
    }

    /// The steps from *recent* on.
    async fn steps(
        &self,
        build: &mut Build,
        cause: Cause,
        room: u64,
        previous: u64,
    ) -> Result<Option<RebuildReport>, RebuildError> {
        self.progress.enter(RebuildStep::Recent);
        let recent = build.read_recent().await?;
        let limit = self.settings.longest_rebuild;
        // The lease of a scan that hangs must not be renewed for ever: other processes wait for it.
        let scanned = self.put_live(build, cause, room, previous, recent);
        timeout(limit, scanned).await.unwrap_or_else(|_| {
            Err(RebuildError::GivenUp {
                reason: format!("the rebuild took longer than its limit of {limit:?}"),
                advice: "Find out why the scan is slow or hangs. It should read an index on the id's column.",
            })
        })
    }

    /// The steps from *scan* on.
    async fn put_live(
        &self,
        build: &mut Build,
        cause: Cause,
        room: u64,
        previous: u64,
        recent: u64,
    ) -> Result<Option<RebuildReport>, RebuildError> {
        self.progress.enter(RebuildStep::Scan);
        let scanning = Instant::now();
        let ids = self.read_source(build).await?;
        let scan_took = scanning.elapsed();
        if ids > room {
            self.outgrown.store(ids, Ordering::Relaxed);
            return Ok(None);
        }
        self.progress.enter(RebuildStep::Compare);
        self.compare(cause, previous, ids).await?;
        let live = build.put_live(&self.progress).await?;
        Ok(Some(RebuildReport {
            generation: live.generation,
            ids,
            recent,
            capacity: live.capacity,
            expected_rate: live.expected_rate,
            bytes: live.bytes,
            scans: 1,
            scan_took,
            took: scanning.elapsed(),
        }))
    }

    fn source(&self) -> Result<&dyn ErasedSource, RebuildError> {
        self.source.as_deref().ok_or(RebuildError::NoSource)
    }

    /// Scans the source up to its first id, if it gives one.
    async fn probe(&self) -> Result<(), RebuildError> {
        let first = Notify::new();
        let mut sink = IdSink::new(&*self.extractor, &self.progress, To::Nobody(&first));
        tokio::select! {
            end = self.source()?.scan(&mut sink) => end.map_err(RebuildError::Source),
            () = first.notified() => Ok(()),
        }
    }

    /// Has the source push all of its ids; returns how many there are.
    async fn read_source(&self, build: &mut Build) -> Result<u64, RebuildError> {
        let mut sink = IdSink::new(&*self.extractor, &self.progress, To::Build(build));
        let end = self.source()?.scan(&mut sink).await;
        // What the source says of an id that is none, or of a store that failed, is said here already.
        let ids = sink.end().await?;
        end.map_err(RebuildError::Source)?;
        Ok(ids)
    }

    /// Returns the application's sizing, or a larger one where the ids would not fit it.
    fn sized_for(&self, ids: u64) -> Result<Sizing, RebuildError> {
        let configured = self.settings.sizing;
        if ids <= configured.capacity {
            return Ok(configured);
        }
        let sized = |ids| Sizing::sharded(ids, configured.rate, configured.shards);
        let roomy = (ids as f64 * HEAD_ROOM) as u64;
        // Near the largest filter there can be, less head-room is better than no filter.
        sized(roomy).or_else(|_| sized(ids)).map_err(|error| RebuildError::GivenUp {
            reason: error.to_string(),
            advice: "Choose a higher false-positive rate, or cut the filter into shards: a string takes 512 MB at most.",
        })
    }

    /// *Compare*: an empty view or a wrong tenant must not go live, or not at once.
    async fn compare(&self, cause: Cause, previous: u64, found: u64) -> Result<(), RebuildError> {
        let limit = self.settings.shrink_limit;
        let judged = if cause == Cause::AcceptingLoss {
            Ok(())
        } else if found == 0 {
            Err(RebuildError::Empty)
        } else if found as f64 >= previous as f64 * (1.0 - limit) {
            Ok(())
        } else {
            let live = self.store.survey().await?.live.ok();
            let replaces = live.map(|live| live.generation);
            if !self.shortfall.lasts(found, replaces, Instant::now()) {
                return Err(RebuildError::Shrunk { previous, found, limit });
            }
            tracing::warn!(
                previous,
                found,
                "the source goes on giving far fewer ids: they are all there are"
            );
            Ok(())
        };
        self.shortfall.end();
        judged
    }
}
