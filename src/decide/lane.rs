//! A lane for requests that nothing vouches for: bounded in requests at once, and in ids a second.

use std::fmt;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::decide::bucket::Bucket;

pub(crate) struct Lane {
    width: u32,
    room: Arc<Semaphore>,
    bucket: Bucket,
}

/// How full the lane is: the way for requests whose id is missed or unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LaneState {
    /// Requests in it.
    pub in_use: u64,
    /// Requests that it lets through at once.
    pub width: u64,
}

impl fmt::Display for LaneState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { in_use, width } = self;
        write!(f, "{in_use} of {width} places in use")
    }
}

/// A place in the lane, free again when dropped.
pub(crate) type Permit = OwnedSemaphorePermit;

impl Lane {
    /// Creates a lane for `concurrency` requests at once, which is also the burst, and `per_second` ids a second.
    pub(crate) fn new(concurrency: u32, per_second: u32) -> Self {
        Self {
            width: concurrency,
            room: Arc::new(Semaphore::new(concurrency as usize)),
            bucket: Bucket::new(per_second, concurrency),
        }
    }

    /// Enters with `ids` ids, which take one place and a token each, if there is room. Never waits: a request that waits holds memory.
    pub(crate) fn enter(&self, ids: u32, now: Instant) -> Option<Permit> {
        // Room first: a lane that is full must not use up its tokens.
        let permit = Arc::clone(&self.room).try_acquire_owned().ok()?;
        self.bucket.take_many(now, ids).then_some(permit)
    }

    pub(crate) fn state(&self) -> LaneState {
        let width = u64::from(self.width);
        LaneState { in_use: width.saturating_sub(self.room.available_permits() as u64), width }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn no_more_than_its_width_are_in_it_at_once() {
        let lane = Lane::new(2, 100);
        let now = Instant::now();
        let permits = [lane.enter(1, now).unwrap(), lane.enter(1, now).unwrap()];
        let later = now + Duration::from_secs(10);
        assert!(lane.enter(1, later).is_none());
        assert_eq!(lane.state().in_use, 2);
        drop(permits);
        assert!(lane.enter(1, later).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_than_its_rate_enter_it() {
        let lane = Lane::new(2, 100);
        let began = Instant::now();
        let entered = (0..1_000)
            .filter(|ms| lane.enter(1, began + Duration::from_millis(*ms)).is_some())
            .count();
        assert_eq!(entered, 2 + 99, "the burst, and one every 10 ms in 999 ms");
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_lane_uses_up_no_tokens() {
        let lane = Lane::new(2, 100);
        let began = Instant::now();
        let permits = [lane.enter(1, began).unwrap(), lane.enter(1, began).unwrap()];
        let later = began + Duration::from_secs(1);
        for _ in 0..100 {
            assert!(lane.enter(1, later).is_none());
        }
        drop(permits);
        assert!(lane.enter(1, later).is_some() && lane.enter(1, later).is_some());
    }
}
