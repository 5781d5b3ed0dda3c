//! The background task that rebuilds when it is due.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::run::{Cause, Rebuilder};
use crate::error::{RebuildError, chain};
use crate::filter::Generation;
use crate::store::{Progress, RebuildReport, RebuildStep, Survey};
use crate::verdict::Doubt;

const POLL: Duration = Duration::from_secs(1);
/// After a failed rebuild the wait is this many times as long as the source was read for. So it is read for a third of the time at
/// most. A database that is away, or a Redis that has no room, fails at once, and is asked again soon when it is back.
const WAIT_PER_READING: u32 = 2;
const LONGEST_WAIT: Duration = Duration::from_secs(300);

impl Rebuilder {
    /// Rebuilds now, or after the rebuild that is under way in this process, the filters whose build began before `before_us` by the
    /// store's clock.
    pub(crate) async fn rebuild(
        &self,
        cause: Cause,
        before_us: i64,
    ) -> Result<RebuildReport, Arc<RebuildError>> {
        let _only = self.one_at_a_time.lock().await;
        let _idle = IdleAtLast(&self.progress);
        let begun = Instant::now();
        self.progress.begin();
        let ended = self.run_once(cause, before_us).await.map_err(Arc::new);
        match &ended {
            Ok(report) => {
                self.metrics.rebuild(Ok(()), begun);
                // So that the new filter answers, or the state says why not.
                self.metrics.probe(&self.store).await;
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
                let error = chain(error);
                // Further attempts that fail for the same reason are no lines. It may tell of another number each time.
                let words = |text: &str| text.replace(|letter: char| letter.is_ascii_digit(), "");
                let last = self.progress.status().last.and_then(Result::err);
                if last.is_none_or(|last| words(&chain(&last)) != words(&error)) {
                    tracing::warn!(
                        error,
                        "the rebuild failed, and the next attempt comes by itself: see the guide, rebuilds"
                    );
                }
            }
        }
        self.progress.ended(ended.clone());
        ended
    }

    pub(crate) async fn run(self: Arc<Self>) {
        let mut known: Option<LiveGeneration> = None;
        loop {
            let mut wait = POLL;
            // While the application rebuilds by hand, nothing is due.
            let idle = self.one_at_a_time.try_lock().is_ok();
            let survey = if idle {
                let survey = self.store.survey().await;
                self.metrics.surveys.ended(survey.as_ref().map(drop).map_err(Clone::clone));
                survey.ok()
            } else {
                None
            };
            if survey.as_ref().is_some_and(|survey| survey.live.is_ok()) {
                self.shortfall.note_trust();
            }
            if let Some(survey) = survey
                && let Some((cause, before_us)) = self.due(&survey, &mut known)
                && let Err(error) = self.rebuild(cause, before_us).await
            {
                let is_short = matches!(*error, RebuildError::Shrunk { .. } | RebuildError::Empty);
                if cause == Cause::Crowded || is_short && survey.live.is_ok() {
                    // The live filter answers, and another scan would find as few ids: its age counts anew.
                    // What was due is answered, also where its moment is ahead of the clock.
                    let now_us = survey.due_us.map_or(0, |due_us| due_us + 1).max(survey.now_us);
                    known = known.map(|known| {
                        let now = Generation::new(now_us).unwrap_or(known.good_from);
                        let good_from = known.good_from.max(now);
                        LiveGeneration { good_from, since: Instant::now(), ..known }
                    });
                } else {
                    wait = self.progress.read_for() * WAIT_PER_READING;
                    wait = wait.clamp(POLL, LONGEST_WAIT);
                }
            }
            sleep(wait).await;
        }
    }

    /// Returns why a rebuild is due, if one is, and the moment, µs, before which the shards to rebuild were begun. Shards that were
    /// built together are due together; half their age parts them from those rebuilt since.
    fn due(&self, survey: &Survey, known: &mut Option<LiveGeneration>) -> Option<(Cause, i64)> {
        let live = match &survey.live {
            Ok(live) => live,
            Err(
                doubt @ (Doubt::NoFilter
                | Doubt::Gone
                | Doubt::Damaged
                | Doubt::OtherKey
                | Doubt::Suspect
                | Doubt::Disproved),
            ) => return Some((Cause::NoTrust(*doubt), 0)),
            Err(_) => return None,
        };
        let generation = live.generation;
        let seen = known.filter(|known| known.generation == generation).unwrap_or_else(|| {
            // Another process has put a filter live: this one's failures are over.
            self.metrics.rebuilding.recovered();
            LiveGeneration { generation, good_from: generation, since: Instant::now() }
        });
        *known = Some(seen);
        let LiveGeneration { good_from, since, .. } = seen;
        let now_us = survey.now_us;
        let middle = generation.get().midpoint(now_us);
        let asked = survey.due_us;
        let cause = if asked.is_some_and(|due_us| good_from.get() <= due_us) {
            Cause::Due
        } else if live.is_crowded() && self.schedule.may_hasten(good_from, since.elapsed(), now_us)
        {
            Cause::Crowded
        } else if self.schedule.is_due(good_from, since.elapsed(), now_us) {
            Cause::Schedule
        } else {
            return None;
        };
        Some((cause, asked.map_or(middle, |due_us| middle.max(due_us + 1))))
    }
}

