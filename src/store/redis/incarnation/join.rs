//! A new connection joins the filter's metadata: it learns the secret key and the incarnation.

use std::sync::Arc;
use std::time::Duration;

use ::redis::{Cmd, cmd};
use arc_swap::ArcSwap;
use tokio::time::Instant;

use super::known_shard::KnownShard;
use super::seen::Told;
use crate::error::StoreError;
use crate::id::{Digester, SecretKey};
use crate::random;
use crate::store::Record;
use crate::store::clock::Clock;
use crate::store::link::process::RedisProcess;
use crate::store::link::refusal::serves_no_slot;
use crate::store::link::reply::{Reply, odd};
use crate::store::link::script::{Script, hex};
use crate::store::link::transport::{HANDSHAKE, Transport, ask};
use crate::store::redis::connection::Identity;
use crate::store::redis::fleet::{Fleet, needed_of_record};
use crate::store::redis::keys::Keys;
use crate::verdict::Doubt;

/// A process that cannot join could insert nothing.
static JOIN: Script = Script::despite_oom("join.lua", include_str!("join.lua"));

const MADE_ANEW: &str = "the filter's metadata were lost (FLUSHALL, DEL, an eviction) or made anew, or its data have gone back \
                         in time, or the clocks have parted";

impl KnownShard {
    fn offer(&self) -> Result<SecretKey, StoreError> {
        let known = self.settings().secret_key.clone().or_else(|| self.last_key.lock().clone());
        let drawn = || random::bytes().map(SecretKey::new).map_err(StoreError::no_random);
        known.map_or_else(drawn, Ok)
    }

    fn agree(&self, offered: &SecretKey, id: &str, key: &[u8]) -> Result<SecretKey, StoreError> {
        let theirs =
            u32::from_str_radix(id, 16).map_err(|_| odd(JOIN.name(), format!("key id {id:?}")))?;
        let ours = offered.id_for(&self.settings().name);
        if theirs == ours {
            return Ok(offered.clone());
        }
        let drawn = <[u8; 16]>::try_from(key).ok().map(SecretKey::new);
        match drawn.filter(|_| self.settings().secret_key.is_none()) {
            Some(key) if key.id_for(&self.settings().name) == theirs => Ok(key),
            Some(_) => {
                let reason = "its secret key and key id do not belong together";
                Err(StoreError::unfit(&self.keys.meta, reason))
            }
            None => Err(StoreError::GivenUp {
                doubt: Doubt::OtherKey,
                reason: format!(
                    "the filter uses secret key {theirs:08x}, this process has key {ours:08x}: give all processes the same"
                ),
            }),
        }
    }

    /// Joins the metadata, telling what is known of an incarnation, and which one holds this process's inserts.
    pub(super) async fn join(
        &self,
        transport: &dyn Transport,
        process: &RedisProcess,
        known: Told,
        held_by: Vec<u8>,
    ) -> Result<Identity, StoreError> {
        let offered = self.offer()?;
        let sent = Instant::now();
        let reply = self.send(transport, process, &offered, known, held_by).await?;
        if sent.elapsed() > 2 * HANDSHAKE {
            // When Redis read its clock is not known.
            return Err(StoreError::late(HANDSHAKE));
        }
        let [key_id, key, incarnation, age, newest, rest @ ..] = reply.fields::<15>()?;
        let [number, last, seconds, micros, reach, fleet @ .., ids, floor] = rest;
        let key = self.agree(&offered, &key_id.text()?, &key.bytes()?)?;
        let digester = Digester::new(&key, &self.settings().name);
        *self.last_key.lock() = Some(key);
        let incarnation = incarnation.bytes()?;
        let us = Reply::time(&seconds, &micros)?;
        let reach = Duration::from_millis(reach.count()?);
        // At most: the reply may have been slow.
        let age = Duration::from_millis(age.count()?) + sent.elapsed();
        let told = Told {
            incarnation: incarnation.clone(),
            number: number.int()?,
            last: last.int()?,
            parted: false,
        };
        if !self.seen.joined(process.run, told, age, Clock::now(us)) {
            return Err(StoreError::disconnected("redis's clock and this machine's have parted"));
        }
        let mut fleet = self.read_fleet(fleet, us / 1000, sent)?;
        // Zero says that nothing was dropped.
        let floor = Some(floor.int()?).filter(|floor| *floor > 0);
        let reaches =
            floor.map(|floor| Duration::from_micros(u64::try_from(us - floor).unwrap_or(0)));
        let required = needed_of_record(reach.max(self.settings().record_life()));
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
        held_by: Vec<u8>,
    ) -> Result<Reply, StoreError> {
        let [settling, mode, number, told_ms] = self.offer_fleet().map(String::into_bytes);
        let drawn = Some(offered).filter(|_| self.settings().secret_key.is_none());
        let incarnation: [u8; 16] = random::bytes().map_err(StoreError::no_random)?;
        let args = [
            hex(offered.id_for(&self.settings().name)).into_bytes(),
            drawn.map(|key| key.as_bytes().to_vec()).unwrap_or_default(),
            if self.settings().observes { Vec::new() } else { incarnation.to_vec() },
            self.settings().record_life().as_millis().to_string().into_bytes(),
            hex(process.run).into_bytes(),
            held_by,
            self.common.grace.as_millis().to_string().into_bytes(),
            known.incarnation,
            known.number.to_string().into_bytes(),
            known.last.to_string().into_bytes(),
            if known.parted { b"1".to_vec() } else { Vec::new() },
            self.settings().settle.as_millis().to_string().into_bytes(),
            settling,
            mode,
            number,
            told_ms,
        ];
        let args = args.each_ref().map(Vec::as_slice);
        let Keys { meta, recent, bits, next, lock, .. } = &self.keys;
        let keys = [meta, recent, bits, next, lock].map(String::as_str);
        // An observer writes nothing.
        let major = if self.settings().observes { 0 } else { process.major };
        let send = |command: Cmd| ask(transport, JOIN.name(), command, HANDSHAKE);
        JOIN.run(major, &keys, &args, send).await
    }

    /// Joins again on the same session. A scan of another incarnation waits for what this process has to repeat.
    pub(super) async fn recheck(
        &self,
        transport: &dyn Transport,
        process: &RedisProcess,
        identity: &Identity,
    ) -> Result<(), StoreError> {
        let known = self.seen.last(Some(process.run));
        let mut held_by = self.recent.held_by();
        if !held_by.is_empty() {
            held_by.clone_from(&identity.incarnation);
        }
        match self.join(transport, process, known, held_by).await {
            // Another generation tells an observer that the live filter is damaged.
            Ok(found)
                if found.incarnation == identity.incarnation
                    && (!self.settings().observes || found.newest == identity.newest) =>
            {
                identity.fleet.store(found.fleet.load_full());
                Ok(())
            }
            Ok(_) => Err(StoreError::left(MADE_ANEW)),
            // A Redis that takes no writes answers no check either, and says why.
            Err(ref error @ StoreError::Refused { .. }) if !serves_no_slot(error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Reads whether incarnation, mode and settling are as known, at a fortieth of what a join costs Redis. Then the last reading of
    /// the fleet holds on. Whether the data have gone back, checks, inserts and the next turn find out.
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
        let is_same = incarnation.optional_bytes()?.as_ref() == Some(&identity.incarnation)
            && mode_at.int().unwrap_or(0) == self.common.mode.numbered().1
            && settles.int().unwrap_or(0) == fleet.settles_ms.unwrap_or(0);
        if is_same {
            identity.fleet.store(Arc::new(Fleet { read: sent, ..*fleet }));
        }
        Ok(is_same)
    }
}
