//! *Upload*: brings the local filter to Redis, beside what inserts have set there since the lease.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use super::build::{ShardBuild, outcome, pieces};
use crate::error::StoreError;
use crate::filter::Filter;
use crate::filter::lengths::{BLOCK_LEN, FRONT_LEN};
use crate::store::Progress;
use crate::store::link::script::Script;

static UPLOAD: Script = Script::new("upload.lua", include_str!("upload.lua"));

/// Blocks that one call brings: 32 KiB. Where inserts have set bits in each, the script takes some two milliseconds.
const BLOCKS_PER_CALL: u32 = 512;

/// The upload's pace, bytes a second: by default Redis drops a replica that is 64 MB behind for a minute, or 256 MB.
const PACE: u64 = 64 << 20;
/// The bytes that may be ahead of that pace.
const BURST: u64 = 32 << 20;

/// When the bytes that were sent would be through at that pace. The shards of a rebuild share it, as they share replicas.
pub(super) struct Pace(Mutex<Instant>);

impl Pace {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Instant::now()))
    }

    /// Counts bytes that were sent; returns how long the next ones have to wait.
    pub(super) fn sent(&self, bytes: usize) -> Duration {
        let time = |bytes: u64| Duration::from_secs_f64(bytes as f64 / PACE as f64);
        let mut through = self.0.lock();
        let now = Instant::now();
        *through = now.max(*through) + time(bytes as u64);
        through.duration_since(now).saturating_sub(time(BURST))
    }
}

impl ShardBuild {
    pub(super) async fn upload(
        &self,
        filter: &Filter,
        pace: &Pace,
        progress: &Progress,
    ) -> Result<(), StoreError> {
        let head = self.header.encode();
        let len = self.header.string_len().to_string();
        let keys = [self.shard.known.keys.next.as_str()];
        let mut piece = Vec::new();
        for blocks in pieces(self.header.geometry.blocks, BLOCKS_PER_CALL) {
            let before = blocks.start.to_string();
            let offset = (FRONT_LEN + blocks.start as usize * BLOCK_LEN).to_string();
            piece.clear();
            filter.write_blocks(blocks, &mut piece);
            let args: [&[u8]; 5] =
                [&head, len.as_bytes(), offset.as_bytes(), &piece, before.as_bytes()];
            outcome("the upload", &self.run(&UPLOAD, &keys, &args).await?.text()?)?;
            progress.uploaded(piece.len() as u64);
            let wait = pace.sent(piece.len());
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
        let pace = Pace::new();
        let begun = Instant::now();
        for _ in 0..shards {
            for _ in 0..bytes >> 18 {
                sleep(pace.sent(1 << 18)).await;
            }
        }
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn many_small_shards_go_no_faster_than_a_large_one() {
        let one = send(1, 1 << 30).await;
        let many = send(256, 4 << 20).await;
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
