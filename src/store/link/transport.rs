//! One exchange with Redis on an open connection, below all supervision.

use std::net::SocketAddr;
use std::time::Duration;

use ::redis::{RedisError, RedisResult, Value, cmd};
use tokio::time::timeout;

use super::process::{RedisProcess, may_evict};
use super::resp::Packed;
use crate::error::StoreError;
use crate::refusal::Refusal;
use crate::store::BoxFuture;
use crate::store::clock::Clock;
use crate::store::link::refusal::Consequences;
use crate::store::link::reply::Reply;
use crate::verdict::Doubt;

/// A bare connection. It ends when it is dropped and never reconnects.
pub(crate) trait Transport: Send + Sync {
    /// Sends commands together and returns a reply to each, or the first refusal. If the future is dropped, they may be executed all
    /// the same.
    fn send(&self, packed: Packed) -> BoxFuture<'_, RedisResult<Vec<Value>>>;

    /// Sends commands without waiting for replies, if there is room.
    fn tell(&self, _packed: Packed) {}

    /// Returns the address of its near end, where it has one.
    fn local(&self) -> Option<SocketAddr> {
        None
    }
}

/// How long each exchange of a handshake, and each poll, may take.
pub(crate) const HANDSHAKE: Duration = Duration::from_millis(500);

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

/// Asks which Redis process answers, what time it has, and what it evicts.
pub(super) async fn inspect(transport: &dyn Transport, as_node: bool) -> Result<Look, StoreError> {
    let infos =
        ["server", "replication", "memory"].iter().map(|section| cmd("INFO").arg(section).clone());
    let commands = infos.chain([cmd("TIME")]).collect();
    let replies = match exchange(transport, commands, HANDSHAKE).await {
        Ok(replies) => replies,
        Err(error) => return Err(named(transport, as_node, error).await),
    };
    let mut replies = Reply::new("INFO", Value::Array(replies)).array()?;
    let time = replies.pop().unwrap_or_else(|| Reply::new("TIME", Value::Nil));
    let info = replies.into_iter().map(Reply::text).collect::<Result<String, _>>()?;
    let process = RedisProcess::parse(&info, as_node)?;
    let [seconds, micros] = time.fields()?;
    let us = Reply::time(&seconds, &micros)?;
    Ok(Look { process, clock: Clock::now(us), may_evict: may_evict(&info) })
}

/// Returns an error that names the kind of a server without keys: a Sentinel refuses TIME.
async fn named(transport: &dyn Transport, as_node: bool, refused: StoreError) -> StoreError {
    if let StoreError::Refused { doubt: Doubt::Refused(Refusal::UNSUPPORTED), .. } = refused
        && let Ok(info) = ask(transport, "INFO", cmd("INFO").arg("server").clone(), HANDSHAKE).await
        && let Ok(info) = info.text()
        && let Err(named) = RedisProcess::serves_keys(&info, as_node)
    {
        return named;
    }
    refused
}
