//! *Lease*: takes the lease and the token, and allocates the filter to be built. From then on inserts go to both filters.

use std::sync::Arc;
use std::time::Duration;

use ::redis::cmd;
use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt};

use super::lease::{CALL, LIFE, Lease};
use super::{Due, RedisBuild, ShardBuild};
use crate::error::StoreError;
use crate::filter::{Generation, Header, Sizing, State};
use crate::id::Digest;
use crate::random;
use crate::store::clock::Clock;
use crate::store::link::process::Memory;
use crate::store::link::reply::{Reply, odd};
use crate::store::link::script::Script;
use crate::store::link::session::Purpose;
use crate::store::redis::connection::Connection;
use crate::store::redis::fleet::needed_of_record;
use crate::store::redis::shards::Shards;

static LEASE: Script = Script::new("lease.lua", include_str!("lease.lua"));

/// How often a lease is asked for whose token is no longer the greatest: while ids are counted, others may have drawn one.
const LOOKS: u32 = 4;
/// How many bytes are allocated by commands that Redis may find together: it answers nobody meanwhile. With less, many shards that are
/// far away would outlast the first lease.
const AT_ONCE: u64 = 32 << 20;

impl RedisBuild {
    /// Looks at the shards that are not trusted, or whose build began before this moment of Redis's clock, µs. Returns nothing where
    /// none is due, or others rebuild one that is.
    pub(crate) async fn begin(
        shards: &Arc<Shards>,
        before_us: i64,
    ) -> Result<Option<Self>, StoreError> {
        let all = before_us == i64::MAX || shards.all.len() == 1;
        let looks = join_all(shards.all.iter().map(|shard| shard.look(CALL))).await;
        let mut due = Vec::new();
        let mut failed = Vec::new();
        let mut silent = Vec::new();
        for (shard, look) in shards.all.iter().zip(looks) {
            match look {
                Ok((survey, ..)) if !all && !survey.is_older_than(before_us) => {}
                Ok((_, view)) if view.is_leased => return Ok(None),
                Ok((_, view)) => match shard.understood(&view) {
                    Ok(()) => due.push(Due { shard: Arc::clone(shard), view }),
                    Err(error) => failed.push(error),
                },
                Err(error) => silent.push(error),
            }
        }
        // Where others are due, a shard that does not answer may not be.
        if all || due.is_empty() {
            failed.extend(silent);
        }
        if due.is_empty() {
            return failed.pop().map_or(Ok(None), Err);
        }
        let shards = Arc::clone(shards);
        Ok(Some(Self { shards, due, all, builds: Vec::new(), failed }))
    }

    pub(crate) async fn lease(&mut self, sizing: Sizing) -> Result<Option<u64>, StoreError> {
        let shards = self.shards.all.len() as u32;
        let sizing = Sizing::sharded(sizing.capacity, sizing.rate, shards);
        let sizing = sizing.map_err(|error| odd("the size of a filter", error))?;
        let bytes = sizing.one().bytes();
        let rooms = join_all(self.due.iter().map(|due| due.has_room(&self.due, bytes))).await;
        let mut leases = Vec::with_capacity(rooms.len());
        for (due, room) in std::mem::take(&mut self.due).into_iter().zip(rooms) {
            match room {
                Ok(()) => leases.push(due.lease(&sizing)),
                Err(error) => self.failed.push(error),
            }
        }
        let mut elsewhere = false;
        let mut leases = stream::iter(leases).buffered((AT_ONCE / bytes).max(1) as usize);
        while let Some(begun) = leases.next().await {
            match begun {
                Ok(Some(build)) => self.builds.push(build),
                Ok(None) => elsewhere = true,
                Err(error) => self.failed.push(error),
            }
        }
        if elsewhere && self.all {
            return Ok(None);
        }
        if self.builds.is_empty() {
            return self.failed.pop().map_or(Ok(None), Err);
        }
        Ok(Some(sizing.capacity))
    }
}

impl Due {
    /// Fails if the node has no room for a filter of this size for each of its shards that is due, beside the live ones: a full Redis
    /// refuses all checks.
    async fn has_room(&self, due: &[Self], bytes: u64) -> Result<(), StoreError> {
        let connection = self.shard.connected(Purpose::Rebuilds, CALL).await?;
        let here = due.iter().filter(|due| Arc::ptr_eq(&due.shard.at.load(), &connection.node));
        // What another rebuild left there makes way.
        let (more, before) =
            here.fold((0, 0), |(more, before), due| (more + bytes, before + due.view.next.len));
        let asked = cmd("INFO").arg("memory").clone();
        let memory = connection.ask("INFO", asked, CALL).await?.text()?;
        let Some(Memory { used, limit }) = Memory::parse(&memory) else { return Ok(()) };
        let needed = used.saturating_sub(before).saturating_add(more);
        if needed <= limit { Ok(()) } else { Err(StoreError::no_room(needed, limit)) }
    }

