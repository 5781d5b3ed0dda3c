//! A lane for requests that nothing vouches for: so many at once, and so many a second.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::decide::bucket::Bucket;

/// How long a client should stay away when the lane has no room but time would not help by itself.
const FULL: Duration = Duration::from_secs(1);

/// How wide a lane is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Width {
    /// Requests in it at once, and in a burst.
    pub(crate) concurrency: u32,
    /// Requests that may enter it in a second.
    pub(crate) per_second: u32,
}

/// The lane.
#[derive(Debug)]
pub(crate) struct Lane {
    room: Arc<Semaphore>,
    bucket: Bucket,
}

/// A place in the lane, free again when dropped.
#[derive(Debug)]
pub(crate) struct Place(#[expect(dead_code, reason = "held for its drop")] OwnedSemaphorePermit);

impl Lane {
    pub(crate) fn new(width: Width) -> Self {
        let Width { concurrency, per_second } = width;
        Self {
            room: Arc::new(Semaphore::new(concurrency as usize)),
            bucket: Bucket::new(per_second, concurrency),
        }
    }

    /// Enters, or says when to come again. Never waits: whoever waits holds memory.
    pub(crate) fn enter(&self, now: Instant) -> Result<Place, Duration> {
        // Room first: a lane that is full must not use up its tokens.
        let place = Arc::clone(&self.room).try_acquire_owned().map_err(|_| FULL)?;
        self.bucket.take(now)?;
        Ok(Place(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDTH: Width = Width { concurrency: 2, per_second: 100 };

    #[tokio::test(start_paused = true)]
    async fn no_more_than_its_width_are_in_it_at_once() {
        let lane = Lane::new(WIDTH);
        let now = Instant::now();
        let places = [lane.enter(now).unwrap(), lane.enter(now).unwrap()];
        let later = now + Duration::from_secs(10);
        assert_eq!(lane.enter(later).unwrap_err(), FULL);
        drop(places);
        assert!(lane.enter(later).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_than_its_rate_enter_it() {
        let lane = Lane::new(WIDTH);
        let began = Instant::now();
        let entered =
            (0..1_000).filter(|ms| lane.enter(began + Duration::from_millis(*ms)).is_ok()).count();
        assert_eq!(entered, 2 + 99, "the burst, and one every 10 ms in 999 ms");
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_lane_uses_up_no_tokens() {
        let lane = Lane::new(WIDTH);
        let began = Instant::now();
        let places = [lane.enter(began).unwrap(), lane.enter(began).unwrap()];
        let later = began + Duration::from_secs(1);
        for _ in 0..100 {
            assert!(lane.enter(later).is_err());
        }
        drop(places);
        assert!(lane.enter(later).is_ok() && lane.enter(later).is_ok());
    }
}
