//! *Upload*: brings the local filter to Redis, beside what inserts have set there since the lease. *Verify*: proves that it is there.

use std::time::Duration;

use ::redis::cmd;
use tokio::time::{Instant, sleep_until};

use super::lease::CALL;
use super::{ShardBuild, outcome, pieces};
use crate::error::StoreError;
use crate::filter::Filter;
use crate::filter::lengths::{BLOCK_LEN, FRONT_LEN};
use crate::store::Progress;
use crate::store::link::script::Script;

static UPLOAD: Script = Script::new("upload.lua", include_str!("upload.lua"));

/// Blocks that one call brings: 32 KiB. Where inserts have set bits in each, the script takes some two milliseconds.
const BLOCKS_PER_CALL: u32 = 512;
/// Blocks that one call counts the bits of: 256 KiB.
const BLOCKS_PER_COUNT: u32 = 4096;

/// The most bytes a second: by default Redis drops a replica that is 64 MB behind for a minute, or 256 MB.
const PACE: f64 = (64 << 20) as f64;
/// How far the upload may be ahead of that pace: Tokio's timers are coarser than a call takes.
const AHEAD: Duration = Duration::from_millis(8);

impl ShardBuild {
    /// Uploads after other shards, all of which are through at the pace by the moment `through`, and moves that on.
    pub(super) async fn upload(
        &self,
        filter: &Filter,
        through: &mut Instant,
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
            let now = Instant::now();
            *through = (*through).max(now) + Duration::from_secs_f64(piece.len() as f64 / PACE);
            if *through - now > AHEAD {
                sleep_until(*through).await;
            }
        }
        Ok(())
    }

    /// *Verify*: checks that no piece has fewer bits than the local filter's, and then the trailer. Of header and length the swap makes
    /// sure.
    pub(super) async fn verify(&self, filter: &Filter) -> Result<(), StoreError> {
        let lost = || StoreError::lost("the verification");
        let next = &self.shard.known.keys.next;
        for blocks in pieces(self.header.geometry.blocks, BLOCKS_PER_COUNT) {
            let first = FRONT_LEN + blocks.start as usize * BLOCK_LEN;
            let last = FRONT_LEN + blocks.end as usize * BLOCK_LEN - 1;
            let count = cmd("BITCOUNT").arg(next).arg(first).arg(last).clone();
            if self.same_redis().await?.ask("BITCOUNT", count, CALL).await?.count()?
                < filter.ones_in(blocks)
            {
                return Err(lost());
            }
        }
        let trailer = self.header.trailer();
        let from = self.header.string_len() - trailer.len() as u64;
        let read = cmd("GETRANGE").arg(next).arg(from).arg(-1).clone();
        let stored = self.same_redis().await?.ask("GETRANGE", read, CALL).await?.bytes()?;
        if stored == trailer { Ok(()) } else { Err(lost()) }
    }
}

#[cfg(test)]
mod tests {
    use std::iter::repeat_n;
    use std::sync::Arc;

    use ::redis::Value;

    use super::*;
    use crate::filter::{Generation, Header, Sizing};
    use crate::store::redis::connection::tests::{Scripted, reached};
    use crate::store::redis::rebuild::RedisBuild;
    use crate::store::redis::rebuild::lease::Lease;
    use crate::store::scan::Filled;

    /// Redis drops a replica that is too far behind. Each shard is less than what goes ahead of the pace.
    #[tokio::test(start_paused = true)]
    async fn an_upload_keeps_the_pace_that_a_replica_can_follow_over_all_shards_together() {
        const SHARDS: usize = 16;
        let sizing = Sizing::new(300_000, 0.01).unwrap();
        let header = Header::new(Generation::new(1).unwrap(), 1, &sizing, 1);
        let header = Header { run: 1, ..header };
        let calls = |of: u32| pieces(header.geometry.blocks, of).count();
        let uploads = repeat_n(Value::Okay, calls(BLOCKS_PER_CALL));
        let counts = repeat_n(Value::Int(0), calls(BLOCKS_PER_COUNT));
        let rest = [Value::BulkString(header.trailer().to_vec()), Value::Okay];
        let replies = uploads.chain(counts).chain(rest).map(Some);
        let (shards, there) = reached(Scripted::new(repeat_n(replies, SHARDS).flatten()));
        let shard = Arc::clone(&shards.all[0]);
        let build = |_| ShardBuild {
            shard: Arc::clone(&shard),
            lease: Lease { shard: Arc::clone(&shard), nonce: String::new(), build: 0 },
            leased_us: 0,
            window_us: 0,
            identity: Arc::clone(&there.identity),
            header,
            recent: Vec::new(),
        };
        let builds = (0..SHARDS).map(build).collect();
        let filled = |_| Filled { filter: Arc::new(Filter::new(header.geometry)), ids: 0 };
        let given = (0..SHARDS).map(filled).collect();
        let shards = Arc::new(shards);
        let mut all = RedisBuild { shards, due: Vec::new(), all: true, builds, failed: Vec::new() };
        let begun = Instant::now();
        all.put_live(given, &Progress::default()).await.unwrap();
        let bytes = sizing.bytes() as usize * SHARDS;
        let least = Duration::from_secs_f64(bytes as f64 / PACE) - AHEAD;
        assert!(begun.elapsed() > least, "{bytes} bytes in {:?}", begun.elapsed());
    }
}
