//! A filter that a module of Redis keeps: the commands that ask it, and what their replies mean.
//!
//! The module hashes the ids itself, and has no bits to read. So the seal is ids of the guard's own, which are asked for
//! in the command that asks for others: where one is missing, the filter was not whole at that very moment.

use std::sync::Arc;

use ::redis::{Cmd, Value, cmd};
use arc_swap::ArcSwapOption;

use super::info::{Info, SEALED};
use super::keys::Keys;
use super::kind::{Asker, Found, Kind, Query, Sight, Sum};
use super::known::Believed;
use super::layout::{Layout, Place};
use super::record::Stated;
use super::size::BloomSize;
use crate::error::StoreError;
use crate::random;
use crate::store::BoxFuture;
use crate::store::link::refusal::{Refusal, doubt};
use crate::store::link::reply::Reply;
use crate::store::link::wire::{HANDSHAKE, Wire, exchange, one, pipeline};
use crate::verdict::Doubt;

const STEP: &str = "a module's filter";

/// A module's filter on one Redis.
#[derive(Debug, Default)]
pub(super) struct Module {
    /// What it was sealed with, if trust in it was not stated yet.
    drawn: ArcSwapOption<u64>,
}

impl Kind for Module {
    fn ask(&self, asked: &Query<'_>) -> Vec<Cmd> {
        let (key, seal) = (asked.keys.first(), asked.known.seal());
        let ids = asked.places.iter().map(|place| &*place.id);
        let mut commands = vec![ask(key, ids, seal), Info::ask(key)];
        // Behind it, too: so it was asked of the filter that the seal is in.
        if seal.is_some() {
            commands.push(ask(key, [], seal));
            commands.push(try_write(&asked.keys.statement));
        }
        commands
    }

    fn read(
        &self,
        asked: &Query<'_>,
        replies: &mut dyn Iterator<Item = Value>,
        _: &Stated,
    ) -> Result<Found, StoreError> {
        let ids = asked.places.len();
        let mut next = || Reply::new(STEP, replies.next().unwrap_or(Value::Nil));
        let seal = asked.known.seal().map_or(0, |_| SEALED as usize);
        let mut held = flags(next(), ids + seal)?;
        let mut sealed = held.split_off(ids);
        let info = Info::read(next())?;
        let Ok(believed) = &asked.known.believed else { return Ok((held, Ok(()))) };
        sealed.extend(flags(next(), seal)?);
        next().int()?;
        let has_seal = sealed.into_iter().all(|one| one);
        let grown =
            if has_seal { believed.has_grown(asked.floor, info) } else { Err(Doubt::Foreign) };
        Ok((held, grown))
    }

    fn were_new(&self, places: &[Place], mut replies: Vec<Value>) -> Result<Vec<bool>, StoreError> {
        let reply = replies.pop().unwrap_or(Value::Nil);
        flags(Reply::new("an insert", reply), places.len())
    }

