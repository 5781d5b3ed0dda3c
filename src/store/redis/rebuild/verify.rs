//! *Verify*: proves that the building filter holds what it should.

use ::redis::cmd;

use super::build::{ShardBuild, pieces};
use super::lease::CALL;
use crate::error::StoreError;
use crate::filter::Filter;
use crate::filter::lengths::{BLOCK_LEN, FRONT_LEN};

/// Blocks counted by one call: 256 KiB.
const BLOCKS_PER_CALL: u32 = 4096;

impl ShardBuild {
    /// *Verify*: checks that no piece has fewer bits than the local filter's, and then header, length and trailer.
    pub(super) async fn verify(&self, filter: &Filter) -> Result<(), StoreError> {
        let lost = || StoreError::lost("the verification");
        let next = &self.shard.known.keys.next;
        for blocks in pieces(self.header.geometry.blocks, BLOCKS_PER_CALL) {
            let first = FRONT_LEN + blocks.start as usize * BLOCK_LEN;
            let last = FRONT_LEN + blocks.end as usize * BLOCK_LEN - 1;
            let count = cmd("BITCOUNT").arg(next).arg(first).arg(last).clone();
            if self.same_redis().await?.ask("BITCOUNT", count, CALL).await?.count()?
                < filter.ones_in(blocks)
            {
                return Err(lost());
            }
        }
        if self.view().await?.next.filter.as_ref() != Ok(&self.header) {
            return Err(lost());
        }
        let trailer = self.header.trailer();
        let from = self.header.string_len() - trailer.len() as u64;
        let read = cmd("GETRANGE").arg(next).arg(from).arg(-1).clone();
        let stored = self.same_redis().await?.ask("GETRANGE", read, CALL).await?.bytes()?;
        if stored == trailer { Ok(()) } else { Err(lost()) }
    }
}
