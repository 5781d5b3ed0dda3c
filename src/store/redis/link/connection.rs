//! Connections that are ours to supervise.
//!
//! A client that reconnects by itself hides that Redis is another process now. A [`Link`]
//! publishes a connection only after INFO and enrolment have answered on it, polls INFO once a second
//! (a proxy can swap the server behind an open connection), and withdraws it at the first doubt.
//! There is one link for each kind of work, so that a bulk upload never queues before a check.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ::redis::{Pipeline, Value};
use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep, timeout};

use super::dial::{CONNECT, Dial, QUEUE, Wire};
use super::process::{Eviction, Server};
use super::stall::Stall;
use super::wire::{Clock, HANDSHAKE, Trouble, exchange, who_answers};
use crate::error::StoreError;
use crate::store::redis::incarnation::join::{Enrolment, Identity};
use crate::store::redis::refusal::Refusal;
use crate::store::redis::reply::Reply;
use crate::store::redis::script::{Script, Sending};

/// How often an idle connection is polled.
const POLL: Duration = Duration::from_secs(1);
/// How often a stalled one is.
const STALLED_POLL: Duration = Duration::from_millis(100);
/// So many calls given up say that the server is silent, whatever the time: no more than [`ROOM`] and
/// this many ever pile up.
const SURFEIT: u32 = ROOM as u32;
/// Calls under way on a connection; the others wait, within their deadlines.
const ROOM: usize = QUEUE / 2;
/// The first and the longest wait between two attempts to connect.
/// Well below the grace that a new incarnation gets.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(500));

/// A connection that has proven what is on its other end.
pub(crate) struct Live {
    wire: Arc<dyn Wire>,
    pub(crate) server: Server,
    pub(crate) identity: Arc<Identity>,
    since: Instant,
    clock: ArcSwap<Clock>,
    eviction: ArcSwap<Eviction>,
}

impl Live {
    /// Returns Redis's clock at a local instant, µs since the Unix epoch, never ahead of the truth by
    /// more than the two clocks drift in a second.
    pub(crate) fn redis_us(&self, at: Instant) -> i64 {
        self.clock.load().at(at)
    }

    /// Returns what the server evicts, as of the last poll.
    pub(crate) fn eviction(&self) -> Eviction {
        **self.eviction.load()
    }

    /// Returns for how long the connection has been in use.
    pub(crate) fn age(&self) -> Duration {
        self.since.elapsed()
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").field("server", &self.server).finish_non_exhaustive()
    }
}

/// One supervised connection.
pub(crate) struct Link {
    dial: Arc<dyn Dial>,
    enrolment: Arc<Enrolment>,
    live: ArcSwapOption<Live>,
    /// Told of every new connection.
    connected: Notify,
    trouble: ArcSwapOption<String>,
    broken: Notify,
    stall: Stall,
    room: Semaphore,
    purpose: Purpose,
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

    /// Whether calls wait for a silence of the server's to end, within their deadlines. Who checks has
    /// something better to do.
    fn is_patient(self) -> bool {
        self != Self::Checks
    }
}

impl Link {
    pub(crate) fn new(dial: Arc<dyn Dial>, enrolment: Arc<Enrolment>, purpose: Purpose) -> Self {
        Self {
            dial,
            enrolment,
            live: ArcSwapOption::empty(),
            connected: Notify::new(),
            trouble: ArcSwapOption::empty(),
            broken: Notify::new(),
            stall: Stall::new(SURFEIT),
            room: Semaphore::new(ROOM),
            purpose,
        }
    }

    /// Returns the connection, if there is one.
    pub(crate) fn live(&self) -> Option<Arc<Live>> {
        self.live.load_full()
    }

    /// Whether this is the connection in use.
    pub(crate) fn uses(&self, live: &Arc<Live>) -> bool {
        self.live.load().as_ref().is_some_and(|current| Arc::ptr_eq(current, live))
    }

