//! The rebuild lease. It only saves work: safety is the token's.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::store::link::script::Script;
use crate::store::link::session::Purpose;
use crate::store::redis::shard::Shard;

static RENEW: Script = Script::new("renew.lua", include_str!("renew.lua"));
static RELEASE: Script = Script::new("release.lua", include_str!("release.lua"));

pub(super) const LIFE: Duration = Duration::from_secs(10);
pub(super) const CALL: Duration = Duration::from_secs(5);
/// How long renewing and releasing may wait for a connection, and for its reply: a lost reply leaves time for another renewal.
const LOCK: Duration = Duration::from_secs(1);

/// The rebuild lease. One that is not given back lapses, and the next insert or poll frees what was built under it. To give back
/// what another process holds changes nothing.
#[derive(Clone)]
pub(super) struct Lease {
    pub(super) shard: Arc<Shard>,
    /// What the lock holds: a nonce, and the near end of the connection for checks, by which people find the process in `CLIENT
    /// LIST`.
    pub(super) nonce: String,
    /// The nonce of the filter that is built under it.
    pub(super) build: u64,
}

impl Lease {
    pub(super) fn keep(&self) -> impl Future<Output = ()> + use<> {
        let lease = self.clone();
        async move {
            let life = LIFE.as_millis().to_string();
            let args = [lease.nonce.as_bytes(), life.as_bytes(), &lease.build.to_be_bytes()];
            loop {
                sleep(LIFE / 3).await;
                lease.run(&RENEW, &args).await;
            }
        }
    }

    pub(super) async fn release(&self) {
        self.run(&RELEASE, &[self.nonce.as_bytes(), &self.build.to_be_bytes()]).await;
    }

    /// Runs a script on the lock. Where that fails, the next rebuild waits for the lease to lapse.
    async fn run(&self, script: &Script, args: &[&[u8]]) {
        let keys = [self.shard.known.keys.lock.as_str(), self.shard.known.keys.next.as_str()];
        let ran = match self.shard.connected(Purpose::Rebuilds, LOCK).await {
            Ok(connection) => connection.script(script, &keys, args, LOCK).await,
            Err(error) => Err(error),
        };
        if let Err(error) = ran {
            tracing::debug!(%error, script = script.name(), "no lease reached");
        }
    }
}
