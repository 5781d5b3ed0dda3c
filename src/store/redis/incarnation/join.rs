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
use crate::filter::format::STAMP_OFFSET;
use crate::id::{Digester, SecretKey};
use crate::random;
use crate::store::Record;
use crate::store::link::handshake::End;
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
                "the filter uses secret key {theirs:08x}, this process has key {ours:08x}"
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
        let digester = self.digester(&offered, key_id, key)?;
        let incarnation = incarnation.bytes()?;
        let us = seconds.int()?.saturating_mul(1_000_000).saturating_add(micros.int()?);
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

    /// Returns what hashes with the filter's key, which is kept for the next join.
    fn digester(
        &self,
        offered: &SecretKey,
        key_id: Reply,
        key: Reply,
    ) -> Result<Digester, StoreError> {
        let key = self.agree(offered, &key_id.text()?, &key.bytes()?)?;
        let digester = Digester::new(&key, &self.settings.name);
        *self.last_key.lock() = Some(key);
        Ok(digester)
    }

    async fn send(
        &self,
        transport: &dyn Transport,
        process: &RedisProcess,
        offered: &SecretKey,
        known: Told,
        occasion: Occasion,
    ) -> Result<Reply, StoreError> {
        // An observer writes nothing.
        let major = if self.settings.observes { 0 } else { process.major };
        let Keys { meta, recent, bits, next, lock, .. } = &self.keys;
        let keys = [meta, recent, bits, next, lock].map(String::as_str);
        let args = self.arguments(process, offered, known, occasion)?;
        let args = args.each_ref().map(Vec::as_slice);
        let send = |command: Cmd| ask(transport, JOIN.name(), command, HANDSHAKE);
        JOIN.run(major, &keys, &args, send).await
    }

    fn arguments(
        &self,
        process: &RedisProcess,
        offered: &SecretKey,
        known: Told,
        occasion: Occasion,
    ) -> Result<[Vec<u8>; 16], StoreError> {
        let Offer { settling, mode, number, told_ms } = self.fleet.offer();
        let held_by = match occasion {
            Occasion::Connected => self.recent.held_by(),
            Occasion::Polled => Vec::new(),
        };
        Ok([
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
        ])
    }
}

impl KnownShard {
    /// Asks whether what was learnt still holds.
    pub(super) async fn recheck(
        &self,
        transport: &dyn Transport,
        process: &RedisProcess,
        identity: &Identity,
    ) -> Result<(), End> {
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
            Err(StoreError::Refused { reason, .. }) if serves_no_slot(&reason) => {
                Err(End::Left(reason))
            }
            // A Redis that takes no writes answers no check either, and says why.
            Err(StoreError::Refused { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Looks at the metadata, which costs Redis a fortieth: whether they are those that were joined, there, with the newest mode
    /// that is known, and have not gone back. Then what was read of the fleet holds on.
    pub(super) async fn is_as_it_was(
        &self,
        transport: &dyn Transport,
        process: &RedisProcess,
        identity: &Identity,
    ) -> bool {
        let sent = Instant::now();
        let mut look = cmd("HMGET");
        look.arg(&self.keys.meta).arg(&["inc", "run", "last", "mode_at", "settles"]);
        // The stamp of the live filter, if there is one: where it is not the last number, all is looked at.
        let mut stamp = cmd("GETRANGE");
        stamp.arg(&self.keys.bits).arg(STAMP_OFFSET).arg(STAMP_OFFSET + 7);
        let (reply, stamp) = tokio::join!(
            ask(transport, "HMGET", look, HANDSHAKE),
            ask(transport, "GETRANGE", stamp, HANDSHAKE)
        );
        let (Ok(reply), Ok(stamp)) = (reply, stamp) else { return false };
        let Ok([incarnation, run, last, mode_at, settles]) = reply.fields::<5>() else {
            return false;
        };
        let Ok(stamp) = stamp.bytes() else { return false };
        let number = |reply: Reply| reply.text().ok().and_then(|text| text.parse::<i64>().ok());
        let last = number(last).unwrap_or(0);
        let fleet = identity.fleet.load_full();
        let is_same = incarnation.bytes().is_ok_and(|found| found == identity.incarnation)
            && run.text().is_ok_and(|found| found == hex(process.run))
            && last >= self.seen.last_in(&identity.incarnation)
            && (stamp.is_empty() || stamp == last.to_be_bytes())
            && number(mode_at).unwrap_or(0) == self.fleet.offer().number
            && number(settles).unwrap_or(0)
                == fleet.settling.map_or(0, |settling| settling.until_ms);
        if is_same {
            self.seen.note(&identity.incarnation, last);
            identity.fleet.store(Arc::new(Fleet { read: sent, ..*fleet }));
        }
        is_same
    }
}

fn parted() -> StoreError {
    StoreError::disconnected("redis's clock and this machine's have parted")
}

fn made_anew() -> End {
    let reason = "the filter's metadata were lost (FLUSHALL, DEL, an eviction) or made anew, or its data have gone back \
                  in time, or the clocks have parted";
    End::Left(reason.to_owned())
}
