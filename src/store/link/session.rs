//! A session: the connections to one Redis process, one for each kind of work, and what was learnt when they were made.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use tokio::time::Instant;

use super::process::RedisProcess;
use super::transport::{Look, Transport};
use crate::error::StoreError;
use crate::store::BoxFuture;
use crate::store::clock::Clock;

/// What a connection is for: each has its own, so that no check waits behind an import or an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Checks,
    Inserts,
    Rebuilds,
}

impl Purpose {
    /// In the order of a session's connections. The handshake goes by the first.
    pub(crate) const ALL: [Self; 3] = [Self::Checks, Self::Inserts, Self::Rebuilds];
}

/// Connections that have shown that one Redis process is at their other ends. They are made, polled and given up together.
pub(crate) struct Session<I> {
    /// No other session of this process has it.
    pub(crate) number: u64,
    /// One for each purpose, in their order.
    transports: Vec<Arc<dyn Transport>>,
    pub(crate) process: RedisProcess,
    /// What the store's handshake has learnt on it.
    pub(crate) identity: I,
    /// What the last poll has found.
    pub(crate) look: ArcSwap<Look>,
}

impl<I> Session<I> {
    pub(super) fn new(transports: Vec<Arc<dyn Transport>>, look: Look, identity: I) -> Self {
        static MADE: AtomicU64 = AtomicU64::new(0);
        Self {
            number: MADE.fetch_add(1, Ordering::Relaxed),
            transports,
            process: look.process.clone(),
            identity,
            look: ArcSwap::from_pointee(look),
        }
    }

    /// Returns a connection, for commands that no deadline and no breaker concerns.
    pub(crate) fn transport(&self, purpose: Purpose) -> Arc<dyn Transport> {
        Arc::clone(&self.transports[purpose as usize])
    }

    /// Returns Redis's clock at a local instant, µs since the Unix epoch. It is ahead of the truth by no
    /// more than the two clocks drift in a second.
    pub(crate) fn redis_us(&self, at: Instant) -> i64 {
        self.look.load().clock.at(at)
    }

    /// Whether Redis's clock has gone on as this machine's to this reading.
    pub(crate) fn clock_agrees(&self, reading: Clock) -> bool {
        self.look.load().clock.agrees(reading)
    }
}

/// What a store does on the first connection of a session: `I` is what it learns there.
pub(crate) trait Handshake<I>: Send + Sync {
    fn join<'a>(
        &'a self,
        transport: &'a dyn Transport,
        process: &'a RedisProcess,
    ) -> BoxFuture<'a, Result<I, StoreError>>;

    /// Checks, with each poll, whether what was learnt still holds. An error ends the session.
    fn recheck<'a>(
        &'a self,
        transport: &'a dyn Transport,
        process: &'a RedisProcess,
        identity: &'a I,
    ) -> BoxFuture<'a, Result<(), StoreError>>;
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
        let look = Look { process, clock: Clock::now(0), may_evict: false };
        Arc::new(Session::new(vec![transport; Purpose::ALL.len()], look, identity))
    }
}
