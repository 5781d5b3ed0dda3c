//! A link: one session with Redis after the other, supervised.
//!
//! A client that reconnects by itself hides that another Redis process answers now. A [`Link`] publishes
//! a session only after INFO was answered on each of its connections, by one process, and the handshake on the first. It polls INFO
//! once a second, because a proxy can put another server behind an open connection. At the first doubt it gives the
//! session up.

use std::convert::Infallible;
use std::fmt;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::redis::{Value, cmd};
use arc_swap::ArcSwapOption;
use futures_util::future::try_join_all;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::breaker::CircuitBreaker;
use super::connector::Connector;
use super::credentials::renewal;
use super::refusal::Consequences;
use super::resp::Packed;
use super::session::{Handshake, Purpose, Session, Transports};
use super::transport::{Look, Transport, exchange, inspect, meaning};
use crate::error::StoreError;
use crate::random;
use crate::refusal::Retry;
use crate::verdict::Doubt;

/// How often a connection is polled.
const POLL: Duration = Duration::from_secs(1);
/// How often a connection is polled while a breaker is open.
const OPEN_POLL: Duration = Duration::from_millis(100);
/// The first and the longest wait between two attempts to connect.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(500));

/// Sessions that are left within this time of each other get one line in the log.
const TOGETHER: Duration = Duration::from_secs(3);

/// One supervised session after the other.
pub(crate) struct Link<I> {
    connector: Arc<dyn Connector>,
    handshake: Arc<dyn Handshake<I>>,
    current: ArcSwapOption<Session<I>>,
    /// Notified of every attempt to connect that has ended.
    connected: Notify,
    trouble: ArcSwapOption<LinkTrouble>,
    /// Whether the last attempt to make a session has failed.
    unreachable: AtomicBool,
    /// Notified to poll at once.
    look: Arc<Notify>,
    breakers: [CircuitBreaker; Purpose::ALL.len()],
    filter: String,
}

/// Why there is no session, or why the last one was given up.
#[derive(Debug, Clone)]
pub(crate) struct LinkTrouble {
    pub(crate) doubt: Doubt,
    pub(crate) reason: String,
}

impl LinkTrouble {
    pub(crate) fn not_yet() -> Self {
        Self { doubt: Doubt::Disconnected, reason: "not connected yet".to_owned() }
    }

    pub(crate) fn of(error: &StoreError) -> Self {
        Self { doubt: error.doubt(), reason: reason(error) }
    }
}

