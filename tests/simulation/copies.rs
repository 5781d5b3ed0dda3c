//! What copies of the filter let pass, and what they must not.
//!
//! | rule | broken by |
//! |---|---|
//! | what a copy let pass in vain, or was removed, it lets pass no more until the id is inserted or found there | one that passes again by the same copy |
//! | while a filter is known to be live, only a copy of that one answers unasked | one that passes by another |
//! | when all has healed, each row passes unasked, but for what was missed there | one that does not |

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use crate::client;
use crate::mode::Mode;
use crate::store::Copied;
use crate::{BloomGuard, Generation, Id};
use crate::{database, net, oracle, shards};

/// How long a process takes to copy the live filter at the most: the longest spread, and a few tries.
const COPIED: Duration = Duration::from_secs(400);
/// How often it is looked whether it has, less often than anything happens to a copy.
const LOOK: Duration = Duration::from_millis(50);

thread_local! {
    static PASSED: RefCell<Passed> = RefCell::default();
}

/// An id as one process is asked for it.
type Asked = (usize, u64);

/// A copy: what it is of, and when it began to be read. Of a shard's it is known when the build of its filter began.
type CopyId = (Option<Generation>, Instant);

#[derive(Default)]
struct Passed {
    /// What each copy let pass in vain since the id was last inserted or found.
    suspects: BTreeMap<Asked, Vec<CopyId>>,
    /// Ids that were asked for in vain, or removed, and neither inserted nor found since.
    missed: BTreeSet<Asked>,
    /// When it was last found, in the order of what happens.
    found: BTreeMap<Asked, u64>,
    happened: u64,
}

fn with<T>(see: impl FnOnce(&mut Passed) -> T) -> T {
    PASSED.with_borrow_mut(see)
}

/// Begins a run.
pub(crate) fn begin() {
    PASSED.take();
}

/// A process starts. It knows nothing of what the one before has learnt, and may copy the same filter again.
pub(crate) fn started(instance: usize) {
    with(|passed| passed.suspects.retain(|(of, _), _| *of != instance));
}

/// One request, and whether it passes by a copy.
pub(crate) struct Request {
    guard: BloomGuard,
    asked: Asked,
    copy: Option<CopyId>,
    /// Whether the copy let the id pass in vain before this request began.
    is_suspect: bool,
    /// A guard that stands aside learns nothing.
    is_watched: bool,
    began: u64,
    has_passed: bool,
}

impl Request {
    /// A request is about to be sent.
    pub(crate) fn begin(guard: &BloomGuard, instance: usize, id: u64) -> Self {
        let (asked, copy) = ((instance, id), copy(guard, id));
        let suspects = with(|passed| passed.suspects.get(&asked).cloned()).unwrap_or_default();
        Self {
            guard: guard.clone(),
            asked,
            copy,
            is_suspect: copy.is_some_and(|copy| suspects.contains(&copy)),
            is_watched: guard.mode() != Mode::Off,
            began: with(Passed::tick),
            has_passed: false,
        }
    }

    /// Sends it: nobody is asked before this returns. Returns whether nobody is asked at all.
    pub(crate) fn send<T>(&mut self, send: impl FnOnce() -> T) -> (T, bool) {
        let found = self.guard.stats().admitted_found;
        let state = self.guard.state();
        let is_old = shards::are_many()
            && state.is_ready()
            && copied(&self.guard, self.asked.1).is_some_and(|copied| !copied.of_live);
        let live = state.live.ok().map(|live| live.generation);
        let sent = self.during(send);
        if self.has_passed
            && let (Some((Some(of), _)), Some(live)) = (self.copy, live)
            && of != live
        {
            self.violated(&format!("passed by a copy of {of} while {live} was live"));
        }
        if self.has_passed && is_old {
            self.violated("passed by a copy while another filter was live");
        }
        let is_unasked = self.has_passed || self.guard.stats().admitted_found > found;
        (sent, is_unasked)
    }

    /// Waits for its answer.
    pub(crate) async fn answer<F: Future>(&mut self, answer: F) -> F::Output {
        let mut answer = pin!(answer);
        poll_fn(|cx| self.during(|| answer.as_mut().poll(cx))).await
    }

    /// Runs a part of it.
    fn during<T>(&mut self, run: impl FnOnce() -> T) -> T {
        let before = self.guard.stats().admitted_copied;
        let ran = run();
        if self.guard.stats().admitted_copied > before {
            self.has_passed = true;
            oracle::note(|findings| findings.copied += 1);
            let by = copy(&self.guard, self.asked.1);
            let suspects = with(|passed| passed.suspects.get(&self.asked).cloned());
            let is_still = |copy| suspects.is_some_and(|suspects| suspects.contains(&copy));
            if self.is_suspect && by == self.copy && by.is_some_and(is_still) {
                self.violated("was suspect, and passed again by the copy");
            }
            self.copy = by;
        }
        ran
    }

