//! A filter that a module of Redis keeps: the commands that ask it, and what their replies mean.
//!
//! The module hashes the ids itself, and has no bits to read. So the seal is ids of the guard's own, which are asked for
//! in the command that asks for others: where one is missing, the filter was not whole at that very moment.

use std::f64::consts::LN_2;

use ::redis::{Cmd, Value, cmd};

use super::keys::Keys;
use super::layout::Place;
use super::size::BloomSize;
use crate::error::StoreError;
use crate::store::link::refusal::Refusal;
use crate::store::link::reply::Reply;

const STEP: &str = "a module's filter";

/// Ids of a seal: all of them are false positives once in 4·10^9 filters, where the rate is 0.25.
pub(super) const SEALED: u64 = 16;
/// A filter with fewer bits an id has a higher rate than 0.25: the ids of a seal may be found in it by chance.
const FEWEST_BITS: f64 = 2.88;

/// What the module says of a filter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Info {
    pub(super) capacity: u64,
    pub(super) bytes: u64,
    /// Those that were new when they were inserted: never fewer than before.
    pub(super) ids: u64,
}

impl Info {
    pub(super) fn ask(key: &str) -> Cmd {
        cmd("BF.INFO").arg(key).clone()
    }

    pub(super) fn read(reply: Reply) -> Result<Self, StoreError> {
        let (mut capacity, mut bytes, mut ids) = (None, None, None);
        for [name, value] in reply.pairs()? {
            match name.text()?.as_str() {
                "Capacity" => capacity = Some(value.count()?),
                "Size" => bytes = Some(value.count()?),
                "Number of items inserted" => ids = Some(value.count()?),
                _ => {}
            }
        }
        let all = capacity.zip(bytes).zip(ids);
        let ((capacity, bytes), ids) = all.ok_or_else(|| odd("a field of BF.INFO is missing"))?;
        Ok(Self { capacity, bytes, ids })
    }

    /// Whether the next id needs room that the filter may not get: what other programs fail to insert is missing then.
    pub(super) const fn is_full(&self) -> bool {
        self.ids >= self.capacity
    }

    /// Whether ids of a seal that are found show anything.
    pub(super) fn is_legible(&self) -> bool {
        self.bytes as f64 * 8.0 >= FEWEST_BITS * self.capacity as f64
    }

    /// Whether a seal leaves room for as many ids again.
    pub(super) const fn has_room(&self) -> bool {
        self.ids + 2 * SEALED <= self.capacity
    }

    /// Returns the size of one Bloom filter that takes as much room for as many ids: the module does not tell its rate.
    pub(super) fn size(&self) -> BloomSize {
        let bits = self.bytes * 8;
        BloomSize::new(bits, (bits as f64 / self.capacity.max(1) as f64 * LN_2).ceil() as u32)
    }
}

/// Returns the commands of a round: which of these ids are in the filter, and those of the seal.
pub(super) fn ask<'a>(
    keys: &Keys,
    ids: impl Iterator<Item = &'a [u8]>,
    seal: Option<u64>,
) -> Vec<Cmd> {
    let key = keys.first();
    let mut commands = vec![exist(key, ids, seal), Info::ask(key)];
    // Behind it, too: so it was asked of the filter that the seal is in.
    if seal.is_some() {
        commands.push(exist(key, [], seal));
        // Changes nothing, and only a primary takes it. All others only read: a Redis that was a primary answers them, too,
        // and lacks what the new one was given.
        commands.push(cmd("PERSIST").arg(&keys.statement).clone());
    }
    commands
}

/// Reads their replies: which ids are there, whether all of the seal is, before and behind, and what the module says.
pub(super) fn read(
    ids: usize,
    seal: Option<u64>,
    replies: &mut impl Iterator<Item = Value>,
) -> Result<(Vec<bool>, bool, Info), StoreError> {
    let mut next = || Reply::new(STEP, replies.next().unwrap_or(Value::Nil));
    let of_seal = seal.map_or(0, |_| SEALED as usize);
    let mut held = flags(next(), ids + of_seal)?;
    let mut sealed = held.split_off(ids);
    let info = Info::read(next())?;
    if seal.is_some() {
        sealed.extend(flags(next(), of_seal)?);
        next().int()?;
    }
    Ok((held, sealed.into_iter().all(|one| one), info))
}

/// Reads which ids were new, from the reply to the command that inserted them.
pub(super) fn were_new(places: &[Place], mut replies: Vec<Value>) -> Result<Vec<bool>, StoreError> {
    flags(Reply::new("an insert", replies.pop().unwrap_or(Value::Nil)), places.len())
}

/// Returns the ids of a seal.
pub(super) fn seal_ids(seal: u64) -> impl Iterator<Item = String> {
    (0..SEALED).map(move |number| format!("bg:seal:{seal:016x}:{number}"))
}

/// Returns the command that asks for ids, and for those of a seal after them.
pub(super) fn exist<'a>(
    key: &str,
    ids: impl IntoIterator<Item = &'a [u8]>,
    seal: Option<u64>,
) -> Cmd {
    let mut command = cmd("BF.MEXISTS");
    command.arg(key);
    for id in ids {
        command.arg(id);
    }
    for id in seal.into_iter().flat_map(seal_ids) {
        command.arg(id);
    }
    command
}

/// Returns the command that inserts ids, and creates no filter.
pub(super) fn insert(key: &str, ids: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Cmd {
    let mut command = cmd("BF.INSERT");
    command.arg(key).arg("NOCREATE").arg("ITEMS");
    for id in ids {
        command.arg(id.as_ref());
    }
    command
}

/// Reads what is said of each of `ids` ids.
///
/// # Errors
///
/// The first error among them, as when a filter that is full takes only some.
pub(super) fn flags(reply: Reply, ids: usize) -> Result<Vec<bool>, StoreError> {
    let replies = reply.array()?;
    if let Some(reason) = replies.iter().find_map(Reply::error) {
        return Err(StoreError::Refused { doubt: Refusal::read(&reason).doubt, reason });
    }
    let flags: Vec<bool> = replies.iter().map(Reply::flag).collect::<Result<_, StoreError>>()?;
    if flags.len() == ids { Ok(flags) } else { Err(odd("another number of ids")) }
}

/// Reads whether all ids of a seal are there.
pub(super) fn has_seal(reply: Reply) -> Result<bool, StoreError> {
    Ok(flags(reply, SEALED as usize)?.into_iter().all(|one| one))
}

fn odd(answer: &str) -> StoreError {
    StoreError::Odd { step: STEP, answer: answer.to_owned() }
}
