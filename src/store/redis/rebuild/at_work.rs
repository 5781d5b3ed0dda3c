//! Notes that Redis takes writes, from *mark* to *swap*.
//!
//! An incarnation's first swap waits until Redis has taken writes for [`GRACE`]: so long have other processes had to find
//! the incarnation and to begin their replays. That time may run beside the scan, because a swap goes by these notes only
//! if they lead up to it without a gap:
//!
//! - Each note writes. One that fails, or comes more than 250 ms after the one before, begins the time anew. So Redis has
//!   taken writes in all of the last two seconds before the swap, as far as that can be seen.
//! - In those seconds each process has found the incarnation, or had before. It has begun its replay with that, and each
//!   call of a replay holds the swap for as long again. Where Redis stood still or took no writes during the scan, a
//!   replay that was interrupted has had that time afterwards to go on.
//! - What was replayed before *catch up* is in the journal, as ever.
//!
//! Without such notes, as on a connection slower than that, the tries of the swap count the time
//! (`swap.lua`). Later swaps of the incarnation do not wait, and nothing is noted for them.
//!
//! [`GRACE`]: crate::store::redis::incarnation::GRACE

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::build::RedisBuild;
use super::lease::CALL;
use crate::error::StoreError;
use crate::filter::Generation;
use crate::store::redis::script::Script;
use crate::store::redis::shared::Shared;

static AT_WORK: Script = Script::new("at_work.lua", include_str!("at_work.lua"));

/// How often it is noted.
const EVERY: Duration = Duration::from_millis(100);

/// What a note says.
pub(super) struct AtWork {
    shared: Arc<Shared>,
    run: u32,
    incarnation: Vec<u8>,
    generation: Generation,
}

impl AtWork {
    pub(super) fn of(build: &RedisBuild) -> Self {
        Self {
            shared: Arc::clone(&build.shared),
            run: build.run,
            incarnation: build.incarnation.clone(),
            generation: build.token,
        }
    }

    /// Notes it time and again, for as long as a swap may wait for it.
    pub(super) async fn note_on(self) {
        let mut failed = false;
        loop {
            match self.note(failed).await {
                Ok(true) => failed = false,
                Ok(false) => return,
                Err(error) => {
                    tracing::debug!(%error, "redis is not at work");
                    failed = true;
                }
            }
            sleep(EVERY).await;
        }
    }

    /// Returns whether a swap may wait for it.
    async fn note(&self, failed: bool) -> Result<bool, StoreError> {
        let connection = self.shared.bulk.connected(CALL).await?;
        if connection.process.run != self.run {
            return Ok(false);
        }
        let generation = self.generation.get().to_string();
        let failed: &[u8] = if failed { b"1" } else { b"" };
        let args = [&self.incarnation, generation.as_bytes(), failed];
        let keys = [self.shared.keys.meta.as_str()];
        let noted = self.shared.bulk.script(&connection, &AT_WORK, &keys, &args, CALL).await?;
        Ok(noted.count()? == 1)
    }
}