    fn violated(&self, how: &str) {
        let (instance, id) = self.asked;
        oracle::violated(format!("{} ms: instance {instance}: {id} {how}", net::now_ms()));
    }

    /// It has ended, and found the record or not.
    pub(crate) fn end(self, has_found: bool) {
        let asked = self.asked;
        with(|passed| match (has_found, self.copy) {
            (true, _) if self.is_watched => {
                passed.settle(asked);
                let now = passed.tick();
                passed.found.insert(asked, now);
            }
            (true, _) => {}
            (false, copy) => {
                passed.missed.insert(asked);
                // What was found meanwhile is no suspect for an answer that came late.
                let is_found = passed.found.get(&asked).is_some_and(|at| *at > self.began);
                let copy = copy.filter(|_| self.has_passed && !is_found);
                passed.suspects.entry(asked).or_default().extend(copy);
            }
        });
    }
}

impl Passed {
    fn tick(&mut self) -> u64 {
        self.happened += 1;
        self.happened
    }

    /// The id is suspect no more.
    fn settle(&mut self, asked: Asked) {
        self.suspects.remove(&asked);
        self.missed.remove(&asked);
    }
}

/// The copy that a process has; of a shard that the id is in, if it holds it.
fn copy(guard: &BloomGuard, id: u64) -> Option<CopyId> {
    if shards::are_many() {
        // The state tells of all together.
        return copied(guard, id).map(|copied| (None, copied.at));
    }
    guard.state().copy.map(|copy| (Some(copy.generation), Instant::now() - copy.age))
}

/// What a copy says of an id.
fn copied(guard: &BloomGuard, id: u64) -> Option<Copied> {
    guard.guard.store.copied(&Id::display(&id).ok()?).1
}

/// A process was told just now that these ids are about to exist.
pub(crate) fn inserted(instance: usize, ids: &[u64]) {
    with(|passed| ids.iter().for_each(|id| passed.settle((instance, *id))));
}

/// A process is told that a record was deleted.
pub(crate) fn removed(guard: &BloomGuard, instance: usize, id: u64) {
    let copy = copy(guard, id);
    with(|passed| {
        passed.missed.insert((instance, id));
        passed.suspects.entry((instance, id)).or_default().extend(copy);
    });
}

/// All has healed, and no request is under way: what exists passes unasked. One shard is looked at after the other: where
/// rebuilds follow each other closely, there may be no moment at which the copies of all are of what is live.
pub(crate) async fn end(guard: &BloomGuard, instance: usize) {
    for shard in shards::all() {
        end_of(guard, instance, shard).await;
    }
}

/// Whether the copy of a shard, in which these ids are, is of its live filter.
fn is_of_live(guard: &BloomGuard, ids: &[u64]) -> bool {
    let state = guard.state();
    if shards::are_many() {
        // The state tells of the oldest only. A copy of the live filter holds what exists, so any of these ids will do.
        let is_copied = |id: &u64| copied(guard, *id).is_some_and(|copied| copied.of_live);
        return state.is_ready() && (ids.is_empty() || ids.iter().any(is_copied));
    }
    let live = state.live.ok().map(|live| live.generation);
    live.is_some() && live == state.copy.map(|copy| copy.generation)
}

async fn end_of(guard: &BloomGuard, instance: usize, shard: u32) {
    // Since its filter's build began, perhaps. How long ago that was, a clock that jumps does not tell.
    let is_missed = |id: &u64| with(|passed| passed.missed.contains(&(instance, *id)));
    let rows = database::ids().into_iter().filter(|id| shards::of(*id) == shard);
    let ids: Vec<u64> = rows.filter(|id| !is_missed(id)).collect();
    let copied = timeout(COPIED, async {
        while !is_of_live(guard, &ids) {
            sleep(LOOK).await;
        }
    });
    if copied.await.is_err() {
        oracle::violated(format!("instance {instance} does not copy the live filter"));
        return;
    }
    let (rows, asked) = client::ask_for_rows(guard, instance, ids).await;
    oracle::note(|findings| findings.copied_rows += rows);
    if !asked.is_empty() {
        oracle::violated(format!(
            "{} ms: instance {instance} has a copy and asks for {} of {rows} rows, {:?} among them",
            net::now_ms(),
            asked.len(),
            asked.first(),
        ));
    }
}
