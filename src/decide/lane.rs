//! A lane for requests that nothing vouches for: bounded in requests at once, and in ids a second.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::decide::bucket::Bucket;

/// How long a client should stay away from a lane that is full, as nobody knows when it will not be.
const FULL: Duration = Duration::from_secs(1);

pub(crate) struct Lane {
    concurrency: u32,
    per_second: u32,
    room: Arc<Semaphore>,
    bucket: Bucket,
    began: Instant,
    /// By ten seconds: their number since the beginning, and the requests rejected in them.
    rejected: Mutex<[(u64, u64); TENS]>,
}

const TENS: usize = 6;

/// How full the lane is: the way for requests whose id is missed or unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LaneState {
    /// Requests in it.
    pub in_use: u64,
    /// Requests that it lets through at once.
    pub width: u64,
    /// Requests that may enter it in a second; one that lists ids counts for each of them that needs the lane.
    pub per_second: u64,
    /// Requests for which it had no room in the last minute, to ten seconds exact.
    pub rejected_last_minute: u64,
}

impl fmt::Display for LaneState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { in_use, width, per_second, rejected_last_minute } = self;
        write!(
            f,
            "{in_use} of {width} places in use, {per_second} a second, {rejected_last_minute} rejected in the \
             last minute"
        )
    }
}

/// A place in the lane, free again when dropped.
pub(crate) type Permit = OwnedSemaphorePermit;

impl Lane {
    /// Creates a lane for `concurrency` requests at once, which is also the burst, and `per_second` ids a second.
    pub(crate) fn new(concurrency: u32, per_second: u32) -> Self {
        Self {
            concurrency,
            per_second,
            room: Arc::new(Semaphore::new(concurrency as usize)),
            bucket: Bucket::new(per_second, concurrency),
            began: Instant::now(),
            rejected: Mutex::default(),
        }
    }

    /// Enters with `ids` ids, which take one place and a token each, or returns when to come again. Never waits: a request that
    /// waits holds memory.
    pub(crate) fn enter(&self, ids: u32, now: Instant) -> Result<Permit, Duration> {
        // Room first: a lane that is full must not use up its tokens.
        let permit = Arc::clone(&self.room).try_acquire_owned().map_err(|_| FULL);
        let entered = permit.and_then(|permit| self.bucket.take_many(now, ids).map(|()| permit));
        entered.inspect_err(|_| {
            let ten = self.ten(now);
            let counted = &mut self.rejected.lock()[ten as usize % TENS];
            if counted.0 != ten {
                *counted = (ten, 0);
            }
            counted.1 += 1;
        })
    }

    fn ten(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.began).as_secs() / 10
    }

    pub(crate) fn state(&self, now: Instant) -> LaneState {
        let concurrency = self.concurrency;
        let free = u32::try_from(self.room.available_permits()).unwrap_or(concurrency);
        let oldest = (self.ten(now) + 1).saturating_sub(TENS as u64);
        let rejected = *self.rejected.lock();
        let lately = rejected.iter().filter(|(ten, _)| *ten >= oldest);
        LaneState {
            in_use: concurrency.saturating_sub(free).into(),
            width: concurrency.into(),
            per_second: self.per_second.into(),
            rejected_last_minute: lately.map(|(_, rejected)| rejected).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn no_more_than_its_width_are_in_it_at_once() {
        let lane = Lane::new(2, 100);
        let now = Instant::now();
        let permits = [lane.enter(1, now).unwrap(), lane.enter(1, now).unwrap()];
        let later = now + Duration::from_secs(10);
        assert_eq!(lane.enter(1, later).unwrap_err(), FULL);
        drop(permits);
        assert!(lane.enter(1, later).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_than_its_rate_enter_it() {
        let lane = Lane::new(2, 100);
        let began = Instant::now();
        let entered = (0..1_000)
            .filter(|ms| lane.enter(1, began + Duration::from_millis(*ms)).is_ok())
            .count();
        assert_eq!(entered, 2 + 99, "the burst, and one every 10 ms in 999 ms");
    }

    #[tokio::test(start_paused = true)]
    async fn it_tells_how_full_it_is_and_whom_it_rejected_in_the_last_minute() {
        let lane = Lane::new(2, 100);
        let began = Instant::now();
        let _places = [lane.enter(1, began).unwrap(), lane.enter(1, began).unwrap()];
        let at = |seconds| began + Duration::from_secs(seconds);
        for second in 0..60 {
            lane.enter(1, at(second)).unwrap_err();
        }
        let state = lane.state(at(59));
        assert_eq!((state.in_use, state.width, state.rejected_last_minute), (2, 2, 60));
        assert_eq!(lane.state(at(75)).rejected_last_minute, 40);
        assert_eq!(lane.state(at(119)).rejected_last_minute, 0);
        lane.enter(1, at(1_000)).unwrap_err();
        assert_eq!(lane.state(at(1_000)).rejected_last_minute, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_lane_uses_up_no_tokens() {
        let lane = Lane::new(2, 100);
        let began = Instant::now();
        let permits = [lane.enter(1, began).unwrap(), lane.enter(1, began).unwrap()];
        let later = began + Duration::from_secs(1);
        for _ in 0..100 {
            assert!(lane.enter(1, later).is_err());
        }
        drop(permits);
        assert!(lane.enter(1, later).is_ok() && lane.enter(1, later).is_ok());
    }
}
