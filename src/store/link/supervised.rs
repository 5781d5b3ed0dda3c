//! A link: one session with Redis after the other, supervised.
//!
//! A client that reconnects by itself hides that another Redis process answers now. A [`Link`] publishes
//! a session only after INFO was answered on each of its connections, by one process, and the handshake on the first. It polls INFO
//! once a second, because a proxy can put another server behind an open connection. At the first doubt it gives the
//! session up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::redis::{Value, cmd};
use arc_swap::ArcSwap;
use futures_util::future::try_join_all;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::{Instant, sleep, timeout};

use super::breaker::CircuitBreaker;
use super::connector::Connector;
use super::refusal::Consequences;
use super::resp::Packed;
use super::session::{Handshake, Purpose, Session};
use super::transport::{Look, Transport, inspect, meaning};
use crate::error::StoreError;
use crate::random;
use crate::refusal::Retry;
use crate::verdict::Doubt;

/// How often a connection is polled.
const POLL: Duration = Duration::from_secs(1);
/// The first and the longest wait between two attempts to connect.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(500));

pub(crate) struct Link<I> {
    connector: Arc<dyn Connector>,
    handshake: Arc<dyn Handshake<I>>,
    /// The session in use, or why there is none.
    current: ArcSwap<Result<Arc<Session<I>>, StoreError>>,
    /// Notified of every attempt to connect that has ended.
    connected: Notify,
    /// Whether the last attempt to make a session has failed.
    unreachable: AtomicBool,
    /// Notified to poll at once.
    look: Arc<Notify>,
    breakers: [CircuitBreaker; Purpose::ALL.len()],
    filter: String,
}

impl<I: Send + Sync> Link<I> {
    pub(crate) fn new(
        connector: Arc<dyn Connector>,
        handshake: Arc<dyn Handshake<I>>,
        filter: String,
    ) -> Self {
        let look = Arc::default();
        Self {
            connector,
            handshake,
            current: ArcSwap::from_pointee(Err(StoreError::not_yet())),
            connected: Notify::new(),
            unreachable: AtomicBool::new(false),
            breakers: Purpose::ALL.map(|_| CircuitBreaker::new(Arc::clone(&look))),
            look,
            filter,
        }
    }

    pub(crate) fn current(&self) -> Option<Arc<Session<I>>> {
        self.current.load().as_ref().as_ref().ok().cloned()
    }

    /// Looks at the session in use. Unlike [`current`](Self::current) it changes no count that all threads share.
    pub(crate) fn see<T>(&self, look: impl FnOnce(&Session<I>) -> Option<T>) -> Option<T> {
        self.current.load().as_ref().as_ref().ok().and_then(|session| look(session))
    }

    /// Returns the session in use, or why there is none.
    pub(crate) fn session(&self) -> Result<Arc<Session<I>>, StoreError> {
        (**self.current.load()).clone()
    }

    pub(crate) fn uses(&self, session: &Arc<Session<I>>) -> bool {
        matches!(&**self.current.load(), Ok(current) if Arc::ptr_eq(current, session))
    }

