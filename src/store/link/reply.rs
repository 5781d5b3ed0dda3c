//! Taking replies apart. A reply of the wrong shape is an error, never a default.

use std::fmt::Display;

use ::redis::{FromRedisValue, Value};

use crate::error::StoreError;
use crate::refusal::Refusal;
use crate::verdict::Doubt;

/// A reply, and the step it answers, for the error's sake.
pub(crate) struct Reply {
    step: &'static str,
    value: Value,
}

impl Reply {
    pub(crate) const fn new(step: &'static str, value: Value) -> Self {
        Self { step, value }
    }

    pub(crate) fn next(
        step: &'static str,
        replies: &mut impl Iterator<Item = Value>,
    ) -> Result<Self, StoreError> {
        let value = replies.next().ok_or_else(|| odd(step, "too few replies"))?;
        Ok(Self { step, value })
    }

    fn odd(&self) -> StoreError {
        let kind = match &self.value {
            Value::Nil => "nil".to_owned(),
            Value::Int(value) => format!("the integer {value}"),
            Value::BulkString(bytes) => format!("a string of {} bytes", bytes.len()),
            Value::Array(values) => format!("an array of {}", values.len()),
            _ => "a value of another kind".to_owned(),
        };
        odd(self.step, kind)
    }

    pub(crate) fn array(self) -> Result<Vec<Self>, StoreError> {
        let step = self.step;
        match self.value {
            Value::Array(values) => {
                Ok(values.into_iter().map(|value| Self { step, value }).collect())
            }
            _ => Err(self.odd()),
        }
    }

    /// Returns an array of names, each before its value.
    pub(crate) fn pairs(self) -> Result<Vec<[Self; 2]>, StoreError> {
        let step = self.step;
        let items = self.array()?;
        if items.len() % 2 > 0 {
            return Err(odd(step, "a name without a value"));
        }
        let mut items = items.into_iter();
        Ok(std::iter::from_fn(|| Some([items.next()?, items.next()?])).collect())
    }

    /// Returns the word that an array begins with, and what follows.
    pub(crate) fn outcome(self) -> Result<(String, Vec<Self>), StoreError> {
        let step = self.step;
        let mut items = self.array()?.into_iter();
        let word = items.next().ok_or_else(|| odd(step, "an empty array"))?.text()?;
        Ok((word, items.collect()))
    }

    /// Returns the time that TIME tells in seconds and microseconds, µs.
    pub(crate) fn time(seconds: &Self, micros: &Self) -> Result<i64, StoreError> {
        Ok(seconds.int()?.saturating_mul(1_000_000).saturating_add(micros.int()?))
    }

    pub(crate) fn fields<const N: usize>(self) -> Result<[Self; N], StoreError> {
        let step = self.step;
        let items = self.array()?;
        let len = items.len();
        items.try_into().map_err(|_| odd(step, format!("{len} fields")))
    }

    /// Returns an integer, written as one or as decimal text.
    pub(crate) fn int(&self) -> Result<i64, StoreError> {
        FromRedisValue::from_redis_value_ref(&self.value).map_err(|_| self.odd())
    }

    pub(crate) const fn is_nil(&self) -> bool {
        matches!(self.value, Value::Nil)
    }

    /// Returns the words of an error within an array.
    pub(crate) fn error(&self) -> Option<String> {
        let Value::ServerError(error) = &self.value else { return None };
        Some(format!("{} {}", error.code(), error.details().unwrap_or_default()))
    }

    /// Returns 0 or 1 as a boolean.
    pub(crate) fn flag(&self) -> Result<bool, StoreError> {
        match &self.value {
            Value::Int(0) => Ok(false),
            Value::Int(1) => Ok(true),
            _ => Err(self.odd()),
        }
    }

    pub(crate) fn count(&self) -> Result<u64, StoreError> {
        u64::try_from(self.int()?).map_err(|_| self.odd())
    }

    pub(crate) fn port(&self) -> Result<u16, StoreError> {
        u16::try_from(self.int()?).map_err(|_| self.odd())
    }

    pub(crate) fn bytes(self) -> Result<Vec<u8>, StoreError> {
        match self.value {
            Value::BulkString(bytes) => Ok(bytes),
            Value::SimpleString(text) => Ok(text.into_bytes()),
            Value::Okay => Ok(b"OK".to_vec()),
            _ => Err(self.odd()),
        }
    }

    pub(crate) fn text(self) -> Result<String, StoreError> {
        let step = self.step;
        String::from_utf8(self.bytes()?).map_err(|_| odd(step, "bytes that are not text"))
    }

    pub(crate) fn optional_bytes(self) -> Result<Option<Vec<u8>>, StoreError> {
        if self.is_nil() { Ok(None) } else { self.bytes().map(Some) }
    }
}

/// Returns the error of a reply that makes no sense.
pub(crate) fn odd(step: &str, answer: impl Display) -> StoreError {
    let doubt = Doubt::Refused(Refusal::ODD);
    StoreError::GivenUp { doubt, reason: format!("redis answered {step} with {answer}") }
}
