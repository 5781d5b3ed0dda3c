//! The background task that rebuilds when it is due.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use super::carry::Carrier;
use super::report::{Progress, RebuildReport, RebuildStatus};
use super::schedule::Due;
use super::{ErasedSource, Schedule, Shrinking};
use crate::error::RebuildError;
use crate::extract::IdExtractor;
use crate::filter::Generation;
use crate::settings::Settings;
use crate::store::{Store, Survey};
use crate::verdict::Doubt;

/// How often the live generation's age is looked at.
const POLL: Duration = Duration::from_secs(1);
/// The longest wait after failures in a row, which double it from [`POLL`] on.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// Rebuilds one filter.
pub(crate) struct Rebuilder {
    store: Arc<dyn Store>,
    extractor: Arc<dyn IdExtractor>,
    source: Option<Arc<dyn ErasedSource>>,
    schedule: Schedule,
    settings: Settings,
    progress: Progress,
    last_items: AtomicU64,
    one_at_a_time: Mutex<()>,
}

impl Rebuilder {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        extractor: Arc<dyn IdExtractor>,
        source: Option<(Schedule, Arc<dyn ErasedSource>)>,
        settings: &Settings,
    ) -> Self {
        let (schedule, source) = source.unzip();
        Self {
            store,
            extractor,
            source,
            schedule: schedule.unwrap_or(Schedule::manual()),
            settings: settings.clone(),
            progress: Progress::default(),
            last_items: AtomicU64::new(0),
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

    /// Rebuilds now, whatever the schedule says, or after the rebuild that this process is at.
    pub(crate) async fn rebuild(
        &self,
        shrinking: Shrinking,
    ) -> Result<RebuildReport, Arc<RebuildError>> {
        let _only = self.one_at_a_time.lock().await;
        let _idle = IdleAtLast(&self.progress);
        let ended = self.carry(shrinking).await.map_err(Arc::new);
        match &ended {
            Ok(report) => {
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
                tracing::warn!(error = %chain(error), "the rebuild failed; a filter that is live stays");
            }
        }
        self.progress.ended(ended.clone());
        ended
    }

    async fn carry(&self, shrinking: Shrinking) -> Result<RebuildReport, RebuildError> {
        let source = self.source.as_deref().ok_or(RebuildError::NoSource)?;
        let carrier = Carrier {
            store: &*self.store,
            source,
            extractor: &*self.extractor,
            settings: &self.settings,
            progress: &self.progress,
            last_items: self.last_items.load(Ordering::Relaxed),
            shrinking,
        };
        carrier.carry().await
    }

    /// Rebuilds whenever it is due, for as long as it is polled.
    pub(crate) async fn run(self: Arc<Self>) {
        let mut failures = 0;
        let mut known = None;
        loop {
            // While the application rebuilds by hand, there is nothing to look at.
            let idle = self.one_at_a_time.try_lock().is_ok();
            if idle && let Ok(survey) = self.store.survey().await {
                match self.due(&survey, &mut known) {
                    // Whoever built the filter there is now: earlier failures are over.
                    Due::Later => failures = 0,
                    Due::Now => match self.rebuild(Shrinking::Refused).await {
                        Ok(_) => failures = 0,
                        Err(error) if matches!(*error, RebuildError::Busy) => {}
                        Err(_) => failures += 1,
                    },
                }
            }
            sleep((POLL * 2_u32.saturating_pow(failures)).min(LONGEST_WAIT)).await;
        }
    }

    /// Judges a survey; `known` is the live generation as last seen, and since when it is known.
    fn due(&self, survey: &Survey, known: &mut Option<(Generation, Instant)>) -> Due {
        match &survey.live {
            Ok(header) => {
                let generation = header.generation;
                let (_, since) = known
                    .filter(|(known, _)| *known == generation)
                    .unwrap_or((generation, Instant::now()));
                *known = Some((generation, since));
                self.schedule.due(generation, since.elapsed(), survey.now_us)
            }
            Err(
                Doubt::NoFilter
                | Doubt::WrongType
                | Doubt::Foreign
                | Doubt::Truncated
                | Doubt::Version
                | Doubt::NotLive
                | Doubt::OtherKey
                | Doubt::Suspect,
            ) => Due::Now,
            Err(_) => Due::Later,
        }
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
        self.0.enter(super::RebuildStep::Idle);
    }
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