    /// Waits for the end of an attempt to connect that ends after this call.
    pub(crate) fn next_connection(&self) -> Notified<'_> {
        self.connected.notified()
    }

    /// Waits for a session, up to a deadline. Fails with the error of the last attempt.
    pub(crate) async fn connected(
        &self,
        purpose: Purpose,
        deadline: Duration,
    ) -> Result<Arc<Session<I>>, StoreError> {
        let connected = async {
            loop {
                // Listening comes first: a session made between the two is not missed.
                let next = self.next_connection();
                // An insert's caller may hold a database connection that readers need.
                let may_wait =
                    purpose == Purpose::Rebuilds || !self.unreachable.load(Ordering::SeqCst);
                if self.current().is_some() || !may_wait {
                    return;
                }
                next.await;
            }
        };
        timeout(deadline, connected).await.ok();
        self.session()
    }

    /// Sends commands together and returns their replies. Without an answer the call counts as given up.
    pub(crate) async fn ask(
        &self,
        purpose: Purpose,
        session: &Arc<Session<I>>,
        packed: Packed,
        deadline: Duration,
    ) -> Result<Vec<Value>, StoreError> {
        let answered = async {
            // A check has another answer at hand.
            let may_wait = purpose != Purpose::Checks;
            let call = self.breakers[purpose as usize].enter(may_wait).await?;
            let sent = session.transport(purpose).send(packed).await;
            call.answered();
            Some(sent)
        };
        let sent = timeout(deadline, answered).await.ok().flatten();
        let sent = sent.ok_or_else(|| StoreError::late(deadline))?.map_err(|error| meaning(&error));
        sent.inspect_err(|error| {
            let retry = match error {
                StoreError::Refused { reason, .. } => Consequences::read(reason).retry,
                _ => Retry::Anew,
            };
            if retry == Retry::Anew {
                self.withdraw_because(session, error.reason());
            }
        })
    }

    pub(crate) fn look_now(&self) {
        self.look.notify_one();
    }

    /// Takes a session out of use whose Redis or metadata are others, and has a new one made.
    pub(crate) fn withdraw(&self, session: &Arc<Session<I>>) {
        let reason = "redis, the filter's metadata or the clocks are not those the connection met";
        self.withdraw_because(session, reason.to_owned());
    }

    fn withdraw_because(&self, session: &Arc<Session<I>>, reason: String) {
        let current = self.current.load();
        if matches!(&**current, Ok(current) if Arc::ptr_eq(current, session)) {
            let end = Arc::new(Err(StoreError::disconnected(reason)));
            self.current.compare_and_swap(&current, end);
            self.look_now();
        }
    }

    pub(crate) async fn supervise(self: Arc<Self>) {
        let redis = &self.connector;
        let mut wait = BACKOFF.0;
        // Since when there is no session, once that is in the log.
        let mut lost = None::<Instant>;
        // Connections of an earlier runtime are dead.
        self.current.store(Arc::new(Err(StoreError::not_yet())));
        loop {
            let (doubt, reason, used) = match self.connect().await {
                Ok(session) => {
                    self.publish(&session);
                    if let Some(since) = lost.take() {
                        tracing::info!(?redis, lost_for = ?since.elapsed(), "connected to redis again");
                    }
                    let begun = Instant::now();
                    let end = self.poll(&session).await;
                    (Doubt::Disconnected, self.named(end.reason()), begun.elapsed())
                }
                Err(error) => {
                    self.unreachable.store(true, Ordering::SeqCst);
                    (error.doubt(), self.named(error.reason()), Duration::ZERO)
                }
            };
            let trouble = StoreError::NoAnswer { doubt, reason: reason.clone() };
            self.current.store(Arc::new(Err(trouble)));
            // Calls that wait for a session need not wait for longer.
            self.connected.notify_waiters();
            if lost.is_none() {
                lost = Some(Instant::now());
                tracing::warn!(
                    ?redis,
                    reason,
                    "there is no connection to redis: of what is there, ids found lately or copied pass, other requests share the lane \
                     or do as on_unknown says, and inserts fail. The guard connects anew, and goes on trying. Unless the reason says \
                     more, see that redis runs, can be reached from here, and takes the url's credentials"
                );
            }
            // After a shorter use there is a wait: two servers may answer by turns.
            if used >= POLL {
                wait = BACKOFF.0;
                continue;
            }
            // Processes that lose a Redis together do not look for it together.
            sleep(wait.mul_f64(0.5 + random::fraction() / 2.0)).await;
            wait = (wait * 2).min(BACKOFF.1);
        }
    }

    fn publish(&self, session: &Arc<Session<I>>) {
        self.note_answered();
        self.current.store(Arc::new(Ok(Arc::clone(session))));
        self.unreachable.store(false, Ordering::SeqCst);
        self.connected.notify_waiters();
    }

    fn note_answered(&self) {
        self.breakers.iter().for_each(CircuitBreaker::note_answered);
    }

    fn named(&self, reason: String) -> String {
        match self.connector.server() {
            Some(server) if !reason.contains(&server) => format!("{server}: {reason}"),
            _ => reason,
        }
    }

    async fn connect(&self) -> Result<Arc<Session<I>>, StoreError> {
        let (transports, look) = self.open().await?;
        let identity = self.handshake.join(&*transports[0], &look.process).await?;
        if let Some(reason) = self.connector.replaced(false).await {
            return Err(StoreError::disconnected(reason));
        }
        Ok(Arc::new(Session::new(transports, look, identity)))
    }

    /// Opens a connection for each purpose, all to one process.
    async fn open(&self) -> Result<(Vec<Arc<dyn Transport>>, Look), StoreError> {
        let opened = Purpose::ALL.map(async |purpose| {
            let transport = self.connector.connect().await.map_err(|error| meaning(&error))?;
            let look = inspect(&*transport, self.connector.is_to_a_cluster()).await?;
            // Some users may not send this, which changes nothing. It comes after the first reply: a server that hangs up says why in
            // reply to the first command.
            let purpose = format!("{purpose:?}").to_lowercase();
            let name = format!("bloom-guard:{}:{purpose}", self.filter);
            transport.tell(cmd("CLIENT").arg("SETNAME").arg(name).clone().into());
            Ok::<_, StoreError>((transport, look))
        });
        let (transports, looks): (Vec<_>, Vec<_>) = try_join_all(opened).await?.into_iter().unzip();
        Ok((transports, one_process(looks)?))
    }

    /// Polls a session until it cannot be trusted any more; returns why.
    async fn poll(&self, session: &Arc<Session<I>>) -> StoreError {
        loop {
            timeout(POLL, self.look.notified()).await.ok();
            if let Err(withdrawn) = self.session() {
                return withdrawn;
            }
            let looks = Purpose::ALL.map(async |purpose| {
                inspect(&*session.transport(purpose), self.connector.is_to_a_cluster()).await
            });
            let look = match try_join_all(looks).await.and_then(one_process) {
                Ok(look) => look,
                Err(error) => return error,
            };
            if look.process != session.process {
                let reason = "another redis process answers on the same connection";
                return StoreError::disconnected(reason);
            }
            if !session.clock_agrees(look.clock) {
                return StoreError::disconnected("redis's clock and this machine's have parted");
            }
            session.look.store(Arc::new(look));
            self.note_answered();
            let transport = session.transport(Purpose::Checks);
            let recheck = self.handshake.recheck(&*transport, &session.process, &session.identity);
            let replaced = self.connector.replaced(true);
            let (replaced, rechecked) = tokio::join!(replaced, recheck);
            if let Some(reason) = replaced {
                return StoreError::disconnected(reason);
            }
            if let Err(end) = rechecked {
                return end;
            }
        }
    }
}

/// Returns the first connection's look, if one process has answered on all.
fn one_process(looks: Vec<Look>) -> Result<Look, StoreError> {
    let mut looks = looks.into_iter();
    let first = looks.next().ok_or_else(StoreError::not_yet)?;
    if looks.all(|look| look.process == first.process) {
        Ok(first)
    } else {
        Err(StoreError::disconnected("different redis processes answer at the same address"))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    mod outages;

    use super::*;

    impl<I: Send + Sync> Link<I> {
        /// Puts a session into use.
        pub(crate) fn put_into_use(&self, session: &Arc<Session<I>>) {
            self.publish(session);
        }
    }
}
