//! Inserts this process's recent ids again into an incarnation that may lack them.
//!
//! A process does so as soon as it meets a new incarnation, and trusts no filter of it before. Scans give all processes time for
//! that: `Common::grace` after Redis has begun to work, and as long again after each call of a replay (`rebuild/wait.lua`).
//!
//! A process gives its replay up if it has forgotten some of these ids, has another secret key, or has not finished when the
//! transactions of all its inserts are over. Then the live filter stops answering, and the next one goes live only if its rebuild
//! began after the last of those transactions (`give_up_replay.lua`).
//!
//! Not covered: a process with an open transaction that is cut off for longer than the grace, or ends between commit and replay.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::recent::Replay;
use crate::error::StoreError;
use crate::store::link::attempts::IDS_PER_CALL;
use crate::store::link::script::Script;
use crate::store::link::session::Purpose;
use crate::store::redis::connection::{Connection, Identity};
use crate::store::redis::shard::Shard;

static GIVE_UP_REPLAY: Script =
    Script::new("give_up_replay.lua", include_str!("give_up_replay.lua"));

/// How long a failed replay rests; further failures double it.
const REST: Duration = Duration::from_millis(100);
const DOUBLINGS: u32 = 3;
/// How often ids whose transactions are over are forgotten.
const PRUNE: Duration = Duration::from_secs(60);
/// How long one call may take: less than scans wait for the next one. It has to pass a slow connection, too.
const CALL: Duration = Duration::from_secs(1);
const DEADLINE: Duration = Duration::from_millis(500);

impl Shard {
    pub(crate) async fn replay_own_inserts(self: Arc<Self>) {
        let mut failures = 0;
        loop {
            // First, so that no join is missed.
            let (joins, node) = (self.known.joins.notified(), self.node());
            let sessions = node.link.next_connection();
            let mut wait = PRUNE;
            if let Ok(connection) = self.current(Purpose::Inserts) {
                let replayed = self.replay_once(&connection).await;
                match &replayed {
                    // Logged once, and not at every attempt.
                    Err(error) if failures == 0 => tracing::warn!(
                        %error,
                        "own inserts are not replayed to redis yet, and nothing is refused until they are; the guard goes on trying"
                    ),
                    Ok(()) if failures > 0 => {
                        tracing::info!("own inserts are replayed to redis, or given up");
                    }
                    _ => {}
                }
                if replayed.is_ok() {
                    failures = 0;
                } else {
                    sleep(REST).await;
                    wait = REST * (2_u32.pow(failures) - 1);
                    failures = (failures + 1).min(DOUBLINGS);
                }
            }
            // A new connection may do better than one that failed: scans wait for this process, but not for long.
            tokio::select! {
                biased;
                () = sessions => {}
                () = joins => {}
                () = sleep(wait) => {}
            }
        }
    }

    async fn replay_once(&self, connection: &Connection) -> Result<(), StoreError> {
        let incarnation = &connection.identity.incarnation;
        if !self.known.recent.are_known_in(incarnation) {
            self.replay_on(connection).await?;
            self.known.recent.note_held_by(incarnation);
        }
        // Only while Redis is there: inserts that were open when it went are needed when it is back.
        self.known.recent.prune();
        Ok(())
    }

    async fn replay_on(&self, connection: &Connection) -> Result<(), StoreError> {
        // An add that is acknowledged after this was sent to this connection, or is repeated.
        let Identity { digester, incarnation, age, joined, .. } = &*connection.identity;
        let replay = self.known.recent.begin_replay(incarnation, digester.key_id());
        let was_over = replay.was_over(*age + joined.elapsed());
        let replayed = if was_over { Ok(()) } else { self.replay_up_to(connection, replay).await };
        // Transactions of forgotten inserts may be open for longer.
        let forgotten = self.known.recent.complete_since(*age + joined.elapsed());
        match (replayed, forgotten) {
            (Err(_), _) if replay.was_over(Duration::ZERO) => {
                self.give_up_replay(connection, forgotten.err().unwrap_or_default()).await
            }
            (Err(error), _) => Err(error),
            (Ok(()), Ok(())) => Ok(()),
            (Ok(()), Err(open)) => self.give_up_replay(connection, open).await,
        }
    }

    /// Replays until the transactions of all inserts are over: scans wait no longer for a slow process.
    async fn replay_up_to(
        &self,
        connection: &Connection,
        replay: Replay,
    ) -> Result<(), StoreError> {
        // It goes on where a call failed: a Redis to which many processes repeat their inserts may be slow.
        let mut at = replay.next;
        while at < replay.end {
            if replay.was_over(Duration::ZERO) {
                return Err(StoreError::lost("the end of the own inserts' transactions"));
            }
            let (digests, next) = self.known.recent.since(at, IDS_PER_CALL);
            if digests.is_empty() {
                break;
            }
            let _turn = connection.node.repeats.acquire().await;
            self.add_digests(connection, &digests, Some(self.known.common.grace), CALL).await?;
            at = next;
            self.known.recent.replayed(&connection.identity.incarnation, at);
        }
        Ok(())
    }

    /// Tells Redis for how long transactions may stay open whose inserts are not replayed.
    async fn give_up_replay(
        &self,
        connection: &Connection,
        open: Duration,
    ) -> Result<(), StoreError> {
        let keys = [self.known.keys.meta.as_str(), self.known.keys.bits.as_str()];
        let open_ms = open.as_millis().to_string();
        let args: [&[u8]; 2] = [&connection.identity.incarnation, open_ms.as_bytes()];
        let reply = connection.script(&GIVE_UP_REPLAY, &keys, &args, DEADLINE).await?;
        if reply.text()? != "OK" {
            return Err(StoreError::lost("the replay of own inserts"));
        }
        tracing::warn!(
            filter = &*self.known.settings().name,
            ?open,
            "own inserts are not replayed to redis; no filter is trusted until one is rebuilt after their \
             transactions, and none waits for this process"
        );
        Ok(())
    }
}
