//! *Recent*: waits until a scan may begin, and reads what was inserted lately.
//!
//! What is inserted from the lease on goes to the building filter, too. What was inserted before, and in a transaction that the
//! scan cannot see, was inserted less than the longest transaction before the lease: the record of recent inserts has it. Where the
//! record may lack some of them, the scan waits until their transactions are over.

use std::time::Duration;

use ::redis::{Value, cmd};
use tokio::time::{Instant, sleep};

use super::build::{ShardBuild, outcome};
use super::lease::CALL;
use crate::error::StoreError;
use crate::id::Digest;
use crate::store::link::reply::{Reply, odd};
use crate::store::link::resp::Packed;
use crate::store::link::script::Script;
use crate::store::link::transport::one;
use crate::store::redis::incarnation::GRACE;

static WAIT: Script = Script::new("wait.lua", include_str!("wait.lua"));
static RECORD: Script = Script::new("record.lua", include_str!("record.lua"));

/// How often it is asked whether a scan may begin.
const EVERY: Duration = Duration::from_millis(100);
/// How long one such question may take. A connection on which a poll takes longer is given up, too.
const DEADLINE: Duration = Duration::from_millis(500);
/// Ids read at once.
const IDS_PER_CALL: usize = 8_192;
/// What an id takes in a reply, and its number.
const BYTES_AN_ID: usize = 64;

impl ShardBuild {
    /// *Recent*: returns once a scan may begin that misses nothing.
    pub(super) async fn read_recent(&mut self) -> Result<(), StoreError> {
        self.wait_for_replays().await?;
        self.read_record().await?;
        if let Some(until_us) = self.missing_until().await? {
            let now_us = self.same_redis().await?.on.redis_us(Instant::now());
            let wait = u64::try_from(until_us.saturating_sub(now_us)).unwrap_or(0);
            let wait = Duration::from_micros(wait);
            tracing::info!(
                filter = &*self.shard.known.settings.name,
                ?wait,
                "the record of recent inserts is not whole: the scan waits until their transactions are over"
            );
            sleep(wait).await;
        }
        Ok(())
    }

    /// Waits while processes have inserts to repeat, and in a new incarnation until all may have found it.
    async fn wait_for_replays(&self) -> Result<(), StoreError> {
        let grace = GRACE.as_millis().to_string();
        let keys = [self.shard.known.keys.meta.as_str()];
        // How often Redis has answered without a gap, and when that was asked which it answered last.
        let (mut answered, mut last) = (0, Instant::now());
        loop {
            let redis = self.same_redis().await?;
            let asked = Instant::now();
            // A replay that was interrupted for so long has the whole time once more.
            if asked - last > GRACE / 2 {
                answered = 0;
            }
            let worked: &[u8] = if EVERY * answered >= GRACE { b"1" } else { b"" };
            let args = [&self.incarnation, grace.as_bytes(), worked];
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
            let mut read = cmd("ZRANGEBYSCORE");
            read.arg(&self.shard.known.keys.recent).arg(&from).arg("+inf").arg("WITHSCORES");
            read.arg("LIMIT").arg(0).arg(IDS_PER_CALL);
            let read = Packed::from(&one(read)).for_long_replies(IDS_PER_CALL * BYTES_AN_ID);
            let reply = self.same_redis().await?.ask(read, CALL).await?.into_iter().next();
            let (digests, last) = entries(reply.unwrap_or_default())?;
            let is_full = digests.len() + 1 >= IDS_PER_CALL;
            self.recent.extend(digests);
            match last.filter(|_| is_full) {
                Some(last) => from = format!("({last}"),
                // What comes behind it has come since the lease. A steady stream of inserts must not keep the rebuild here.
                None => return Ok(()),
            }
        }
    }

    /// Returns until when transactions of inserts may stay open that the record may lack, by Redis's clock, µs. It is asked once
    /// the record was read: whatever was dropped meanwhile counts.
    async fn missing_until(&self) -> Result<Option<i64>, StoreError> {
        let keys = &self.shard.known.keys;
        let keys = [keys.meta.as_str(), keys.recent.as_str()];
        let mut fields = self.run(&RECORD, &keys, &[&self.incarnation]).await?.array()?.into_iter();
        let mut next = || fields.next().ok_or_else(|| odd(RECORD.name(), "too few fields"));
        outcome("the reading of recent inserts", &next()?.text()?)?;
        let is_whole = next()?.text()? == "1";
        let floor = next()?.int()?;
        if !is_whole {
            return Ok(Some(self.leased_us + self.window_us));
        }
        // One ahead of the lease was written before the clock was set back.
        let until_us = floor.min(self.leased_us) + self.window_us;
        Ok((floor > self.leased_us - self.window_us).then_some(until_us))
    }
}

/// Reads members of the record, and the greatest score as it is written.
/// Fails with an odd reply where one is neither a digest nor the floor.
fn entries(reply: Value) -> Result<(Vec<Digest>, Option<String>), StoreError> {
    let mut digests = Vec::new();
    let mut last = None;
    let mut fields = Reply::new("ZRANGEBYSCORE", reply).array()?.into_iter();
    while let Some(member) = fields.next() {
        let member = member.bytes()?;
        let odd = || odd("ZRANGEBYSCORE", "a foreign member");
        match <[u8; Digest::LEN]>::try_from(member.as_slice()) {
            Ok(digest) => digests.push(Digest::from_bytes(digest)),
            Err(_) if member == b"floor" => {}
            Err(_) => return Err(odd()),
        }
        last = Some(fields.next().ok_or_else(odd)?.text()?);
    }
    Ok((digests, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_digest_is_passed_over_because_a_member_is_not_understood() {
        let bulk = |bytes: &[u8]| Value::BulkString(bytes.to_vec());
        let read = |members: &[&[u8]]| {
            let fields = members.iter().flat_map(|member| [bulk(member), bulk(b"7")]);
            entries(Value::Array(fields.collect()))
        };
        let digest = Digest::from_bytes([3; 16]);
        assert_eq!(read(&[b"floor", &[3; 16]]).unwrap(), (vec![digest], Some("7".to_owned())));
        assert_eq!(read(&[]).unwrap(), (Vec::new(), None));
        assert!(read(&[&[3; 15]]).is_err());
        assert!(read(&[b"ceiling"]).is_err());
        assert!(entries(Value::Array(vec![bulk(&[3; 16])])).is_err(), "a member without a score");
    }
}
