//! How far back the journal reaches: its oldest entry, and what the metadata say of the last.

use std::time::Duration;

use ::redis::{Pipeline, Value, cmd};
use tokio::time::Instant;

use super::rebuild::journal::Entry;
use super::shared::Shared;
use crate::error::StoreError;
use crate::store::JournalReach;
use crate::store::link::reply::Reply;

/// How long the question may take.
const DEADLINE: Duration = Duration::from_millis(500);

impl Shared {
    /// Asks how far back the journal reaches, if there is a connection.
    pub(crate) async fn journal(&self) -> Result<Option<JournalReach>, StoreError> {
        let Some(connection) = self.node.bulk.current() else { return Ok(None) };
        let mut commands = Pipeline::with_capacity(2);
        commands
            .add_command(cmd("HMGET").arg(&self.keys.meta).arg(&["reach", "seq", "last"]).clone());
        commands
            .add_command(cmd("XRANGE").arg(&self.keys.log).arg(&["0", "+", "COUNT", "1"]).clone());
        let replies = self.node.bulk.ask(&connection, &commands, DEADLINE).await?;
        let [fields, entries] =
            Reply::new("the journal's reach", Value::Array(replies)).fields()?;
        let [reach, seq, last] = fields.fields()?;
        let oldest = entries.array()?.into_iter().next().map(Entry::read).transpose()?;
        let dropped_ms = match oldest {
            Some(entry) if entry.seq == 1 => None,
            Some(entry) => Some(entry.before_ms),
            None => (seq.number()? > 0).then_some(last.number()?),
        };
        let now_ms = u64::try_from(connection.redis_us(Instant::now()) / 1000).unwrap_or(0);
        // As far back as a rebuild reads it that begins now (rebuild/lease.lua).
        let overlap = Duration::from_millis(reach.number()?.div_ceil(2));
        Ok(Some(JournalReach {
            // Metadata that were made anew know of no entry before.
            reaches: dropped_ms
                .filter(|at| *at > 0)
                .map(|at| Duration::from_millis(now_ms.saturating_sub(at))),
            required: overlap.max(self.retention.overlap),
        }))
    }
}