    /// Asks for the ids of the seal: all have to be there, and no fewer others than before. Without trust, whether there is
    /// such a module.
    fn look<'a>(
        &'a self,
        wire: &'a dyn Wire,
        keys: &'a Keys,
        believed: Result<&'a Believed, Doubt>,
    ) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(async move {
            let Ok(believed) = believed else {
                exchange(wire, &one(Info::ask(keys.first())), HANDSHAKE).await?;
                return Ok(true);
            };
            let floor = believed.floor();
            let seals = ask(keys.first(), [], Some(believed.record.seal));
            let asked = pipeline([seals, Info::ask(keys.first())]);
            let replies = exchange(wire, &asked, HANDSHAKE).await?;
            let [seals, info] = Reply::new(STEP, Value::Array(replies)).fields()?;
            let sealed = has_seal(seals)?;
            let grown = believed.has_grown(floor, Info::read(info)?);
            Ok(sealed && grown != Err(Doubt::Foreign))
        })
    }

    /// Asks the module what there is, and seals it: trust can be stated in this very filter only.
    fn inspect<'a>(
        &'a self,
        asker: Asker<'a>,
        keys: &'a Keys,
        _: u64,
        mut seal: Option<u64>,
    ) -> BoxFuture<'a, Result<Sight, StoreError>> {
        Box::pin(async move {
            let info = match asker.one(Info::ask(keys.first())).await {
                Err(error) if doubt(&error) == Doubt::Gone => return Ok(Sight::default()),
                reply => Info::read(reply?)?,
            };
            if seal.is_none() && info.ids > 0 && info.has_room() && info.is_legible() {
                seal = Some(self.insert_seal(asker, keys.first()).await?);
            }
            Ok(Sight { info: Some(info), seal, ..Sight::default() })
        })
    }

    fn sum(&self, _: &dyn Layout, size: BloomSize, sights: &[&Sight]) -> Sum {
        let info = sights.first().and_then(|sight| sight.info);
        info.map_or(Sum { size, bytes: 0, ids: 0, rate: 0.0 }, |info| {
            let rate = info.size().expected_rate(info.ids);
            Sum { size: info.size(), bytes: info.bytes, ids: info.ids, rate }
        })
    }

    fn seal_of(&self, _: u64, sight: &Sight) -> Result<u64, &'static str> {
        sight.seal.ok_or("it holds no id, has no room for a seal (16 ids), or a rate over 0.25")
    }

    fn seal(&self, script: &mut Cmd, _: u64, seal: u64) {
        script.arg(seal_ids(seal).collect::<Vec<_>>());
    }

    fn note_stated(&self) {
        self.drawn.store(None);
    }

    fn extent(
        &self,
        _: &dyn Layout,
        _: BloomSize,
        believed: &Believed,
    ) -> Result<(BloomSize, u64, u64), Doubt> {
        let seen = believed.seen().ok_or(Doubt::Changing)?;
        if seen.is_full() {
            return Err(Doubt::Full);
        }
        Ok((seen.size(), seen.capacity, seen.ids))
    }
}

impl Module {
    /// Seals the filter, unless this process has done so: each time takes room for 16 ids.
    async fn insert_seal(&self, asker: Asker<'_>, key: &str) -> Result<u64, StoreError> {
        if let Some(drawn) = self.drawn.load_full()
            && has_seal(asker.one(ask(key, [], Some(*drawn))).await?)?
        {
            return Ok(*drawn);
        }
        let seal = random::scatter();
        flags(asker.one(insert(key, seal_ids(seal))).await?, SEALED as usize)?;
        self.drawn.store(Some(Arc::new(seal)));
        Ok(seal)
    }
}

/// Returns the ids of a seal.
fn seal_ids(seal: u64) -> impl Iterator<Item = String> {
    (0..SEALED).map(move |number| format!("bg:seal:{seal:016x}:{number}"))
}

/// Returns the command that asks for ids, and for those of a seal after them.
fn ask<'a>(key: &str, ids: impl IntoIterator<Item = &'a [u8]>, seal: Option<u64>) -> Cmd {
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

/// Returns a command that changes nothing, and that only a primary takes. All others of a batch only read: a Redis that
/// was a primary answers them, too, and lacks what the new one was given.
fn try_write(statement: &str) -> Cmd {
    cmd("PERSIST").arg(statement).clone()
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

/// Reads what is said of so many ids.
///
/// # Errors
///
/// The first error among them, as when a filter that is full takes only some.
fn flags(reply: Reply, ids: usize) -> Result<Vec<bool>, StoreError> {
    let replies = reply.array()?;
    if let Some(reason) = replies.iter().find_map(Reply::error) {
        return Err(StoreError::Refused { doubt: Refusal::read(&reason).doubt, reason });
    }
    let flags: Vec<bool> = replies.iter().map(Reply::flag).collect::<Result<_, StoreError>>()?;
    if flags.len() == ids { Ok(flags) } else { Err(odd("another number of ids")) }
}

/// Reads whether all ids of a seal are there.
fn has_seal(reply: Reply) -> Result<bool, StoreError> {
    Ok(flags(reply, SEALED as usize)?.into_iter().all(|one| one))
}

fn odd(answer: &str) -> StoreError {
    StoreError::Odd { step: STEP, answer: answer.to_owned() }
}
