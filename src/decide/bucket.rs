//! A token bucket, counted as the generic cell rate algorithm counts it (ITU-T I.371, annex A): one
//! number, the moment at which the bucket would be full again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

const SECOND_NS: u64 = 1_000_000_000;

pub(crate) struct Bucket {
    origin: Instant,
    /// Nanoseconds a token takes to grow; none for a bucket that stays empty.
    interval: Option<u64>,
    /// How far ahead of the clock the bucket may run.
    tolerance: u64,
    /// When the bucket is full again, in nanoseconds since the origin.
    full_at: AtomicU64,
}

impl Bucket {
    /// Creates a full bucket. With no tokens a second it never holds any.
    pub(crate) fn new(per_second: u32, burst: u32) -> Self {
        let interval = SECOND_NS.checked_div(per_second.into());
        let tolerance = interval.unwrap_or(0).saturating_mul(burst.saturating_sub(1).into());
        Self { interval, tolerance, ..Self::every(Duration::ZERO) }
    }

    /// Creates a full bucket for one token, which takes `interval` to grow.
    pub(crate) fn every(interval: Duration) -> Self {
        let interval = Some(interval.as_nanos() as u64);
        Self { origin: Instant::now(), interval, tolerance: 0, full_at: AtomicU64::new(0) }
    }

    /// Creates an empty bucket for one token.
    pub(crate) fn empty(per_second: u32) -> Self {
        let bucket = Self::new(per_second, 1);
        let full_at = AtomicU64::new(bucket.interval.unwrap_or(0));
        Self { full_at, ..bucket }
    }

    pub(crate) fn fill(&self) {
        self.full_at.store(0, Ordering::Relaxed);
    }

    pub(crate) fn take(&self, now: Instant) -> bool {
        self.take_many(now, 1)
    }

    /// Takes `tokens` if there is one, and owes the rest: there is none until they have grown.
    pub(crate) fn take_many(&self, now: Instant, tokens: u32) -> bool {
        let Some(interval) = self.interval else { return false };
        let now = nanos(self.origin, now);
        let cost = interval.saturating_mul(tokens.into());
        let taken = self.full_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |full_at| {
            let ahead = full_at.saturating_sub(now);
            (ahead <= self.tolerance).then(|| full_at.max(now).saturating_add(cost))
        });
        taken.is_ok()
    }
}

/// Returns the nanoseconds from one moment to another, 584 years at the most.
pub(crate) fn nanos(from: Instant, to: Instant) -> u64 {
    u64::try_from(to.saturating_duration_since(from).as_nanos()).unwrap_or(u64::MAX)
}

/// Limits log lines about frequent events: counts events until the next line is due. The rest of a burst is told with the next
/// one; the counters have it at once.
pub(crate) struct Throttle {
    lines: Bucket,
    untold: AtomicU64,
}

impl Throttle {
    pub(crate) fn new(pause: Duration) -> Self {
        Self { lines: Bucket::every(pause), untold: AtomicU64::new(0) }
    }

    /// Counts an event. Returns how many events a line has to tell of, if one is due.
    pub(crate) fn note(&self, now: Instant) -> Option<u64> {
        self.untold.fetch_add(1, Ordering::Relaxed);
        let is_due = self.lines.take(now);
        is_due.then(|| self.untold.swap(0, Ordering::Relaxed)).filter(|events| *events > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn no_window_sees_more_than_the_burst_and_the_rate() {
        let bucket = Bucket::new(500, 64);
        let began = Instant::now();
        let mut taken = 0;
        for ms in 0..2_000 {
            let now = began + Duration::from_millis(ms);
            taken += (0..10).filter(|_| bucket.take(now)).count();
        }
        assert_eq!(taken, 64 + 999, "the burst, and one every 2 ms in 1999 ms");
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_takes_its_time_to_grow() {
        let bucket = Bucket::new(10, 1);
        let now = Instant::now();
        assert!(bucket.take(now));
        assert!(!bucket.take(now + Duration::from_millis(99)));
        assert!(bucket.take(now + Duration::from_millis(100)));
    }

    #[tokio::test(start_paused = true)]
    async fn an_empty_bucket_keeps_its_rate_from_the_beginning() {
        let bucket = Bucket::empty(10);
        let began = Instant::now();
        let at = |ms| bucket.take(began + Duration::from_millis(ms));
        assert_eq!((0..10_000).filter(|ms| at(*ms)).count(), 99);
    }

    #[tokio::test(start_paused = true)]
    async fn a_rest_fills_it_no_further_than_the_burst() {
        let bucket = Bucket::new(1_000, 3);
        let later = Instant::now() + Duration::from_secs(3600);
        assert_eq!((0..10).filter(|_| bucket.take(later)).count(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn what_takes_more_than_there_is_makes_others_wait_for_all_of_it() {
        let bucket = Bucket::new(100, 2);
        let began = Instant::now();
        assert!(bucket.take_many(began, 50));
        let at = |ms| bucket.take_many(began + Duration::from_millis(ms), 50);
        assert!(!at(0) && !at(489), "two of them were there");
        assert!(at(490));
    }

    #[tokio::test(start_paused = true)]
    async fn a_bucket_of_nothing_gives_nothing() {
        assert!(!Bucket::new(0, 5).take(Instant::now() + Duration::from_secs(9)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_line_tells_of_all_events_since_the_one_before() {
        let throttle = Throttle::new(Duration::from_secs(60));
        let begun = Instant::now();
        assert_eq!(throttle.note(begun), Some(1));
        for second in 1..60 {
            assert_eq!(throttle.note(begun + Duration::from_secs(second)), None);
        }
        assert_eq!(throttle.note(begun + Duration::from_secs(60)), Some(60));
    }
}
