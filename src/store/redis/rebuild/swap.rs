//! *Swap*: puts the building filter live.

use super::lease::CALL;
use super::{ShardBuild, outcome};
use crate::error::StoreError;
use crate::filter::{Header, State};
use crate::store::LiveFilter;
use crate::store::link::script::Script;

static SWAP: Script = Script::new("swap.lua", include_str!("swap.lua"));

/// How often the swap is tried when its reply is lost.
const ATTEMPTS: u32 = 3;

impl ShardBuild {
    /// *Swap*. Where a reply is lost, looks at the live header and tries again; where the last one is, the rebuild is reported as
    /// failed, although its filter may be live.
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
        for attempt in 1.. {
            match self.run(&SWAP, &keys, &args).await {
                Err(StoreError::NoAnswer { .. }) if attempt < ATTEMPTS => {
                    let redis = self.same_redis().await?;
                    if self.shard.read_view(&redis, CALL, &[]).await?.live.filter == Ok(live) {
                        break;
                    }
                }
                answer => {
                    outcome("the swap", &answer?.text()?)?;
                    break;
                }
            }
        }
        self.shard.adopt(&live);
        Ok(live.into())
    }
}
