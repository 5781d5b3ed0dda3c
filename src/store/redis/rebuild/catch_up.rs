//! *Catch up* and *replay*: adds go to both filters from here on, and the journal's tail is replayed.

use super::build::{ShardBuild, outcome};
use crate::error::StoreError;
use crate::filter::State;
use crate::id::Digest;
use crate::store::link::reply::{Reply, odd};
use crate::store::link::script::{Script, masks};

static CATCH_UP: Script = Script::new("catch_up.lua", include_str!("catch_up.lua"));
static REPLAY: Script = Script::new("replay.lua", include_str!("replay.lua"));

/// Digests whose bits are set by one call.
const DIGESTS_PER_CALL: usize = 128;

impl ShardBuild {
    /// *Catch up*: lets adds go to both filters, and notes where the journal ends.
    pub(super) async fn catch_up(&mut self) -> Result<(), StoreError> {
        let loading = self.header(State::Loading, "the catching up")?;
        let len = loading.string_len().to_string();
        let catching_up = loading.with_state(State::CatchingUp);
        let keys = [self.shard.known.keys.next.as_str(), self.shard.known.keys.meta.as_str()];
        let args: [&[u8]; 4] =
            [&loading.encode(), &catching_up.encode(), len.as_bytes(), &self.incarnation];
        let reply = self.run(&CATCH_UP, &keys, &args).await?;
        let mut fields = reply.array()?.into_iter();
        let first = fields.next().map(Reply::text).transpose()?.unwrap_or_default();
        outcome("the catching up", first)?;
        let [seq, last_ms] = fields
            .collect::<Vec<_>>()
            .try_into()
            .map_err(|_| odd(CATCH_UP.name(), "no journal"))?;
        self.caught_up_at = (seq.count()?, last_ms.count()?);
        Ok(())
    }

    /// *Replay*: sets the bits of the ids that were journalled since *journal*; returns how many.
    pub(super) async fn replay(&mut self) -> Result<u64, StoreError> {
        let header = self.header(State::CatchingUp, "the replay")?;
        let head = header.encode();
        let len = header.string_len().to_string();
        let (seq, last_ms) = self.caught_up_at;
        loop {
            let entries = self.entries().await?;
            let digests: Vec<Digest> =
                entries.iter().flat_map(|entry| &entry.digests).copied().collect();
            for digests in digests.chunks(DIGESTS_PER_CALL) {
                let args: [&[u8]; 3] = [&head, len.as_bytes(), &masks(&header, digests)];
                self.step("the replay", &REPLAY, &args).await?;
            }
            self.replayed.extend(digests);
            // Later entries were written to both filters. Reading up to *catch up* is enough, and a
            // steady stream of adds must not keep the rebuild here for ever.
            if entries.is_empty() || self.coverage.reaches(seq, last_ms).is_ok() {
                break;
            }
        }
        self.coverage.reaches(seq, last_ms)?;
        Ok(self.replayed.len() as u64)
    }
}
