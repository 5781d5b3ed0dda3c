//! The rebuild lease. It only saves work: safety is the token's.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::sleep;
use tracing::Instrument;

use crate::id::Digest;
use crate::store::BoxFuture;
use crate::store::link::script::Script;
use crate::store::link::session::Purpose;
use crate::store::redis::connection::RedisNode;
use crate::store::redis::shard::Shard;

static RENEW: Script = Script::new("renew.lua", include_str!("renew.lua"));
static RELEASE: Script = Script::new("release.lua", include_str!("release.lua"));

/// The life of the lease, renewed three times as often.
pub(super) const LIFE: Duration = Duration::from_secs(10);
/// How long one call of a rebuild may take.
pub(super) const CALL: Duration = Duration::from_secs(5);
/// How long renewing or releasing waits for a connection, and how often each is tried.
const LOCK_WAIT: Duration = Duration::from_secs(1);
const LOCK_ATTEMPTS: u32 = 2;

/// The rebuild lease, held by this process. It is given back also when the rebuild is dropped halfway,
/// so that the next need not wait for it to lapse. What was built and not put live is freed with it. To give back what another
/// holds changes nothing.
pub(super) struct Lease {
    lock: Arc<Lock>,
    held: bool,
}

impl Lease {
    pub(super) fn new(lock: Lock) -> Self {
        Self { lock: Arc::new(lock), held: true }
    }

    pub(super) fn keep(&self) -> BoxFuture<'static, ()> {
        let lock = Arc::clone(&self.lock);
        Box::pin(async move {
            loop {
                sleep(LIFE / 3).await;
                lock.renew().await;
            }
        })
    }

    pub(super) fn lock(&self) -> &Lock {
        &self.lock
    }

    pub(super) async fn release(&mut self) {
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

/// Returns what a process that rebuilds writes into the lock: a nonce, and its address, by which people find it. It is the near
/// end of the connection for checks, which `CLIENT LIST` has, too.
pub(super) fn held_by(nonce: [u8; 16], node: &RedisNode) -> String {
    let nonce = Digest::from_bytes(nonce);
    match node.link.current().and_then(|checks| checks.transport(Purpose::Checks).local()) {
        Some(address) => format!("{nonce}@{address}"),
        None => nonce.to_string(),
    }
}

/// The key of the lease, and what it holds while the lease is this process's.
pub(super) struct Lock {
    pub(super) shard: Arc<Shard>,
    pub(super) nonce: String,
    /// The nonce of the filter that is built under it.
    pub(super) build: u64,
}

impl Lock {
    async fn renew(&self) {
        let life = LIFE.as_millis().to_string();
        let args = [self.nonce.as_bytes(), life.as_bytes(), &self.build.to_be_bytes()];
        self.run(&RENEW, &args).await;
    }

    async fn release(&self) {
        self.run(&RELEASE, &[self.nonce.as_bytes(), &self.build.to_be_bytes()]).await;
    }

    /// Runs a script on the lock. If it fails, the next rebuild waits for the lease to lapse.
    async fn run(&self, script: &Script, args: &[&[u8]]) {
        let keys = [self.shard.known.keys.lock.as_str(), self.shard.known.keys.next.as_str()];
        for _ in 0..LOCK_ATTEMPTS {
            let ran = match self.shard.connected(Purpose::Rebuilds, LOCK_WAIT).await {
                Ok(connection) => connection.script(script, &keys, args, CALL).await,
                Err(error) => Err(error),
            };
            match ran {
                Ok(_) => return,
                Err(error) => tracing::debug!(%error, script = script.name(), "no lease reached"),
            }
        }
    }
}
