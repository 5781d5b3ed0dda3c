//! *Recent*: waits until a scan may begin, and reads what was inserted lately.
//!
//! Inserts from the lease on go to the building filter, too. An earlier one whose transaction the scan cannot see came less than the
//! longest transaction before the lease: the record of recent inserts has it. Where the record may lack some, the scan waits until
//! their transactions are over.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::lease::CALL;
use super::{ShardBuild, outcome};
use crate::error::StoreError;
use crate::store::link::reply::odd;
use crate::store::link::resp::Packed;
use crate::store::link::script::Script;
use crate::store::redis::check::answer::Page;
use crate::store::redis::incarnation::GRACE;

static WAIT: Script = Script::new("wait.lua", include_str!("wait.lua"));
static RECORD: Script = Script::new("record.lua", include_str!("record.lua"));

const EVERY: Duration = Duration::from_millis(100);
/// How long one question may take. A session whose poll takes longer is given up, too.
const DEADLINE: Duration = Duration::from_millis(500);
const IDS_PER_CALL: usize = 8_192;
/// What an id and its number take in a reply.
const BYTES_AN_ID: usize = 64;

impl ShardBuild {
    pub(super) async fn read_recent(&mut self) -> Result<(), StoreError> {
        self.wait_for_replays().await?;
        self.read_record().await?;
        if let Some(until_us) = self.missing_until().await? {
            let now_us = self.same_redis().await?.on.redis_us(Instant::now());
            let wait = u64::try_from(until_us.saturating_sub(now_us)).unwrap_or(0);
            let wait = Duration::from_micros(wait);
            tracing::info!(
                filter = &*self.shard.known.settings().name,
                ?wait,
                "the record of recent inserts is not whole: the scan waits until their transactions are over"
            );
            sleep(wait).await;
        }
        Ok(())
    }

    /// Waits while processes have inserts to repeat, and in a new incarnation until all may have found it.
    async fn wait_for_replays(&self) -> Result<(), StoreError> {
        let grace = self.shard.known.common.grace;
        let grace_ms = grace.as_millis().to_string();
        let keys = [self.shard.known.keys.meta.as_str()];
        // How often Redis has answered without a gap, and when it was asked what it answered last.
        let (mut answered, mut last) = (0, Instant::now());
        loop {
            let redis = self.same_redis().await?;
            let asked = Instant::now();
            // A replay may have been interrupted, too: it is given the whole time once more.
            if asked - last > GRACE / 2 {
                answered = 0;
            }
            let worked: &[u8] = if EVERY * answered >= grace { b"1" } else { b"" };
            let args = [self.identity.incarnation.as_slice(), grace_ms.as_bytes(), worked];
            match redis.script(&WAIT, &keys, &args, DEADLINE).await {
                Ok(answer) => {
                    let answer = answer.text()?;
                    if answer != "HELD" {
                        return outcome("the scan", &answer);
                    }
                    (answered, last) = (answered + 1, asked);
                }
                // The next connection may do better.
                Err(error @ StoreError::NoAnswer { .. }) => tracing::debug!(%error, "no answer"),
                Err(error) => return Err(error),
            }
            sleep(EVERY).await;
        }
    }

    async fn read_record(&mut self) -> Result<(), StoreError> {
        let mut from = "-inf".to_owned();
        loop {
            let mut read = Packed::default().for_long_replies(IDS_PER_CALL * BYTES_AN_ID);
            Page::ask(&mut read, &self.shard.known.keys, &from, IDS_PER_CALL);
            let reply = self.same_redis().await?.ask("ZRANGEBYSCORE", read, CALL).await?;
            let Page { digests, greatest, .. } = Page::read(reply)?;
            // The floor is an entry, too.
            let is_full = digests.len() + 1 >= IDS_PER_CALL;
            self.recent.extend(digests);
            match greatest.filter(|_| is_full) {
                Some(last) => from = format!("({last}"),
                // Later entries have come since the lease: a steady stream of inserts must not keep the rebuild here.
                None => return Ok(()),
            }
        }
    }

    /// Returns until when transactions may stay open whose inserts the record may lack, by Redis's clock, µs. Asked after the record
    /// was read: inserts that were dropped meanwhile count.
    async fn missing_until(&self) -> Result<Option<i64>, StoreError> {
        let keys = &self.shard.known.keys;
        let keys = [keys.meta.as_str(), keys.recent.as_str()];
        let (answer, fields) =
            self.run(&RECORD, &keys, &[&self.identity.incarnation]).await?.outcome()?;
        outcome("the reading of recent inserts", &answer)?;
        let [is_whole, floor] = &fields[..] else {
            return Err(odd(RECORD.name(), "too few fields"));
        };
        let is_whole = is_whole.int()? == 1;
        let floor = floor.int()?;
        if !is_whole {
            return Ok(Some(self.leased_us + self.window_us));
        }
        // A floor ahead of the lease was written before the clock was set back.
        let until_us = floor.min(self.leased_us) + self.window_us;
        Ok((floor > self.leased_us - self.window_us).then_some(until_us))
    }
}
