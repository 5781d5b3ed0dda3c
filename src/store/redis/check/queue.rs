//! Checks that wait to be sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::sync::{Mutex, Notify, oneshot};
use tokio::time::{Instant, sleep_until};

use crate::filter::Generation;
use crate::id::Digest;
use crate::nulls::scope::Scope;
use crate::store::redis::link::connection::Connection;
use crate::verdict::{Doubt, Verdict};

/// So many batches may be under way.
pub(crate) const BATCHES: usize = 16;
/// The most checks in a batch. So many leave at once: more together would not be cheaper by the id, and Redis and
/// this process would wait for each other.
pub(super) const BATCH: usize = 128;
/// With less under way, a batch that is not full leaves at once too.
const FEW: usize = 2;

/// The checks that no batch has taken yet, in the order in which they came.
pub(crate) struct Queue {
    places: Sender<Place>,
    waiting: Mutex<Waiting>,
    under_way: AtomicUsize,
    /// A batch was answered, or there are enough for a full one.
    may_leave: Notify,
    /// How long one that is not full waits, while others are under way, after the one before.
    pause: Duration,
}

struct Waiting {
    places: Receiver<Place>,
    /// When the last batch left.
    left: Instant,
}

/// One check's place in the queue, and then in a batch.
pub(super) struct Place {
    /// The connection whose secret key the digest was made with.
    pub(super) live: Arc<Connection>,
    pub(super) digest: Digest,
    pub(super) answer: oneshot::Sender<Result<Found, Doubt>>,
}

/// What is known of an id, and by which filter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub(super) verdict: Verdict,
    /// For which requests it holds, where a null is the proof.
    pub(super) scope: Scope,
    pub(super) generation: Generation,
}

impl Queue {
    /// Returns a queue with room for so many, which have to be answered within a deadline.
    pub(crate) fn new(room: usize, deadline: Duration) -> Self {
        let (sender, places) = mpsc::channel(room);
        Self {
            places: sender,
            waiting: Mutex::new(Waiting { places, left: Instant::now() }),
            under_way: AtomicUsize::new(0),
            may_leave: Notify::new(),
            pause: deadline / BATCHES as u32,
        }
    }

    /// Lets a check leave by itself, if none is in the queue and none under way.
    pub(super) fn alone(this: &Arc<Self>) -> Option<UnderWay> {
        let none = this.places.capacity() == this.places.max_capacity()
            && this.under_way.compare_exchange(0, 1, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        none.then(|| UnderWay(Arc::clone(this)))
    }

    /// Puts a check into the queue. It is not sent any more when nobody waits for its answer.
    ///
    /// # Errors
    ///
    /// There is no room.
    pub(super) fn enter(&self, place: Place) -> Result<(), Full> {
        self.places.try_send(place).map_err(|_| Full)?;
        if self.places.max_capacity() - self.places.capacity() >= BATCH {
            self.may_leave.notify_one();
        }
        Ok(())
    }

    /// Waits until a batch may leave and there are checks that somebody waits for, and takes as many as it holds.
    /// It is under way until what is returned is dropped.
    pub(super) async fn take(this: &Arc<Self>, places: &mut Vec<Place>) -> UnderWay {
        let mut waiting = this.waiting.lock().await;
        let due = waiting.left + this.pause;
        while this.under_way.load(Ordering::SeqCst) >= FEW
            && waiting.places.len() < BATCH
            && Instant::now() < due
        {
            // What came before this is kept for it.
            tokio::select! {
                biased;
                () = this.may_leave.notified() => {}
                () = sleep_until(due) => {}
            }
        }
        while places.is_empty() {
            waiting.places.recv_many(places, BATCH).await;
            places.retain(|place| !place.answer.is_closed());
        }
        waiting.left = Instant::now();
        this.under_way.fetch_add(1, Ordering::SeqCst);
        UnderWay(Arc::clone(this))
    }
}

/// There is no room in the queue.
pub(super) struct Full;

/// A batch that is under way.
pub(super) struct UnderWay(Arc<Queue>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::SeqCst);
        self.0.may_leave.notify_one();
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

    type Answer = Result<Found, Doubt>;

    /// Puts a check of an id into the queue.
    fn enter(queue: &Queue, live: &Arc<Connection>, id: u8) -> oneshot::Receiver<Answer> {
        let (answer, received) = oneshot::channel();
        let place = Place { live: Arc::clone(live), digest: Digest::from_bytes([id; 16]), answer };
        assert!(queue.enter(place).is_ok(), "there is room");
        received
    }

    #[tokio::test(start_paused = true)]
    async fn a_check_leaves_by_itself_when_there_is_no_other() {
        let live = connection(Arc::new(Unused));
        let queue = Arc::new(Queue::new(BATCH, Duration::from_millis(25)));
        let first = Queue::alone(&queue);
        assert!(first.is_some());
        assert!(Queue::alone(&queue).is_none(), "one is under way");
        drop(first);
        let _waiting = enter(&queue, &live, 1);
        assert!(Queue::alone(&queue).is_none(), "one waits");
        let mut places = Vec::new();
        drop(Queue::take(&queue, &mut places).await);
        assert!(Queue::alone(&queue).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_batch_waits_for_no_other() {
        let live = connection(Arc::new(Unused));
        let queue = Arc::new(Queue::new(BATCH * 4, Duration::from_millis(32)));
        let enter = || enter(&queue, &live, 1);
        let mut waiting: Vec<_> = (0..BATCH * 2).map(|_| enter()).collect();
        let (mut first, mut second, mut third) = (Vec::new(), Vec::new(), Vec::new());
        let _under_way =
            (Queue::take(&queue, &mut first).await, Queue::take(&queue, &mut second).await);
        let begun = Instant::now();
        let ((), _third) = tokio::join!(
            async { waiting.extend((0..BATCH).map(|_| enter())) },
            Queue::take(&queue, &mut third),
        );
        assert_eq!((third.len(), begun.elapsed()), (BATCH, Duration::ZERO));
        waiting.push(enter());
        let _fourth = Queue::take(&queue, &mut first).await;
        assert_eq!(begun.elapsed(), queue.pause, "who is not full waits for an answer, or so long");
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_gone_is_not_sent_and_a_batch_holds_no_more_than_its_limit() {
        let live = connection(Arc::new(Unused));
        let queue = Arc::new(Queue::new(BATCH * 2, Duration::from_millis(25)));
        let enter = |byte| enter(&queue, &live, byte);
        let waiting: Vec<_> = (0..BATCH + 1).map(|_| enter(1)).collect();
        drop(enter(2));
        let stays = enter(3);
        let mut places = Vec::new();
        let _first = Queue::take(&queue, &mut places).await;
        assert_eq!(places.len(), BATCH);
        places.clear();
        let _second = Queue::take(&queue, &mut places).await;
        let digests: Vec<_> = places.iter().map(|place| place.digest.as_bytes()[0]).collect();
        assert_eq!(digests, [1, 3]);
        drop((waiting, stays));
    }
}
