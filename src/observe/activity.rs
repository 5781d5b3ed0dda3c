//! When one kind of work last succeeded, and when it last failed, and why.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::decide::bucket::nanos;

/// How one kind of work fares in this process: checks, inserts or rebuilds.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "cli", derive(serde::Serialize))]
#[non_exhaustive]
pub struct WorkState {
    /// How long ago it last succeeded; none before the first success.
    pub succeeded: Option<Duration>,
    /// Its failures since then; none if the latest attempt succeeded.
    pub failing: Option<Failure>,
}

/// Failures one after the other, without a success in between.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "cli", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Failure {
    /// Why the latest of them failed, in words.
    pub cause: String,
    /// What to do about it.
    pub advice: &'static str,
    /// How long ago the first of them was.
    pub since: Duration,
    /// How long ago the latest of them was.
    pub last: Duration,
    /// How many there were.
    pub count: u64,
}

impl fmt::Display for WorkState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.failing, self.succeeded) {
            (Some(failure), _) => failure.fmt(f),
            (None, Some(ago)) => write!(f, "succeeded {:.1} s ago", ago.as_secs_f64()),
            (None, None) => f.write_str("none yet"),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cause, advice, since, last, count } = self;
        let (since, last) = (since.as_secs_f64(), last.as_secs_f64());
        write!(
            f,
            "failing for {since:.1} s ({count} times, last {last:.1} s ago): {cause}. {advice}"
        )
    }
}

/// A success costs two atomic operations, and a failure a lock. `E` is why one failed.
pub(crate) struct Activity<E> {
    origin: Instant,
    /// One more than the nanoseconds from the origin to the last success; 0 before the first one.
    succeeded: AtomicU64,
    /// Whether there are failures: a success knows it without the lock.
    is_failing: AtomicBool,
    failures: Mutex<Option<Failures<E>>>,
}

struct Failures<E> {
    cause: E,
    first: Instant,
    last: Instant,
    count: u64,
}

impl<E: Clone> Activity<E> {
    pub(crate) fn new() -> Self {
        Self {
            origin: Instant::now(),
            succeeded: AtomicU64::new(0),
            is_failing: AtomicBool::new(false),
            failures: Mutex::default(),
        }
    }

    pub(crate) fn succeeded(&self, at: Instant) {
        let since = nanos(self.origin, at).saturating_add(1);
        self.succeeded.store(since, Ordering::Relaxed);
        self.recovered();
    }

    pub(crate) fn ended(&self, outcome: Result<(), E>) {
        match outcome {
            Ok(()) => self.succeeded(Instant::now()),
            Err(cause) => self.failed(cause, Instant::now()),
        }
    }

    pub(crate) fn recovered(&self) {
        // Read first: mostly there is nothing to write.
        if self.is_failing.load(Ordering::Relaxed) {
            let mut failures = self.failures.lock();
            *failures = None;
            self.is_failing.store(false, Ordering::Relaxed);
        }
    }

    pub(crate) fn failed(&self, cause: E, at: Instant) {
        let mut failures = self.failures.lock();
        self.is_failing.store(true, Ordering::Relaxed);
        let (first, count) = failures.as_ref().map_or((at, 0), |of| (of.first, of.count));
        *failures = Some(Failures { cause, first, last: at, count: count + 1 });
    }

    /// Whether it has not succeeded for that time, or is failing.
    pub(crate) fn rests(&self, time: Duration) -> bool {
        self.is_failing.load(Ordering::Relaxed)
            || self.last_success().is_none_or(|at| at.elapsed() >= time)
    }

    pub(crate) fn failing(&self) -> Option<E> {
        self.failures.lock().as_ref().map(|failures| failures.cause.clone())
    }

    /// Returns how the work fares, with a cause in words and what to do about it.
    pub(crate) fn state(&self, told: impl Fn(&E) -> (String, &'static str)) -> WorkState {
        let failures = self.failures.lock();
        WorkState {
            succeeded: self.last_success().map(|at| at.elapsed()),
            failing: failures.as_ref().map(|failures| {
                let Failures { first, last, count, .. } = *failures;
                let (cause, advice) = told(&failures.cause);
                Failure { cause, advice, since: first.elapsed(), last: last.elapsed(), count }
            }),
        }
    }

    fn last_success(&self) -> Option<Instant> {
        let nanos = self.succeeded.load(Ordering::Relaxed).checked_sub(1)?;
        Some(self.origin + Duration::from_nanos(nanos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refusal::Refusal;
    use crate::verdict::Doubt;

    #[tokio::test(start_paused = true)]
    async fn failures_count_from_the_first_after_a_success() {
        let second = Duration::from_secs(1);
        let activity = Activity::new();
        let told = |doubt: &Doubt| (doubt.to_string(), doubt.advice());
        assert!(activity.rests(second) && activity.state(told).failing.is_none());
        activity.failed(Doubt::Timeout, Instant::now());
        tokio::time::advance(second).await;
        activity.succeeded(Instant::now());
        assert!(!activity.rests(second) && activity.state(told).failing.is_none());
        for _ in 0..3 {
            tokio::time::advance(second).await;
            activity.failed(Doubt::Refused(Refusal::DENIED), Instant::now());
        }
        let state = activity.state(told);
        let failure = state.failing.unwrap();
        assert!(activity.rests(second));
        assert_eq!((failure.since, failure.last, failure.count), (2 * second, Duration::ZERO, 3));
        assert_eq!(state.succeeded, Some(3 * second));
        assert_eq!(activity.failing(), Some(Doubt::Refused(Refusal::DENIED)));
        assert_eq!(failure.advice, Refusal::DENIED.advice());
        activity.recovered();
        assert!(activity.failing().is_none() && activity.state(told).failing.is_none());
    }
}
