//! Who waits for a fence, and when it leaves.

use std::future::Future;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Notify, SetOnce};
use tokio::time::{Instant, sleep_until};

use crate::id::Digest;
use crate::store::link::queue::UnderWay;
use crate::store::redis::copy::FilterCopy;
use crate::verdict::Doubt;

/// A fence costs about the same however many ids wait for it. With none under way it leaves when half as many wait as waited for the
/// last one, but within this range; or with the first that comes after the gap. Tokio's timers, which are as coarse as a millisecond,
/// end the wait if no further one comes.
pub(super) const ENOUGH: RangeInclusive<usize> = 12..=32;
pub(super) const GAP: Duration = Duration::from_micros(500);

/// The fences of a session.
pub(crate) struct Fences {
    /// Where the session was made.
    runtime: Handle,
    shards: usize,
    gathering: Mutex<Gathering>,
    /// A fence has ended, or enough ids wait for the next.
    may_leave: Notify,
}

struct Gathering {
    next: Option<Next>,
    under_way: usize,
    /// When the last fence left, and how many ids waited for it.
    left: (Instant, usize),
}

/// The fence that ids may join: it was not sent yet.
pub(super) struct Next {
    pub(super) fence: Arc<Fence>,
    pub(super) ids: usize,
    /// How many ids of each shard wait for it, and the last of them.
    pub(super) of_shards: Box<[Option<(u64, Digest)>]>,
    /// With how many ids, or from which moment on, it looks whether it may leave.
    wakes: Option<(usize, Instant)>,
}

/// What those wait for who have joined a fence: the copies that hold all inserts before it was sent, by the number of the shard.
#[derive(Default)]
pub(super) struct Fence(pub(super) SetOnce<Box<[Option<Arc<FilterCopy>>]>>);

/// How an id is asked for that the copy lacks.
pub(super) enum Joined {
    /// By itself, which is cheaper where no other waits.
    Alone(UnderWay),
    /// Somebody has to lead the fence that the first one joins.
    Fence { fence: Arc<Fence>, is_first: bool },
}

impl Fences {
    /// # Panics
    ///
    /// Outside of a Tokio runtime.
    pub(crate) fn new(shards: usize) -> Self {
        let gathering = Gathering { next: None, under_way: 0, left: (Instant::now(), 0) };
        let runtime = Handle::current();
        Self { runtime, shards, gathering: Mutex::new(gathering), may_leave: Notify::new() }
    }

    /// Has an id of a shard wait for the next fence, if there is room; or lets it go by itself, if it is `alone` and no fence was sent lately.
    pub(super) fn join(
        &self,
        shard: usize,
        id: Digest,
        room: usize,
        at: Instant,
        alone: impl FnOnce() -> Option<UnderWay>,
    ) -> Result<Joined, Doubt> {
        let mut gathering = self.gathering.lock();
        let Gathering { next, under_way, left } = &mut *gathering;
        let is_first = next.is_none();
        if is_first
            && *under_way == 0
            && at >= left.0 + GAP
            && let Some(alone) = alone()
        {
            return Ok(Joined::Alone(alone));
        }
        let next = next.get_or_insert_with(|| Next {
            fence: Arc::default(),
            ids: 0,
            of_shards: vec![None; self.shards].into(),
            wakes: None,
        });
        if next.ids >= room {
            return Err(Doubt::Overloaded);
        }
        next.ids += 1;
        let before = next.of_shards[shard].map_or(0, |(ids, _)| ids);
        next.of_shards[shard] = Some((before + 1, id));
        if next.wakes.take_if(|(enough, due)| next.ids >= *enough || at >= *due).is_some() {
            self.may_leave.notify_one();
        }
        let fence = Arc::clone(&next.fence);
        Ok(Joined::Fence { fence, is_first })
    }

    /// Runs a task where the session was made.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(task);
    }

    /// Notes the end of a fence; of one that has not left, that nobody may join it any more.
    pub(super) fn end(&self, has_left: bool) {
        let mut gathering = self.gathering.lock();
        if has_left {
            gathering.under_way -= 1;
        } else {
            gathering.next = None;
        }
        drop(gathering);
        self.may_leave.notify_one();
    }

    /// Waits until the next fence may leave, and takes it: nobody joins it any more.
    pub(super) async fn leave(&self, pause: Duration) -> Option<Next> {
        loop {
            let due = {
                let mut gathering = self.gathering.lock();
                let (left, ids) = gathering.left;
                let (enough, due) = match gathering.under_way {
                    0 => ((ids / 2).clamp(*ENOUGH.start(), *ENOUGH.end()), left + GAP.min(pause)),
                    _ => (usize::MAX, left + pause),
                };
                let may_leave = |next: &mut Next| next.ids >= enough || Instant::now() >= due;
                if let Some(next) = gathering.next.take_if(may_leave) {
                    gathering.left = (Instant::now(), next.ids);
                    gathering.under_way += 1;
                    return Some(next);
                }
                gathering.next.as_mut()?.wakes = Some((enough, due));
                due
            };
            tokio::select! {
                biased;
                () = self.may_leave.notified() => {}
                () = sleep_until(due) => {}
            }
        }
    }
}
