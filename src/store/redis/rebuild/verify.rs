//! *Verify*: proves that the building filter holds what it should.

use ::redis::{Pipeline, cmd};

use super::build::{ShardBuild, pieces};
use crate::error::StoreError;
use crate::filter::lengths::{BLOCK_LEN, FRONT_LEN};
use crate::filter::{Filter, Header, Membership, Position};
use crate::id::Digest;
use crate::store::link::reply::Reply;
use crate::store::scan::Given;

/// Digests looked up at once.
const DIGESTS_PER_CALL: usize = 64;
/// Blocks counted by one call: 256 KiB.
const BLOCKS_PER_CALL: u32 = 4096;

fn lost() -> StoreError {
    StoreError::lost("the verification")
}

impl ShardBuild {
    /// *Verify*: checks header, length and trailer; that no piece has fewer bits than the local filter's;
    /// and that the sample is there.
    pub(super) async fn verify(&self, given: &Given) -> Result<(), StoreError> {
        let Given { filter, sample, .. } = given;
        let header = self.header;
        self.verify_frame(&header).await?;
        self.verify_counts(&header, filter).await?;
        for digests in sample.chunks(DIGESTS_PER_CALL) {
            self.verify_digests(&header, digests).await?;
        }
        self.verify_frame(&header).await
    }

    async fn verify_frame(&self, header: &Header) -> Result<(), StoreError> {
        if self.view().await?.next.filter.as_ref() != Ok(header) {
            return Err(lost());
        }
        let trailer = header.trailer();
        let mut read = cmd("GETRANGE");
        read.arg(&self.shard.known.keys.next);
        read.arg(header.string_len() - trailer.len() as u64).arg(-1);
        let stored = self.ask_one("GETRANGE", read).await?.bytes()?;
        if stored == trailer { Ok(()) } else { Err(lost()) }
    }

    async fn verify_counts(&self, header: &Header, filter: &Filter) -> Result<(), StoreError> {
        for blocks in pieces(header.geometry.blocks, BLOCKS_PER_CALL) {
            let first = FRONT_LEN + blocks.start as usize * BLOCK_LEN;
            let last = FRONT_LEN + blocks.end as usize * BLOCK_LEN - 1;
            let mut count = cmd("BITCOUNT");
            count.arg(&self.shard.known.keys.next).arg(first).arg(last);
            if self.ask_one("BITCOUNT", count).await?.count()? < filter.ones_in(blocks) {
                return Err(lost());
            }
        }
        Ok(())
    }

    async fn verify_digests(&self, header: &Header, digests: &[Digest]) -> Result<(), StoreError> {
        let positions: Vec<Position> =
            digests.iter().map(|digest| header.geometry.position(digest)).collect();
        let mut commands = Pipeline::with_capacity(positions.len());
        for position in &positions {
            let mut bits = cmd("BITFIELD");
            bits.arg(&self.shard.known.keys.next);
            for word in 0..8 {
                bits.arg("GET").arg("i64").arg((position.byte_offset() as usize + word * 8) * 8);
            }
            commands.add_command(bits);
        }
        for (position, reply) in positions.iter().zip(self.ask(&commands).await?) {
            let words = Reply::words(Reply::new("the verification", reply).fields()?)?;
            if position.is_in(&words) == Membership::Never {
                return Err(lost());
            }
        }
        Ok(())
    }
}
