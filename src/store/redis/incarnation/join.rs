//! A new connection joins the filter's metadata: it learns the secret key and the incarnation.

use std::sync::Arc;
use std::time::Duration;

use ::redis::{Cmd, cmd};
use arc_swap::ArcSwap;
use tokio::time::Instant;

use super::GRACE;
use super::known_fleet::Offer;
use super::known_shard::KnownShard;
use super::seen::Told;
use crate::error::StoreError;
use crate::id::{Digester, SecretKey};
use crate::random;
use crate::store::Record;
use crate::store::link::process::RedisProcess;
use crate::store::link::refusal::serves_no_slot;
use crate::store::link::reply::{Reply, odd};
use crate::store::link::script::{Script, hex};
use crate::store::link::transport::Transport;
use crate::store::link::transport::{Clock, HANDSHAKE, ask};
use crate::store::redis::fleet::{Fleet, needed_of_record};
use crate::store::redis::incarnation::identity::Identity;
use crate::store::redis::keys::Keys;
use crate::verdict::Doubt;

/// A process that cannot join could insert nothing.
static JOIN: Script = Script::despite_oom("join.lua", include_str!("join.lua"));

impl KnownShard {
    fn offer(&self) -> Result<SecretKey, StoreError> {
        if let Some(key) = &self.settings.secret_key {
            return Ok(key.clone());
        }
        match &*self.last_key.lock() {
            Some(key) => Ok(key.clone()),
            None => random::bytes().map(SecretKey::new).map_err(StoreError::no_random),
        }
    }

    /// Returns the key that the filter's metadata names.
    fn agree(&self, offered: &SecretKey, id: &str, key: &[u8]) -> Result<SecretKey, StoreError> {
        let theirs =
            u32::from_str_radix(id, 16).map_err(|_| odd(JOIN.name(), format!("key id {id:?}")))?;
        if theirs == offered.id_for(&self.settings.name) {
            return Ok(offered.clone());
        }
        let ours = offered.id_for(&self.settings.name);
        let other_key = || StoreError::GivenUp {
            doubt: Doubt::OtherKey,
            reason: format!(
                "the filter uses secret key {theirs:08x}, this process has key {ours:08x}: give all processes the same"
            ),
        };
        if self.settings.secret_key.is_some() {
            return Err(other_key());
        }
        let key = <[u8; 16]>::try_from(key).map(SecretKey::new).map_err(|_| other_key())?;
        if key.id_for(&self.settings.name) == theirs {
            return Ok(key);
        }
        let reason = "its secret key and key id do not belong together";
        Err(StoreError::unfit(&self.keys.meta, reason))
    }
}

/// Whether a connection is new, or is looked at again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Occasion {
    Connected,
    Polled,
}

impl KnownShard {
    /// Joins, or asks whether what was learnt still holds.
    pub(super) async fn join(
        &self,
        transport: &dyn Transport,
        process: &RedisProcess,
        occasion: Occasion,
    ) -> Result<Identity, StoreError> {
        let known = match occasion {
            Occasion::Connected => self.seen.last(),
            Occasion::Polled => self.seen.on(process.run),
        };
        let offered = self.offer()?;
        let before = known.incarnation.clone();
        let sent = Instant::now();
        let reply = self.send(transport, process, &offered, known, occasion).await?;
        if sent.elapsed() > 2 * HANDSHAKE {
            // This process was busy, so it cannot say when Redis read its clock.
            return Err(StoreError::late(HANDSHAKE));
        }
        let [key_id, key, incarnation, age, newest, rest @ ..] = reply.fields::<15>()?;
        let [number, last, seconds, micros, reach, fleet @ .., ids, floor] = rest;
        let key = self.agree(&offered, &key_id.text()?, &key.bytes()?)?;
        let digester = Digester::new(&key, &self.settings.name);
        // For the next join.
        *self.last_key.lock() = Some(key);
        let incarnation = incarnation.bytes()?;
        let us = Reply::time(&seconds, &micros)?;
        let clock = Clock::now(us);
        if incarnation == before && !self.seen.goes_on(process.run, clock) {
            return Err(parted());
        }
        let reach = Duration::from_millis(reach.count()?);
        self.mismatches.compare_times(reach);
        // At most: the reply may have been long under way.
        let age = Duration::from_millis(age.count()?) + sent.elapsed();
        if !self.seen.joined(process.run, &incarnation, number.int()?, last.int()?, age, clock) {
            return Err(parted());
        }
        let mut fleet = self.fleet.read(fleet, us / 1000, sent)?;
        // A floor of nothing says that nothing was dropped.
        let floor = Some(floor.int()?).filter(|floor| *floor > 0);
        let reaches =
            floor.map(|floor| Duration::from_micros(u64::try_from(us - floor).unwrap_or(0)));
        let required = needed_of_record(reach.max(self.settings.record_life()));
        fleet.record = Some(Record { ids: ids.count()?, reaches, required });
        let newest = newest.int()?;
        let fleet = ArcSwap::from_pointee(fleet);
        Ok(Identity { digester, incarnation, age, joined: Instant::now(), newest, fleet })
    }

