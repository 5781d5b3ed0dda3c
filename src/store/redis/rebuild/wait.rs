//! The wait of an incarnation's first swap, beside the steps before it.
//!
//! An incarnation's first swap waits until Redis has taken writes for [`GRACE`]. In that time other processes find the
//! incarnation and begin their replays. From *mark* to *swap* it is noted every 100 ms that Redis takes writes:
//!
//! | the time between two notes | counts |
//! |---|---|
//! | up to 250 ms | in full |
//! | more: Redis, the network or this process is slow | as 250 ms |
//! | more than half of [`GRACE`]: Redis stood still or took no writes | not at all, and the wait begins anew |
//!
//! Why anew: a replay that is under way then is interrupted, and swaps wait [`GRACE`] for its next call, no longer. So
//! notes lead up to the swap, too. Any process may write them: they tell of Redis, and of no rebuild.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::build::ShardBuild;
use crate::error::StoreError;
use crate::store::link::script::Script;
use crate::store::redis::incarnation::GRACE;
use crate::store::redis::shard::Shard;

static WAIT: Script = Script::new("wait.lua", include_str!("wait.lua"));

/// How often it is noted.
const EVERY: Duration = Duration::from_millis(100);
/// How often it is asked whether there is anything to wait for, while there is not.
const IDLE: Duration = Duration::from_secs(1);
/// How long a note may take. A connection on which a poll takes longer is given up, too.
const DEADLINE: Duration = Duration::from_millis(500);

pub(super) struct FirstSwapWait {
    shard: Arc<Shard>,
    run: u32,
    incarnation: Vec<u8>,
}

impl FirstSwapWait {
    pub(super) fn of(build: &ShardBuild) -> Self {
        let incarnation = build.incarnation.clone();
        Self { shard: Arc::clone(&build.shard), run: build.run, incarnation }
    }

    /// Notes that Redis takes writes, for as long as it is polled.
    pub(super) async fn count(self) {
        loop {
            let rest = match self.note().await {
                Ok(false) => IDLE,
                Ok(true) => EVERY,
                Err(error) => {
                    tracing::debug!(%error, "redis takes no writes");
                    EVERY
                }
            };
            sleep(rest).await;
        }
    }

    /// Returns whether a swap may wait for it.
    async fn note(&self) -> Result<bool, StoreError> {
        let connection = self.shard.connected(|node| &node.bulk, DEADLINE).await?;
        if connection.on.process.run != self.run {
            return Ok(false);
        }
        let grace = GRACE.as_millis().to_string();
        let keys = [self.shard.known.keys.meta.as_str()];
        let args = [&self.incarnation, grace.as_bytes()];
        let noted = connection.script(&WAIT, &keys, &args, DEADLINE).await?;
        Ok(noted.count()? == 1)
    }
}
