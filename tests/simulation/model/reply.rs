//! What the model answers.

use redis::Value;

/// One reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    Status(String),
    Int(i64),
    Bulk(Vec<u8>),
    Nil,
    Array(Vec<Reply>),
    Error(String),
}

impl Reply {
    pub(crate) fn ok() -> Self {
        Self::Status("OK".to_owned())
    }

    pub(crate) fn error(text: &str) -> Self {
        Self::Error(text.to_owned())
    }

    pub(crate) fn wrong_type() -> Self {
        Self::error("WRONGTYPE Operation against a key holding the wrong kind of value")
    }

    pub(crate) fn bulk(bytes: impl AsRef<[u8]>) -> Self {
        Self::Bulk(bytes.as_ref().to_vec())
    }

    /// The value as the Redis client shows it.
    pub(crate) fn into_value(self) -> Value {
        match self {
            Self::Status(text) if text == "OK" => Value::Okay,
            Self::Status(text) => Value::SimpleString(text),
            Self::Int(value) => Value::Int(value),
            Self::Bulk(bytes) => Value::BulkString(bytes),
            Self::Nil => Value::Nil,
            Self::Array(items) => Value::Array(items.into_iter().map(Self::into_value).collect()),
            Self::Error(text) => redis::parse_redis_value(format!("-{text}\r\n").as_bytes())
                .expect("an error line is a reply"),
        }
    }
}
