//! The rebuild of one shard: what it knows, and what all its steps need.

use std::ops::Range;
use std::sync::Arc;

use super::lease::{CALL, Lease};
use crate::error::StoreError;
use crate::filter::Header;
use crate::id::Digest;
use crate::refusal::Refusal;
use crate::store::link::reply::{Reply, odd};
use crate::store::link::script::Script;
use crate::store::link::session::Purpose;
use crate::store::redis::connection::Connection;
use crate::store::redis::incarnation::identity::Identity;
use crate::store::redis::shard::Shard;
use crate::store::redis::view::View;
use crate::verdict::Doubt;

pub(crate) struct ShardBuild {
    pub(super) shard: Arc<Shard>,
    pub(super) lease: Lease,
    /// When the lease was taken, by Redis's clock, µs.
    pub(super) leased_us: i64,
    /// Inserts sent longer ago than this, µs, belong to transactions that are over.
    pub(super) window_us: i64,
    pub(super) identity: Arc<Identity>,
    pub(super) header: Header,
    /// What was inserted before the lease, and may be in open transactions.
    pub(super) recent: Vec<Digest>,
}

impl ShardBuild {
    /// Returns a connection to the Redis process that the rebuild began on.
    pub(super) async fn same_redis(&self) -> Result<Connection, StoreError> {
        let connection = self.shard.connected(Purpose::Rebuilds, CALL).await?;
        if connection.on.process.run == self.header.run {
            Ok(connection)
        } else {
            let reason = "redis is another process than when the rebuild began".to_owned();
            Err(StoreError::GivenUp { doubt: Doubt::Suspect, reason })
        }
    }

    pub(super) async fn run(
        &self,
        script: &Script,
        keys: &[&str],
        args: &[&[u8]],
    ) -> Result<Reply, StoreError> {
        self.same_redis().await?.script(script, keys, args, CALL).await
    }

    pub(super) async fn view(&self) -> Result<View, StoreError> {
        self.shard.read_view(&self.same_redis().await?, CALL).await
    }
}

/// Cuts a filter's blocks into pieces of `of` blocks.
pub(super) fn pieces(blocks: u32, of: u32) -> impl Iterator<Item = Range<u32>> {
    let from = (0..blocks).step_by(of as usize);
    from.map(move |from| from..blocks.min(from.saturating_add(of)))
}

/// Reads what a step's script answers. Any answer but `OK` ends the rebuild.
pub(super) fn outcome(step: &'static str, answer: &str) -> Result<(), StoreError> {
    match answer {
        "OK" => Ok(()),
        "LOST" | "OTHER" => Err(StoreError::lost(step)),
        "FENCED" => {
            let reason = format!("a newer rebuild took over before {step}");
            Err(StoreError::given_up(Refusal::FENCED, reason))
        }
        "UNVOUCHED" => Err(StoreError::unvouched(None)),
        _ => Err(odd(step, answer)),
    }
}
