//! One rebuild, from the lease to the swap.

use std::future::poll_fn;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::schedule::Schedule;
use super::shortfall::Shortfall;
use super::sink::IdSink;
use super::source::ErasedSource;
use crate::error::RebuildError;
use crate::extract::IdExtractor;
use crate::filter::Sizing;
use crate::observe::metrics::Metrics;
use crate::settings::Settings;
use crate::store::{Build, Progress, RebuildReport, RebuildStep, Store};
use crate::verdict::Doubt;

const SCANS: u64 = 3;
/// The head-room for a filter that is sized from a count, not by the application.
const HEAD_ROOM: f64 = 1.5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    ByHand,
    /// By hand, and a filter of far fewer ids than the last one, or of none, is accepted.
    AcceptingLoss,
    Schedule,
    /// A process asked for it, or the filter has settled for long enough.
    Due,
    Crowded,
    NoTrust(Doubt),
}

/// A whole rebuild, or the ids of a source that outgrew its filter.
type Attempt = ControlFlow<RebuildReport, u64>;

pub(crate) struct Rebuilder {
    pub(super) store: Arc<Store>,
    pub(crate) source: Option<Arc<dyn ErasedSource>>,
    extractor: Arc<dyn IdExtractor>,
    settings: Settings,
    pub(super) schedule: Schedule,
    pub(super) metrics: Arc<Metrics>,
    pub(super) one_at_a_time: Mutex<()>,
    pub(crate) progress: Progress,
    /// The ids of the last generation that this process put live, where the store does not know.
    last_items: AtomicU64,
    /// The ids of a scan that outgrew its filter, if no rebuild has succeeded since.
    outgrown: AtomicU64,
    pub(super) shortfall: Shortfall,
}

impl Rebuilder {
    pub(crate) fn new(
        store: Arc<Store>,
        extractor: Arc<dyn IdExtractor>,
        source: Option<(Schedule, Arc<dyn ErasedSource>)>,
        settings: &Settings,
        metrics: Arc<Metrics>,
    ) -> Self {
        let (schedule, source) = source.unzip();
        Self {
            store,
            source,
            extractor,
            settings: settings.clone(),
            schedule: schedule.unwrap_or(Schedule::manual()),
            metrics,
            one_at_a_time: Mutex::default(),
            progress: Progress::default(),
            last_items: AtomicU64::new(0),
            outgrown: AtomicU64::new(0),
            shortfall: Shortfall::default(),
        }
    }

