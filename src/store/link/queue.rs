//! Checks that wait to be sent.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex as Sync;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::sync::{Mutex, Notify, oneshot};
use tokio::time::{Instant, sleep_until};

use crate::store::Lookup;
use crate::verdict::Doubt;

/// The most checks that may wait: further ones are overload.
pub(crate) const ROOM: usize = 4_096;
/// The most batches that may be under way.
pub(crate) const BATCHES: usize = 16;
/// The most checks in a batch. A full one leaves at once: more together would not be cheaper by the id, and Redis and
/// this process would wait for each other.
const BATCH: usize = 128;
/// The most in a batch for each shard, whose header has to be read, and for all shards.
const A_SHARD: usize = 12;
const MOST: usize = 2_048;
/// With fewer batches under way, one that is not full leaves at once, too.
const FEW: usize = 2;
/// Where a fence answers, a batch costs about the same whatever it holds. With none under way it leaves when half as many checks wait
/// as the last batch had, but within this range; or with the first check that comes after the gap. Tokio's timers, which are as coarse
/// as a millisecond, end the wait if no further check comes.
const ENOUGH: RangeInclusive<usize> = 12..=32;
const GAP: Duration = Duration::from_micros(500);

/// The checks that no batch has taken yet, in the order in which they came.
pub(crate) struct Queue<Q> {
    checks: Sender<PendingCheck<Q>>,
    /// Locked by the task that fills the next batch.
    inbox: Mutex<Receiver<PendingCheck<Q>>>,
    leaving: Arc<Leaving>,
    /// How long after the last batch the next leaves, full or not, while others are under way.
    pause: Duration,
    batch: usize,
    /// How many checks have to come, or after which moment one has to, before the waiting batch looks again.
    wanted: Sync<Option<(usize, Instant)>>,
}

struct Leaving {
    /// When the last batch left, and how many checks it had.
    left: Sync<(Instant, usize)>,
    under_way: AtomicUsize,
    /// A batch was answered, or there are enough checks for a full one.
    may_leave: Notify,
}

pub(crate) struct PendingCheck<Q> {
    /// The number of the session that may answer it.
    pub(crate) session: u64,
    pub(crate) asked: Q,
    /// If its receiver is gone, the check is not sent.
    pub(crate) answer: oneshot::Sender<Lookup>,
}

impl<Q> Queue<Q> {
    pub(crate) fn new(deadline: Duration, shards: u32) -> Self {
        let (sender, checks) = mpsc::channel(ROOM);
        Self {
            checks: sender,
            inbox: Mutex::new(checks),
            leaving: Arc::new(Leaving {
                left: Sync::new((Instant::now(), 0)),
                under_way: AtomicUsize::new(0),
                may_leave: Notify::new(),
            }),
            pause: deadline / BATCHES as u32,
            batch: (shards as usize * A_SHARD).clamp(BATCH, MOST),
            wanted: Sync::default(),
        }
    }

    /// Lets a check leave by itself, if no other waits or is under way; where fences answer, if no batch has left lately either.
    pub(crate) fn alone(&self, by_fences: impl Fn() -> bool) -> Option<UnderWay> {
        let under_way = &self.leaving.under_way;
        let none = under_way.load(Ordering::SeqCst) == 0
            && self.checks.capacity() == self.checks.max_capacity()
            && self.wanted.lock().is_none()
            && !(by_fences() && self.leaving.left.lock().0.elapsed() < GAP)
            && under_way.compare_exchange(0, 1, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        none.then(|| UnderWay(Arc::clone(&self.leaving)))
    }

    pub(crate) fn enter(&self, check: PendingCheck<Q>) -> Result<(), Doubt> {
        self.checks.try_send(check).map_err(|_| Doubt::Overloaded)?;
        let waiting = self.checks.max_capacity() - self.checks.capacity();
        let is_wanted =
            |wanted: &mut (usize, Instant)| waiting >= wanted.0 || Instant::now() >= wanted.1;
        if self.wanted.lock().take_if(is_wanted).is_some() {
            self.leaving.may_leave.notify_one();
        }
        Ok(())
    }

    /// Waits until a batch may leave, and fills it with checks that somebody still waits for: with more where fences answer. It is
    /// under way until the guard is dropped.
    pub(crate) async fn take(
        &self,
        checks: &mut Vec<PendingCheck<Q>>,
        by_fences: impl Fn() -> bool,
    ) -> UnderWay {
        let mut inbox = self.inbox.lock().await;
        loop {
            if checks.is_empty() {
                checks.extend(inbox.recv().await);
            }
            let (left, answered) = *self.leaving.left.lock();
            let (few, enough, gap, batch) = match by_fences() {
                true => (
                    1,
                    (answered / 2).clamp(*ENOUGH.start(), *ENOUGH.end()),
                    GAP.min(self.pause),
                    MOST,
                ),
                false => (FEW, 1, Duration::ZERO, self.batch),
            };
            let is_free = self.leaving.under_way.load(Ordering::SeqCst) < few;
            let (enough, due) = match is_free {
                true => (enough, left + gap),
                false => (batch, left + self.pause),
            };
            *self.wanted.lock() = Some((enough - checks.len().min(enough), due));
            // A check that came before that is counted here; one that comes later notifies.
            if checks.len() + inbox.len() >= enough || Instant::now() >= due {
                while checks.len() < batch
                    && let Ok(check) = inbox.try_recv()
                {
                    checks.push(check);
                }
                checks.retain(|check| !check.answer.is_closed());
                *self.wanted.lock() = None;
                if !checks.is_empty() {
                    break;
                }
                continue;
            }
            tokio::select! {
                biased;
                () = self.leaving.may_leave.notified() => {}
                () = sleep_until(due) => {}
            }
        }
        *self.leaving.left.lock() = (Instant::now(), checks.len());
        self.leaving.under_way.fetch_add(1, Ordering::SeqCst);
        UnderWay(Arc::clone(&self.leaving))
    }
}

pub(crate) struct UnderWay(Arc<Leaving>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::SeqCst);
        self.0.may_leave.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    /// Puts a check into the queue.
    fn enter(queue: &Queue<u8>, asked: u8) -> oneshot::Receiver<Lookup> {
        let (answer, received) = oneshot::channel();
        let check = PendingCheck { session: 1, asked, answer };
        assert!(queue.enter(check).is_ok(), "there is room");
        received
    }

