//! One exchange with the server on a connection, before and below all supervision.

use std::time::Duration;

use ::redis::{Pipeline, RedisError, Value, cmd};
use tokio::time::{Instant, timeout};

use super::dial::Wire;
use super::process::{Eviction, Server};
use crate::error::StoreError;
use crate::store::redis::refusal::{Connection, Refusal};
use crate::store::redis::reply::Reply;

/// How long each of the first commands on a connection, and each poll, may take.
pub(crate) const HANDSHAKE: Duration = Duration::from_millis(500);
/// Redis's clock, read at a local instant.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    read: Instant,
    us: i64,
}

impl Clock {
    /// Returns Redis's clock at another local instant, µs since the Unix epoch.
    pub(crate) fn at(&self, at: Instant) -> i64 {
        let micros = |duration: Duration| i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        match at.checked_duration_since(self.read) {
            Some(later) => self.us.saturating_add(micros(later)),
            None => self.us.saturating_sub(micros(self.read - at)),
        }
    }
}

/// An error, and whether the connection is lost with it.
pub(crate) struct Trouble {
    pub(crate) error: StoreError,
    pub(crate) lost: bool,
}

impl Trouble {
    fn refused(reason: String) -> Self {
        let lost = Refusal::read(&reason).connection() == Connection::Withdraw;
        Self { error: StoreError::Refused { reason }, lost }
    }
}

impl From<RedisError> for Trouble {
    fn from(error: RedisError) -> Self {
        let broken = error.is_connection_dropped() || error.is_io_error();
        let reason = match (error.code(), error.detail()) {
            (Some(code), Some(detail)) => format!("{code} {detail}"),
            (Some(code), None) => code.to_owned(),
            _ => error.to_string(),
        };
        if broken {
            return Self { error: StoreError::Disconnected { reason }, lost: true };
        }
        Self::refused(reason)
    }
}

/// Sends commands on a bare connection.
pub(crate) async fn exchange(
    wire: &dyn Wire,
    commands: &Pipeline,
    deadline: Duration,
) -> Result<Vec<Value>, Trouble> {
    let Ok(replies) = timeout(deadline, wire.send(commands)).await else {
        return Err(Trouble { error: StoreError::Timeout { deadline }, lost: false });
    };
    let replies = replies?;
    for reply in &replies {
        if let Value::ServerError(error) = reply {
            let reason = format!("{} {}", error.code(), error.details().unwrap_or_default());
            return Err(Trouble::refused(reason));
        }
    }
    if replies.len() != commands.len() {
        let answer = format!("{} replies to {} commands", replies.len(), commands.len());
        return Err(Trouble { error: StoreError::Odd { step: "pipeline", answer }, lost: true });
    }
    Ok(replies)
}

/// Asks a connection's other end who it is, what time it has, and what it evicts.
pub(crate) async fn who_answers(wire: &dyn Wire) -> Result<(Server, Clock, Eviction), StoreError> {
    let mut commands = Pipeline::with_capacity(4);
    for section in ["server", "memory"] {
        commands.add_command(cmd("INFO").arg(section).clone());
    }
    commands.add_command(cmd("INFO").arg("replication").clone()).add_command(cmd("TIME"));
    let replies = exchange(wire, &commands, HANDSHAKE).await.map_err(|trouble| trouble.error)?;
    let read = Instant::now();
    let [info, memory, replication, time] = Reply::new("INFO", Value::Array(replies)).fields()?;
    let info = info.text()? + &replication.text()?;
    let server = Server::parse(&info).map_err(|reason| StoreError::Refused { reason })?;
    let [seconds, micros] = time.fields()?;
    let us = seconds.int()?.saturating_mul(1_000_000).saturating_add(micros.int()?);
    Ok((server, Clock { read, us }, Eviction::parse(&memory.text()?)))
}
