//! How soon a refill may follow the last one: each reads all of the source, and what ends trust may do so again and again.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Trust that has lasted for as many times as long as its refill took was worth it.
const WORTH: u32 = 10;
const LONGEST: Duration = Duration::from_secs(60 * 60);

/// The last refill of this process that succeeded.
#[derive(Default)]
pub(crate) struct Pause(Mutex<Last>);

#[derive(Default)]
struct Last {
    ended: Option<Instant>,
    /// How long the next one waits after that.
    wait: Duration,
}

impl Pause {
    /// Returns for how long it lasts, if it does.
    pub(crate) fn left(&self) -> Option<Duration> {
        let last = self.0.lock();
        last.wait.checked_sub(last.ended?.elapsed()).filter(|left| !left.is_zero())
    }

    /// Notes a refill that began then and has succeeded now. The pause doubles with each whose forerunner was not worth it.
    pub(super) fn note(&self, began: Instant) {
        let (mut last, took) = (self.0.lock(), began.elapsed());
        let soon = last.ended.is_some_and(|ended| began.duration_since(ended) < took * WORTH);
        last.wait = if soon { (last.wait * 2).max(took).min(LONGEST) } else { Duration::ZERO };
        last.ended = Some(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const TOOK: Duration = Duration::from_secs(10);

    /// Has a refill take place after a time.
    async fn refilled(pause: &Pause, after: Duration) -> Duration {
        advance(after).await;
        let began = Instant::now();
        advance(TOOK).await;
        pause.note(began);
        pause.0.lock().wait
    }

    #[tokio::test(start_paused = true)]
    async fn each_loss_that_comes_soon_doubles_the_pause() {
        let pause = Pause::default();
        assert_eq!(pause.left(), None);
        assert_eq!(refilled(&pause, Duration::ZERO).await, Duration::ZERO);
        for wait in [1, 2, 4, 8] {
            assert_eq!(refilled(&pause, TOOK * 9).await, TOOK * wait);
            assert_eq!(pause.left(), Some(TOOK * wait));
        }
        assert_eq!(refilled(&pause, TOOK * 100).await, Duration::ZERO);
        assert_eq!(pause.left(), None);
    }
}