    #[tokio::test(start_paused = true)]
    async fn a_check_leaves_by_itself_when_there_is_no_other() {
        let queue = Queue::<u8>::new(Duration::from_millis(25), 1);
        let first = queue.alone(|| false);
        assert!(first.is_some());
        assert!(queue.alone(|| false).is_none(), "one is under way");
        drop(first);
        let _waiting = enter(&queue, 1);
        assert!(queue.alone(|| false).is_none(), "one waits");
        let mut checks = Vec::new();
        drop(queue.take(&mut checks, || false).await);
        assert!(queue.alone(|| false).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_batch_waits_for_no_other() {
        let queue = Queue::<u8>::new(Duration::from_millis(32), 1);
        let enter = || enter(&queue, 1);
        let mut waiting: Vec<_> = (0..BATCH * 2).map(|_| enter()).collect();
        let (mut first, mut second, mut third) = (Vec::new(), Vec::new(), Vec::new());
        let _under_way =
            (queue.take(&mut first, || false).await, queue.take(&mut second, || false).await);
        let begun = Instant::now();
        let ((), _third) = tokio::join!(
            async { waiting.extend((0..BATCH).map(|_| enter())) },
            queue.take(&mut third, || false),
        );
        assert_eq!((third.len(), begun.elapsed()), (BATCH, Duration::ZERO));
        waiting.push(enter());
        first.clear();
        let _fourth = queue.take(&mut first, || false).await;
        assert_eq!(
            begun.elapsed(),
            queue.pause,
            "a batch that is not full waits for an answer, or for the pause"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_fence_waits_for_more_ids_but_not_for_long() {
        let queue = Queue::<u8>::new(Duration::from_millis(32), 1);
        let enter = || enter(&queue, 1);
        let (mut checks, mut waiting) = (Vec::new(), Vec::new());
        let few = *ENOUGH.start();
        tokio::time::advance(GAP).await;
        // Tokio's timers are coarser than the gap.
        let timer = Duration::from_millis(1);
        for (ids, waits) in [(1, Duration::ZERO), (few, Duration::ZERO), (few - 1, timer)] {
            let begun = Instant::now();
            let ((), under_way) = tokio::join!(
                async { waiting.extend((0..ids).map(|_| enter())) },
                queue.take(&mut checks, || true),
            );
            drop(under_way);
            assert_eq!((checks.len(), begun.elapsed()), (ids, waits));
            checks.clear();
        }
        // The first that comes after the gap is not left to the timer.
        let begun = Instant::now();
        let ((), under_way) = tokio::join!(
            async {
                waiting.push(enter());
                // The batch waits by then.
                tokio::task::yield_now().await;
                tokio::time::advance(GAP).await;
                waiting.push(enter());
            },
            queue.take(&mut checks, || true),
        );
        drop(under_way);
        assert_eq!((checks.len(), begun.elapsed()), (2, GAP));
        checks.clear();
        // While one is under way, others leave by the pause.
        waiting.extend((0..few).map(|_| enter()));
        let (begun, _under_way) = (Instant::now(), queue.take(&mut checks, || true).await);
        waiting.push(enter());
        checks.clear();
        let _second = queue.take(&mut checks, || true).await;
        assert_eq!((checks.len(), begun.elapsed()), (1, queue.pause));
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_gone_is_not_sent_and_a_batch_holds_no_more_than_its_limit() {
        let queue = Queue::<u8>::new(Duration::from_millis(25), 1);
        let enter = |byte| enter(&queue, byte);
        let waiting: Vec<_> = (0..BATCH + 1).map(|_| enter(1)).collect();
        drop(enter(2));
        let stays = enter(3);
        let mut checks = Vec::new();
        let _first = queue.take(&mut checks, || false).await;
        assert_eq!(checks.len(), BATCH);
        checks.clear();
        let _second = queue.take(&mut checks, || false).await;
        let asked: Vec<_> = checks.iter().map(|check| check.asked).collect();
        assert_eq!(asked, [1, 3]);
        drop((waiting, stays));
    }
}
