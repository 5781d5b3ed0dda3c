//! Writes down that the filter was left for another one: in each shard's live key, so that every check of it reads that.

use std::time::Duration;

use super::shard::Shard;
use super::shards::Shards;
use crate::error::StoreError;
use crate::filter::moved;
use crate::store::link::attempts::Attempts;
use crate::store::link::script::{Script, hex};

static LEAVE: Script = Script::new("leave.lua", include_str!("leave.lua"));
/// For Redis 7 and later, which know the flag. It gives memory back.
static LEAVE_DESPITE_OOM: Script =
    Script::new("leave.lua", concat!("#!lua flags=allow-oom\n", include_str!("leave.lua")));

/// How long one call may take.
const DEADLINE: Duration = Duration::from_secs(1);

impl Shards {
    /// Has no process refuse by the filter, or insert into it, any more. May be repeated.
    pub(super) async fn leave(&self) -> Result<(), StoreError> {
        for shard in &self.all {
            let mut attempts = Attempts::default();
            while let Err(error) = shard.leave().await {
                attempts.next_after(error).await?;
            }
        }
        self.hand_over.note_left();
        Ok(())
    }
}

impl Shard {
    async fn leave(&self) -> Result<(), StoreError> {
        let connection = self.connected(|node| &node.inserts, DEADLINE).await?;
        let script = if connection.on.process.major >= 7 { &LEAVE_DESPITE_OOM } else { &LEAVE };
        let key_id = hex(connection.identity.digester.key_id());
        let keys = [&self.known.keys.bits, &self.known.keys.next, &self.known.keys.meta]
            .map(String::as_str);
        let args = [key_id.as_bytes(), &moved()];
        let reply = connection.script(script, &keys, &args, DEADLINE).await?;
        match reply.text()?.as_str() {
            "OK" => self.keep_to_one_redis(&connection),
            // The metadata were lost or made anew: the next connection joins them.
            _ => {
                self.withdraw(&connection);
                Err(StoreError::Changing)
            }
        }
    }
}
