//! Puts a filter out of use that was found incomplete.

use std::time::Duration;

use super::shards::Shards;
use crate::error::StoreError;
use crate::filter::{Generation, State};
use crate::id::Id;
use crate::store::link::script::Script;
use crate::store::link::session::Purpose;
use crate::verdict::Doubt;

static DISTRUST: Script = Script::new("distrust.lua", include_str!("distrust.lua"));

const DEADLINE: Duration = Duration::from_millis(250);

impl Shards {
    pub(crate) async fn distrust(
        &self,
        id: &Id,
        generation: Generation,
    ) -> Result<Option<Doubt>, StoreError> {
        let shard = self.shard_of(id);
        let connection = shard.connected(Purpose::Inserts, DEADLINE).await?;
        let keys = [shard.known.keys.bits.as_str(), shard.known.keys.meta.as_str()];
        let number = generation.get().to_string();
        let digest = connection.identity.digester.digest(id);
        let args: [&[u8]; 6] = [
            &generation.get().to_be_bytes(),
            &[State::Disproved.as_byte()],
            number.as_bytes(),
            digest.as_bytes(),
            &[State::Live.as_byte()],
            &[State::DisprovedTwice.as_byte()],
        ];
        Ok(match connection.script(&DISTRUST, &keys, &args, DEADLINE).await?.int()? {
            1 => Some(Doubt::Disproved),
            2 => Some(Doubt::DisprovedTwice),
            _ => None,
        })
    }
}