impl From<LinkTrouble> for StoreError {
    fn from(LinkTrouble { doubt, reason }: LinkTrouble) -> Self {
        Self::NoAnswer { doubt, reason }
    }
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
            current: ArcSwapOption::empty(),
            connected: Notify::new(),
            trouble: ArcSwapOption::empty(),
            unreachable: AtomicBool::new(false),
            breakers: Purpose::ALL.map(|_| CircuitBreaker::new(Arc::clone(&look))),
            look,
            filter,
        }
    }

    pub(crate) fn current(&self) -> Option<Arc<Session<I>>> {
        self.current.load_full()
    }

    pub(crate) fn uses(&self, session: &Arc<Session<I>>) -> bool {
        self.current.load().as_ref().is_some_and(|current| Arc::ptr_eq(current, session))
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
                if let Some(session) = self.current() {
                    return Some(session);
                }
                // An insert's caller may hold a database connection that readers need.
                if self.unreachable.load(Ordering::SeqCst) && purpose != Purpose::Rebuilds {
                    return None;
                }
                next.await;
            }
        };
        timeout(deadline, connected)
            .await
            .ok()
            .flatten()
            .ok_or_else(|| self.trouble().unwrap_or_else(LinkTrouble::not_yet).into())
    }

    pub(crate) fn trouble(&self) -> Option<LinkTrouble> {
        self.trouble.load().as_deref().cloned()
    }

    /// Sends commands together and returns their replies. Without an answer, each of the callers counts as given up.
    pub(crate) async fn ask(
        &self,
        callers: usize,
        purpose: Purpose,
        session: &Arc<Session<I>>,
        packed: Packed,
        deadline: Duration,
    ) -> Result<Vec<Value>, StoreError> {
        let late = || StoreError::late(deadline);
        let begun = Instant::now();
        // A check has another answer at hand.
        let may_wait = purpose != Purpose::Checks;
        let entered = self.breakers[purpose as usize].enter(callers, may_wait);
        let Ok(Some(call)) = timeout(deadline, entered).await else { return Err(late()) };
        let rest = deadline.saturating_sub(begun.elapsed());
        let sent = exchange(&*session.transport(purpose), packed, rest).await;
        if let Err(StoreError::NoAnswer { doubt: Doubt::Timeout, .. }) = sent {
            return Err(late());
        }
        call.answered();
        sent.inspect_err(|error| {
            let retry = match error {
                StoreError::Refused { reason, .. } => Consequences::read(reason).retry,
                _ => Retry::Anew,
            };
            match retry {
                Retry::Never | Retry::Soon => {}
                Retry::Elsewhere if self.handshake.serves_several() => self.look_now(),
                Retry::Elsewhere | Retry::Anew => {
                    self.withdraw_because(session, StoreError::disconnected(reason(error)));
                }
            }
        })
    }

    pub(crate) fn look_now(&self) {
        self.look.notify_one();
    }

    /// Takes a session out of use whose Redis or metadata are others, and has a new one made.
    pub(crate) fn withdraw(&self, session: &Arc<Session<I>>) {
        let reason = "redis, the filter's metadata or the clocks are not those the connection met";
        self.withdraw_because(session, StoreError::left(reason));
    }

    fn withdraw_because(&self, session: &Arc<Session<I>>, end: StoreError) {
        let before = self.current.compare_and_swap(session, None::<Arc<Session<I>>>);
        if before.as_ref().is_some_and(|before| Arc::ptr_eq(before, session)) {
            session.withdrawn.set(end).ok();
            self.look_now();
        }
    }

    pub(crate) async fn supervise(self: Arc<Self>) {
        let mut wait = BACKOFF.0;
        let mut log = OutageLog::default();
        // Connections of an earlier runtime are dead.
        self.current.store(None);
        loop {
            match self.connect().await {
                Ok(session) => {
                    self.publish(&session);
                    log.made(&self.connector);
                    let end = tokio::select! {
                        biased;
                        end = self.poll(&session) => end,
                        never = self.keep_credentials(&session) => match never {},
                    };
                    self.current.store(None);
                    let reason = self.named(reason(&end));
                    if let StoreError::NoAnswer { .. } = end {
                        log.lost(&self.connector, &reason);
                    } else {
                        log.left(&self.connector, &reason);
                    }
                    let trouble = LinkTrouble { doubt: Doubt::Disconnected, reason };
                    self.trouble.store(Some(Arc::new(trouble)));
                    // After a shorter use there is a wait: two servers may answer by turns.
                    if session.since.elapsed() >= POLL {
                        wait = BACKOFF.0;
                        continue;
                    }
                }
                Err(error) => {
                    let mut trouble = LinkTrouble::of(&error);
                    trouble.reason = self.named(trouble.reason);
                    log.lost(&self.connector, &trouble.reason);
                    self.trouble.store(Some(Arc::new(trouble)));
                    self.unreachable.store(true, Ordering::SeqCst);
                    // Calls that wait for a session need not wait for longer.
                    self.connected.notify_waiters();
                }
            }
            // Processes that lose a Redis together do not look for it together.
            sleep(wait.mul_f64(0.5 + random::fraction() / 2.0)).await;
            wait = (wait * 2).min(BACKOFF.1);
        }
    }

    fn publish(&self, session: &Arc<Session<I>>) {
        self.note_answered();
        self.trouble.store(None);
        self.current.store(Some(Arc::clone(session)));
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
        let server = self.connector.server();
        let identity = self.handshake.join(&*transports[0], &look.process).await?;
        if let Some(reason) = self.connector.replaced(server.as_deref(), false).await {
            return Err(StoreError::disconnected(reason));
        }
        Ok(Arc::new(Session::new(transports, server, look, identity)))
    }

    /// Opens a connection for each purpose, all to one process.
    async fn open(&self) -> Result<(Transports, Look), StoreError> {
        let opened = Purpose::ALL.map(async |purpose| {
            let transport = self.connector.connect().await.map_err(|error| meaning(&error))?;
            let look = self.inspect(&*transport, purpose).await?;
            // Some users may not send this, which changes nothing. It comes after the first reply: a server that hangs up says why in
            // reply to the first command.
            let purpose = format!("{purpose:?}").to_lowercase();
            let name = format!("bloom-guard:{}:{purpose}", self.filter);
            transport.tell(cmd("CLIENT").arg("SETNAME").arg(name).clone().into());
            Ok::<_, StoreError>((transport, look))
        });
        let (transports, looks): (Vec<_>, Vec<_>) = try_join_all(opened).await?.into_iter().unzip();
        Ok((transports.into(), one_process(looks)?))
    }

    /// Replaces a session's connections before their credentials end. Without new ones it keeps them, for as long as Redis does.
    async fn keep_credentials(&self, session: &Arc<Session<I>>) -> Infallible {
        while let Some(end) = session.credentials_end() {
            sleep_until(renewal(end)).await;
            while let Err(error) = self.renew(session).await {
                let trouble = LinkTrouble::of(&error);
                if self.trouble.load().is_none() {
                    tracing::warn!(
                        redis = ?self.connector,
                        reason = trouble.reason,
                        "the credentials of the connections in use end, and there are no new ones yet"
                    );
                }
                self.trouble.store(Some(Arc::new(trouble)));
                sleep(BACKOFF.1).await;
            }
            self.trouble.store(None);
        }
        pending().await
    }

    async fn renew(&self, session: &Arc<Session<I>>) -> Result<(), StoreError> {
        let (transports, look) = self.open().await?;
        if look.process != session.process {
            self.withdraw(session);
            return Ok(());
        }
        // A server may be named otherwise than as the session was made.
        let server = self.connector.server();
        if let Some(reason) = self.connector.replaced(server.as_deref(), false).await {
            return Err(StoreError::disconnected(reason));
        }
        session.go_by(transports);
        Ok(())
    }

    async fn inspect(
        &self,
        transport: &dyn Transport,
        purpose: Purpose,
    ) -> Result<Look, StoreError> {
        inspect(transport, purpose == Purpose::Checks, self.connector.is_to_a_cluster()).await
    }

    /// Polls a session until it cannot be trusted any more; returns why.
    async fn poll(&self, session: &Arc<Session<I>>) -> StoreError {
        loop {
            let is_open = self.breakers.iter().any(CircuitBreaker::is_open);
            tokio::select! {
                biased;
                () = self.look.notified() => {
                    if let Some(end) = session.withdrawn.get() {
                        return end.clone();
                    }
                }
                () = sleep(if is_open { OPEN_POLL } else { POLL }) => {}
            }
            let looks = Purpose::ALL.map(async |purpose| {
                let transport = session.transport(purpose);
                self.inspect(&*transport, purpose).await
            });
            let Look { process, clock, may_evict } =
                match try_join_all(looks).await.and_then(one_process) {
                    Ok(look) => look,
                    Err(error) => return StoreError::disconnected(reason(&error)),
                };
            if process != session.process {
                let reason = "another redis process answers on the same connection";
                return StoreError::left(reason);
            }
            // With several filters, none looks at the clock in each poll.
            if self.handshake.serves_several() && !session.clock_agrees(clock) {
                return StoreError::left("redis's clock and this machine's have parted");
            }
            session.note_eviction(may_evict);
            self.note_answered();
            let transport = session.transport(Purpose::Checks);
            let recheck = self.handshake.recheck(&*transport, &process, &session.identity);
            let replaced = self.connector.replaced(session.server.as_deref(), true);
            let (replaced, rechecked) = tokio::join!(replaced, recheck);
            if let Err(end) = replaced.map_or(rechecked, |reason| Err(StoreError::left(reason))) {
                return end;
            }
            session.note_clock(clock);
        }
    }
}

