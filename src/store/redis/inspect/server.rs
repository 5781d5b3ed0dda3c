//! A connection to the Redis at a URL, without any guard.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use ::redis::{Cmd, RedisResult, Value};
use tokio::time::timeout;

use super::error::InspectError;
use crate::error::StoreError;
use crate::store::BoxFuture;
use crate::store::link::access::Access;
use crate::store::link::process::{Eviction, RedisProcess};
use crate::store::link::reply::Reply;
use crate::store::link::resp::{Packed, values};
use crate::store::link::transport::{self, Transport, Trouble};
use crate::store::map::endpoint::Endpoint;

/// How long Redis may take for an answer.
const DEADLINE: Duration = Duration::from_secs(10);
/// What the longest reply may take: some pages of a journal.
const LONG: usize = 64 << 20;

/// A connection to the Redis that has a key: at the URL's address, where its Sentinels say, or the node of its cluster.
pub struct Server {
    transport: Arc<dyn Transport>,
}

/// What Redis said to a command.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    /// Nothing is there.
    Nil,
    /// A number.
    Int(i64),
    /// A string, or a status.
    Bytes(Vec<u8>),
    /// Several answers.
    List(Vec<Said>),
}

impl Server {
    /// Connects. Whether it is a Redis that can serve a guard is not asked.
    ///
    /// # Errors
    ///
    /// The URL cannot be read, or leads nowhere.
    pub async fn open(url: &str, key: &str) -> Result<Self, InspectError> {
        let endpoint = Endpoint::parse(url)?.with(&Access::default())?;
        let key: Arc<str> = key.into();
        let connector = endpoint.connector(move || Some(Arc::clone(&key)));
        let deadline = connector.patience();
        let connected = timeout(deadline, connector.connect()).await;
        let connected = connected.map_err(|_| StoreError::Timeout { deadline })?;
        let transport = connected.map_err(|error| Trouble::from(error).error)?;
        Ok(Self { transport })
    }

    /// Runs one command.
    ///
    /// # Errors
    ///
    /// Redis refused, or did not answer.
    pub async fn ask<W: AsRef<[u8]>>(&self, words: &[W]) -> Result<Said, StoreError> {
        let mut command = Cmd::new();
        for word in words {
            command.arg(word.as_ref());
        }
        self.reply(command).await.map(Said::from)
    }

    /// Returns what stands for a server that nobody can connect to.
    pub(super) fn away(reason: &str) -> Self {
        Self { transport: Arc::new(Away(reason.to_owned())) }
    }

    pub(super) async fn reply(&self, command: Cmd) -> Result<Value, StoreError> {
        let packed = Packed::from(&transport::one(command)).for_long_replies(LONG);
        let mut replies = values(&self.send(packed).await?, 1)?;
        Ok(replies.pop().unwrap_or(Value::Nil))
    }

    /// Runs one command, whose reply errors call by this name.
    pub(super) async fn step(&self, step: &'static str, command: Cmd) -> Result<Reply, StoreError> {
        self.reply(command).await.map(|value| Reply::new(step, value))
    }

    pub(super) async fn send(&self, packed: Packed) -> Result<Vec<u8>, StoreError> {
        Ok(transport::send(&*self.transport, packed, DEADLINE).await?)
    }

    /// Asks which process answers, in the words of a guard if it cannot serve one, and whether it may evict any key.
    pub(super) async fn process(&self) -> Result<(RedisProcess, bool), StoreError> {
        let (process, _, eviction) = transport::inspect(&*self.transport, true).await?;
        Ok((process, eviction == Eviction::Takes))
    }
}

/// Why there is no connection.
struct Away(String);

impl Transport for Away {
    fn send(&self, _: Packed) -> BoxFuture<'_, RedisResult<Vec<u8>>> {
        let error = io::Error::new(io::ErrorKind::NotConnected, self.0.clone());
        Box::pin(async move { Err(error.into()) })
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

impl Said {
    /// Returns the text of a string; empty for what is none.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Self::Int(number) => number.to_string(),
            Self::Nil | Self::List(_) => String::new(),
        }
    }

    /// Returns the elements of a list; none of what is no list.
    #[must_use]
    pub fn list(&self) -> &[Self] {
        if let Self::List(list) = self { list } else { &[] }
    }
}

impl From<Value> for Said {
    fn from(value: Value) -> Self {
        match value {
            Value::Int(number) => Self::Int(number),
            Value::BulkString(bytes) => Self::Bytes(bytes),
            Value::SimpleString(text) => Self::Bytes(text.into_bytes()),
            Value::Okay => Self::Bytes(b"OK".to_vec()),
            Value::Array(values) => Self::List(values.into_iter().map(Self::from).collect()),
            _ => Self::Nil,
        }
    }
}
