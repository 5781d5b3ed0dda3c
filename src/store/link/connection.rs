//! An open connection, and what is known of the Redis process at its other end.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::time::Instant;

use super::process::{Eviction, RedisProcess};
use super::transport::{Clock, Transport};

/// A connection that has shown which Redis process is at its other end.
pub(crate) struct Connection<I> {
    /// Another one once its credentials were renewed.
    transport: ArcSwap<Arc<dyn Transport>>,
    pub(crate) process: RedisProcess,
    /// What the store's handshake has learnt on it.
    pub(crate) identity: Arc<I>,
    since: Instant,
    clock: ArcSwap<Clock>,
    eviction: ArcSwap<Eviction>,
}

impl<I> Connection<I> {
    pub(super) fn new(
        transport: Arc<dyn Transport>,
        process: RedisProcess,
        identity: Arc<I>,
        clock: Clock,
        eviction: Eviction,
    ) -> Self {
        let (clock, eviction) = (ArcSwap::from_pointee(clock), ArcSwap::from_pointee(eviction));
        let transport = ArcSwap::from_pointee(transport);
        Self { transport, process, identity, since: Instant::now(), clock, eviction }
    }

    /// Returns what commands are sent by where no deadline and no breaker is looked at.
    pub(crate) fn transport(&self) -> Arc<dyn Transport> {
        Arc::clone(&self.transport.load())
    }

    /// Has what comes go by another transport to the same process. What is under way ends on the one before.
    pub(super) fn go_by(&self, transport: Arc<dyn Transport>) {
        self.transport.store(Arc::new(transport));
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

    /// Returns for how long the connection has been in use.
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

    /// Returns a connection to a Redis process that sends by this transport, and has learnt this.
    pub(crate) fn connection<I>(
        transport: Arc<dyn Transport>,
        run: u32,
        identity: I,
    ) -> Arc<Connection<I>> {
        let process = RedisProcess { run, major: 7 };
        let identity = Arc::new(identity);
        Arc::new(Connection::new(transport, process, identity, Clock::now(0), Eviction::Spares))
    }
}