/// Returns the first connection's look, if one process has answered on all.
fn one_process(looks: Vec<Look>) -> Result<Look, StoreError> {
    let mut looks = looks.into_iter();
    let first = looks.next().ok_or_else(LinkTrouble::not_yet)?;
    if looks.all(|look| look.process == first.process) {
        Ok(first)
    } else {
        Err(StoreError::disconnected("different redis processes answer at the same address"))
    }
}

/// Says in the log that Redis is lost, and that it is back: one line each.
#[derive(Default)]
struct OutageLog {
    lost: Option<Instant>,
    left: Option<Instant>,
}

impl OutageLog {
    fn lost(&mut self, redis: &dyn fmt::Debug, reason: &str) {
        if self.lost.is_some() {
            return;
        }
        self.lost = Some(Instant::now());
        tracing::warn!(
            ?redis,
            reason,
            "there is no connection to redis: of what is there, ids found lately or copied pass, other requests share the lane or do \
             as on_unknown says, and inserts fail. The guard goes on trying. Unless the reason says more, see that redis runs, can be \
             reached from here, and takes the url's credentials"
        );
    }

    /// Notes that a session is given up although Redis answers. That is no outage, unless a new one cannot be made.
    fn left(&mut self, redis: &dyn fmt::Debug, reason: &str) {
        let before = self.left.replace(Instant::now());
        if before.is_none_or(|before| before.elapsed() > TOGETHER) {
            tracing::warn!(
                ?redis,
                reason,
                "redis is there, and is not as it was: the guard connects anew, and refuses nothing by a filter that may lack ids"
            );
        }
    }

    fn made(&mut self, redis: &dyn fmt::Debug) {
        if let Some(since) = self.lost.take() {
            tracing::info!(?redis, lost_for = ?since.elapsed(), "connected to redis again");
        }
    }
}

fn reason(error: &StoreError) -> String {
    match error {
        StoreError::NoAnswer { doubt, reason } if *doubt != Doubt::Timeout => reason.clone(),
        other => other.to_string(),
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
