//! Log lines about what may happen a million times, without a line for each.
//!
//! The first event of a burst is told at once, and how many followed when a while has passed. So the numbers in
//! the lines add up to the number of events.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// Writes a line about the number of events of a filter that no other line told of.
pub(crate) type TellRest = fn(filter: &str, events: u64);

/// Counts events until it is time for a line again.
pub(crate) struct Throttle {
    filter: Arc<str>,
    tell_rest: TellRest,
    origin: Instant,
    pause: Duration,
    untold: AtomicU64,
    /// Notified of the first event that has not been told of.
    arrived: Notify,
    /// When the next line may be written, in microseconds since the origin.
    due: AtomicU64,
}

impl Throttle {
    /// Returns a throttle that lets a line pass after each such pause. `tell_rest` writes the line about
    /// the last events of a burst.
    pub(crate) fn new(filter: &Arc<str>, pause: Duration, tell_rest: TellRest) -> Self {
        Self {
            filter: Arc::clone(filter),
            tell_rest,
            origin: Instant::now(),
            pause,
            untold: AtomicU64::new(0),
            arrived: Notify::new(),
            due: AtomicU64::new(0),
        }
    }

    /// Counts an event; returns how many there are to tell of, if it is time to.
    pub(crate) fn note(&self, now: Instant) -> Option<u64> {
        if self.untold.fetch_add(1, Ordering::Relaxed) == 0 {
            self.arrived.notify_one();
        }
        self.take(now)
    }

    /// Tells of the events that end a burst, for as long as it is polled.
    pub(crate) async fn tell_rests(&self) {
        loop {
            self.arrived.notified().await;
            let due = Duration::from_micros(self.due.load(Ordering::Relaxed));
            sleep_until(self.origin + due).await;
            if let Some(events) = self.take(Instant::now()) {
                (self.tell_rest)(&self.filter, events);
            }
        }
    }

    fn take(&self, now: Instant) -> Option<u64> {
        let due = self.due.load(Ordering::Relaxed);
        let now = micros(now.saturating_duration_since(self.origin));
        if now < due {
            return None;
        }
        // Of several that come at once, one tells of all.
        let next = now.saturating_add(micros(self.pause));
        self.due.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).ok()?;
        Some(self.untold.swap(0, Ordering::Relaxed)).filter(|events| *events > 0)
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        let untold = *self.untold.get_mut();
        if untold > 0 {
            (self.tell_rest)(&self.filter, untold);
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    thread_local! {
        static TOLD: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
    }

    fn throttle() -> Throttle {
        let tell = |_: &str, events| TOLD.with_borrow_mut(|told| told.push(events));
        Throttle::new(&"users".into(), Duration::from_secs(60), tell)
    }

    fn told() -> Vec<u64> {
        TOLD.take()
    }

    #[tokio::test(start_paused = true)]
    async fn a_line_tells_of_all_events_since_the_one_before() {
        let throttle = throttle();
        let begun = Instant::now();
        assert_eq!(throttle.note(begun), Some(1));
        for second in 1..60 {
            assert_eq!(throttle.note(begun + Duration::from_secs(second)), None);
        }
        assert_eq!(throttle.note(begun + Duration::from_secs(60)), Some(60));
        drop(throttle);
        assert_eq!(told(), [0; 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_a_burst_is_told_of_without_another_event() {
        let throttle = Arc::new(throttle());
        let rests = tokio::spawn({
            let throttle = Arc::clone(&throttle);
            async move { throttle.tell_rests().await }
        });
        for _ in 0..2 {
            let told_at_once: Vec<_> =
                (0..1_000).filter_map(|_| throttle.note(Instant::now())).collect();
            assert_eq!(told_at_once, [1]);
            tokio::time::sleep(Duration::from_secs(59)).await;
            assert_eq!(told(), [0; 0]);
            tokio::time::sleep(Duration::from_secs(120)).await;
            assert_eq!(told(), [999]);
        }
        rests.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_was_told_of_is_told_at_the_end() {
        let throttle = throttle();
        let told_at_once: Vec<_> = (0..10).filter_map(|_| throttle.note(Instant::now())).collect();
        drop(throttle);
        assert_eq!((told_at_once, told()), (vec![1], vec![9]));
    }
}
