//! A link: one connection after the other, supervised.
//!
//! A client that reconnects by itself hides that another Redis process answers now. A [`Link`] publishes
//! a connection only after INFO and the handshake were answered on it. It polls INFO once a second,
//! because a proxy can put another server behind an open connection. At the first doubt it gives the
//! connection up. Each kind of work has a link of its own, so that no check queues behind a bulk upload.

mod renewal;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::redis::Value;
use arc_swap::ArcSwapOption;
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep, timeout};
use tokio::{join, select};

use super::breaker::CircuitBreaker;
use super::connection::Connection;
use super::connector::Connector;
use super::driver::QUEUE;
use super::handshake::{End, Handshake};
use super::outage::Outage;
use super::process::{Eviction, RedisProcess};
use super::resp::{Packed, values};
use super::transport::{Clock, Transport, Trouble, inspect, one, send};
use crate::error::StoreError;
use crate::random;
use crate::refusal::ConnectionAfter;
use crate::store::link::refusal::is_unknown_script;
use crate::store::link::reply::Reply;
use crate::store::link::script::{Script, Sending};
use crate::verdict::Doubt;

/// How often a connection is polled.
const POLL: Duration = Duration::from_secs(1);
/// How often while the breaker is open.
const OPEN_POLL: Duration = Duration::from_millis(100);
/// Calls under way on a connection; further ones wait, within their deadlines.
const ROOM: usize = QUEUE / 2;
/// Calls given up in a row that open the breaker at once. No more than this and [`ROOM`] pile up.
const SURFEIT: u32 = ROOM as u32;
/// The first and the longest wait between two attempts to connect.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(500));

/// One supervised connection after the other.
pub(crate) struct Link<I> {
    connector: Arc<dyn Connector>,
    handshake: Arc<dyn Handshake<I>>,
    /// Shared by all links of a guard.
    outage: Arc<Outage>,
    current: ArcSwapOption<Connection<I>>,
    /// Notified of every attempt to connect that has ended.
    connected: Notify,
    trouble: ArcSwapOption<LinkTrouble>,
    /// Whether there is no connection, and the last attempt to make one has failed.
    unreachable: AtomicBool,
    broken: Notify,
    /// Why the last connection was taken out of use by a call.
    withdrawn: ArcSwapOption<End>,
    breaker: CircuitBreaker,
    room: Semaphore,
    purpose: Purpose,
    /// What Redis is told of a connection: whose it is, and what for.
    name: String,
}

/// Why there is no connection, or why the last one was given up.
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

/// What a link is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Checks,
    Inserts,
    Rebuilds,
}

impl Purpose {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Checks => "checks",
            Self::Inserts => "inserts",
            Self::Rebuilds => "rebuilds",
        }
    }

    /// Whether calls wait, within their deadlines, until the breaker is closed. Checks have another answer at hand.
    fn waits_for_breaker(self) -> bool {
        self != Self::Checks
    }

    /// Whether calls wait, within their deadlines, for a Redis that the last attempt has not reached. An
    /// insert may hold a connection to the database meanwhile, which requests wait for that only read.
    fn waits_for_the_unreachable(self) -> bool {
        self == Self::Rebuilds
    }
}

impl<I: Send + Sync> Link<I> {
    pub(crate) fn new(
        connector: Arc<dyn Connector>,
        handshake: Arc<dyn Handshake<I>>,
        outage: Arc<Outage>,
        purpose: Purpose,
        filter: &str,
    ) -> Self {
        Self {
            connector,
            handshake,
            outage,
            current: ArcSwapOption::empty(),
            connected: Notify::new(),
            trouble: ArcSwapOption::empty(),
            unreachable: AtomicBool::new(false),
            broken: Notify::new(),
            withdrawn: ArcSwapOption::empty(),
            breaker: CircuitBreaker::new(SURFEIT),
            room: Semaphore::new(ROOM),
            purpose,
            name: format!("bloom-guard:{filter}:{}", purpose.as_str()),
        }
    }

    /// Returns the connection, if there is one.
    pub(crate) fn current(&self) -> Option<Arc<Connection<I>>> {
        self.current.load_full()
    }

