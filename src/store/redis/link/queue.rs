//! Checks that wait to be sent, and leave in batches.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::sync::{Mutex, Notify, oneshot};
use tokio::time::{Instant, sleep_until};

use super::connection::Connection;
use crate::verdict::Doubt;

/// So many batches may be under way.
pub(crate) const BATCHES: usize = 16;
/// The most checks in a batch, which keeps Redis busy for less than a millisecond.
const BATCH: usize = 256;
/// With less under way, a batch leaves at once.
const FEW: usize = 2;

/// The checks that no batch has taken yet, in the order in which they came: what each asks for, and what it is told.
pub(crate) struct Queue<Q, A> {
    places: Sender<Place<Q, A>>,
    waiting: Mutex<Waiting<Q, A>>,
    under_way: AtomicUsize,
    answered: Notify,
    /// How long a batch waits, while others are under way, after the one before.
    pause: Duration,
}

struct Waiting<Q, A> {
    places: Receiver<Place<Q, A>>,
    /// When the last batch left.
    left: Instant,
}

/// One check's place in the queue, and then in a batch.
pub(crate) struct Place<Q, A> {
    /// The connection that it was asked for by, and no other.
    pub(crate) live: Arc<Connection>,
    pub(crate) asked: Q,
    pub(crate) answer: oneshot::Sender<Result<A, Doubt>>,
}

impl<Q, A> Queue<Q, A> {
    /// Returns a queue with room for so many, which have to be answered within a deadline.
    pub(crate) fn new(room: usize, deadline: Duration) -> Self {
        let (sender, places) = mpsc::channel(room);
        Self {
            places: sender,
            waiting: Mutex::new(Waiting { places, left: Instant::now() }),
            under_way: AtomicUsize::new(0),
            answered: Notify::new(),
            pause: deadline / BATCHES as u32,
        }
    }

    /// Puts a check into the queue; returns what its answer comes by. Who drops that is not sent any more.
    ///
    /// # Errors
    ///
    /// There is no room.
    pub(crate) fn enter(
        &self,
        live: Arc<Connection>,
        asked: Q,
    ) -> Result<oneshot::Receiver<Result<A, Doubt>>, Full> {
        let (answer, received) = oneshot::channel();
        self.places.try_send(Place { live, asked, answer }).map_err(|_| Full)?;
        Ok(received)
    }

    /// Waits until a batch may leave and there are checks that somebody waits for, and takes as many as it holds.
    /// It is under way until what is returned is dropped.
    pub(crate) async fn take(&self, places: &mut Vec<Place<Q, A>>) -> UnderWay<'_> {
        let mut waiting = self.waiting.lock().await;
        let due = waiting.left + self.pause;
        while self.under_way.load(Ordering::SeqCst) >= FEW && Instant::now() < due {
            // An answer that came before this is kept for it.
            tokio::select! {
                biased;
                () = self.answered.notified() => {}
                () = sleep_until(due) => {}
            }
        }
        while places.is_empty() {
            waiting.places.recv_many(places, BATCH).await;
            places.retain(|place| !place.answer.is_closed());
        }
        waiting.left = Instant::now();
        self.under_way.fetch_add(1, Ordering::SeqCst);
        UnderWay { under_way: &self.under_way, answered: &self.answered }
    }
}

/// There is no room in the queue.
pub(crate) struct Full;

/// A batch that is under way.
pub(crate) struct UnderWay<'a> {
    under_way: &'a AtomicUsize,
    answered: &'a Notify,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.under_way.fetch_sub(1, Ordering::SeqCst);
        self.answered.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use ::redis::{Pipeline, RedisResult, Value};

    use super::*;
    use crate::store::BoxFuture;
    use crate::store::redis::link::connection::tests::connection;
    use crate::store::redis::link::dial::Wire;

    struct Unused;

    impl Wire for Unused {
        fn send<'a>(&'a self, _: &'a Pipeline) -> BoxFuture<'a, RedisResult<Vec<Value>>> {
            Box::pin(std::future::pending())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_gone_is_not_sent_and_a_batch_holds_no_more_than_its_limit() {
        let live = connection(Arc::new(Unused));
        let queue = Queue::<u8, ()>::new(BATCH * 2, Duration::from_millis(25));
        let enter = |byte| queue.enter(Arc::clone(&live), byte).ok();
        let waiting: Vec<_> = (0..BATCH + 1).map(|_| enter(1).unwrap()).collect();
        drop(enter(2));
        let stays = enter(3);
        let mut places = Vec::new();
        let _first = queue.take(&mut places).await;
        assert_eq!(places.len(), BATCH);
        places.clear();
        let _second = queue.take(&mut places).await;
        let asked: Vec<_> = places.iter().map(|place| place.asked).collect();
        assert_eq!(asked, [1, 3]);
        drop((waiting, stays));
    }
}
