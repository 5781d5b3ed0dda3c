//! The background task that rebuilds when it is due.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use super::run::{Cause, Runner};
use super::schedule::Schedule;
use super::shortfall::Shortfall;
use super::source::ErasedSource;
use crate::error::{RebuildError, chain};
use crate::extract::IdExtractor;
use crate::filter::Generation;
use crate::observe::metrics::Metrics;
use crate::settings::Settings;
use crate::store::{Progress, RebuildReport, RebuildStatus, RebuildStep, Store, Survey};
use crate::verdict::Doubt;

/// How often the live generation's age is looked at.
const POLL: Duration = Duration::from_secs(1);
/// After a failed rebuild the wait is this many times as long as the source was read for. So it is read for a
/// third of the time at most. A database that is away, or a Redis that has no room, fails at once, and is
/// asked again soon when it is back.
const WAIT_PER_READING: u32 = 2;
const LONGEST_WAIT: Duration = Duration::from_secs(300);

pub(crate) struct Rebuilder {
    runner: Runner,
    schedule: Schedule,
    metrics: Arc<Metrics>,
    one_at_a_time: Mutex<()>,
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
        let runner = Runner {
            store,
            source,
            extractor,
            settings: settings.clone(),
            progress: Progress::default(),
            last_items: AtomicU64::new(0),
            outgrown: AtomicU64::new(0),
            shortfall: Shortfall::default(),
        };
        let schedule = schedule.unwrap_or(Schedule::manual());
        Self { runner, schedule, metrics, one_at_a_time: Mutex::new(()) }
    }

    pub(crate) fn has_source(&self) -> bool {
        self.runner.source.is_some()
    }

    pub(crate) fn status(&self) -> RebuildStatus {
        self.runner.progress.status()
    }

    /// Rebuilds now, or after the rebuild that is under way in this process: those of a store's filters whose build began
    /// before this moment of its clock, µs.
    pub(crate) async fn rebuild(
        &self,
        cause: Cause,
        before_us: i64,
    ) -> Result<RebuildReport, Arc<RebuildError>> {
        let Runner { store, progress, .. } = &self.runner;
        let _only = self.one_at_a_time.lock().await;
        let _idle = IdleAtLast(progress);
        let begun = Instant::now();
        let ended = self.runner.run(cause, before_us).await.map_err(Arc::new);
        match &ended {
            Ok(report) => {
                self.metrics.rebuild(Ok(()), begun);
                // What went live answers, or it is known why not.
                self.metrics.probe(store).await;
                tracing::info!(
                    generation = report.generation.get(),
                    ids = report.ids,
                    recent = report.recent,
                    took = ?report.took,
                    "a new filter is live"
                );
            }
            Err(error) if matches!(**error, RebuildError::Busy) => return ended,
            Err(error) => {
                self.metrics.rebuild(Err(error), begun);
                self.log_failure(&chain(error));
            }
        }
        progress.ended(ended.clone());
        ended
    }

    /// Logs a failure, unless the last rebuild failed for the same reason.
    fn log_failure(&self, error: &str) {
        let last = self.status().last.and_then(Result::err).map(|error| chain(&error));
        // It may tell of another number each time.
        if last.is_some_and(|last| words(&last).eq(words(error))) {
            return;
        }
        let filter = match self.runner.store.condition().live {
            Ok(_) => "the live filter stays",
            Err(_) => "no filter is known to be live",
        };
        tracing::warn!(
            error,
            "the rebuild failed; {filter}, and the next attempt comes by itself: see the guide, rebuilds"
        );
    }

    /// Rebuilds whenever it is due, for as long as it is polled.
    pub(crate) async fn run(self: Arc<Self>) {
        let mut known: Option<LiveGeneration> = None;
        loop {
            let mut wait = POLL;
            // While the application rebuilds by hand, nothing is due.
            let idle = self.one_at_a_time.try_lock().is_ok();
            if idle && let Some(survey) = self.survey().await {
                if survey.live.is_ok() {
                    self.runner.shortfall.note_trust();
                }
                if self.is_due(&survey, &mut known) {
                    let (cause, before_us) = cause(&survey);
                    let ended = self.rebuild(cause, before_us).await;
                    match ended.as_ref().map_err(|error| &**error) {
                        Ok(_) => {}
                        // Another scan would find as few. The live filter stays until the next is due.
                        Err(RebuildError::Shrunk { .. } | RebuildError::Empty)
                            if survey.live.is_ok() =>
                        {
                            known = known.map(|known| known.given_up(survey.now_us));
                        }
                        // It answers, if not as well as it should.
                        Err(_) if cause == Cause::Crowded => {
                            known = known.map(|known| known.given_up(survey.now_us));
                        }
                        Err(_) => {
                            wait = self.runner.progress.read_for() * WAIT_PER_READING;
                            wait = wait.clamp(POLL, LONGEST_WAIT);
                        }
                    }
                }
            }
            sleep(wait).await;
        }
    }

    /// Asks for the live filter and the time; notes whether that can be told.
    async fn survey(&self) -> Option<Survey> {
        let survey = self.runner.store.survey().await;
        self.metrics.surveys.ended(survey.as_ref().map(drop));
        survey.ok()
    }

    /// Judges a survey; `known` is the live generation as last seen.
    fn is_due(&self, survey: &Survey, known: &mut Option<LiveGeneration>) -> bool {
        match &survey.live {
            Ok(live) => {
                let generation = live.generation;
                let seen =
                    known.filter(|known| known.generation == generation).unwrap_or_else(|| {
                        // Another process has put it live, so this one's failures are over.
                        self.metrics.rebuilding.recovered();
                        LiveGeneration { generation, good_from: generation, since: Instant::now() }
                    });
                *known = Some(seen);
                if survey.due_us.is_some_and(|due_us| seen.good_from.get() <= due_us) {
                    return true;
                }
                let known = seen.since.elapsed();
                self.schedule.is_due(seen.good_from, known, survey.now_us)
                    || live.is_crowded()
                        && self.schedule.may_hasten(seen.good_from, known, survey.now_us)
            }
            Err(
                Doubt::NoFilter
                | Doubt::Gone
                | Doubt::Damaged
                | Doubt::OtherKey
                | Doubt::Suspect
                | Doubt::Disproved,
            ) => true,
            Err(_) => false,
        }
    }
}

/// Returns why a rebuild is due, and of which filters: of those whose build began before this moment, µs. Filters that were
/// built together are all due together. Where some of them failed since, half their age parts them from the others.
fn cause(survey: &Survey) -> (Cause, i64) {
    match &survey.live {
        Ok(live) => {
            let built = live.generation.get();
            let middle = built.midpoint(survey.now_us);
            match survey.due_us {
                Some(due_us) if built <= due_us => (Cause::Due, middle.max(due_us + 1)),
                _ if live.is_crowded() => (Cause::Crowded, middle),
                _ => (Cause::Schedule, middle),
            }
        }
        Err(doubt) => (Cause::NoTrust(*doubt), 0),
    }
}

/// The live generation, as this process knows it.
#[derive(Clone, Copy)]
struct LiveGeneration {
    generation: Generation,
    /// From when on its age counts: when it was built, or when a rebuild was given up for its sake.
    good_from: Generation,
    /// Since when this process knows that.
    since: Instant,
}

impl LiveGeneration {
    /// Counts the age anew: a rebuild that would have put far fewer ids in its place was given up.
    fn given_up(self, now_us: i64) -> Self {
        let now = Generation::new(now_us).unwrap_or(self.good_from);
        Self { good_from: self.good_from.max(now), since: Instant::now(), ..self }
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