    /// Takes the lease of a shard; returns nothing where another process has it.
    async fn lease(mut self, sizing: &Sizing) -> Result<Option<ShardBuild>, StoreError> {
        for _ in 0..LOOKS {
            let connection = self.shard.connected(Purpose::Rebuilds, CALL).await?;
            let (lease, header) = self.prepare(sizing, &connection)?;
            let (outcome, fields) = match lease.take(&connection, &header).await {
                // It was given back.
                Err(StoreError::NoAnswer { .. }) => ("LOST".to_owned(), Vec::new()),
                reply => reply?.outcome()?,
            };
            match outcome.as_str() {
                "OK" => {
                    let fields = fields.try_into();
                    let fields = fields.map_err(|_| odd(LEASE.name(), "too few fields"))?;
                    let leased = self.leased(&connection, header, lease.clone(), fields);
                    if leased.is_err() {
                        lease.release().await;
                    }
                    return leased.map(Some);
                }
                "BUSY" => return Ok(None),
                "OLD" | "LOST" => {}
                // The metadata were lost: the next connection joins them anew.
                "OTHER" => connection.withdraw(),
                _ => return Err(odd(LEASE.name(), outcome)),
            }
            self.view = self.shard.look(CALL).await?.1;
            self.shard.understood(&self.view)?;
            if self.view.is_leased {
                return Ok(None);
            }
        }
        Err(StoreError::changing())
    }

    /// Draws a lease, and the header of the filter that it allocates.
    fn prepare(
        &self,
        sizing: &Sizing,
        connection: &Connection,
    ) -> Result<(Lease, Header), StoreError> {
        let nonce: [u8; 16] = random::bytes().map_err(StoreError::no_random)?;
        let [a, b, c, d, e, f, g, h, ..] = nonce;
        let seed = u32::from_be_bytes(random::bytes().map_err(StoreError::no_random)?);
        // Newer than all tokens before.
        let view = &self.view;
        let live = view.live.filter.as_ref().map_or(0, |header| header.generation.get());
        let before = view.token.max(view.asked_us).max(live);
        let token = view.now_us.max(before.saturating_add(1));
        let one = sizing.one();
        let header = Header {
            state: State::Building,
            generation: Generation::new(token).ok_or_else(|| odd(LEASE.name(), token))?,
            nonce: u64::from_be_bytes([a, b, c, d, e, f, g, h]),
            geometry: one.geometry(seed),
            key_id: connection.identity.digester.key_id(),
            run: connection.on.process.run,
            items: 0,
            capacity: one.share,
            rate: one.rate as f32,
        };
        let nonce = Digest::from_bytes(nonce);
        let nonce = match connection.on.transport(Purpose::Checks).local() {
            Some(address) => format!("{nonce}@{address}"),
            None => nonce.to_string(),
        };
        Ok((Lease { shard: Arc::clone(&self.shard), nonce, build: header.nonce }, header))
    }

    fn leased(
        self,
        connection: &Connection,
        header: Header,
        lease: Lease,
        [reach, seconds, micros, not_before]: [Reply; 4],
    ) -> Result<ShardBuild, StoreError> {
        let leased_us = Reply::time(&seconds, &micros)?;
        if !connection.on.clock_agrees(Clock::now(leased_us)) {
            // The record is judged by Redis's clock.
            connection.node.link.withdraw(&connection.on);
            return Err(StoreError::lost("the lease"));
        }
        let open_ms = not_before.int()? - leased_us / 1000;
        if open_ms >= 0 {
            let open = Duration::from_millis(open_ms.unsigned_abs());
            return Err(StoreError::unvouched(Some(open)));
        }
        let window = needed_of_record(Duration::from_millis(reach.count()?));
        Ok(ShardBuild {
            shard: self.shard,
            lease,
            leased_us,
            window_us: window.as_micros() as i64,
            identity: Arc::clone(&connection.identity),
            header,
            recent: Vec::new(),
        })
    }
}

