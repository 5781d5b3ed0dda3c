//! *Lease*: takes the lease and the token, and allocates the filter to be built. From then on inserts go to both filters.

use std::sync::Arc;
use std::time::Duration;

use ::redis::cmd;
use futures_util::future::join_all;

use super::build::ShardBuild;
use super::lease::{CALL, LIFE, Lease, held_by};
use super::{Due, RedisBuild};
use crate::error::StoreError;
use crate::filter::{Generation, Header, Sizing, State};
use crate::random;
use crate::refusal::Refusal;
use crate::store::link::process::Memory;
use crate::store::link::reply::{Reply, odd};
use crate::store::link::script::Script;
use crate::store::link::session::Purpose;
use crate::store::link::transport::Clock;
use crate::store::redis::connection::Connection;
use crate::store::redis::fleet::needed_of_record;
use crate::store::redis::shard::{Rebuilds, Shard};
use crate::store::redis::shards::Shards;
use crate::store::redis::view::View;
use crate::store::scan::Scan;

static LEASE: Script = Script::new("lease.lua", include_str!("lease.lua"));

/// How often others may take a token, or ask for a rebuild, between a look and a lease.
const LOOKS: u32 = 4;

impl RedisBuild {
    /// Looks at the shards that are not trusted, and at those whose build began before this moment of Redis's clock, µs: they
    /// are to be rebuilt. Nothing where the first of them is under way elsewhere, or none is left.
    pub(crate) async fn begin(
        shards: &Arc<Shards>,
        before_us: i64,
    ) -> Result<Option<Self>, StoreError> {
        let looks = shards.due(before_us).await?;
        let looks = join_all(looks.iter().map(Due::look)).await;
        let all = before_us == i64::MAX;
        let mut due = Vec::with_capacity(looks.len());
        let mut failed = Vec::new();
        for (number, look) in looks.into_iter().enumerate() {
            match look {
                Ok(Some(found)) => due.push(found),
                // Where all are to be rebuilt, what is under way may have begun too early.
                Ok(None) if number == 0 || all => return Ok(None),
                Ok(None) => {}
                Err(error) => failed.push(error),
            }
        }
        if due.is_empty() {
            return failed.pop().map_or(Ok(None), Err);
        }
        let (shards, scan, builds) = (Arc::clone(shards), Scan::default(), Vec::new());
        Ok(Some(Self { shards, scan, due, all, builds, failed }))
    }

    /// *Lease*: takes the leases, and makes room for ids; returns for how many. Nothing where others rebuild.
    pub(crate) async fn lease(&mut self, sizing: Sizing) -> Result<Option<u64>, StoreError> {
        // Beside another filter it may be cut into another number of shards.
        let shards = self.shards.all.len() as u32;
        let sizing = Sizing::sharded(sizing.capacity, sizing.rate, shards);
        let sizing = sizing.map_err(|error| odd("the size of a filter", error))?;
        self.make_sure_of_room(sizing.one().bytes()).await?;
        let (due, mut elsewhere) = (std::mem::take(&mut self.due), false);
        for begun in join_all(due.into_iter().map(|due| due.lease(&sizing))).await {
            match begun {
                Ok(Some(build)) => self.builds.push(build),
                Ok(None) => elsewhere = true,
                Err(error) => self.failed.push(error),
            }
        }
        if elsewhere && self.all {
            return Ok(None);
        }
        let Some(first) = self.builds.first() else {
            return self.failed.pop().map_or(Ok(None), Err);
        };
        let geometry = |shard| {
            let of = |build: &&ShardBuild| build.shard.number == shard;
            self.builds.iter().find(of).map(|build| build.header.geometry)
        };
        self.scan.begin(&first.digester, sizing, geometry).await.map(Some)
    }

    /// Leaves out the shards of nodes that would have no room for a filter of so many bytes for each of theirs.
    /// Fails where none of them has.
    async fn make_sure_of_room(&mut self, one: u64) -> Result<(), StoreError> {
        let due = std::mem::take(&mut self.due);
        let nodes: Vec<_> = due.iter().map(|due| due.shard.node()).collect();
        let rooms = due.iter().zip(&nodes).map(|(of, node)| {
            let there = due.iter().zip(&nodes).filter(|(_, other)| Arc::ptr_eq(other, node));
            // What is there already makes way.
            let (more, before) = there
                .fold((0, 0), |(more, before), (due, _)| (more + one, before + due.view.next.len));
            of.make_sure_of_room(more, before)
        });
        let rooms = join_all(rooms).await;
        let mut full = Vec::new();
        for (due, room) in due.into_iter().zip(rooms) {
            match room {
                Ok(()) => self.due.push(due),
                Err(error) if error.is(Refusal::OUT_OF_MEMORY) => full.push(error),
                Err(error) => return Err(error),
            }
        }
        if self.due.is_empty() {
            return full.pop().map_or(Ok(()), Err);
        }
        self.failed.extend(full);
        Ok(())
    }
}

