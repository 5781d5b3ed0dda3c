//! Saying own adds again to a Redis that may have lost them.
//!
//! An *incarnation* is one life of the metadata on one Redis process: a restart, a failover and a loss
//! of the metadata each begin another. What was acknowledged in an earlier one may be lost. So every
//! process adds its recent adds again as soon as it meets a new incarnation, and until then trusts no
//! filter of it. The others give it time: no filter goes live before Redis has been at work for the
//! [`GRACE`](crate::store::redis::rebuild::swap::GRACE), nor within the same time of anybody's last word while adds are said
//! again (`swap.lua`).
//!
//! A process that cannot say them all again (it has forgotten some, or a lost secret key was replaced)
//! says that instead: the live filter stops answering, and none goes live whose rebuild began before
//! the last of those transactions is over (`disown.lua`).
//!
//! What remains: a process that is cut off from Redis for so long that it cannot find the incarnation
//! within the grace, or for longer than the grace in the midst of its replay, while its transaction goes
//! on; and one that ends between the commit and the replay. Its id may be refused from the commit until
//! the process is back, or until the next rebuild.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::error::StoreError;
use crate::store::redis::Shared;
use crate::store::redis::link::connection::Live;
use crate::store::redis::script::GIVE_UP_REPLAY;

/// How long a failed replay rests; further failures double it.
const REST: Duration = Duration::from_millis(100);
/// How often it may be doubled.
const DOUBLINGS: u32 = 3;
/// How often adds that are over are forgotten.
const PRUNE: Duration = Duration::from_secs(60);
/// Digests taken from the ring at once; the add's script takes fewer.
const TAKE: usize = 256;
/// How long saying that this process cannot vouch may take.
const DEADLINE: Duration = Duration::from_millis(500);

impl Shared {
    /// Says own adds again on every incarnation that the connection for adds meets.
    pub(crate) async fn vouch(self: Arc<Self>) {
        let mut failures = 0;
        loop {
            // Listening comes first: a connection made meanwhile is not missed.
            let (adds, checks, bulk) = (self.adds.news(), self.checks.news(), self.bulk.news());
            if let Some(live) = self.adds.live() {
                self.agree(&live);
                if let Err(error) = self.vouch_on(&live).await {
                    // Said once, and not at every attempt.
                    if failures == 0 {
                        tracing::warn!(%error, "own inserts are not replayed to redis yet");
                    }
                    sleep(REST).await;
                    // A new connection may do better: others wait for this process, but not for long.
                    tokio::select! {
                        biased;
                        () = adds => {}
                        () = sleep(REST * (2_u32.pow(failures) - 1)) => {}
                    }
                    failures = (failures + 1).min(DOUBLINGS);
                    continue;
                }
                failures = 0;
            }
            tokio::select! {
                biased;
                () = adds => {}
                () = checks => {}
                () = bulk => {}
                () = sleep(PRUNE) => {}
            }
        }
    }

    /// A name may lead to another Redis than it did: then no connection stays where it is.
    fn agree(&self, live: &Arc<Live>) {
        for link in [&self.checks, &self.bulk] {
            if let Some(other) = link.live().filter(|other| other.server != live.server) {
                link.withdraw(&other);
                self.adds.withdraw(live);
            }
        }
    }

    async fn vouch_on(&self, live: &Arc<Live>) -> Result<(), StoreError> {
        if !self.own.vouched_on(&live.identity.incarnation) {
            self.say_again(live).await?;
            self.own.vouch(&live.identity.incarnation);
        }
        // Only while Redis is there: what was open when it went is needed when it is back.
        self.own.prune();
        Ok(())
    }

    async fn say_again(&self, live: &Arc<Live>) -> Result<(), StoreError> {
        // An add that is sent after this goes to this connection or a later one.
        let (in_flight, end) = self.own.replay(live.identity.digester.key_id());
        self.add_again(live, &in_flight).await?;
        let mut at = 0;
        while at < end {
            let (digests, next) = self.own.since(at, TAKE);
            if digests.is_empty() {
                break;
            }
            self.add_again(live, &digests).await?;
            at = next;
        }
        let age = live.identity.age + live.age();
        match self.own.complete_since(age) {
            Ok(()) => Ok(()),
            Err(open) => self.disown(live, open).await,
        }
    }

    /// Says that transactions of forgotten adds may be open for so long yet.
    async fn disown(&self, live: &Arc<Live>, open: Duration) -> Result<(), StoreError> {
        let keys = [self.keys.meta.as_str(), self.keys.bits.as_str()];
        let open = open.as_millis().to_string();
        let args: [&[u8]; 2] = [&live.identity.incarnation, open.as_bytes()];
        match self
            .adds
            .script(live, &GIVE_UP_REPLAY, &keys, &args, DEADLINE)
            .await?
            .text()?
            .as_str()
        {
            "OK" => {
                tracing::warn!(
                    ?open,
                    "own inserts cannot be replayed to redis; no filter is trusted until one is rebuilt"
                );
                Ok(())
            }
            _ => Err(StoreError::Lost { step: "the replay of own inserts" }),
        }
    }
}
