//! One exchange with Redis on an open connection, below all supervision.

use std::net::SocketAddr;
use std::time::Duration;

use ::redis::{RedisError, RedisResult, Value, cmd};
use tokio::time::{Instant, timeout};

use super::process::{RedisProcess, may_evict};
use super::resp::Packed;
use crate::error::StoreError;
use crate::store::BoxFuture;
use crate::store::link::refusal::Consequences;
use crate::store::link::reply::Reply;
use crate::verdict::Doubt;

/// A bare connection. It ends when it is dropped and never reconnects.
pub(crate) trait Transport: Send + Sync {
    /// Sends commands together and returns a reply to each, or the first refusal. If the future is dropped, they may be executed all
    /// the same.
    fn send(&self, packed: Packed) -> BoxFuture<'_, RedisResult<Vec<Value>>>;

    /// Returns the address of its near end, where it has one.
    fn local(&self) -> Option<SocketAddr> {
        None
    }
}

/// How long each exchange of a handshake, and each poll, may take.
pub(crate) const HANDSHAKE: Duration = Duration::from_millis(500);

/// By how much Redis's clock and this machine's may part between two readings.
pub(crate) const CLOCKS_PART: Duration = Duration::from_secs(2);
/// The same as a part of the time between the readings. A machine's clock drifts by less than a tenth of this.
const DRIFTS: u32 = 1_000;

/// Redis's clock, read at a local instant.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    read: Instant,
    us: i64,
}

impl Clock {
    pub(crate) fn now(us: i64) -> Self {
        Self { read: Instant::now(), us }
    }

    /// Whether a later reading shows as much time to have passed as this machine's clock does.
    pub(crate) fn agrees(self, later: Self) -> bool {
        let may_part = CLOCKS_PART + later.read.saturating_duration_since(self.read) / DRIFTS;
        u128::from(self.at(later.read).abs_diff(later.us)) <= may_part.as_micros()
    }

    pub(crate) fn age(&self) -> Duration {
        self.read.elapsed()
    }

    /// Returns Redis's clock at another local instant, µs since the Unix epoch.
    pub(crate) fn at(&self, at: Instant) -> i64 {
        let micros = |duration: Duration| i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        match at.checked_duration_since(self.read) {
            Some(later) => self.us.saturating_add(micros(later)),
            None => self.us.saturating_sub(micros(self.read - at)),
        }
    }
}

pub(crate) fn meaning(error: &RedisError) -> StoreError {
    let reason = words(error);
    if error.is_connection_dropped() || error.is_io_error() {
        // Redis may say why before it hangs up.
        let doubt = Consequences::within(&reason).map_or(Doubt::Disconnected, |known| known.doubt);
        return StoreError::NoAnswer { doubt, reason };
    }
    StoreError::Refused { doubt: Consequences::read(&reason).doubt, reason }
}

/// Returns Redis's words, its code first.
pub(super) fn words(error: &RedisError) -> String {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        (Some(code), None) => code.to_owned(),
        _ => error.to_string(),
    }
}

pub(crate) async fn exchange(
    transport: &dyn Transport,
    packed: Packed,
    deadline: Duration,
) -> Result<Vec<Value>, StoreError> {
    let replies = timeout(deadline, transport.send(packed)).await;
    replies.map_err(|_| StoreError::late(deadline))?.map_err(|error| meaning(&error))
}

pub(crate) async fn ask(
    transport: &dyn Transport,
    step: &'static str,
    command: impl Into<Packed>,
    deadline: Duration,
) -> Result<Reply, StoreError> {
    let reply = exchange(transport, command.into(), deadline).await?.pop();
    Ok(Reply::new(step, reply.unwrap_or(Value::Nil)))
}

/// What INFO and TIME say of a server.
pub(crate) struct Look {
    pub(crate) process: RedisProcess,
    pub(crate) clock: Clock,
    /// Whether Redis may evict any key.
    pub(crate) may_evict: bool,
}

/// Asks which Redis process answers, what it evicts, and then what time it has: a Sentinel answers INFO, and refuses TIME.
pub(super) async fn inspect(transport: &dyn Transport, as_node: bool) -> Result<Look, StoreError> {
    let infos =
        ["server", "replication", "memory"].iter().map(|section| cmd("INFO").arg(section).clone());
    let infos = exchange(transport, infos.collect(), HANDSHAKE).await?.into_iter();
    let info = infos.map(|info| Reply::new("INFO", info).text()).collect::<Result<String, _>>()?;
    let process = RedisProcess::parse(&info, as_node)?;
    let [seconds, micros] = ask(transport, "TIME", cmd("TIME"), HANDSHAKE).await?.fields()?;
    let clock = Clock::now(Reply::time(&seconds, &micros)?);
    Ok(Look { process, clock, may_evict: may_evict(&info) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_was_set_is_noticed_also_after_a_long_outage() {
        const HOURS: u64 = 10 * 3_600;
        for (seconds, by_ms, agrees) in [
            (1, 1_900, true),
            (1, 2_100, false),
            (1, -2_100, false),
            (HOURS, 30_000, true),
            (HOURS, 60_000, false),
            (HOURS, -60_000, false),
        ] {
            let before = Clock::now(0);
            tokio::time::advance(Duration::from_secs(seconds)).await;
            let later = Clock::now((seconds * 1_000_000).cast_signed() + by_ms * 1_000);
            assert_eq!(before.agrees(later), agrees, "{by_ms} ms in {seconds} s");
        }
    }
}
