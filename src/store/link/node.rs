//! A Redis, as a store uses it: its link, and the checks that wait for it. It knows no key.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::connector::Connector;
use super::queue::{BATCHES, PendingCheck, Queue};
use super::session::{Handshake, Session};
use super::supervised::Link;
use crate::background::persist;
use crate::settings::Settings;
use crate::store::{Answer, BoxFuture, Lookup, Lookups, NullClaim};
use crate::verdict::Doubt;

/// How many calls may repeat inserts at a time. When Redis comes back, all processes repeat those of all shards: more calls would
/// wait for each other in Redis, be given up, and be executed all the same. Fewer would be late where Redis is far away: a scan waits
/// two seconds for a shard's first call.
const REPEATS: usize = 32;

/// `I` is what the store's handshake learns, `Q` what a check asks for.
pub(crate) struct Node<I, Q> {
    pub(crate) link: Arc<Link<I>>,
    pub(crate) repeats: Semaphore,
    queue: Queue<Q>,
    pub(crate) check_deadline: Duration,
}

/// How a store answers its checks.
pub(crate) trait Checks: Send + Sync + 'static {
    type Identity: Send + Sync + 'static;
    type Asked: Send + 'static;

    /// Whether one question may answer for many checks.
    fn has_copy(&self) -> bool {
        false
    }

    /// Answers all checks of a batch. They were asked for by this session, which is in use.
    fn answer(
        &self,
        node: &Arc<Node<Self::Identity, Self::Asked>>,
        session: &Arc<Session<Self::Identity>>,
        checks: &mut Vec<PendingCheck<Self::Asked>>,
    ) -> impl Future<Output = ()> + Send;
}

type NodeOf<S> = Node<<S as Checks>::Identity, <S as Checks>::Asked>;

impl<I: Send + Sync + 'static, Q: Send + 'static> Node<I, Q> {
    pub(crate) fn new(
        connector: Arc<dyn Connector>,
        settings: &Settings,
        handshake: Arc<dyn Handshake<I>>,
    ) -> Self {
        // No filter's name has a `#`.
        let observer = if settings.observes { "#observer" } else { "" };
        let name = format!("{}{observer}", settings.name);
        Self {
            link: Arc::new(Link::new(connector, handshake, name)),
            repeats: Semaphore::new(REPEATS),
            queue: Queue::new(settings.check_deadline, settings.sizing.shards),
            check_deadline: settings.check_deadline,
        }
    }

    /// Sends a check, or puts it into the queue. If `alone`, the task that waits for the answer may send it at once.
    pub(crate) fn check<S: Checks<Identity = I, Asked = Q>>(
        self: &Arc<Self>,
        store: &Arc<S>,
        session: &Session<I>,
        asked: Q,
        at: Instant,
        alone: bool,
    ) -> Result<SentCheck, Doubt> {
        let queue = &self.queue;
        let asked_us = session.redis_us(at);
        let deadline = at + self.check_deadline;
        let (told, received) = oneshot::channel();
        let check = PendingCheck { session: session.number, asked, answer: told };
        // Another task would double what a lone check costs.
        let alone = match alone.then(|| queue.alone(|| store.has_copy())).flatten() {
            Some(under_way) => {
                let (store, node) = (Arc::clone(store), Arc::clone(self));
                // On the heap: it takes a few kilobytes, which a check in the queue does not need.
                let answering: BoxFuture<'static, ()> = Box::pin(async move {
                    answer(&*store, &node, &mut vec![check]).await;
                    drop(under_way);
                });
                Some(answering)
            }
            None => queue.enter(check).map(|()| None)?,
        };
        Ok(SentCheck { alone, received, deadline, asked_us })
    }
}

/// A check in the queue, or one that is sent as its answer is waited for.
pub(crate) struct SentCheck {
    pub(crate) alone: Option<BoxFuture<'static, ()>>,
    pub(crate) received: oneshot::Receiver<Lookup>,
    pub(crate) deadline: Instant,
    /// When it was asked for, by Redis's clock, µs.
    pub(crate) asked_us: i64,
}

impl SentCheck {
    /// Returns the answers to several checks: at once if none was sent.
    pub(crate) fn answers(sent: impl Iterator<Item = Result<Self, Doubt>>) -> Answer<Lookups> {
        let sent: SmallVec<[Result<Self, Doubt>; 1]> = sent.collect();
        let unknown =
            |sent: &Result<Self, Doubt>| sent.as_ref().err().copied().map(Lookup::unknown);
        if let Some(lookups) = sent.iter().map(unknown).collect() {
            return Answer::Ready(lookups);
        }
        Answer::Pending(Box::pin(async move {
            let mut lookups = Lookups::with_capacity(sent.len());
            for check in sent {
                lookups.push(match check {
                    Ok(check) => check.answer().await,
                    Err(doubt) => Lookup::unknown(doubt),
                });
            }
            lookups
        }))
    }

    pub(crate) async fn answer(self) -> Lookup {
        let Self { alone, received, deadline, asked_us } = self;
        let answered = async {
            if let Some(answering) = alone {
                answering.await;
            }
            received.await
        };
        // By a timer of its own: a busy thread, or a runtime at rest, may keep the tasks that send from running.
        let lookup = match timeout_at(deadline, answered).await {
            Ok(Ok(lookup)) => lookup,
            // The task that had it has ended.
            Ok(Err(_)) => Lookup::unknown(Doubt::Disconnected),
            Err(_) => Lookup::unknown(Doubt::Timeout),
        };
        Lookup { claim: NullClaim { asked_us, ..lookup.claim }, ..lookup }
    }
}

/// Starts the tasks of a node: one keeps it connected, the others send its checks.
pub(crate) fn start<S: Checks>(
    store: &Arc<S>,
    node: &Arc<NodeOf<S>>,
    filter: &Arc<str>,
    tasks: &mut JoinSet<()>,
) {
    persist(tasks, filter, "session", &node.link, Link::supervise);
    for _ in 0..BATCHES {
        let both = Arc::new((Arc::clone(store), Arc::clone(node)));
        persist(tasks, filter, "checks", &both, send_checks);
    }
}

async fn send_checks<S: Checks>(both: Arc<(Arc<S>, Arc<NodeOf<S>>)>) {
    let (store, node) = &*both;
    let mut checks = Vec::new();
    loop {
        let under_way = node.queue.take(&mut checks, || store.has_copy()).await;
        answer(&**store, node, &mut checks).await;
        drop(under_way);
    }
}

pub(crate) async fn answer<S: Checks>(
    store: &S,
    node: &Arc<NodeOf<S>>,
    checks: &mut Vec<PendingCheck<S::Asked>>,
) {
    let Some(session) = node.link.current() else {
        return refuse(checks.drain(..), Doubt::Disconnected);
    };
    // Another session may lead to another Redis, or have learnt something else.
    refuse(checks.extract_if(.., |check| check.session != session.number), Doubt::Disconnected);
    if !checks.is_empty() {
        store.answer(node, &session, checks).await;
    }
}

pub(crate) fn refuse<Q>(checks: impl Iterator<Item = PendingCheck<Q>>, doubt: Doubt) {
    for check in checks {
        // The receiver may be gone.
        check.answer.send(Lookup::unknown(doubt)).ok();
    }
}
