//! Tasks that run for as long as the guard does.

use std::future::Future;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;

/// How long a task that panicked rests.
const REST: Duration = Duration::from_secs(1);

/// Runs a task, and again if it panics: a source that panics once, say, must not end all rebuilds. The
/// task ends when this future is dropped.
pub(crate) async fn persist<F>(name: &'static str, task: impl Fn() -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    loop {
        let mut alone = JoinSet::new();
        alone.spawn(task());
        match alone.join_next().await {
            Some(Err(error)) if error.is_panic() => {
                tracing::error!(task = name, %error, "a background task panicked and starts again");
                sleep(REST).await;
            }
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_starts_again() {
        let runs = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&runs);
        persist("test", move || {
            let run = counted.fetch_add(1, Ordering::SeqCst);
            async move { assert!(run == 2, "the first two runs panic") }
        })
        .await;
        assert_eq!(runs.load(Ordering::SeqCst), 3);
    }
}
