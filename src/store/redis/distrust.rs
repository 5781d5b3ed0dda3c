//! Puts a filter out of use that was found incomplete.

use std::time::Duration;

use super::shard::Shard;
use crate::error::StoreError;
use crate::filter::format::{GENERATION_OFFSET, STATE_OFFSET};
use crate::filter::{Generation, State};
use crate::store::link::script::Script;

static DISTRUST: Script = Script::new("distrust.lua", include_str!("distrust.lua"));

/// How long it may take.
const DEADLINE: Duration = Duration::from_millis(250);

/// No state: no check takes a filter with it for live.
const SPOILT: u8 = 0;

impl Shard {
    /// Puts the live filter out of use for every process, if it is still of this generation, and did not take
    /// the place of a disproved one.
    pub(crate) async fn distrust(&self, generation: Generation) -> Result<(), StoreError> {
        let unless_rebuilt = generation.get().to_string();
        let state = State::Disproved.as_byte();
        if self.put_out_of_use(generation, state, &unless_rebuilt).await? {
            tracing::error!(%generation, "the live filter is incomplete and out of use until it is rebuilt: next_finding() gives the id it lacked");
        }
        Ok(())
    }

    /// Puts the live filter out of use for every process, if it is still of this generation: its data are
    /// damaged, whatever its source gives.
    pub(crate) async fn spoil(&self, generation: Generation) -> Result<(), StoreError> {
        self.put_out_of_use(generation, SPOILT, "").await.map(drop)
    }

    async fn put_out_of_use(
        &self,
        generation: Generation,
        state: u8,
        unless_rebuilt: &str,
    ) -> Result<bool, StoreError> {
        let connection = self.connected(|node| &node.inserts, DEADLINE).await?;
        let keys = [self.known.keys.bits.as_str(), self.known.keys.meta.as_str()];
        let (generation_offset, state_offset) =
            (GENERATION_OFFSET.to_string(), STATE_OFFSET.to_string());
        let args: [&[u8]; 5] = [
            &generation.get().to_be_bytes(),
            generation_offset.as_bytes(),
            &[state],
            state_offset.as_bytes(),
            unless_rebuilt.as_bytes(),
        ];
        let done = connection.script(&DISTRUST, &keys, &args, DEADLINE).await?.int()?;
        Ok(done == 1)
    }
}