impl Lease {
    async fn take(&self, connection: &Connection, header: &Header) -> Result<Reply, StoreError> {
        let keys = &self.shard.known.keys;
        let keys = [&keys.lock, &keys.meta, &keys.next, &keys.recent].map(String::as_str);
        let life = LIFE.as_millis().to_string();
        let token = header.generation.get().to_string();
        let len = header.string_len().to_string();
        let args: [&[u8]; 7] = [
            self.nonce.as_bytes(),
            life.as_bytes(),
            token.as_bytes(),
            &header.encode(),
            &header.trailer(),
            len.as_bytes(),
            &connection.identity.incarnation,
        ];
        let taken = connection.script(&LEASE, &keys, &args, CALL).await;
        if taken.is_err() {
            // The reply may have been lost.
            self.release().await;
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use ::redis::Value;

    use super::*;
    use crate::store::redis::connection::tests::{Scripted, reached};
    use crate::store::redis::view::View;
    use crate::store::redis::view::tests::reply;

    fn array(outcome: &str, fields: &[i64]) -> Value {
        let fields = fields.iter().map(|field| Value::Int(*field));
        Value::Array([Value::SimpleString(outcome.into())].into_iter().chain(fields).collect())
    }

    #[tokio::test(start_paused = true)]
    async fn redis_is_held_up_by_the_allocation_of_few_shards_at_once() {
        for (ids, at_once) in [(1_000_000, 3), (8_000_000, 2), (20_000_000, 1)] {
            let memory = Value::BulkString(b"used_memory:1\r\nmaxmemory:0\r\n".to_vec());
            let redis = Scripted::new([Some(memory.clone()), Some(memory.clone()), Some(memory)]);
            let (shards, _there) = reached(Arc::clone(&redis) as Arc<_>);
            let live = Header::new(Generation::new(7).unwrap(), 1, &Sizing::DEFAULT, 1);
            let due = |_| Due {
                shard: Arc::clone(&shards.all[0]),
                view: View::read(Reply::new("a view", reply(&live, 0, 0))).unwrap(),
            };
            let due = (0..3).map(due).collect();
            let shards = Arc::new(shards);
            let (builds, failed) = (Vec::new(), Vec::new());
            let mut build = RedisBuild { shards, due, all: true, builds, failed };
            let leasing = build.lease(Sizing::new(ids, 0.001).unwrap());
            tokio::time::timeout(CALL / 2, leasing).await.unwrap_err();
            assert_eq!(redis.sent.lock().len(), 3 + at_once, "{ids} ids");
        }
    }

    /// While ids are counted, others draw tokens; and a reply may be lost, to the lease and to giving it back.
    #[tokio::test(start_paused = true)]
    async fn a_lease_that_is_overtaken_or_whose_reply_is_lost_is_drawn_anew_and_no_error() {
        let live = Header::new(Generation::new(7).unwrap(), 1, &Sizing::DEFAULT, 1);
        let view = |token, leased| {
            let live = Header { generation: Generation::new(token).unwrap(), ..live };
            reply(&live, 0, leased)
        };
        let (old, freed) = (Some(array("OLD", &[])), Some(Value::Int(1)));
        // What was not given back is waited for, as others' leases are.
        let cases = [(vec![old], 0, 3), (vec![None, freed], 0, 4), (vec![None, None], 1, 3)];
        for (met, leased, requests) in cases {
            let seconds = if met.len() > 1 { CALL.as_secs().cast_signed() } else { 0 };
            let ok = array("OK", &[0, seconds, 0, -1]);
            let redis = Scripted::new(met.into_iter().chain([Some(view(8, leased)), Some(ok)]));
            let (shards, _there) = reached(Arc::clone(&redis) as Arc<_>);
            let shard = Arc::clone(&shards.all[0]);
            let view = View::read(Reply::new("a view", view(7, 0))).unwrap();
            let build = Due { shard, view }.lease(&Sizing::DEFAULT).await.unwrap();
            let sent = redis.sent.lock();
            let has = |n: usize, nonce: &str| {
                sent[n].bytes.windows(nonce.len()).any(|part| part == nonce.as_bytes())
            };
            assert_eq!((build.is_none(), sent.len()), (leased == 1, requests));
            if let Some(ShardBuild { lease, header, .. }) = build {
                let last = sent.len() - 1;
                assert!(header.generation.get() > 8 && has(last, &lease.nonce));
                assert!(!(0..last).any(|n| has(n, &lease.nonce)), "it is drawn anew");
            }
        }
    }
}
