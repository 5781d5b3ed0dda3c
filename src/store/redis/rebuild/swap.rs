//! *Swap* and *confirm*: puts the building filter live, and makes sure that it is.

use std::time::Duration;

use tokio::time::sleep;

use super::build::{ShardBuild, outcome};
use crate::error::StoreError;
use crate::filter::State;
use crate::store::Live;
use crate::store::link::script::Script;
use crate::store::redis::incarnation::GRACE;

static SWAP: Script = Script::new("swap.lua", include_str!("swap.lua"));

/// How often the swap is tried when its reply is lost.
const ATTEMPTS: u32 = 3;
/// How often a swap that has to wait is tried.
const HELD: Duration = Duration::from_millis(50);

impl ShardBuild {
    /// *Swap*, and *confirm* where its reply is lost: the live header tells what became of it.
    pub(super) async fn swap(&self) -> Result<Live, StoreError> {
        let mut attempt = 1;
        loop {
            match self.swap_unheld().await {
                Err(StoreError::NoAnswer { .. }) if attempt < ATTEMPTS => {
                    attempt += 1;
                }
                Err(error) => return Err(error),
                Ok(()) => break,
            }
            if self.is_live().await? {
                break;
            }
        }
        let live = self.header(State::Live, "the swap")?;
        self.shard.adopt(&live, &self.incarnation).ok();
        Ok(live.into())
    }

    /// Swaps as soon as no process has inserts to replay any more.
    async fn swap_unheld(&self) -> Result<(), StoreError> {
        loop {
            match self.try_swap().await?.as_str() {
                "HELD" => sleep(HELD).await,
                answer => return outcome("the swap", answer.to_owned()),
            }
        }
    }

    async fn try_swap(&self) -> Result<String, StoreError> {
        let header = self.header(State::CatchingUp, "the swap")?;
        let keys = &self.shard.known.keys;
        self.run(
            &SWAP,
            &[&keys.next, &keys.bits, &keys.meta, &keys.log],
            &[
                &header.encode(),
                &header.with_state(State::Live).encode(),
                header.string_len().to_string().as_bytes(),
                &self.incarnation,
                &self.damaged_live,
                self.shard.known.settings.journal_entries.to_string().as_bytes(),
                GRACE.as_millis().to_string().as_bytes(),
                self.began_ms.to_string().as_bytes(),
                header.generation.get().to_string().as_bytes(),
                &[State::Disproved, State::DisprovedTwice].map(State::as_byte),
            ],
        )
        .await?
        .text()
    }

    /// Whether the live filter is the one that was built.
    async fn is_live(&self) -> Result<bool, StoreError> {
        Ok(self.view().await?.live.filter == Ok(self.header(State::Live, "the swap")?))
    }
}
