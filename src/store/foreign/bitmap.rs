//! A bitmap: bits of several ids are read by one command, and in the same step the seal behind them.

use ::redis::{Cmd, Value, cmd};

use super::keys::Keys;
use super::layout::Place;
use super::seal::draw;
use crate::error::StoreError;
use crate::store::link::reply::Reply;
use crate::store::link::transport::{HANDSHAKE, Transport, exchange, one};

const STEP: &str = "bits of a foreign filter";
/// The most bits that one command reads. More together would not be cheaper by the bit.
pub(super) const BITS: usize = 128;

/// From which age on, in µs, a seal gives way to a new one: a little less than a second, as often as each process looks.
const OLD: u64 = 900_000;
/// Looks in one step whether seal and witnesses are as they should, and has the seal turned over if that is old.
pub(super) async fn look(
    transport: &dyn Transport,
    keys: &Keys,
    on: &[u8],
    seal: u64,
) -> Result<bool, StoreError> {
    let mut command = cmd("EVAL");
    command.arg(include_str!("look.lua")).arg(keys.all().len() + 1);
    command.arg(&keys.statement).arg(keys.all().collect::<Vec<_>>());
    command.arg(on).arg(seal / 8);
    command.arg(&draw().to_be_bytes()).arg(OLD);
    let replies = exchange(transport, &one(command), HANDSHAKE).await?;
    let [reply] = Reply::new(STEP, Value::Array(replies)).fields()?;
    // Another statement is for the next look.
    Ok(reply.int()? != 0)
}

/// Says of which places a bit was clear before, from the replies to the commands that set them.
pub(super) fn had_clear_bits(places: &[Place], replies: Vec<Value>) -> Vec<bool> {
    let mut before = replies.into_iter().flat_map(|reply| match reply {
        Value::Array(bits) => bits,
        other => vec![other],
    });
    let had = |place: &Place| {
        let bits: Vec<Value> = before.by_ref().take(place.bits.len()).collect();
        bits.contains(&Value::Int(0))
    };
    places.iter().map(had).collect()
}

/// Bits of one id that are asked for, and in which of the layout's keys.
pub(super) type Part<'a> = (usize, &'a [u64]);

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
    replies: &mut impl Iterator<Item = Value>,
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
