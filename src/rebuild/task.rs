//! The background task that rebuilds when it is due.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use super::report::{Progress, RebuildReport, RebuildStatus, RebuildStep};
use super::run::{Cause, RebuildRun, Shrinking};
use super::schedule::{Due, Schedule};
use super::shortfall::Shortfall;
use super::source::ErasedSource;
use crate::error::RebuildError;
use crate::extract::IdExtractor;
use crate::filter::Generation;
use crate::observe::metrics::Metrics;
use crate::settings::Settings;
use crate::store::{Store, Survey};
use crate::verdict::Doubt;

/// How often the live generation's age is looked at.
const POLL: Duration = Duration::from_secs(1);
/// The longest wait after failures in a row. Each doubles it, from [`POLL`] on, so that the source is not
/// read over and over. A rebuild that fails before it reads the source is tried again soon: it costs next
/// to nothing, and a Redis that has no room for a filter may have some at any moment.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// How long a filter has to last before earlier ones that were disproved count no more.
const FORGIVEN: Duration = Duration::from_secs(3600);

/// Rebuilds one filter.
pub(crate) struct Rebuilder {
    store: Arc<dyn Store>,
    extractor: Arc<dyn IdExtractor>,
    source: Option<Arc<dyn ErasedSource>>,
    schedule: Schedule,
    settings: Settings,
    metrics: Arc<Metrics>,
    progress: Progress,
    last_items: AtomicU64,
    shortfall: Shortfall,
    one_at_a_time: Mutex<()>,
}

impl Rebuilder {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        extractor: Arc<dyn IdExtractor>,
        source: Option<(Schedule, Arc<dyn ErasedSource>)>,
        settings: &Settings,
        metrics: Arc<Metrics>,
    ) -> Self {
        let (schedule, source) = source.unzip();
        Self {
            store,
            extractor,
            source,
            schedule: schedule.unwrap_or(Schedule::manual()),
            settings: settings.clone(),
            metrics,
            progress: Progress::new(),
            last_items: AtomicU64::new(0),
            shortfall: Shortfall::default(),
            one_at_a_time: Mutex::new(()),
        }
    }

    /// Returns whether there is anything to rebuild from.
    pub(crate) fn has_source(&self) -> bool {
        self.source.is_some()
    }

    pub(crate) fn status(&self) -> RebuildStatus {
        self.progress.status()
    }

    /// Returns why the last rebuild failed, with its causes, if it did.
    pub(crate) fn last_failure(&self) -> Option<String> {
        self.status().last?.err().map(|error| chain(&error))
    }

    /// Rebuilds, whatever the schedule says: now, or after the rebuild that is under way in this process.
    pub(crate) async fn rebuild(
        &self,
        shrinking: Shrinking,
    ) -> Result<RebuildReport, Arc<RebuildError>> {
        self.rebuild_for(Cause::ByHand, shrinking).await
    }

    async fn rebuild_for(
        &self,
        cause: Cause,
        shrinking: Shrinking,
    ) -> Result<RebuildReport, Arc<RebuildError>> {
        let _only = self.one_at_a_time.lock().await;
        let _idle = IdleAtLast(&self.progress);
        let ended = self.run_once(cause, shrinking).await.map_err(Arc::new);
        match &ended {
            Ok(report) => {
                self.metrics.rebuilds.add(1);
                self.last_items.store(report.ids, Ordering::Relaxed);
                tracing::info!(
                    generation = report.generation.get(),
                    ids = report.ids,
                    replayed = report.replayed,
                    took = ?report.took,
                    "a new filter is live"
                );
            }
            Err(error) if matches!(**error, RebuildError::Busy) => return ended,
            Err(error) => {
                self.metrics.rebuilds_failed.add(1);
                self.log_failure(&chain(error));
            }
        }
        self.progress.ended(ended.clone());
        ended
    }

    /// Logs a failure, unless the last rebuild failed for the same reason.
    fn log_failure(&self, error: &str) {
        // It may tell of another number each time.
        if self.last_failure().is_some_and(|last| words(&last).eq(words(error))) {
            return;
        }
        match self.store.condition().live {
            Ok(_) => tracing::warn!(error, "the rebuild failed; the live filter stays"),
            Err(_) => {
                tracing::warn!(error, "the rebuild failed, and no filter is known to be live");
            }
        }
    }

    async fn run_once(
        &self,
        cause: Cause,
        shrinking: Shrinking,
    ) -> Result<RebuildReport, RebuildError> {
        let source = self.source.as_deref().ok_or(RebuildError::NoSource)?;
        let run = RebuildRun {
            store: &*self.store,
            source,
            extractor: &*self.extractor,
            settings: &self.settings,
            cause,
            progress: &self.progress,
            last_items: self.last_items.load(Ordering::Relaxed),
            shortfall: &self.shortfall,
            shrinking,
        };
        run.run().await
    }

    /// Rebuilds whenever it is due, for as long as it is polled.
    pub(crate) async fn run(self: Arc<Self>) {
        let mut failures = 0;
        let mut relapses = Relapses::default();
        let mut known: Option<Known> = None;
        loop {
            // While the application rebuilds by hand, nothing is due.
            let idle = self.one_at_a_time.try_lock().is_ok();
            if idle && let Ok(survey) = self.store.survey().await {
                if survey.live.is_ok() {
                    self.shortfall.note_trust();
                }
                match self.due(&survey, &mut known) {
                    // There is a filter, of this process or of another: earlier failures are over.
                    Due::Later => failures = relapses.so_far(Instant::now()),
                    Due::Now => {
                        let readings = self.progress.readings();
                        let cause = survey.live.as_ref().err().copied();
                        let cause = cause.map_or(Cause::Schedule, Cause::NoTrust);
                        match self.rebuild_for(cause, Shrinking::Refused).await {
                            Ok(_) => failures = relapses.after(&survey, Instant::now()),
                            Err(_) if self.progress.readings() == readings => {}
                            // Another scan would find as few. The live filter stays until the next is due.
                            Err(error) if is_shrinkage(&error) && survey.live.is_ok() => {
                                known = known.map(|known| known.given_up(survey.now_us));
                            }
                            Err(_) => failures += 1,
                        }
                    }
                }
            }
            sleep((POLL * 2_u32.saturating_pow(failures)).min(LONGEST_WAIT)).await;
        }
    }

    /// Judges a survey; `known` is the live generation as last seen.
    fn due(&self, survey: &Survey, known: &mut Option<Known>) -> Due {
        match &survey.live {
            Ok(header) => {
                let generation = header.generation;
                let seen = known
                    .filter(|known| known.generation == generation)
                    .unwrap_or_else(|| Known::new(generation));
                *known = Some(seen);
                self.schedule.due(seen.good_from, seen.since.elapsed(), survey.now_us)
            }
            Err(
                Doubt::NoFilter
                | Doubt::WrongType
                | Doubt::Foreign
                | Doubt::Truncated
                | Doubt::Version
                | Doubt::NotLive
                | Doubt::OtherKey
                | Doubt::Suspect
                | Doubt::Disproved,
            ) => Due::Now,
            Err(_) => Due::Later,
        }
    }
}