    /// Rebuilds the shards whose build began before `before_us` by the store's clock. If the source outgrows its filter, gives the lease
    /// back and begins again with a larger one: nothing is allocated twice under one lease.
    pub(super) async fn run_once(
        &self,
        cause: Cause,
        before_us: i64,
    ) -> Result<RebuildReport, RebuildError> {
        let began = Instant::now();
        for scans in 1..=SCANS {
            match self.attempt(cause, before_us, scans).await? {
                Attempt::Continue(ids) => self.outgrown.store(ids, Ordering::Relaxed),
                Attempt::Break(report) => {
                    self.last_items.store(report.ids, Ordering::Relaxed);
                    self.outgrown.store(0, Ordering::Relaxed);
                    return Ok(RebuildReport { scans, took: began.elapsed(), ..report });
                }
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

    async fn attempt(
        &self,
        cause: Cause,
        before_us: i64,
        nth: u64,
    ) -> Result<Attempt, RebuildError> {
        let source = self.source.as_deref().ok_or(RebuildError::NoSource)?;
        self.progress.enter(RebuildStep::Lease);
        let mut build = self.store.begin(before_us).await?.ok_or(RebuildError::Busy)?;
        let previous = build.previous().unwrap_or(self.last_items.load(Ordering::Relaxed));
        if let Some(own) = source.identity()
            && let Some(filters) = build.identify(&own, cause == Cause::AcceptingLoss).await?
        {
            return Err(RebuildError::OtherSource { own, filters });
        }
        self.progress.reads();
        let last = self.progress.status().last;
        let counted = async {
            let counted = source.count().await.map_err(RebuildError::Source)?;
            // A database that is away costs the store nothing but the first attempt.
            if let Some(Err(error)) = &last
                && let RebuildError::Source(_) = **error
            {
                self.probe(source).await?;
            }
            Ok(counted)
        };
        let counted = self.limited(counted).await?;
        let outgrown = self.outgrown.load(Ordering::Relaxed);
        let sizing = self.sized_for(counted.unwrap_or(previous).max(outgrown))?;
        self.progress.enter(RebuildStep::Lease);
        let ended = match build.lease(sizing).await {
            Ok(Some(room)) => {
                // Not before: a process for which there is no lease or no room tries once a second.
                match last {
                    _ if nth > 1 => {}
                    Some(Err(_)) => tracing::debug!(?cause, "a rebuild begins"),
                    _ => tracing::info!(?cause, "a rebuild begins"),
                }
                let kept = build.keep_lease();
                tokio::select! {
                    biased;
                    ended = self.steps(source, &mut build, cause, room, previous) => ended,
                    () = kept => Err(RebuildError::Busy),
                }
            }
            Ok(None) => Err(RebuildError::Busy),
            Err(error) => Err(error.into()),
        };
        build.release().await;
        ended
    }

    async fn steps(
        &self,
        source: &dyn ErasedSource,
        build: &mut Build,
        cause: Cause,
        room: u64,
        previous: u64,
    ) -> Result<Attempt, RebuildError> {
        self.progress.enter(RebuildStep::Recent);
        let (mut scan, recent) = build.read_recent().await?;
        let scanned = async {
            self.progress.enter(RebuildStep::Scan);
            let scanning = Instant::now();
            let mut sink = IdSink::new(&*self.extractor, &self.progress, Some(&mut scan));
            let end = source.scan(&mut sink).await;
            // The sink knows why an id was none: the source may only repeat it.
            let ids = sink.end()?;
            end.map_err(RebuildError::Source)?;
            let scan_took = scanning.elapsed();
            if ids > room {
                return Ok(Attempt::Continue(ids));
            }
            self.progress.enter(RebuildStep::Compare);
            self.compare(cause, previous, ids).await?;
            let live = build.put_live(scan.end().await?, &self.progress).await?;
            Ok(Attempt::Break(RebuildReport {
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
        };
        // The lease of a scan that hangs must not be renewed for ever: other processes wait for it.
        self.limited(scanned).await
    }

    /// Reads the source for as long as a rebuild may take: a source that hangs must not end all rebuilds.
    async fn limited<T>(
        &self,
        reading: impl Future<Output = Result<T, RebuildError>>,
    ) -> Result<T, RebuildError> {
        let limit = self.settings.longest_rebuild;
        timeout(limit, reading).await.unwrap_or_else(|_| {
            Err(RebuildError::GivenUp {
                reason: format!("the rebuild took longer than its limit of {limit:?}"),
                advice: "Find out why the scan is slow or hangs. It should read an index on the id's column.",
            })
        })
    }

    /// Scans the source up to its first id, if it gives one.
    async fn probe(&self, source: &dyn ErasedSource) -> Result<(), RebuildError> {
        let mut sink = IdSink::new(&*self.extractor, &self.progress, None);
        let mut scan = source.scan(&mut sink);
        let first = poll_fn(|context| match scan.as_mut().poll(context) {
            Poll::Pending if self.progress.status().ids_scanned > 0 => Poll::Ready(Ok(())),
            polled => polled,
        });
        let first = first.await;
        drop(scan);
        sink.end()?;
        first.map_err(RebuildError::Source)
    }

    /// Returns the application's sizing, or a larger one if the ids would not fit.
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
        let is_enough = found as f64 >= previous as f64 * (1.0 - limit);
        if cause != Cause::AcceptingLoss && found > 0 && !is_enough {
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
        }
        self.shortfall.end();
        if found == 0 && cause != Cause::AcceptingLoss {
            return Err(RebuildError::Empty);
        }
        Ok(())
    }
}
