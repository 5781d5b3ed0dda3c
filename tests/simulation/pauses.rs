//! Processes that stand still: what they run is not polled, while timers run on.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

thread_local! {
    /// The last pause of each process that stood still: from when, and until when.
    static PAUSES: RefCell<BTreeMap<usize, (Instant, Instant)>> =
        const { RefCell::new(BTreeMap::new()) };
    /// The process that begins tasks just now.
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

/// Begins a run.
pub(crate) fn begin() {
    PAUSES.take();
}

/// Begins a process, which does not stand still.
pub(crate) fn start<T>(process: usize, start: impl FnOnce() -> T) -> T {
    PAUSES.with_borrow_mut(|pauses| pauses.remove(&process));
    CURRENT.set(process);
    start()
}

/// Returns the process that begins tasks just now.
pub(crate) fn current() -> usize {
    CURRENT.get()
}

/// Lets a process stand still for so long.
pub(crate) fn pause(process: usize, time: Duration) {
    let now = Instant::now();
    PAUSES.with_borrow_mut(|pauses| pauses.insert(process, (now, now + time)));
}

fn until(process: usize) -> Option<Instant> {
    let pause = PAUSES.with_borrow(|pauses| pauses.get(&process).copied());
    pause.map(|(_, until)| until).filter(|until| *until > Instant::now())
}

/// Whether a process stands still, and goes on doing so for longer than this.
pub(crate) fn lasts(process: usize, time: Duration) -> bool {
    until(process).is_some_and(|until| until > Instant::now() + time)
}

/// Whether a process has stood still since a moment.
pub(crate) fn since(process: usize, moment: Instant) -> bool {
    let pause = PAUSES.with_borrow(|pauses| pauses.get(&process).copied());
    pause.is_some_and(|(_, until)| until > moment)
}

/// How long a process takes to connect again after it stood still, and to say what it could not insert again.
const COMES_BACK: Duration = Duration::from_secs(2);

/// Waits until no process stands still any more, and all that did have come back.
pub(crate) async fn ended() {
    let last = PAUSES.with_borrow(|pauses| pauses.values().map(|(_, until)| *until).max());
    if let Some(last) = last.filter(|last| *last > Instant::now()) {
        sleep_until(last + COMES_BACK).await;
    }
}

/// Runs a task of a process.
pub(crate) async fn run<F: Future>(process: usize, task: F) -> F::Output {
    let mut task = pin!(task);
    let mut paused = pin!(None);
    poll_fn(|cx| {
        while let Some(until) = until(process) {
            paused.set(Some(sleep_until(until)));
            if let Some(sleep) = paused.as_mut().as_pin_mut()
                && sleep.poll(cx).is_pending()
            {
                return Poll::Pending;
            }
        }
        CURRENT.set(process);
        task.as_mut().poll(cx)
    })
    .await
}
