//! A rebuild under way: what it knows, and what all its steps need.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use ::redis::{Cmd, Value, cmd};

use super::journal::{Coverage, Entry};
use super::lease::{CALL, Lease};
use crate::error::StoreError;
use crate::filter::{Filter, Generation, Header, State};
use crate::id::{Digest, Digester};
use crate::store::link::reply::{Reply, odd};
use crate::store::link::resp::Packed;
use crate::store::link::script::Script;
use crate::store::link::transport::one;
use crate::store::redis::connection::Connection;
use crate::store::redis::shard::Shard;
use crate::store::redis::view::View;
use crate::verdict::Doubt;

/// Entries read from the journal at once.
const ENTRIES_PER_CALL: usize = 1000;
/// No entry takes more bytes in a reply: it holds 128 digests at most (`add.rs`), which take half as many.
const LONGEST_ENTRY: usize = 4 << 10;
/// Blocks worked on by one call: 256 KiB.
const BLOCKS_PER_CALL: u32 = 4096;

/// A rebuild of one shard under way.
pub(crate) struct ShardBuild {
    pub(super) shard: Arc<Shard>,
    /// The Redis process that the rebuild began on.
    pub(super) run: u32,
    /// When the rebuild began by Redis's clock, ms.
    pub(super) began_ms: u64,
    pub(super) lease: Lease,
    pub(super) token: Generation,
    pub(super) incarnation: Vec<u8>,
    pub(super) digester: Digester,
    pub(super) previous: Option<u64>,
    /// The live key's first bytes, if they are no filter.
    pub(super) damaged_live: Vec<u8>,
    /// The building key's first bytes, if they are no filter.
    pub(super) damaged_next: Vec<u8>,
    /// From where on the journal is read next.
    pub(super) cursor: String,
    pub(super) coverage: Coverage,
    /// How long the live key's string was as the rebuild began.
    pub(super) live_len: u64,
    /// The building filter's header in the loading state, once it is allocated.
    pub(super) header: Option<Header>,
    /// The seq and the time of the journal's last entry at *catch up*.
    pub(super) caught_up_at: (u64, u64),
    /// The ids that *replay* set in Redis.
    pub(super) replayed: Vec<Digest>,
}

impl ShardBuild {
    /// Returns a connection to the Redis process that the rebuild began on.
    async fn same_redis(&self) -> Result<Connection, StoreError> {
        let connection = self.shard.connected(|node| &node.bulk, CALL).await?;
        if connection.on.process.run == self.run {
            Ok(connection)
        } else {
            let reason = "redis is another process than when the rebuild began".to_owned();
            Err(StoreError::GivenUp { doubt: Doubt::Suspect, reason })
        }
    }

    /// Returns the building filter's header in a state.
    pub(super) fn header(&self, state: State, step: &'static str) -> Result<Header, StoreError> {
        let header = self.header.ok_or_else(|| StoreError::lost(step))?;
        Ok(header.with_state(state))
    }

    pub(super) async fn run(
        &self,
        script: &Script,
        keys: &[&str],
        args: &[&[u8]],
    ) -> Result<Reply, StoreError> {
        self.same_redis().await?.script(script, keys, args, CALL).await
    }

    /// Runs a step's script on the building key. Any answer but `OK` ends the rebuild.
    pub(super) async fn step(
        &self,
        step: &'static str,
        script: &Script,
        args: &[&[u8]],
    ) -> Result<(), StoreError> {
        outcome(step, self.run(script, &[&self.shard.known.keys.next], args).await?.text()?)
    }

    pub(super) async fn ask(&self, commands: impl Into<Packed>) -> Result<Vec<Value>, StoreError> {
        self.same_redis().await?.ask(commands, CALL).await
    }

    pub(super) async fn ask_one(
        &self,
        step: &'static str,
        command: Cmd,
    ) -> Result<Reply, StoreError> {
        let reply = self.ask(&one(command)).await?.into_iter().next();
        Ok(Reply::new(step, reply.unwrap_or_default()))
    }

    pub(super) async fn view(&self) -> Result<View, StoreError> {
        self.shard.read_view(&self.same_redis().await?, CALL).await
    }

    pub(super) async fn entries(&mut self) -> Result<Vec<Entry>, StoreError> {
        let mut read = cmd("XRANGE");
        read.arg(&self.shard.known.keys.log).arg(&self.cursor).arg("+");
        read.arg("COUNT").arg(ENTRIES_PER_CALL);
        let read = Packed::from(&one(read)).for_long_replies(ENTRIES_PER_CALL * LONGEST_ENTRY);
        let reply = self.ask(read).await?.into_iter().next();
        let entries = Entry::read_all(reply.unwrap_or_default())?;
        for entry in &entries {
            self.coverage.extend(entry)?;
        }
        if let Some(last) = entries.last() {
            self.cursor = format!("({}", last.id);
        }
        Ok(entries)
    }

    /// *Journal*: reads what there is, from `overlap` before *mark* on, into the local filter, so that only its tail is left to
    /// replay; returns how many ids that were.
    pub(super) async fn read_journal(&mut self, filter: &Filter) -> Result<u64, StoreError> {
        let mut count = 0;
        loop {
            let entries = self.entries().await?;
            for digest in entries.iter().flat_map(|entry| &entry.digests) {
                filter.insert(digest);
                count += 1;
            }
            if entries.len() < ENTRIES_PER_CALL {
                return Ok(count);
            }
        }
    }
}

/// Cuts a filter's blocks into pieces for one call each.
pub(super) fn pieces(blocks: u32) -> impl Iterator<Item = Range<u32>> {
    let from = (0..blocks).step_by(BLOCKS_PER_CALL as usize);
    from.map(move |from| from..blocks.min(from.saturating_add(BLOCKS_PER_CALL)))
}

pub(super) fn outcome(step: &'static str, answer: String) -> Result<(), StoreError> {
    match answer.as_str() {
        "OK" => Ok(()),
        "LOST" => Err(StoreError::lost(step)),
        "FENCED" => Err(StoreError::fenced(step)),
        "GAP" => Err(StoreError::journal_gap("the metadata was lost")),
        "UNVOUCHED" => Err(replay_given_up(Duration::ZERO)),
        _ => Err(odd(step, answer)),
    }
}

/// Says that a process gave its replay up, and for how long its transactions may still be open.
pub(super) fn replay_given_up(open: Duration) -> StoreError {
    let reason =
        format!("inserts that no process can replay may still become visible for {open:?}");
    StoreError::journal_gap(reason)
}
