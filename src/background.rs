//! Tasks that run for as long as the guard does.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tracing::{Instrument, Span};

const REST: Duration = Duration::from_secs(1);

/// Tasks that start once, start again if the runtime they ran in is gone, and end with this set.
#[derive(Default)]
pub(crate) struct Background {
    tasks: Mutex<JoinSet<()>>,
    running: Arc<AtomicBool>,
}

impl Background {
    /// Starts what `spawn` puts into the set, unless it runs already or there is no Tokio runtime here.
    pub(crate) fn start(&self, spawn: impl FnOnce(&mut JoinSet<()>)) {
        if self.running.load(Ordering::Acquire) {
            return;
        }
        let Ok(_runtime) = Handle::try_current() else { return };
        let mut tasks = self.tasks.lock();
        if self.running.swap(true, Ordering::AcqRel) {
            return;
        }
        *tasks = JoinSet::new();
        spawn(&mut tasks);
        let witness = Witness(Arc::clone(&self.running));
        tasks.spawn(async move {
            let _dropped_with_the_runtime = witness;
            std::future::pending::<()>().await;
        });
    }
}

/// Lives in a task, and so no longer than its runtime.
struct Witness(Arc<AtomicBool>);

impl Drop for Witness {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Returns a span in which every line of the log carries the filter's name.
pub(crate) fn span(filter: &str) -> Span {
    // Of the highest level, as a span that is filtered out names nothing.
    tracing::error_span!("bloom_guard", filter)
}

/// Spawns a background task, which is run again if it panics: a bug that shows once must not end it for good.
pub(crate) fn persist<T, F>(
    tasks: &mut JoinSet<()>,
    filter: &Arc<str>,
    name: &'static str,
    with: &Arc<T>,
    task: impl Fn(Arc<T>) -> F + Send + 'static,
) where
    T: Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let (filter, with) = (Arc::clone(filter), Arc::clone(with));
    tasks.spawn(async move {
        loop {
            let mut alone = JoinSet::new();
            let span = span(&filter);
            alone.spawn(task(Arc::clone(&with)).instrument(span.clone()));
            match alone.join_next().await {
                Some(Err(error)) if error.is_panic() => {
                    span.in_scope(|| {
                        tracing::error!(task = name, %error, "a background task panicked and starts again");
                    });
                    sleep(REST).await;
                }
                _ => return,
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_starts_again() {
        let runs = Arc::new(AtomicU32::new(0));
        let mut tasks = JoinSet::new();
        persist(&mut tasks, &"users".into(), "test", &runs, |runs| async move {
            let run = runs.fetch_add(1, Ordering::SeqCst);
            assert!(run == 2, "the first two runs panic");
        });
        tasks.join_all().await;
        assert_eq!(runs.load(Ordering::SeqCst), 3);
    }

    #[test]
    fn tasks_start_once_in_a_runtime_and_again_in_the_next() {
        let background = Background::default();
        let starts = AtomicU32::new(0);
        let start = || {
            background.start(|_| {
                starts.fetch_add(1, Ordering::SeqCst);
            });
        };
        start();
        assert_eq!(starts.load(Ordering::SeqCst), 0, "there is no runtime yet");
        for expected in 1..=2 {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async {
                start();
                start();
            });
            assert_eq!(starts.load(Ordering::SeqCst), expected);
        }
    }
}