/// The live generation, as this process knows it.
#[derive(Clone, Copy)]
struct Known {
    generation: Generation,
    /// From when on its age counts: when it was built, or when a rebuild was given up for its sake.
    good_from: Generation,
    /// Since when this process knows that.
    since: Instant,
}

impl Known {
    fn new(generation: Generation) -> Self {
        Self { generation, good_from: generation, since: Instant::now() }
    }

    /// Counts the age anew: a rebuild that would have put far fewer ids in its place was given up.
    fn given_up(self, now_us: i64) -> Self {
        let now = Generation::new(now_us).unwrap_or(self.good_from);
        Self { good_from: self.good_from.max(now), since: Instant::now(), ..self }
    }
}

/// Whether a rebuild was given up because it would have lost too many ids.
fn is_shrinkage(error: &RebuildError) -> bool {
    matches!(error, RebuildError::Shrunk { .. } | RebuildError::Empty)
}

/// How often in a row a new filter was disproved again, as happens when the source misses rows. Such a
/// source must not be scanned without a pause.
#[derive(Default)]
struct Relapses {
    count: u32,
    last: Option<Instant>,
}

impl Relapses {
    /// Counts a rebuild that replaced what the survey found; returns how many there were in a row.
    fn after(&mut self, found: &Survey, now: Instant) -> u32 {
        if found.live.as_ref().err() == Some(&Doubt::Disproved) {
            self.count = self.so_far(now) + 1;
            self.last = Some(now);
        }
        self.so_far(now)
    }

    /// Returns how many there were, if the last was less than an hour ago.
    fn so_far(&self, now: Instant) -> u32 {
        let lately = self.last.is_some_and(|last| now.duration_since(last) < FORGIVEN);
        if lately { self.count } else { 0 }
    }
}

impl fmt::Debug for Rebuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rebuilder").field("status", &self.status()).finish_non_exhaustive()
    }
}

/// Shows no step any more when a rebuild ends, also when it is dropped halfway.
struct IdleAtLast<'a>(&'a Progress);

impl Drop for IdleAtLast<'_> {
    fn drop(&mut self) {
        self.0.enter(RebuildStep::Idle);
    }
}

/// An error's text but for its numbers.
fn words(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter(|letter| !letter.is_ascii_digit() && *letter != '.')
}

/// Writes an error and its causes in one line.
fn chain(error: &RebuildError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_source_that_misses_rows_is_not_scanned_without_a_pause() {
        let disproved = Survey { live: Err(Doubt::Disproved), now_us: 0 };
        let lost = Survey { live: Err(Doubt::NoFilter), now_us: 0 };
        let mut relapses = Relapses::default();
        let now = Instant::now();
        assert_eq!(relapses.after(&lost, now), 0, "a lost filter is no relapse");
        for count in 1..=20 {
            assert_eq!(relapses.after(&disproved, now), count);
        }
        assert_eq!(relapses.so_far(now + FORGIVEN - POLL), 20);
        assert_eq!(relapses.after(&disproved, now + FORGIVEN), 1);
    }
}
