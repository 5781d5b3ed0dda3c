//! The rebuild lease: it saves work, safety is the token's.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tracing::Instrument;

use super::build::CALL;
use crate::store::redis::Shared;
use crate::store::redis::script::{RELEASE, RENEW, Script};
use crate::store::{BoxFuture, LeaseKeeper};

/// How long, and how often, the lease is worth another attempt.
const LOCK_WAIT: Duration = Duration::from_secs(1);
const LOCK_ATTEMPTS: u32 = 2;
/// The rebuild lease, held by this process. It is given back also when the rebuild is dropped halfway,
/// so that the next need not wait for it to lapse.
pub(crate) struct Lease {
    lock: Arc<Lock>,
    held: bool,
}

impl Lease {
    pub(crate) fn new(lock: Lock) -> Self {
        Self { lock: Arc::new(lock), held: true }
    }

    pub(crate) fn keeper(&self) -> Arc<dyn LeaseKeeper> {
        Arc::clone(&self.lock) as Arc<dyn LeaseKeeper>
    }

    pub(crate) async fn release(&mut self) {
        self.lock.release().await;
        self.held = false;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let (true, Ok(runtime)) = (self.held, Handle::try_current()) {
            let lock = Arc::clone(&self.lock);
            runtime.spawn(async move { lock.release().await }.in_current_span());
        }
    }
}

/// The key that the lease is.
pub(crate) struct Lock {
    pub(crate) shared: Arc<Shared>,
    pub(crate) nonce: String,
    pub(crate) lease: Duration,
}

impl Lock {
    async fn release(&self) {
        self.run(&RELEASE, &[self.nonce.as_bytes()]).await;
    }

    /// Runs a script on the lock. Its failure costs nothing but the wait for the lease to lapse.
    async fn run(&self, script: &'static Script, args: &[&[u8]]) {
        let keys = [self.shared.keys.lock.as_str()];
        for _ in 0..LOCK_ATTEMPTS {
            let ran = match self.shared.bulk.connected(LOCK_WAIT).await {
                Ok(live) => self.shared.bulk.script(&live, script, &keys, args, CALL).await,
                Err(error) => Err(error),
            };
            match ran {
                Ok(_) => return,
                Err(error) => tracing::debug!(%error, script = script.name(), "no lease reached"),
            }
        }
    }
}

impl LeaseKeeper for Lock {
    fn renew(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let life = self.lease.as_millis().to_string();
            self.run(&RENEW, &[self.nonce.as_bytes(), life.as_bytes()]).await;
        })
    }
}