    /// Returns what ends with the next new connection, from this call on.
    pub(crate) fn news(&self) -> Notified<'_> {
        self.connected.notified()
    }

    /// Waits for a connection, up to a deadline.
    ///
    /// # Errors
    ///
    /// [`StoreError::Disconnected`] with what the last attempt met.
    pub(crate) async fn connected(&self, deadline: Duration) -> Result<Arc<Live>, StoreError> {
        let connected = async {
            loop {
                // Listening comes first: a connection made between the two is not missed.
                let news = self.connected.notified();
                if let Some(live) = self.live() {
                    return live;
                }
                news.await;
            }
        };
        timeout(deadline, connected).await.map_err(|_| self.disconnected())
    }

    /// What is wrong with the link, in words.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.trouble.load().as_deref().cloned()
    }

    fn disconnected(&self) -> StoreError {
        let reason = self.trouble().unwrap_or_else(|| "not connected yet".to_owned());
        StoreError::Disconnected { reason }
    }

    /// Sends commands in one go and returns their replies.
    ///
    /// # Errors
    ///
    /// The first thing that went wrong with any of them.
    pub(crate) async fn ask(
        &self,
        live: &Arc<Live>,
        commands: &Pipeline,
        deadline: Duration,
    ) -> Result<Vec<Value>, StoreError> {
        let late = StoreError::Timeout { deadline };
        let begun = Instant::now();
        let Ok(Some(_room)) = timeout(deadline, self.enter()).await else { return Err(late) };
        let call = self.stall.call();
        let rest = deadline.saturating_sub(begun.elapsed());
        match self.send(live, commands, rest).await {
            Err(StoreError::Timeout { .. }) => Err(late),
            answered => {
                call.answered();
                answered
            }
        }
    }

    /// Waits for room for a call, and for the server to be heard; gives up where that is not waited for.
    async fn enter(&self) -> Option<SemaphorePermit<'_>> {
        loop {
            if self.purpose.is_patient() {
                self.stall.ends().await;
            } else if self.stall.is_stalled() {
                return None;
            }
            let room = self.room.acquire().await.ok()?;
            // It may have fallen silent during the wait.
            if !self.stall.is_stalled() {
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
        live: &Arc<Live>,
        script: &'static Script,
        keys: &[&str],
        args: &[&[u8]],
        deadline: Duration,
    ) -> Result<Reply, StoreError> {
        match self.send_script(live, script, Sending::ByHash, keys, args, deadline).await {
            Err(StoreError::Refused { reason }) if Refusal::read(&reason) == Refusal::NoScript => {
                self.send_script(live, script, Sending::Whole, keys, args, deadline).await
            }
            other => other,
        }
    }

    async fn send_script(
        &self,
        live: &Arc<Live>,
        script: &'static Script,
        sending: Sending,
        keys: &[&str],
        args: &[&[u8]],
        deadline: Duration,
    ) -> Result<Reply, StoreError> {
        let mut pipeline = Pipeline::with_capacity(1);
        pipeline.add_command(script.command(sending, live.server.major, keys, args));
        let reply = self.ask(live, &pipeline, deadline).await?.into_iter().next();
        Ok(Reply::new(script.name(), reply.unwrap_or(Value::Nil)))
    }

    async fn send(
        &self,
        live: &Arc<Live>,
        commands: &Pipeline,
        deadline: Duration,
    ) -> Result<Vec<Value>, StoreError> {
        exchange(&*live.wire, commands, deadline).await.map_err(|trouble| {
            if trouble.lost {
                self.withdraw(live);
            }
            trouble.error
        })
    }

    /// Takes a connection out of use and has a new one made.
    pub(crate) fn withdraw(&self, live: &Arc<Live>) {
        let before = self.live.compare_and_swap(live, None::<Arc<Live>>);
        if before.as_ref().is_some_and(|before| Arc::ptr_eq(before, live)) {
            self.broken.notify_one();
        }
    }

    /// Keeps the link connected for as long as the task lives.
    pub(crate) async fn supervise(self: Arc<Self>) {
        let mut wait = BACKOFF.0;
        // A connection of an earlier runtime is dead.
        self.live.store(None);
        loop {
            match self.connect().await {
                Ok(live) => {
                    self.stall.note_answered();
                    if self.trouble.swap(None).is_some() {
                        tracing::info!(redis = ?self.dial, purpose = self.purpose.as_str(), "connected to redis again");
                    }
                    self.live.store(Some(Arc::clone(&live)));
                    self.connected.notify_waiters();
                    let reason = self.poll(&live).await;
                    self.live.store(None);
                    tracing::warn!(redis = ?self.dial, purpose = self.purpose.as_str(), reason, "a connection to redis is given up");
                    self.trouble.store(Some(Arc::new(reason)));
                    // Where two servers answer by turns, each connection is soon given up.
                    if live.age() < POLL {
                        sleep(wait).await;
                        wait = (wait * 2).min(BACKOFF.1);
                    } else {
                        wait = BACKOFF.0;
                    }
                }
                Err(error) => {
                    // Said once for each outage, and not at every attempt.
                    let reason = match error {
                        StoreError::Disconnected { reason } => reason,
                        other => other.to_string(),
                    };
                    if self.trouble.swap(Some(Arc::new(reason.clone()))).is_none() {
                        tracing::warn!(redis = ?self.dial, purpose = self.purpose.as_str(), reason, "there is no connection to redis");
                    }
                    sleep(wait).await;
                    wait = (wait * 2).min(BACKOFF.1);
                }
            }
        }
    }

    /// INFO first, then the clock, then enrolment.
    async fn connect(&self) -> Result<Arc<Live>, StoreError> {
        let wire = timeout(CONNECT + HANDSHAKE, self.dial.dial())
            .await
            .map_err(|_| StoreError::Timeout { deadline: CONNECT + HANDSHAKE })?
            .map_err(|error| Trouble::from(error).error)?;
        let (server, clock, eviction) = who_answers(&*wire).await?;
        let identity = self.enrolment.enrol(&*wire, &server).await?;
        Ok(Arc::new(Live {
            wire,
            server,
            identity,
            since: Instant::now(),
            clock: ArcSwap::from_pointee(clock),
            eviction: ArcSwap::from_pointee(eviction),
        }))
    }

    /// Returns, with the reason, when the connection is not to be trusted any more.
    async fn poll(&self, live: &Arc<Live>) -> String {
        loop {
            let stalled = self.stall.is_stalled();
            tokio::select! {
                biased;
                () = self.broken.notified() => return "the connection was lost".to_owned(),
                () = self.stall.begins() => {}
                () = sleep(if stalled { STALLED_POLL } else { POLL }) => {}
            }
            match who_answers(&*live.wire).await {
                Ok((server, ..)) if server != live.server => {
                    return "another redis process answers on the same connection".to_owned();
                }
                Ok((_, clock, eviction)) => {
                    live.eviction.store(Arc::new(eviction));
                    live.clock.store(Arc::new(clock));
                    self.stall.note_answered();
                }
                Err(error) => return error.to_string(),
            }
            match self.enrolment.holds(&*live.wire, &live.identity).await {
                Ok(true) => {}
                Ok(false) => return "the filter's metadata was lost or made anew".to_owned(),
                Err(error) => return error.to_string(),
            }
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("live", &self.live()).finish_non_exhaustive()
    }
}
