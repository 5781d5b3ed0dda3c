//! *Allocate* and *upload*: brings the local filter to Redis, where no other process writes to it yet.

use ::redis::cmd;
use tokio::time::sleep;

use super::build::{ShardBuild, pieces};
use super::pace::Pace;
use crate::error::StoreError;
use crate::filter::lengths::{BLOCK_LEN, FRONT_LEN};
use crate::filter::{Filter, Header, State};
use crate::store::Progress;
use crate::store::link::process::Memory;
use crate::store::link::script::Script;
use crate::store::scan::Given;

static ALLOCATE: Script = Script::new("allocate.lua", include_str!("allocate.lua"));
static UPLOAD: Script = Script::new("upload.lua", include_str!("upload.lua"));

impl ShardBuild {
    /// *Allocate*: resets the building filter, in the loading state; returns how many bytes are to be uploaded.
    pub(super) async fn allocate(&mut self, given: &Given) -> Result<u64, StoreError> {
        let Given { filter, sizing, ids, .. } = given;
        let bytes = filter.byte_len() as u64;
        let header = Header {
            state: State::Loading,
            generation: self.token,
            nonce: self.lease.build(),
            geometry: filter.geometry,
            key_id: self.digester.key_id(),
            run: self.run,
            items: u32::try_from(*ids).unwrap_or(u32::MAX),
            capacity: sizing.share,
            rate: sizing.rate as f32,
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
        if needed <= limit { Ok(()) } else { Err(StoreError::no_room(needed, limit)) }
    }

    /// *Upload*: writes the blocks, piece by piece.
    pub(super) async fn upload(
        &self,
        filter: &Filter,
        pace: &Pace,
        progress: &Progress,
    ) -> Result<(), StoreError> {
        let header = self.header(State::Loading, "the upload")?;
        let head = header.encode();
        let len = header.string_len().to_string();
        let mut piece = Vec::new();
        for blocks in pieces(header.geometry.blocks) {
            let offset = (FRONT_LEN + blocks.start as usize * BLOCK_LEN).to_string();
            piece.clear();
            filter.write_blocks(blocks, &mut piece);
            let args: [&[u8]; 4] = [&head, len.as_bytes(), offset.as_bytes(), &piece];
            self.step("the upload", &UPLOAD, &args).await?;
            progress.uploaded(piece.len() as u64);
            let wait = pace.sent(piece.len());
            if !wait.is_zero() {
                sleep(wait).await;
            }
        }
        Ok(())
    }
}
