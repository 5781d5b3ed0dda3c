//! *Allocate* and *upload*: brings the local filter to Redis, where no other process writes to it yet.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::redis::cmd;
use tokio::time::{Instant, sleep};

use super::build::{ShardBuild, pieces};
use crate::error::StoreError;
use crate::filter::format::{BLOCK_LEN, HEADER_LEN};
use crate::filter::{Header, State};
use crate::store::link::process::Memory;
use crate::store::link::script::Script;
use crate::store::scan::Given;

static ALLOCATE: Script = Script::new("allocate.lua", include_str!("allocate.lua"));
static UPLOAD: Script = Script::new("upload.lua", include_str!("upload.lua"));

/// The upload's pace, bytes a second: by default Redis drops a replica that is 64 MB behind for a minute, or 256 MB.
const PACE: u64 = 64 << 20;
/// The bytes that may be ahead of it: that is as quick as Redis takes them, one piece after the other.
const BURST: u64 = 32 << 20;

/// When the bytes that were sent would all be through at that pace. The shards of a rebuild share one, as they share their
/// Redis and its replicas.
#[derive(Clone)]
pub(super) struct Pace(Arc<Mutex<Instant>>);

impl Pace {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }

    /// Counts bytes that were sent; returns how long the next have to wait.
    fn sent(&self, bytes: usize) -> Duration {
        let time = |bytes: u64| Duration::from_secs_f64(bytes as f64 / PACE as f64);
        let mut through = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        *through = now.max(*through) + time(bytes as u64);
        through.duration_since(now).saturating_sub(time(BURST))
    }
}

impl ShardBuild {
    /// *Allocate*: resets the building filter, in the loading state.
    pub(super) async fn allocate_next(&mut self) -> Result<u64, StoreError> {
        let Given { filter, sizing, ids, .. } = self.given()?;
        let bytes = filter.byte_len() as u64;
        let header = Header {
            state: State::Loading,
            generation: self.token,
            nonce: self.lease.build(),
            geometry: filter.geometry(),
            key_id: self.digester.key_id(),
            run: self.run,
            items: u32::try_from(*ids).unwrap_or(u32::MAX),
            capacity: sizing.share(),
            rate: sizing.rate() as f32,
        };
        self.room(header.string_len()).await?;
        self.header = Some(header);
        let len = header.string_len().to_string();
        let args: [&[u8]; 4] =
            [&header.encode(), &header.trailer(), len.as_bytes(), &self.damaged_next];
        self.step("the allocation", &ALLOCATE, &args).await?;
        Ok(bytes)
    }

    /// Fails if Redis would have no room for a filter of `bytes` bytes. One that it cannot hold would have it
    /// refuse all checks.
    pub(super) async fn room(&self, bytes: u64) -> Result<(), StoreError> {
        let memory = self.ask_one("INFO", cmd("INFO").arg("memory").clone()).await?.text()?;
        let Some(Memory { used, limit }) = Memory::parse(&memory) else { return Ok(()) };
        // What is there already makes way.
        let needed = used.saturating_sub(self.view().await?.next.len).saturating_add(bytes);
        if needed <= limit { Ok(()) } else { Err(StoreError::NoRoom { needed, limit }) }
    }

    /// *Upload*: writes the blocks, piece by piece.
    pub(super) async fn upload_blocks(
        &self,
        progress: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<(), StoreError> {
        let filter = &self.given()?.filter;
        let header = self.header(State::Loading, "the upload")?;
        let (head, len) = (header.encode(), header.string_len().to_string());
        let mut piece = Vec::new();
        for blocks in pieces(header.geometry.blocks()) {
            let offset = (HEADER_LEN + blocks.start as usize * BLOCK_LEN).to_string();
            piece.clear();
            filter.write_blocks(blocks, &mut piece);
            let args: [&[u8]; 4] = [&head, len.as_bytes(), offset.as_bytes(), &piece];
            self.step("the upload", &UPLOAD, &args).await?;
            progress(piece.len() as u64);
            let wait = self.pace.sent(piece.len());
            if !wait.is_zero() {
                sleep(wait).await;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends so many bytes to each of so many shards; returns how long that takes.
    async fn send(shards: u64, bytes: u64) -> Duration {
        let (pace, begun) = (Pace::new(), Instant::now());
        for _ in 0..shards {
            let of_shard = pace.clone();
            for _ in 0..bytes >> 18 {
                sleep(of_shard.sent(1 << 18)).await;
            }
        }
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn many_small_shards_go_no_faster_than_a_large_one() {
        let (one, many) = (send(1, 1 << 30).await, send(256, 4 << 20).await);
        assert_eq!(one, many);
        assert!((one.as_secs_f64() - 15.5).abs() < 0.1, "{one:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_not_sent_in_time_is_not_made_up_for() {
        let pace = Pace::new();
        sleep(Duration::from_secs(60)).await;
        let begun = Instant::now();
        for _ in 0..1024 {
            sleep(pace.sent(1 << 18)).await;
        }
        let took = begun.elapsed();
        assert!((took.as_secs_f64() - 3.5).abs() < 0.1, "{took:?}");
    }
}
