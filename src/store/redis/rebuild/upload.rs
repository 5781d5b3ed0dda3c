//! *Upload*: brings the local filter to Redis, beside what inserts have set there since the lease.

use tokio::time::sleep;

use super::build::{ShardBuild, outcome, pieces};
use super::pace::Pace;
use crate::error::StoreError;
use crate::filter::Filter;
use crate::filter::lengths::{BLOCK_LEN, FRONT_LEN};
use crate::store::Progress;
use crate::store::link::script::Script;

static UPLOAD: Script = Script::new("upload.lua", include_str!("upload.lua"));

/// Blocks that one call brings: 32 KiB. Where inserts have set bits in each, the script takes some two milliseconds.
const BLOCKS_PER_CALL: u32 = 512;

impl ShardBuild {
    /// *Upload*: writes the blocks, piece by piece.
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
