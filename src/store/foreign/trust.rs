//! States that a filter is whole, once what is there shows that its layout and numbers are the writer's.

use std::sync::Arc;
use std::time::Duration;

use ::redis::{Cmd, Value, cmd};
use tokio::time::Instant;

use super::layout::{Extent, MOST_BITS, Numbers};
use super::site::{Connection, Site};
use super::size::{BloomSize, rate};
use super::statement::{Evidence, Statement};
use crate::error::StoreError;
use crate::filter::Generation;
use crate::id::InvalidId;
use crate::store::link::reply::Reply;
use crate::store::link::transport::pipeline;

/// How often wrong numbers may be taken for right ones.
pub(super) const CHANCE: f64 = 1e-9;
/// Filters in which a larger share of absent ids is found show nothing, and refuse hardly any.
pub(super) const MOST_FOUND: f64 = 0.9;
/// How long each command may take.
const DEADLINE: Duration = Duration::from_secs(5);
/// Bytes counted by one command, which keeps Redis busy for less than a millisecond.
const PIECE: u64 = 1 << 20;
/// Ids looked for by one pipeline.
const ASKED: usize = 500;
/// A bitmap is made longer by 1 to so many clear bytes: a length that no program gives it which writes it anew.
const LONGER: u64 = 64;

/// Why [`BloomGuard::trust_foreign`](crate::BloomGuard::trust_foreign) stated nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// The guard's filter is its own: it needs no statement.
    #[error("the guard has no filter of another system")]
    NotForeign,
    /// One of the ids that exist is none.
    #[error(transparent)]
    Invalid(#[from] InvalidId),
    /// What is at the key is no filter of these numbers, or lacks ids, or nothing shows that it is.
    #[error("{filter}: {reason}")]
    Unfit {
        /// The layout, its keys and its numbers.
        filter: String,
        /// What is wrong, in words.
        reason: String,
    },
    /// Redis did not do what it was asked to.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What there is of a filter on one Redis.
pub(super) struct Sight {
    run: u32,
    config: Numbers,
    pub(super) size: BloomSize,
    extents: Vec<Extent>,
    bits: u64,
    capacity: u64,
    ids: u64,
}

impl Sight {
    /// Returns the share of absent ids that are found.
    pub(super) fn rate(&self) -> f64 {
        rate(self.bits, self.capacity, self.ids)
    }
}

impl Site {
    /// Looks at all of the part, and sees that its keys have the type and the length that the numbers say.
    pub(super) async fn survey(&self) -> Result<Sight, TrustError> {
        let (part, layout) = (&self.part, &self.part.layout);
        let connection = self.node.inserts.connected(DEADLINE).await?;
        let replies = self.node.inserts.ask(&connection, &pipeline(part.ask()), DEADLINE).await?;
        let evidence = part.read(&mut replies.into_iter())?;
        let run = connection.process.run;
        let size = part.learn(None, run, &evidence).size;
        let Evidence { config, extents, .. } = evidence;
        let size = size.map_err(|reason| self.unfit(&config, reason))?;
        let Extent { bytes, ids, capacity } = extents[0];
        let mut sight = Sight { run, config, size, extents, bits: bytes * 8, capacity, ids };
        if layout.is_bitmap() {
            let mut set = 0;
            for (at, (_, key)) in part.keys.iter().enumerate() {
                set += self.measure(&connection, key, at, &sight).await?;
            }
            let whole = BloomSize { bits: layout.end(size) * part.keys.len() as u64, ..size };
            (sight.bits, sight.ids) = (whole.bits, whole.estimated_ids(set));
            sight.capacity = whole.estimated_ids(whole.bits / 2);
        }
        if sight.ids == 0 {
            return Err(self.unfit(&sight.config, "it holds no id".to_owned()));
        }
        Ok(sight)
    }

    /// Counts the bits of a bitmap's key, and judges its length.
    async fn measure(
        &self,
        connection: &Arc<Connection>,
        key: &str,
        at: usize,
        seen: &Sight,
    ) -> Result<u64, TrustError> {
        let (bytes, end) = (seen.extents[at].bytes, self.part.layout.end(seen.size));
        let mut set = 0;
        for first in (0..bytes).step_by(PIECE as usize) {
            let last = (first + PIECE).min(bytes) - 1;
            let count = cmd("BITCOUNT").arg(key).arg(first).arg(last).clone();
            set += self.ask_one(connection, count).await?.count()?;
        }
        let behind = cmd("GETRANGE").arg(key).arg(end / 8).arg(end / 8 + LONGER).clone();
        let mut behind = self.ask_one(connection, behind).await?.bytes()?;
        if let Some(first) = behind.first_mut() {
            *first &= 0xff >> (end % 8);
        }
        // Hardly any filter has all of its bits so far in front.
        let least = (end as f64 * (CHANCE.ln() / set as f64).exp() / 8.0) as u64;
        let least = if self.part.layout.is_even() { least } else { 1 };
        let most = end.div_ceil(8) + LONGER;
        let reason = if bytes == 0 {
            "holds no id".to_owned()
        } else if !(least..=most).contains(&bytes) {
            format!(
                "has {bytes} bytes, and not between {least} and {most}: compare the number of bits with the writer's"
            )
        } else if behind.iter().any(|byte| *byte != 0) {
            format!("has bits set from bit {end} on: compare the number of bits with the writer's")
        } else if most > MOST_BITS / 8 {
            "has no room for the bytes that make it longer".to_owned()
        } else {
            return Ok(set);
        };
        Err(self.unfit(&seen.config, format!("key {key:?} {reason}")))
    }

    /// Counts those of some ids that are not in the part.
    pub(super) async fn missing(&self, ids: &[&[u8]], seen: &Sight) -> Result<u64, TrustError> {
        let connection = self.node.inserts.connected(DEADLINE).await?;
        let (mut missing, all) = (0, 0..usize::MAX);
        for ids in ids.chunks(ASKED) {
            let places = self.places(seen.size, ids);
            let places: Vec<_> = places.iter().collect();
            let commands = pipeline(self.round(&places, &all));
            let replies = self.node.inserts.ask(&connection, &commands, DEADLINE).await?;
            let (held, _) = self.read_round(&places, &all, replies)?;
            missing += held.into_iter().filter(|held| !held).count() as u64;
        }
        Ok(missing)
    }

    /// Writes the statement, if the part has the lengths that were looked at.
    pub(super) async fn state(&self, seen: &Sight) -> Result<(), TrustError> {
        let part = &self.part;
        let connection = self.node.inserts.connected(DEADLINE).await?;
        if connection.process.run != seen.run {
            return Err(self.unfit(&seen.config, "another redis process answers".to_owned()));
        }
        // Redis's clock may have been set back.
        let us = connection.redis_us(Instant::now()).max(part.lost_us() + 1);
        let generation = Generation::new(us).ok_or_else(|| part.error("redis has no clock"))?;
        let longest = seen.extents.iter().map(|extent| extent.bytes).max().unwrap_or_default();
        let full = part.layout.end(seen.size).div_ceil(8);
        let length = match longest > full || !part.layout.is_bitmap() {
            true => longest,
            false => full + 1 + us.cast_unsigned() % LONGER,
        };
        let of = part.describe(&seen.config);
        let statement = Statement {
            generation,
            length,
            of,
            run: seen.run,
            ids: seen.ids,
            capacity: seen.capacity,
        };
        let keys = part.keys.iter().filter(|_| part.layout.is_bitmap()).map(|(_, key)| key);
        let keys: Vec<_> = [&part.statement].into_iter().chain(keys).collect();
        let lengths: Vec<_> = seen.extents.iter().map(|extent| extent.bytes).collect();
        let mut script = cmd("EVAL");
        script.arg(include_str!("state.lua")).arg(keys.len()).arg(keys);
        script.arg(statement.encode()).arg(length).arg(lengths);
        let is_stated = self.ask_one(&connection, script).await?.flag()?;
        part.look(&*connection.transport(), &connection.process).await?;
        let known = part.known();
        if is_stated && known.is_some_and(|known| part.trusted(&known).is_ok()) {
            return Ok(());
        }
        Err(self.unfit(&seen.config, "it changed while it was looked at: call again".to_owned()))
    }

    async fn ask_one(
        &self,
        connection: &Arc<Connection>,
        command: Cmd,
    ) -> Result<Reply, StoreError> {
        let reply = self.node.inserts.ask(connection, &pipeline([command]), DEADLINE).await?.pop();
        Ok(Reply::new("trust", reply.unwrap_or(Value::Nil)))
    }

    pub(super) fn unfit(&self, config: &Numbers, reason: String) -> TrustError {
        TrustError::Unfit { filter: self.part.describe(config), reason }
    }
}
