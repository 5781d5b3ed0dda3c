//! One rebuild on Redis: its steps B0 to B10 (see [`rebuild`](crate::rebuild)), each under the fencing token.

use std::sync::Arc;
use std::time::Duration;

use ::redis::{Pipeline, cmd};
use tokio::time::sleep;

use super::journal::{Coverage, Entry};
use super::lease::Lease;
use super::swap;
use crate::error::StoreError;
use crate::filter::format::BLOCK_LEN;
use crate::filter::{Filter, Generation, Header, State};
use crate::id::{Digest, Digester};
use crate::store::redis::Shared;
use crate::store::redis::add::offsets;
use crate::store::redis::link::connection::Live;
use crate::store::redis::reply::Reply;
use crate::store::redis::script::{ALLOCATE, CATCH_UP, REPLAY, Script, UPLOAD};
use crate::store::{BoxFuture, Build, LeaseKeeper, Plan};
use crate::verdict::Doubt;

/// How long one call of a rebuild may take.
pub(super) const CALL: Duration = Duration::from_secs(5);
/// Blocks per upload: 256 KiB.
pub(super) const BLOCKS_PER_CALL: u32 = 4096;
/// The upload's pace, bytes a second: a burst would overrun a slow replica's output buffer.
const PACE: u64 = 64 << 20;
/// Entries read from the journal at once.
const ENTRIES_PER_CALL: usize = 1000;
/// Bits set by one call.
const DIGESTS_PER_CALL: usize = 32;

/// A rebuild under way.
pub(crate) struct RedisBuild {
    pub(super) shared: Arc<Shared>,
    /// The connection's Redis process at B1.
    pub(super) run: u32,
    /// Redis's clock at B0, ms.
    pub(super) began_ms: u64,
    pub(super) lease: Lease,
    pub(super) token: Generation,
    pub(super) nonce: u64,
    pub(super) incarnation: Vec<u8>,
    pub(super) digester: Digester,
    pub(super) previous: Result<Header, Doubt>,
    /// The live and the building key's bytes where they are no filters.
    pub(super) condemned: (Vec<u8>, Vec<u8>),
    pub(super) cursor: String,
    pub(super) coverage: Coverage,
    /// The building filter's header in the loading state, once it is allocated.
    pub(super) header: Option<Header>,
    /// Where the journal stood at B6.
    pub(super) stand: (u64, u64),
    /// The ids replayed over the wire.
    pub(super) replayed: Vec<Digest>,
}

impl RedisBuild {
    /// Returns a connection to the Redis process that the rebuild began on.
    pub(super) async fn same_redis(&self) -> Result<Arc<Live>, StoreError> {
        let live = self.shared.bulk.connected(CALL).await?;
        if live.server.run == self.run { Ok(live) } else { Err(StoreError::OtherRedis) }
    }

    /// Returns the building filter's header in a state.
    pub(super) fn header(&self, state: State, step: &'static str) -> Result<Header, StoreError> {
        let header = self.header.ok_or(StoreError::Lost { step })?;
        Ok(header.with_state(state))
    }

    /// Runs a step's script on the building key; anything but `OK` ends the rebuild.
    async fn step(
        &self,
        step: &'static str,
        script: &'static Script,
        keys: &[&str],
        args: &[&[u8]],
    ) -> Result<(), StoreError> {
        let live = self.same_redis().await?;
        let reply = self.shared.bulk.script(&live, script, keys, args, CALL).await?;
        outcome(step, reply.text()?)
    }

    /// Reads the journal's next entries.
    async fn entries(&mut self) -> Result<Vec<Entry>, StoreError> {
        let live = self.same_redis().await?;
        let mut read = cmd("XRANGE");
        read.arg(&self.shared.keys.log).arg(&self.cursor).arg("+");
        read.arg("COUNT").arg(ENTRIES_PER_CALL);
        let mut commands = Pipeline::with_capacity(1);
        commands.add_command(read);
        let reply = self.shared.bulk.ask(&live, &commands, CALL).await?.into_iter().next();
        let entries = Entry::read_all(reply.unwrap_or_default())?;
        for entry in &entries {
            self.coverage.extend(entry)?;
        }
        if let Some(last) = entries.last() {
            self.cursor = format!("({}", last.id);
        }
        Ok(entries)
    }

    async fn replay_tail(&mut self) -> Result<u64, StoreError> {
        let header = self.header(State::CatchingUp, "the replay")?;
        let len = header.string_len().to_string();
        let head = header.encode();
        loop {
            let entries = self.entries().await?;
            let digests: Vec<Digest> =
                entries.iter().flat_map(|entry| &entry.digests).copied().collect();
            for digests in digests.chunks(DIGESTS_PER_CALL) {
                let bits = offsets(&header, digests);
                let keys = [self.shared.keys.next.as_str()];
                self.step("the replay", &REPLAY, &keys, &[&head, len.as_bytes(), &bits]).await?;
            }
            self.replayed.extend(digests);
            // Entries after B6 were written to both filters: reading up to it is enough, and a
            // steady stream of adds must not keep the rebuild here for ever.
            if entries.is_empty() || self.coverage.reaches(self.stand.0, self.stand.1).is_ok() {
                break;
            }
        }
        self.coverage.reaches(self.stand.0, self.stand.1)?;
        Ok(self.replayed.len() as u64)
    }
}