    /// Whether this is the connection in use.
    pub(crate) fn uses(&self, connection: &Arc<Connection<I>>) -> bool {
        self.current.load().as_ref().is_some_and(|current| Arc::ptr_eq(current, connection))
    }

    /// Returns what ends with the next attempt to connect, from this call on.
    pub(crate) fn next_connection(&self) -> Notified<'_> {
        self.connected.notified()
    }

    /// Waits for a connection, up to a deadline; not at all where Redis is known to be out of reach.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoAnswer`] with what the last attempt met.
    pub(crate) async fn connected(
        &self,
        deadline: Duration,
    ) -> Result<Arc<Connection<I>>, StoreError> {
        let connected = async {
            loop {
                // Listening comes first: a connection made between the two is not missed.
                let next = self.next_connection();
                if let Some(connection) = self.current() {
                    return Some(connection);
                }
                if self.unreachable.load(Ordering::SeqCst)
                    && !self.purpose.waits_for_the_unreachable()
                {
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

    /// What is wrong with the link.
    pub(crate) fn trouble(&self) -> Option<LinkTrouble> {
        self.trouble.load().as_deref().cloned()
    }

    /// Sends commands in one go and returns their replies.
    ///
    /// # Errors
    ///
    /// The first thing that went wrong with any of them.
    pub(crate) async fn ask(
        &self,
        connection: &Arc<Connection<I>>,
        commands: impl Into<Packed>,
        deadline: Duration,
    ) -> Result<Vec<Value>, StoreError> {
        self.ask_for(1, connection, commands, deadline).await
    }

    /// The same for several callers: without an answer, each of them counts as given up.
    ///
    /// # Errors
    ///
    /// Whatever [`ask`](Self::ask) reports.
    pub(crate) async fn ask_for(
        &self,
        callers: usize,
        connection: &Arc<Connection<I>>,
        commands: impl Into<Packed>,
        deadline: Duration,
    ) -> Result<Vec<Value>, StoreError> {
        let packed = commands.into();
        let count = packed.commands;
        let replies = self.send_for(callers, connection, packed, deadline).await?;
        values(&replies, count).inspect_err(|_| self.withdraw(connection))
    }

    /// Sends packed commands for several callers, and returns the bytes of their replies.
    ///
    /// # Errors
    ///
    /// Whatever [`ask`](Self::ask) reports.
    pub(crate) async fn send_for(
        &self,
        callers: usize,
        connection: &Arc<Connection<I>>,
        packed: Packed,
        deadline: Duration,
    ) -> Result<Vec<u8>, StoreError> {
        let late = || StoreError::late(deadline);
        let begun = Instant::now();
        let Ok(Some(_room)) = timeout(deadline, self.enter()).await else { return Err(late()) };
        let call = self.breaker.call(callers);
        let rest = deadline.saturating_sub(begun.elapsed());
        let sent = send(&*connection.transport(), packed, rest).await;
        if let Err(Trouble { error: StoreError::NoAnswer { doubt: Doubt::Timeout, .. }, .. }) = sent
        {
            return Err(late());
        }
        call.answered();
        sent.map_err(|Trouble { error, connection: after }| {
            match after {
                ConnectionAfter::Keep => {}
                ConnectionAfter::Moved if self.handshake.serves_several() => self.look_now(),
                ConnectionAfter::Moved | ConnectionAfter::Withdraw => {
                    self.withdraw_because(connection, End::Lost(reason(&error)));
                }
            }
            error
        })
    }

    /// Waits for room for a call, and until the breaker is closed. Returns nothing where that is not waited for.
    async fn enter(&self) -> Option<SemaphorePermit<'_>> {
        loop {
            if self.purpose.waits_for_breaker() {
                self.breaker.closes().await;
            } else if self.breaker.is_open() {
                return None;
            }
            let room = self.room.acquire().await.ok()?;
            // It may have opened during the wait.
            if !self.breaker.is_open() {
                return Some(room);
            }
        }
    }

    /// Runs a script.
    ///
    /// # Errors
    ///
    /// Whatever [`ask`](Self::ask) reports.
    pub(crate) async fn script(
        &self,
        connection: &Arc<Connection<I>>,
        script: &Script,
        keys: &[&str],
        args: &[&[u8]],
        deadline: Duration,
    ) -> Result<Reply, StoreError> {
        let send = async |sending| {
            let command = one(script.command(sending, keys, args));
            let reply = self.ask(connection, &command, deadline).await?.into_iter().next();
            Ok(Reply::new(script.name(), reply.unwrap_or(Value::Nil)))
        };
        match send(Sending::ByHash).await {
            Err(StoreError::Refused { reason, .. }) if is_unknown_script(&reason) => {
                send(Sending::Whole).await
            }
            other => other,
        }
    }

    /// Has all links of the node look now whether what their connections have learnt still holds.
    pub(crate) fn look_now(&self) {
        self.outage.tell();
    }

    /// Takes a connection out of use that leads elsewhere by now, and has a new one made.
    pub(crate) fn withdraw(&self, connection: &Arc<Connection<I>>) {
        let reason = "redis, the filter's metadata or the clocks are not those the connection met";
        self.withdraw_because(connection, End::Left(reason.to_owned()));
    }

    fn withdraw_because(&self, connection: &Arc<Connection<I>>, end: End) {
        let before = self.current.compare_and_swap(connection, None::<Arc<Connection<I>>>);
        if before.as_ref().is_some_and(|before| Arc::ptr_eq(before, connection)) {
            self.withdrawn.store(Some(Arc::new(end)));
            self.broken.notify_one();
        }
    }

    /// Keeps the link connected for as long as it is polled.
    pub(crate) async fn supervise(self: Arc<Self>) {
        let mut wait = BACKOFF.0;
        // A connection of an earlier runtime is dead.
        self.end();
        loop {
            let found = self.outage.found();
            match self.connect().await {
                Ok(connection) => {
                    self.publish(&connection);
                    let end = select! {
                        biased;
                        end = self.poll(&connection, found) => end,
                        never = self.keep_credentials(&connection) => match never {},
                    };
                    self.end();
                    let is_lost = matches!(end, End::Lost(_));
                    let (End::Lost(reason) | End::Left(reason)) = end;
                    let reason = self.named(reason);
                    if is_lost {
                        self.outage.lost(&self.connector, self.purpose.as_str(), &reason);
                    } else {
                        self.outage.left(&self.connector, &reason);
                    }
                    let trouble = LinkTrouble { doubt: Doubt::Disconnected, reason };
                    self.trouble.store(Some(Arc::new(trouble)));
                    // A shorter use is followed by a wait, in case two servers answer by turns.
                    if connection.age() >= POLL {
                        wait = BACKOFF.0;
                        continue;
                    }
                }
                Err(error) => self.note_failure(&error),
            }
            // Processes that lose a Redis together do not look for it together.
            sleep(wait.mul_f64(0.5 + random::fraction() / 2.0)).await;
            wait = (wait * 2).min(BACKOFF.1);
        }
    }

    /// Notes that there is no connection.
    fn end(&self) {
        self.current.store(None);
        if self.purpose == Purpose::Checks {
            self.outage.set_checks_look(false);
        }
    }

    fn publish(&self, connection: &Arc<Connection<I>>) {
        self.breaker.note_answered();
        self.trouble.store(None);
        if self.purpose == Purpose::Checks {
            self.outage.set_checks_look(true);
        }
        self.current.store(Some(Arc::clone(connection)));
        self.unreachable.store(false, Ordering::SeqCst);
        self.connected.notify_waiters();
        self.outage.made(&self.connector, self.purpose.as_str());
    }

    /// Names the server in a reason, where it is one of several.
    fn named(&self, reason: String) -> String {
        match self.connector.server() {
            Some(server) if !reason.contains(&server) => format!("{server}: {reason}"),
            _ => reason,
        }
    }

    /// Notes a failed attempt to connect.
    fn note_failure(&self, error: &StoreError) {
        let mut trouble = LinkTrouble::of(error);
        trouble.reason = self.named(trouble.reason);
        self.outage.lost(&self.connector, self.purpose.as_str(), &trouble.reason);
        self.trouble.store(Some(Arc::new(trouble)));
        self.unreachable.store(true, Ordering::SeqCst);
        // Calls that wait for a connection need not wait for longer.
        self.connected.notify_waiters();
    }

    /// Connects: INFO first, then the handshake.
    async fn connect(&self) -> Result<Arc<Connection<I>>, StoreError> {
        let transport = self.open().await?;
        let (process, clock, eviction) = self.inspect(&*transport).await?;
        transport.tell(self.introduction());
        let identity = self.handshake.join(&*transport, &process).await?;
        if let Some(reason) = transport.replaced().await {
            return Err(StoreError::disconnected(reason));
        }
        Ok(Arc::new(Connection::new(transport, process, identity, clock, eviction)))
    }

    /// Opens a connection on which nothing has been asked.
    async fn open(&self) -> Result<Arc<dyn Transport>, StoreError> {
        let deadline = self.connector.patience();
        let opened = timeout(deadline, self.connector.connect()).await;
        let opened = opened.map_err(|_| StoreError::late(deadline))?;
        Ok(opened.map_err(Trouble::from)?)
    }

    /// Returns, with the reason, when the connection is not to be trusted any more.
    /// `found` is how often there was something to look at when it was made.
    async fn poll(&self, connection: &Arc<Connection<I>>, mut found: u64) -> End {
        loop {
            let is_open = self.breaker.is_open();
            tokio::select! {
                biased;
                () = self.broken.notified() => {
                    // It may have been the one before, given up for another reason at the same time.
                    if self.uses(connection) {
                        continue;
                    }
                    let end = self.withdrawn.swap(None);
                    return end.as_deref().cloned().unwrap_or_else(|| End::Left(String::new()));
                }
                () = self.breaker.opens() => {}
                // What they have found, this one may find, too.
                () = self.outage.another(&mut found) => {}
                () = sleep(if is_open { OPEN_POLL } else { POLL }) => {}
            }
            match self.inspect(&*connection.transport()).await {
                Ok((process, ..)) if process != connection.process => {
                    let reason = "another redis process answers on the same connection";
                    return End::Left(reason.to_owned());
                }
                // No filter by itself would find that out on each connection.
                Ok((_, clock, _)) if self.handshake.serves_several() && !connection.has(clock) => {
                    return End::Left("redis's clock and this machine's have parted".to_owned());
                }
                Ok((_, clock, eviction)) => {
                    connection.note_eviction(eviction);
                    self.breaker.note_answered();
                    if let Err(end) = self.recheck(connection).await {
                        return end;
                    }
                    connection.note_clock(clock);
                }
                Err(error) => return End::Lost(reason(&error)),
            }
        }
    }

    /// Asks which process answers. What is evicted concerns refusals only.
    async fn inspect(
        &self,
        transport: &dyn Transport,
    ) -> Result<(RedisProcess, Clock, Eviction), StoreError> {
        inspect(transport, self.purpose == Purpose::Checks).await
    }

    /// Whether what the connection has learnt still holds. Redis is asked by one link of a node, or by each that there is.
    async fn recheck(&self, connection: &Connection<I>) -> Result<(), End> {
        let process = &connection.process;
        let identity = &connection.identity;
        let transport = connection.transport();
        let asks = self.purpose == Purpose::Checks || !self.outage.checks_look();
        let recheck = self.handshake.recheck(&*transport, process, identity, asks);
        if !asks {
            return recheck.await;
        }
        let (replaced, rechecked) = join!(transport.replaced(), recheck);
        replaced.map_or(rechecked, |reason| Err(End::Left(reason)))
    }
}

/// Says why there is no connection.
fn reason(error: &StoreError) -> String {
    match error {
        StoreError::NoAnswer { doubt, reason } if *doubt != Doubt::Timeout => reason.clone(),
        StoreError::GivenUp { doubt: Doubt::OtherKey, .. } => {
            format!("{error}: give all processes the same")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    mod outages;

    use super::*;

    impl<I: Send + Sync> Link<I> {
        /// Puts a connection into use.
        pub(crate) fn put_into_use(&self, connection: &Arc<Connection<I>>) {
            self.publish(connection);
        }
    }
}
