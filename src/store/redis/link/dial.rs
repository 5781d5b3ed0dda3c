//! Opens connections and sends commands: the only file that drives the Redis client.
//!
//! All other files work with [`Dial`] and [`Wire`]. So a model of Redis can take the network's place, and the
//! whole protocol can be run with any delays and losses.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{AsyncConnectionConfig, Client, Pipeline, RedisResult, Value};

use crate::store::BoxFuture;

/// How long a TCP connection may take.
pub(crate) const CONNECT: Duration = Duration::from_millis(250);
/// Commands queued on a connection before callers wait.
pub(crate) const QUEUE: usize = 1024;

/// Opens connections to one address.
pub(crate) trait Dial: fmt::Debug + Send + Sync {
    /// Opens a connection. The caller has to find out which Redis process answers on it.
    fn dial(&self) -> BoxFuture<'_, RedisResult<Arc<dyn Wire>>>;
}

/// A bare connection. It ends when it is dropped and never reconnects.
pub(crate) trait Wire: Send + Sync {
    /// Sends commands in one go and returns the reply to each. Commands of a future that is dropped
    /// may be executed all the same.
    fn send<'a>(&'a self, commands: &'a Pipeline) -> BoxFuture<'a, RedisResult<Vec<Value>>>;
}

/// The address of a real server.
pub(crate) struct Address {
    client: Client,
    config: AsyncConnectionConfig,
}

impl Address {
    pub(crate) fn new(client: Client) -> Self {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT))
            // Every call has a deadline of its own.
            .set_response_timeout(None)
            .set_pipeline_buffer_size(QUEUE)
            .set_concurrency_limit(QUEUE);
        Self { client, config }
    }
}

impl Dial for Address {
    fn dial(&self) -> BoxFuture<'_, RedisResult<Arc<dyn Wire>>> {
        Box::pin(async move {
            let connection =
                self.client.get_multiplexed_async_connection_with_config(&self.config).await?;
            Ok(Arc::new(connection) as Arc<dyn Wire>)
        })
    }
}

impl Wire for MultiplexedConnection {
    fn send<'a>(&'a self, commands: &'a Pipeline) -> BoxFuture<'a, RedisResult<Vec<Value>>> {
        let mut connection = self.clone();
        Box::pin(async move { connection.send_packed_commands(commands, 0, commands.len()).await })
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let info = self.client.get_connection_info();
        match info.redis_settings().db() {
            0 => write!(f, "{}", info.addr()),
            database => write!(f, "{}/{database}", info.addr()),
        }
    }
}