#[derive(Clone, Copy)]
struct LiveGeneration {
    generation: Generation,
    /// When it was built, or when a rebuild was last given up for its sake: its age counts from here.
    good_from: Generation,
    /// When this process learnt that.
    since: Instant,
}

/// Returns the step to idle when a rebuild ends, also when its future is dropped.
struct IdleAtLast<'a>(&'a Progress);

impl Drop for IdleAtLast<'_> {
    fn drop(&mut self) {
        self.0.enter(RebuildStep::Idle);
    }
}

#[cfg(test)]
mod tests {
    use std::iter::repeat_n;

    use parking_lot::Mutex;
    use tokio::task::JoinHandle;

    use super::*;
    use crate::error::BoxError;
    use crate::extract::PathPattern;
    use crate::filter::Sizing;
    use crate::id::Id;
    use crate::observe::metrics::Metrics;
    use crate::rebuild::{IdSink, RebuildSource, Schedule};
    use crate::settings::Settings;
    use crate::store::Store;
    use crate::store::memory::MemoryStore;

    /// Runs the task over a source.
    fn run(store: MemoryStore, settings: &Settings, source: impl RebuildSource) -> JoinHandle<()> {
        let rebuilder = Rebuilder::new(
            Arc::new(Store::Memory(Arc::new(store))),
            Arc::new(PathPattern::<u64>::new("/users/{id}").unwrap()),
            Some((Schedule::manual(), Arc::new(source))),
            settings,
            Arc::new(Metrics::new("users")),
        );
        tokio::spawn(Arc::new(rebuilder).run())
    }

    /// Comes to a row that it cannot read after so much time, and notes when.
    struct Stumbles {
        after: Duration,
        panics: bool,
        at: Arc<Mutex<Vec<Instant>>>,
    }

    impl RebuildSource for Stumbles {
        async fn scan(&self, ids: &mut IdSink<'_>) -> Result<(), BoxError> {
            ids.push(&1_u64).await?;
            sleep(self.after).await;
            self.at.lock().push(Instant::now());
            assert!(!self.panics, "row 9,000,001 has a NULL");
            Err("row 9,000,001 has a NULL".into())
        }
    }

    /// Where the record of recent inserts has dropped some, the first scan waits until their transactions are over.
    #[tokio::test(start_paused = true)]
    async fn a_source_that_fails_is_read_for_a_third_of_the_time_at_most_and_asked_again_soon() {
        for (takes, panics, inserts, waits) in [
            (0, false, 0, 1),
            (0, true, 0, 1),
            (60, false, 0, 120),
            (1_000, false, 0, 300),
            (0, false, 2, 1),
            (60, false, 2, 120),
        ] {
            let settings = Settings { recent_ids: 1, ..Settings::new("users".into()) };
            let store = MemoryStore::new(&settings).unwrap();
            store.add(repeat_n(Id::new("1").unwrap(), inserts).collect()).await.unwrap();
            let (after, at) = (Duration::from_secs(takes), Arc::default());
            let source = Stumbles { after, panics, at: Arc::clone(&at) };
            let first = if inserts > 1 { settings.longest_transaction } else { Duration::ZERO };
            let begun = Instant::now();
            let rebuilding = run(store, &settings, source);
            sleep(first + (after + Duration::from_secs(waits)) * 3).await;
            rebuilding.abort();
            let at = at.lock();
            assert_eq!((at[0] - begun - after).as_secs(), first.as_secs());
            let waited = |two: &[Instant]| (two[1] - two[0] - after).as_secs();
            let waited: Vec<u64> = at.windows(2).map(waited).collect();
            assert!(!waited.is_empty() && waited.iter().all(|wait| *wait == waits), "{waited:?}");
        }
    }

    /// How a source is read for a while, in vain.
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Reading {
        Count,
        FirstId,
        /// It has twice the ids at each scan.
        Growing,
    }

    const READS: Duration = Duration::from_secs(20);

    struct Slow(Reading, Arc<Mutex<u32>>);

    impl Slow {
        async fn read(&self) -> u32 {
            sleep(READS).await;
            *self.1.lock() += 1;
            *self.1.lock()
        }
    }

    impl RebuildSource for Slow {
        async fn scan(&self, ids: &mut IdSink<'_>) -> Result<(), BoxError> {
            let nth = self.read().await;
            if self.0 != Reading::Growing {
                return Err("the statement took too long".into());
            }
            for id in 0..20_u64 << nth {
                ids.push(&id).await?;
            }
            Ok(())
        }

        async fn count(&self) -> Result<Option<u64>, BoxError> {
            if self.0 == Reading::Count {
                self.read().await;
                return Err("the statement took too long".into());
            }
            Ok(None)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn counts_looks_for_a_first_id_and_all_scans_of_a_rebuild_are_reading() {
        const PERIODS: u32 = 9;
        for reading in [Reading::Count, Reading::FirstId, Reading::Growing] {
            let sizing = Sizing::new(10, 0.01).unwrap();
            let settings = Settings { sizing, ..Settings::new("users".into()) };
            let store = MemoryStore::new(&settings).unwrap();
            let reads = Arc::default();
            let rebuilding = run(store, &settings, Slow(reading, Arc::clone(&reads)));
            sleep(READS * 3 * PERIODS).await;
            rebuilding.abort();
            let reads = *reads.lock();
            assert!((PERIODS - 2..=PERIODS + 1).contains(&reads), "{reading:?}: {reads}");
        }
    }
}
