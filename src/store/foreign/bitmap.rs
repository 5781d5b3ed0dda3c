//! A bitmap: bits of several ids are read by one command, and in the same step the seal behind them.

use std::collections::BTreeSet;

use ::redis::{Cmd, Value, cmd};

use super::keys::Keys;
use super::kind::{Asker, Found, KeyInspection, Kind, Part, Query, Sight, Sum};
use super::known::Believed;
use super::layout::{Layout, Place};
use super::record::Stated;
use super::seal::{self, WORD};
use super::size::BloomSize;
use crate::error::StoreError;
use crate::store::BoxFuture;
use crate::store::link::reply::Reply;
use crate::store::link::wire::{HANDSHAKE, Wire, exchange, one};
use crate::verdict::Doubt;

const STEP: &str = "bits of a foreign filter";
/// So many bits are read by one command. More together would not be cheaper by the bit.
pub(super) const BITS: usize = 128;

/// From which age on, in µs, a seal gives way to a new one: a little less than a second, as often as each process looks.
const OLD: u64 = 900_000;
/// Bytes counted by one command, which keeps Redis busy for less than a millisecond.
const PIECE: u64 = 1 << 20;
/// Witnesses of a filter, spread over all of its keys.
const SAMPLED: u64 = 256;

/// A filter whose bits are those of strings.
#[derive(Debug)]
pub(super) struct Bitmap;

impl Kind for Bitmap {
    fn ask(&self, asked: &Query<'_>) -> Vec<Cmd> {
        ask(asked.keys, asked.known.seal(), &asked.parts).collect()
    }

    fn read(
        &self,
        asked: &Query<'_>,
        replies: &mut dyn Iterator<Item = Value>,
        stated: &Stated,
    ) -> Result<Found, StoreError> {
        let (held, seals) = read(asked.known.seal(), &asked.parts, replies)?;
        let is_whole = seals.into_iter().all(|seal| stated.names(seal));
        Ok((held, if is_whole { Ok(()) } else { Err(Doubt::Foreign) }))
    }

    /// Says of which places a bit was clear before.
    fn were_new(&self, places: &[Place], replies: Vec<Value>) -> Result<Vec<bool>, StoreError> {
        let mut before = replies.into_iter().flat_map(|reply| match reply {
            Value::Array(bits) => bits,
            other => vec![other],
        });
        let was_clear = |place: &Place| {
            let bits: Vec<Value> = before.by_ref().take(place.bits.len()).collect();
            bits.contains(&Value::Int(0))
        };
        Ok(places.iter().map(was_clear).collect())
    }

    /// Looks in one step, and has the seal turned over if that is old.
    fn look<'a>(
        &'a self,
        wire: &'a dyn Wire,
        keys: &'a Keys,
        believed: Result<&'a Believed, Doubt>,
    ) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(async move {
            let Ok(believed) = believed else { return Ok(true) };
            let mut command = cmd("EVAL");
            command.arg(include_str!("look.lua")).arg(keys.all().len() + 1);
            command.arg(&keys.statement).arg(keys.all().collect::<Vec<_>>());
            command.arg(&believed.on).arg(believed.record.seal / 8);
            command.arg(&seal::draw().to_be_bytes()).arg(OLD);
            let replies = exchange(wire, &one(command), HANDSHAKE).await?;
            let [reply] = Reply::new(STEP, Value::Array(replies)).fields()?;
            // Another statement is for the next look.
            Ok(reply.int()? != 0)
        })
    }

    fn inspect<'a>(
        &'a self,
        asker: Asker<'a>,
        keys: &'a Keys,
        end: u64,
        _: Option<u64>,
    ) -> BoxFuture<'a, Result<Sight, StoreError>> {
        Box::pin(async move {
            let mut sight = Sight::default();
            for (at, key) in keys.all().enumerate() {
                let length = count(&asker.one(cmd("STRLEN").arg(key).clone()).await?)?;
                let bytes = length.min(end.div_ceil(8));
                let bits_set = bits_set(asker, key, bytes).await?;
                sight.keys.push(KeyInspection { bytes: length, bits_set });
                // Spread over the whole filter.
                let parts = (SAMPLED / keys.all().len() as u64).clamp(1, bytes.max(1));
                let words = sample(asker, key, bytes, parts).await?;
                sight.witnesses.extend(witnesses(asker, at as u16, key, words).await?);
            }
            Ok(sight)
        })
    }

    fn sum(&self, layout: &dyn Layout, size: BloomSize, sights: &[&Sight]) -> Sum {
        let most = layout.end(size).div_ceil(8);
        let keys = || sights.iter().flat_map(|sight| &sight.keys);
        let bits_set = keys().map(|key| key.bits_set).sum();
        let all = layout.whole(size);
        let rate = (bits_set as f64 / all.bits as f64).powf(f64::from(size.hashes));
        let bytes = keys().map(|key| key.bytes.min(most)).sum();
        Sum { size, bytes, ids: all.estimated_ids(bits_set), rate }
    }

    fn seal_of(&self, end: u64, _: &Sight) -> Result<u64, &'static str> {
        seal::place(end).ok_or("it has no room for a seal")
    }

    fn seal(&self, script: &mut Cmd, end: u64, seal: u64) {
        script.arg(&seal::draw().to_be_bytes()).arg(seal / 8).arg(end);
    }

    fn extent(
        &self,
        layout: &dyn Layout,
        size: BloomSize,
        believed: &Believed,
    ) -> Result<(BloomSize, u64, u64), Doubt> {
        let size = layout.whole(size);
        // As many as fill half of the bits.
        Ok((size, size.estimated_ids(size.bits / 2), believed.record.ids))
    }
}

