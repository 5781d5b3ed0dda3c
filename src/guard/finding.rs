//! Records that the guard held absent, on their way to the application.

use std::collections::VecDeque;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::filter::Generation;
use crate::id::Id;
use crate::verdict::Proof;

/// Findings kept until the application takes them.
const ROOM: usize = 1_024;

/// A record that exists and that the guard held absent, as a request showed that was let through as a sample.
///
/// The id has been inserted meanwhile, if the store could do that. It comes again only if that failed, or if a
/// rebuild has put a filter live that lacks it: then the source misses it.
///
/// ```
/// use std::convert::Infallible;
///
/// use bloom_guard::{BloomGuard, BoxError, Mode, PathPattern, Proof, Schedule, from_iter};
/// use http::{Request, Response};
/// use tower::{Layer, ServiceExt};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// // The source leaves user 7 out.
/// let guard = BloomGuard::builder("users", PathPattern::<u64>::new("/users/{id}")?)
///     .in_process()
///     .rebuild(Schedule::manual(), from_iter(|| 0..7_u64))
///     .build()?;
/// guard.ready().await;
/// guard.set_mode(Mode::Shadow); // every refusal is let through, not one a second
///
/// // A task of the application's, for as long as it runs:
/// let handle = guard.clone();
/// let first = tokio::spawn(async move {
///     loop {
///         let finding = handle.next_finding().await;
///         let id = String::from_utf8_lossy(finding.id.as_bytes()).into_owned();
///         eprintln!("user {id} was not in generation {:?}", finding.generation);
/// #       return (id, finding.proof);
///     }
/// });
///
/// let handler = tower::service_fn(|_: Request<String>| async {
///     Ok::<_, Infallible>(Response::new("user 7 is here".to_owned()))
/// });
/// guard.layer(handler).oneshot(Request::get("/users/7").body(String::new())?).await?;
/// assert_eq!(first.await?, ("7".to_owned(), Proof::Filter));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The record's id, in canonical form. `Debug` shows its length only.
    pub id: Id,
    /// The filter that was live when the record was held absent.
    pub generation: Option<Generation>,
    /// What was taken as a proof that there is no such record.
    pub proof: Proof,
    /// How many findings were dropped before this one, because the application had not taken them: the
    /// last 1,024 are kept.
    pub dropped_before: u64,
}

#[derive(Default)]
pub(crate) struct Untaken {
    queue: Mutex<VecDeque<Finding>>,
    arrived: Notify,
}

impl Untaken {
    /// Adds a finding. If there is no room, the oldest one is dropped, and the next oldest says so.
    pub(super) fn push(&self, id: Id, generation: Option<Generation>, proof: Proof) {
        let mut queue = self.queue.lock();
        if queue.len() >= ROOM
            && let Some(oldest) = queue.pop_front()
            && let Some(next) = queue.front_mut()
        {
            next.dropped_before = oldest.dropped_before + 1;
        }
        queue.push_back(Finding { id, generation, proof, dropped_before: 0 });
        self.arrived.notify_one();
    }

    pub(crate) async fn next(&self) -> Finding {
        loop {
            if let Some(finding) = self.take() {
                return finding;
            }
            self.arrived.notified().await;
        }
    }

    fn take(&self) -> Option<Finding> {
        let mut queue = self.queue.lock();
        let finding = queue.pop_front()?;
        // A wake-up is for one waiter, and the notifications of several findings may have become one.
        if !queue.is_empty() {
            self.arrived.notify_one();
        }
        Some(finding)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(untaken: &Untaken, n: usize) {
        untaken.push(Id::display(&n).unwrap(), Generation::new(5), Proof::Filter);
    }

    #[tokio::test]
    async fn the_oldest_are_dropped_and_counted() {
        let untaken = Untaken::default();
        for n in 0..ROOM + 3 {
            push(&untaken, n);
        }
        for n in 3..ROOM + 3 {
            let finding = untaken.next().await;
            assert_eq!(finding.id, Id::display(&n).unwrap());
            assert_eq!(finding.dropped_before, if n == 3 { 3 } else { 0 });
        }
        assert!(untaken.take().is_none());
    }

    #[tokio::test]
    async fn all_that_wait_get_one_each() {
        let untaken = Untaken::default();
        let both = async { tokio::join!(untaken.next(), untaken.next()) };
        let pushes = async {
            tokio::task::yield_now().await;
            push(&untaken, 1);
            push(&untaken, 2);
        };
        let ((first, second), ()) = tokio::join!(both, pushes);
        assert_ne!(first.id, second.id);
        assert!(untaken.take().is_none());
    }
}
