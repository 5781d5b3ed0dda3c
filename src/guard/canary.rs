//! What watches that refusals are right.
//!
//! A few refusals are let through. If one finds a record, its id is asked again, as the record may have been created just then. If the
//! guard still holds it absent, that is an alarm. So it is if the filter lacks several of the records that this process serves.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, mpsc};
use tokio::time::Instant;

use super::served::Served;
use crate::decide::bucket::Throttle;
use crate::filter::Generation;
use crate::id::Id;
use crate::observe::metrics::Metrics;
use crate::store::{Lookup, Store};
use crate::verdict::{Doubt, Proof, Verdict};

const WAITING: usize = 256;
/// The most findings that wait for the application to take them.
const UNTAKEN: usize = 1_024;
/// The least time between two alarms in the log.
pub(super) const ALARM_PAUSE: Duration = Duration::from_secs(1);

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
}

/// Records that were found although the guard held them absent.
pub(crate) struct Findings {
    store: Arc<Store>,
    metrics: Arc<Metrics>,
    pub(super) served: Served,
    waiting: Queue<Waiting>,
    untaken: Queue<Finding>,
    alarms: Throttle,
}

/// An id whose record a request has found.
enum Waiting {
    /// The guard held it absent.
    Refused(Id),
    /// Nobody was asked. The newest filter of that moment has to hold it.
    Served(Id, Generation),
}

impl Findings {
    pub(crate) fn new(store: Arc<Store>, metrics: Arc<Metrics>, audits: u32) -> Self {
        Self {
            store,
            metrics,
            served: Served::new(audits),
            waiting: Queue::new(WAITING),
            untaken: Queue::new(UNTAKEN),
            alarms: Throttle::new(ALARM_PAUSE),
        }
    }

    pub(crate) fn report(&self, id: Id) {
        self.push(&self.waiting, Waiting::Refused(id));
    }

    /// Notes that a request of this moment was served, and nobody was asked about its id.
    pub(crate) fn serves(&self, id: &Id, asked: Instant, now: Instant) {
        if let Some(newest) = self.served.note(asked, now) {
            self.push(&self.waiting, Waiting::Served(id.clone(), newest));
        }
    }

    fn push<T>(&self, queue: &Queue<T>, item: T) {
        if queue.sender.try_send(item).is_err() {
            self.metrics.findings_dropped.add(1);
        }
    }

    pub(crate) async fn look_into(&self) {
        loop {
            match self.waiting.next().await {
                Waiting::Refused(id) => self.judge(id).await,
                Waiting::Served(id, newest) => self.weigh(id, newest).await,
            }
        }
    }

    pub(crate) async fn next(&self) -> Finding {
        self.untaken.next().await
    }

    async fn judge(&self, id: Id) {
        let Lookup { verdict, claim, .. } = self.store.look_up(&id).await;
        match verdict {
            Verdict::Absent(proof) => {
                return self.mend(id, claim.generation, proof).await;
            }
            Verdict::Unknown(Doubt::Settling) => self.metrics.found_unsettled.add(1),
            Verdict::Present => self.store.audit_copy(&id).await,
            Verdict::Unknown(_) => {}
        }
        // Whatever the answer is now, the record is there: an insert costs nothing and mends what it can.
        self.add(&id).await;
    }

    async fn weigh(&self, id: Id, newest: Generation) {
        let found = self.store.look_up(&id).await;
        for (id, generation) in self.served.weigh(id, newest, &found, Instant::now()) {
            self.mend(id, Some(generation), Proof::Filter).await;
        }
    }

    /// Inserts an id that was held absent, puts the filter out of use, and tells operator and application.
    async fn mend(&self, id: Id, generation: Option<Generation>, proof: Proof) {
        self.metrics.false_negatives.add(1);
        if let Some(records) = self.alarms.note(Instant::now()) {
            tracing::error!(
                proof = proof.as_str(),
                records,
                "a record exists that the guard holds absent: does another service or another table use this name? With \
                 in_process(): do several processes create records? Else it was created without insert, the source does not give \
                 it, or the handler answers 2xx for what does not exist. next_finding() gives its id"
            );
        }
        self.add(&id).await;
        // A false null is mended by the insert; a filter without one id may be without others.
        if let (Proof::Filter, Some(generation)) = (proof, generation) {
            match self.store.distrust(&id, generation).await {
                Ok(None) => {}
                Ok(Some(doubt)) => {
                    let advice = doubt.advice();
                    tracing::error!(%generation, "the live filter is out of use: {doubt}. {advice}");
                }
                Err(error) => {
                    tracing::warn!(%error, "a filter found incomplete could not be put out of use");
                }
            }
        }
        self.push(&self.untaken, Finding { id, generation, proof });
    }

    async fn add(&self, id: &Id) {
        if let Err(error) = self.store.add(vec![id.clone()]).await {
            tracing::warn!(%error, "an id found missing from the filter could not be added");
        }
    }
}

struct Queue<T> {
    sender: mpsc::Sender<T>,
    receiver: Mutex<mpsc::Receiver<T>>,
}

impl<T> Queue<T> {
    fn new(room: usize) -> Self {
        let (sender, receiver) = mpsc::channel(room);
        Self { sender, receiver: Mutex::new(receiver) }
    }

    /// Waits for the next item, and takes it. If the future is dropped, the item stays.
    async fn next(&self) -> T {
        match self.receiver.lock().await.recv().await {
            Some(item) => item,
            // Its sender lives as long.
            None => pending().await,
        }
    }
}