impl Build for RedisBuild {
    fn token(&self) -> Generation {
        self.token
    }

    fn previous(&self) -> &Result<Header, Doubt> {
        &self.previous
    }

    fn digester(&self) -> &Digester {
        &self.digester
    }

    fn keeper(&self) -> Arc<dyn LeaseKeeper> {
        self.lease.keeper()
    }

    fn read_journal<'a>(&'a mut self, into: &'a Filter) -> BoxFuture<'a, Result<u64, StoreError>> {
        Box::pin(async move {
            let mut count = 0;
            loop {
                let entries = self.entries().await?;
                for digest in entries.iter().flat_map(|entry| &entry.digests) {
                    into.insert(digest);
                    count += 1;
                }
                if entries.len() < ENTRIES_PER_CALL {
                    return Ok(count);
                }
            }
        })
    }

    fn allocate(&mut self, plan: Plan) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let header = Header {
                state: State::Loading,
                generation: self.token,
                nonce: self.nonce,
                geometry: plan.geometry,
                key_id: self.digester.key_id(),
                run: self.run,
                items: plan.items,
                capacity: plan.capacity,
                rate: plan.rate,
            };
            let len = header.string_len().to_string();
            let args: [&[u8]; 4] =
                [&header.encode(), &header.trailer(), len.as_bytes(), &self.condemned.1];
            self.header = Some(header);
            self.step("the allocation", &ALLOCATE, &[&self.shared.keys.next], &args).await
        })
    }

    fn upload<'a>(
        &'a mut self,
        filter: &'a Arc<Filter>,
        progress: &'a (dyn Fn(u64) + Send + Sync),
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let header = self.header(State::Loading, "the upload")?;
            let (head, len) = (header.encode(), header.string_len().to_string());
            let blocks = header.geometry.blocks();
            let mut piece = Vec::new();
            let mut from = 0;
            while from < blocks {
                let to = blocks.min(from.saturating_add(BLOCKS_PER_CALL));
                piece.clear();
                filter.write_blocks(from..to, &mut piece);
                let offset = (head.len() + from as usize * BLOCK_LEN).to_string();
                let args: [&[u8]; 4] = [&head, len.as_bytes(), offset.as_bytes(), &piece];
                self.step("the upload", &UPLOAD, &[&self.shared.keys.next], &args).await?;
                progress(piece.len() as u64);
                sleep(Duration::from_secs_f64(piece.len() as f64 / PACE as f64)).await;
                from = to;
            }
            Ok(())
        })
    }

    fn catch_up(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let live = self.same_redis().await?;
            let loading = self.header(State::Loading, "the catching up")?;
            let len = loading.string_len().to_string();
            let catching_up = loading.with_state(State::CatchingUp).encode();
            let keys = [self.shared.keys.next.as_str(), self.shared.keys.meta.as_str()];
            let loading = self.header(State::Loading, "the catching up")?.encode();
            let args: [&[u8]; 4] = [&loading, &catching_up, len.as_bytes(), &self.incarnation];
            let reply = self.shared.bulk.script(&live, &CATCH_UP, &keys, &args, CALL).await?;
            let mut fields = reply.array()?.into_iter();
            let first = fields.next().map(Reply::text).transpose()?.unwrap_or_default();
            outcome("the catching up", first)?;
            let [seq, last_ms] = fields.collect::<Vec<_>>().try_into().map_err(|_| {
                StoreError::Odd { step: CATCH_UP.name(), answer: "no journal".to_owned() }
            })?;
            self.stand = (seq.count()?, last_ms.count()?);
            Ok(())
        })
    }

    fn replay(&mut self) -> BoxFuture<'_, Result<u64, StoreError>> {
        Box::pin(self.replay_tail())
    }

    fn verify<'a>(
        &'a mut self,
        filter: &'a Filter,
        sample: &'a [Digest],
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.verify_building(filter, sample))
    }

    fn swap(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.put_live())
    }

    fn release(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(self.lease.release())
    }
}

/// Reads what a step's script answered.
pub(super) fn outcome(step: &'static str, answer: String) -> Result<(), StoreError> {
    match answer.as_str() {
        "OK" => Ok(()),
        "LOST" => Err(StoreError::Lost { step }),
        "FENCED" => Err(StoreError::Fenced { step }),
        "GAP" => Err(StoreError::JournalGap { reason: "the metadata was lost".to_owned() }),
        "UNVOUCHED" => Err(swap::unvouched(0)),
        _ => Err(StoreError::Odd { step, answer }),
    }
}