/// Counts the bits that are set in so many bytes of a key.
async fn bits_set(asker: Asker<'_>, key: &str, bytes: u64) -> Result<u64, StoreError> {
    let mut set = 0;
    for first in (0..bytes).step_by(PIECE as usize) {
        let last = (first + PIECE).min(bytes) - 1;
        set += count(&asker.one(cmd("BITCOUNT").arg(key).arg(first).arg(last).clone()).await?)?;
    }
    Ok(set)
}

/// Returns the first bits of words that have bits set, in so many parts of a key's bytes.
async fn sample(
    asker: Asker<'_>,
    key: &str,
    bytes: u64,
    parts: u64,
) -> Result<BTreeSet<u64>, StoreError> {
    // The first bit that is set in each.
    let bits = (0..parts).map(|part| {
        let (first, end) = (bytes * part / parts, bytes * (part + 1) / parts);
        cmd("BITPOS").arg(key).arg(1).arg(first).arg(end.saturating_sub(1)).clone()
    });
    let bits: Vec<i64> = asker.all(bits).await?.iter().map(Reply::int).collect::<Result<_, _>>()?;
    let set = bits.into_iter().filter_map(|bit| u64::try_from(bit).ok());
    Ok(set.map(|bit| bit / WORD * WORD).collect())
}

/// Reads these words of a key, as the statement has them.
async fn witnesses(
    asker: Asker<'_>,
    at: u16,
    key: &str,
    words: BTreeSet<u64>,
) -> Result<Vec<u8>, StoreError> {
    let mut command = cmd("BITFIELD");
    command.arg(key);
    for first in &words {
        command.arg("GET").arg("i64").arg(*first);
    }
    let read = asker.one(command).await?.ints()?;
    let mut witnesses = Vec::with_capacity(18 * words.len());
    for (first, set) in words.into_iter().zip(read) {
        witnesses.extend(at.to_be_bytes());
        witnesses.extend(first.to_be_bytes());
        witnesses.extend(set?.to_be_bytes());
    }
    Ok(witnesses)
}

fn count(reply: &Reply) -> Result<u64, StoreError> {
    Ok(reply.int()?.cast_unsigned())
}

/// Returns the commands that read these parts.
pub(super) fn ask(keys: &Keys, seal: Option<u64>, parts: &[Part<'_>]) -> impl Iterator<Item = Cmd> {
    commands(parts).map(move |parts| {
        let key = keys.at(parts[0].0);
        let bits = parts.iter().map(|(_, bits)| bits.len()).sum::<usize>() + 1;
        let mut command = Cmd::with_capacity(3 * bits + 2, 16 * bits + key.len() + 16);
        command.arg("BITFIELD").arg(key);
        for bit in parts.iter().flat_map(|(_, bits)| *bits) {
            command.arg("GET").arg("u1").arg(*bit);
        }
        if let Some(seal) = seal {
            command.arg("GET").arg("i64").arg(seal);
        }
        command
    })
}

/// Reads which parts have all their bits set, and which seal each command has found, if it was asked for.
pub(super) fn read(
    seal: Option<u64>,
    parts: &[Part<'_>],
    replies: &mut dyn Iterator<Item = Value>,
) -> Result<(Vec<bool>, Vec<i64>), StoreError> {
    let (mut held, mut seals) = (Vec::with_capacity(parts.len()), Vec::new());
    for parts in commands(parts) {
        let mut values = Reply::new(STEP, replies.next().unwrap_or(Value::Nil)).ints()?;
        let mut next = || values.next().unwrap_or_else(|| Reply::new(STEP, Value::Nil).int());
        for (_, bits) in parts {
            let mut all = true;
            for _ in *bits {
                all &= next()? == 1;
            }
            held.push(all);
        }
        if seal.is_some() {
            seals.push(next()?);
        }
    }
    Ok((held, seals))
}

/// Splits parts, those of one key side by side, into those of one command each.
fn commands<'a, 'b>(parts: &'a [Part<'b>]) -> impl Iterator<Item = &'a [Part<'b>]> {
    parts.chunk_by(|one, other| one.0 == other.0).flat_map(|of_key| {
        let most = BITS / of_key[0].1.len().max(1);
        of_key.chunks(most.max(1))
    })
}
