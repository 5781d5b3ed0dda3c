//! A session: the connections to one Redis process, one for each kind of work, and what was learnt when they were made.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::time::Instant;

use super::process::{Eviction, RedisProcess};
use super::transport::{Clock, Transport};

/// What a connection is for. So no check waits behind an import or an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Checks,
    Inserts,
    Rebuilds,
}

impl Purpose {
    /// In the order of a session's connections. INFO about the memory and the handshake go by the first.
    pub(crate) const ALL: [Self; 3] = [Self::Checks, Self::Inserts, Self::Rebuilds];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Checks => "checks",
            Self::Inserts => "inserts",
            Self::Rebuilds => "rebuilds",
        }
    }

    /// Whether calls wait, within their deadlines, until the breaker is closed. Checks have another answer at hand.
    pub(super) fn waits_for_breaker(self) -> bool {
        self != Self::Checks
    }

    /// Whether calls wait, within their deadlines, for a Redis that the last attempt has not reached. An
    /// insert may hold a connection to the database meanwhile, which requests wait for that only read.
    pub(super) fn waits_for_the_unreachable(self) -> bool {
        self == Self::Rebuilds
    }
}

/// Connections that have shown that one Redis process is at their other ends. They are made, polled and given up together.
pub(crate) struct Session<I> {
    /// By purpose; others once their credentials were renewed.
    transports: ArcSwap<Transports>,
    pub(crate) process: RedisProcess,
    /// What the store's handshake has learnt on it.
    pub(crate) identity: Arc<I>,
    since: Instant,
    clock: ArcSwap<Clock>,
    eviction: ArcSwap<Eviction>,
}

/// A connection for each purpose.
pub(super) type Transports = Box<[Arc<dyn Transport>]>;

impl<I> Session<I> {
    pub(super) fn new(
        transports: Transports,
        process: RedisProcess,
        identity: Arc<I>,
        clock: Clock,
        eviction: Eviction,
    ) -> Self {
        Self {
            transports: ArcSwap::from_pointee(transports),
            process,
            identity,
            since: Instant::now(),
            clock: ArcSwap::from_pointee(clock),
            eviction: ArcSwap::from_pointee(eviction),
        }
    }

    /// Returns what commands are sent by where no deadline and no breaker is looked at.
    pub(crate) fn transport(&self, purpose: Purpose) -> Arc<dyn Transport> {
        Arc::clone(&self.transports.load()[purpose as usize])
    }

    /// Returns when the first of the credentials end by which its connections were opened, if any do.
    pub(super) fn credentials_end(&self) -> Option<Instant> {
        self.transports.load().iter().filter_map(|transport| transport.until()).min()
    }

    /// Has what comes go by other connections to the same process. What is under way ends on those before.
    pub(super) fn go_by(&self, transports: Transports) {
        self.transports.store(Arc::new(transports));
    }

    /// Returns Redis's clock at a local instant, µs since the Unix epoch. It is ahead of the truth by no
    /// more than the two clocks drift in a second.
    pub(crate) fn redis_us(&self, at: Instant) -> i64 {
        self.clock.load().at(at)
    }

    /// Whether Redis's clock can show this now, µs since the Unix epoch, and has not jumped.
    pub(crate) fn shows(&self, us: i64) -> bool {
        self.has(Clock::now(us))
    }

    /// Whether Redis's clock has gone on as this machine's to this reading.
    pub(super) fn has(&self, clock: Clock) -> bool {
        self.clock.load().agrees(clock)
    }

    /// Returns what the server evicts, as of the last poll.
    pub(crate) fn eviction(&self) -> Eviction {
        **self.eviction.load()
    }

    /// Returns for how long the session has been in use.
    pub(crate) fn age(&self) -> Duration {
        self.since.elapsed()
    }

    pub(super) fn note_eviction(&self, eviction: Eviction) {
        self.eviction.store(Arc::new(eviction));
    }

    /// Notes what Redis's clock shows. One that has jumped is told to no null and no rebuild, also where nothing else could be
    /// asked.
    pub(super) fn note_clock(&self, clock: Clock) {
        if self.has(clock) {
            self.clock.store(Arc::new(clock));
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns a session with a Redis process that sends by this transport, and has learnt this.
    pub(crate) fn session<I>(
        transport: Arc<dyn Transport>,
        run: u32,
        identity: I,
    ) -> Arc<Session<I>> {
        let process = RedisProcess { run, major: 7 };
        let identity = Arc::new(identity);
        let transports = vec![transport; Purpose::ALL.len()].into();
        Arc::new(Session::new(transports, process, identity, Clock::now(0), Eviction::Spares))
    }
}