    async fn send(
        &self,
        transport: &dyn Transport,
        process: &RedisProcess,
        offered: &SecretKey,
        known: Told,
        occasion: Occasion,
    ) -> Result<Reply, StoreError> {
        let Offer { settling, mode, number, told_ms } = self.fleet.offer();
        let held_by = match occasion {
            Occasion::Connected => self.recent.held_by(),
            Occasion::Polled => Vec::new(),
        };
        let args = [
            hex(offered.id_for(&self.settings.name)).into_bytes(),
            if self.settings.secret_key.is_some() {
                Vec::new()
            } else {
                offered.as_bytes().to_vec()
            },
            if self.settings.observes {
                Vec::new()
            } else {
                random::bytes::<16>().map_err(StoreError::no_random)?.to_vec()
            },
            self.settings.record_life().as_millis().to_string().into_bytes(),
            hex(process.run).into_bytes(),
            held_by,
            GRACE.as_millis().to_string().into_bytes(),
            known.incarnation,
            known.number.to_string().into_bytes(),
            known.last.to_string().into_bytes(),
            if known.parted { b"1".to_vec() } else { Vec::new() },
            self.settings.settle.as_millis().to_string().into_bytes(),
            settling.into_bytes(),
            mode.into_bytes(),
            number.to_string().into_bytes(),
            told_ms.to_string().into_bytes(),
        ];
        let args = args.each_ref().map(Vec::as_slice);
        let Keys { meta, recent, bits, next, lock, .. } = &self.keys;
        let keys = [meta, recent, bits, next, lock].map(String::as_str);
        // An observer writes nothing.
        let major = if self.settings.observes { 0 } else { process.major };
        let send = |command: Cmd| ask(transport, JOIN.name(), command, HANDSHAKE);
        JOIN.run(major, &keys, &args, send).await
    }
}

impl KnownShard {
    /// Asks whether what was learnt still holds.
    pub(super) async fn recheck(
        &self,
        transport: &dyn Transport,
        process: &RedisProcess,
        identity: &Identity,
    ) -> Result<(), StoreError> {
        match self.join(transport, process, Occasion::Polled).await {
            // An observer is told by the last generation that the live filter is damaged.
            Ok(found)
                if found.incarnation == identity.incarnation
                    && (!self.settings.observes || found.newest == identity.newest) =>
            {
                identity.fleet.store(found.fleet.load_full());
                Ok(())
            }
            Ok(_) => Err(made_anew()),
            // A Redis that takes no writes answers no check either, and says why.
            Err(StoreError::Refused { reason, .. }) if !serves_no_slot(&reason) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Looks at the metadata, which costs Redis a fortieth: whether they are those that were joined, with the newest mode that is
    /// known. Then what was read of the fleet holds on. Whether they have gone back, checks and inserts find out, and the next
    /// turn.
    pub(super) async fn is_as_it_was(
        &self,
        transport: &dyn Transport,
        identity: &Identity,
    ) -> Result<bool, StoreError> {
        let sent = Instant::now();
        let mut look = cmd("HMGET");
        look.arg(&self.keys.meta).arg(&["inc", "mode_at", "settles"]);
        let reply = ask(transport, "HMGET", look, HANDSHAKE).await?;
        let [incarnation, mode_at, settles] = reply.fields()?;
        let fleet = identity.fleet.load_full();
        let until_ms = fleet.settling.map_or(0, |settling| settling.until_ms);
        let is_same = incarnation.optional_bytes()?.as_ref() == Some(&identity.incarnation)
            && mode_at.int().unwrap_or(0) == self.fleet.offer().number
            && settles.int().unwrap_or(0) == until_ms;
        if is_same {
            identity.fleet.store(Arc::new(Fleet { read: sent, ..*fleet }));
        }
        Ok(is_same)
    }
}

fn parted() -> StoreError {
    StoreError::disconnected("redis's clock and this machine's have parted")
}

fn made_anew() -> StoreError {
    let reason = "the filter's metadata were lost (FLUSHALL, DEL, an eviction) or made anew, or its data have gone back \
                  in time, or the clocks have parted";
    StoreError::left(reason)
}