impl Due {
    /// Looks at a shard; nothing where another process has its lease.
    async fn look(shard: &Arc<Shard>) -> Result<Option<Self>, StoreError> {
        let connection = shard.connected(Purpose::Rebuilds, CALL).await?;
        let (view, _, rebuilds) = shard.read_view_and_fleet(&connection, CALL, &[]).await?;
        shard.understood(&view)?;
        let shard = Arc::clone(shard);
        Ok((!rebuilds.is_leased).then_some(Self { shard, view, rebuilds }))
    }

    /// Fails if the node would have no room for so many bytes in place of others, beside the filters that are live. One that it
    /// cannot hold would have it refuse all checks.
    async fn make_sure_of_room(&self, more: u64, before: u64) -> Result<(), StoreError> {
        let connection = self.shard.connected(Purpose::Rebuilds, CALL).await?;
        let asked = cmd("INFO").arg("memory").clone();
        let memory = connection.ask("INFO", asked, CALL).await?.text()?;
        let Some(Memory { used, limit }) = Memory::parse(&memory) else { return Ok(()) };
        let needed = used.saturating_sub(before).saturating_add(more);
        if needed <= limit { Ok(()) } else { Err(StoreError::no_room(needed, limit)) }
    }

    /// Takes the lease of a shard; nothing where another process has it.
    async fn lease(mut self, sizing: &Sizing) -> Result<Option<ShardBuild>, StoreError> {
        for _ in 0..LOOKS {
            let connection = self.shard.connected(Purpose::Rebuilds, CALL).await?;
            let (lease, header) = self.prepare(sizing, &connection)?;
            let reply = match lease.take(&connection, &header).await {
                // A lost reply may have been a lease: the same lock takes it up.
                Err(StoreError::NoAnswer { .. }) => {
                    let again = self.shard.connected(Purpose::Rebuilds, CALL).await?;
                    lease.take(&again, &header).await?
                }
                reply => reply?,
            };
            let (outcome, fields) = reply.outcome()?;
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
                "LOST" => return Err(StoreError::lost("the lease")),
                "BUSY" => return Ok(None),
                // The metadata was lost. The next connection joins it anew.
                "OTHER" => self.shard.withdraw(&connection),
                "OLD" => {}
                _ => return Err(odd(LEASE.name(), outcome)),
            }
            match Self::look(&self.shard).await? {
                Some(due) => self = due,
                None => return Ok(None),
            }
        }
        Err(StoreError::changing())
    }

    /// Returns a lease that is not taken yet, and the header of the filter that it allocates.
    fn prepare(
        &self,
        sizing: &Sizing,
        connection: &Connection,
    ) -> Result<(Lease, Header), StoreError> {
        let nonce: [u8; 16] = random::bytes().map_err(StoreError::no_random)?;
        let [a, b, c, d, e, f, g, h, ..] = nonce;
        let seed = u32::from_be_bytes(random::bytes().map_err(StoreError::no_random)?);
        let token = self.rebuilds.next_token(&self.view);
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
        let lease = Lease {
            shard: Arc::clone(&self.shard),
            nonce: held_by(nonce, &connection.node),
            build: header.nonce,
        };
        Ok((lease, header))
    }

    /// Reads the terms of a lease that was taken.
    fn leased(
        self,
        connection: &Connection,
        header: Header,
        lease: Lease,
        [reach, seconds, micros, not_before]: [Reply; 4],
    ) -> Result<ShardBuild, StoreError> {
        let leased_us = Reply::time(&seconds, &micros)?;
        if !connection.on.clock_agrees(Clock::now(leased_us)) {
            // The record is judged by that clock.
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
            run: connection.on.process.run,
            lease,
            leased_us,
            window_us: window.as_micros() as i64,
            incarnation: connection.identity.incarnation.clone(),
            digester: connection.identity.digester.clone(),
            damaged_live: self.view.live.damaged().to_vec(),
            header,
            recent: Vec::new(),
            failure: None,
        })
    }
}

impl Rebuilds {
    /// The least token that is newer than all there were.
    fn next_token(&self, view: &View) -> i64 {
        let live = view.live.filter.as_ref().map_or(0, |header| header.generation.get());
        view.now_us.max(self.token.max(self.asked_us).max(live).saturating_add(1))
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
        connection.script(&LEASE, &keys, &args, CALL).await
    }
}
