//! Putting a filter out of use that was found incomplete.

use std::time::Duration;

use super::Shared;
use super::script::DISTRUST;
use crate::error::StoreError;
use crate::filter::format::{GENERATION_OFFSET, STATE_OFFSET};
use crate::filter::{Generation, State};

/// How long it may take.
const DEADLINE: Duration = Duration::from_millis(250);

impl Shared {
    /// Puts the live filter out of use for every process, if it is still of this generation.
    pub(super) async fn distrust(&self, generation: Generation) -> Result<(), StoreError> {
        let live = self.adds.connected(DEADLINE).await?;
        let keys = [self.keys.bits.as_str()];
        let (state, state_offset) = ([State::Disproved.as_byte()], STATE_OFFSET.to_string());
        let generation_offset = GENERATION_OFFSET.to_string();
        let args: [&[u8]; 4] = [
            &generation.get().to_be_bytes(),
            generation_offset.as_bytes(),
            &state,
            state_offset.as_bytes(),
        ];
        let done = self.adds.script(&live, &DISTRUST, &keys, &args, DEADLINE).await?.int()?;
        if done == 1 {
            tracing::error!(%generation, "the live filter is incomplete and out of use until it is rebuilt");
        }
        Ok(())
    }
}
