//! *Swap*: puts the building filter live.

use super::{ShardBuild, outcome};
use crate::error::StoreError;
use crate::filter::{Header, State};
use crate::store::LiveFilter;
use crate::store::link::script::Script;

static SWAP: Script = Script::new("swap.lua", include_str!("swap.lua"));

impl ShardBuild {
    /// *Swap*. Where its reply is lost, the rebuild is reported as failed, although its filter may be live.
    pub(super) async fn swap(&self, ids: u64) -> Result<LiveFilter, StoreError> {
        let items = u32::try_from(ids).unwrap_or(u32::MAX);
        let live = Header { items, ..self.header.with_state(State::Live) };
        let keys = &self.shard.known.keys;
        let keys = [&keys.next, &keys.bits, &keys.meta].map(String::as_str);
        let [len, leased_ms, generation] =
            [live.string_len() as i64, self.leased_us / 1000, live.generation.get()]
                .map(|number| number.to_string());
        let args: [&[u8]; 6] = [
            &self.header.encode(),
            &live.encode(),
            len.as_bytes(),
            leased_ms.as_bytes(),
            generation.as_bytes(),
            &[State::Disproved, State::DisprovedTwice].map(State::as_byte),
        ];
        outcome("the swap", &self.run(&SWAP, &keys, &args).await?.text()?)?;
        self.shard.adopt(&live);
        Ok(live.into())
    }
}
