//! What a bitmap is asked: bits of several ids by one command, and in the same step the seal.

use std::ops::Range;

use ::redis::{Cmd, Value};

use super::layout::Place;
use super::trust::Trust;
use crate::error::StoreError;
use crate::store::link::reply::Reply;

const STEP: &str = "bits of a foreign filter";
/// So many bits are read by one command. More together would not be cheaper by the bit.
pub(super) const BITS: usize = 128;

/// Bits of one id that are asked for, and in which of the layout's keys.
pub(super) type Part<'a> = (usize, &'a [u64]);

/// Returns these of an id's bits, as far as it has so many.
pub(super) fn part<'a>(place: &'a Place, part: &Range<usize>) -> Part<'a> {
    let end = part.end.min(place.bits.len());
    (place.key, &place.bits[part.start.min(end)..end])
}

/// Returns the commands that read these parts.
pub(super) fn ask(
    trust: &Trust,
    seal: Option<u64>,
    parts: &[Part<'_>],
) -> impl Iterator<Item = Cmd> {
    commands(parts).map(move |parts| {
        let key = trust.key_of(parts[0].0);
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
