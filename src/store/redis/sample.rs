//! Looks whether the live filter holds what the journal does.
//!
//! A check cannot see bits that were cleared under a sound header and trailer: by a command of an operator, or
//! by a fault of the memory. So each process takes one id a second from the journal and looks it up. What is
//! written to the journal after a rebuild began is in its filter, unless the filter has been damaged.

use std::sync::Arc;
use std::time::Duration;

use ::redis::cmd;
use tokio::time::{Instant, sleep};

use super::rebuild::journal::Entry;
use super::shard::Shard;
use super::shards::Shards;
use crate::error::StoreError;
use crate::filter::Header;
use crate::random;
use crate::store::link::transport::one;
use crate::verdict::{Proof, Verdict};

/// How often a process looks.
const PERIOD: Duration = Duration::from_secs(1);
/// The entries before a moment drawn at random of which one is taken.
const ENTRIES: usize = 8;
/// How long the journal's answer may take. The look-up is a check, and takes a check's time.
const DEADLINE: Duration = Duration::from_millis(500);

impl Shards {
    /// Looks again and again into any shard, for as long as it is polled.
    pub(crate) async fn look_into_samples(self: Arc<Self>) {
        loop {
            sleep(PERIOD).await;
            let shard = &self.all[random::scatter() as usize % self.all.len()];
            if let Some(header) = shard.filter.load_full()
                && let Ok(true) = self.lacks_sample(shard, &header).await
                && shard.spoil(header.generation).await.is_ok()
            {
                tracing::error!(
                    filter = &*self.name,
                    generation = %header.generation,
                    "the live filter lacks an insert that the journal holds, and is out of use until it is rebuilt"
                );
            }
        }
    }

    /// Whether a shard's live filter lacks an id that the journal holds; false where that cannot be told.
    async fn lacks_sample(
        self: &Arc<Self>,
        shard: &Shard,
        header: &Header,
    ) -> Result<bool, StoreError> {
        let Some(bulk) = shard.current(|node| &node.bulk) else { return Ok(false) };
        let Some(checks) = bulk.beside(|node| &node.checks) else { return Ok(false) };
        // A generation is the time at which its rebuild began.
        let (built, now) =
            (header.generation.get() / 1000, bulk.on.redis_us(Instant::now()) / 1000);
        let Ok(span @ 1..) = u64::try_from(now - built) else { return Ok(false) };
        let moment = built + (random::scatter() % span).cast_signed() + 1;
        let mut read = cmd("XREVRANGE");
        read.arg(&shard.known.keys.log).arg(moment).arg(built + 1).arg("COUNT").arg(ENTRIES);
        let reply = bulk.ask(&one(read), DEADLINE).await?.into_iter().next();
        let entries = Entry::read_all(reply.unwrap_or_default())?;
        let digests: Vec<_> = entries.iter().flat_map(|entry| &entry.digests).collect();
        let chosen = random::scatter() as usize % digests.len().max(1);
        let Some(digest) = digests.get(chosen) else { return Ok(false) };
        let deadline = Instant::now() + self.check_deadline;
        let on = Arc::clone(&checks.on);
        let Ok(sent) = checks.node.check(self, on, **digest, deadline, true) else {
            return Ok(false);
        };
        Ok(sent.answer().await.is_ok_and(|checked| {
            checked.verdict == Verdict::Absent(Proof::Filter)
                && checked.claim.generation == Some(header.generation)
        }))
    }
}
