//! A new session joins the metadata of every shard on its node. Shards come and go on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_util::future::try_join_all;
use tokio::sync::Notify;

use super::known_shard::KnownShard;
use crate::error::StoreError;
use crate::refusal::Refusal;
use crate::store::BoxFuture;
use crate::store::link::process::RedisProcess;
use crate::store::link::refusal::has_moved;
use crate::store::link::session::Handshake;
use crate::store::link::transport::Transport;
use crate::store::redis::connection::Identities;
use crate::verdict::Doubt;

/// How many healthy shards are joined again in a second, and after how many seconds each is at the latest: a filter that no process
/// joins for a minute settles.
const IN_TURN: usize = 16;
const MOST_TURNS: usize = 16;

/// How many shards a new session joins at a time. Each join has its own time limit: many processes may connect at once.
const AT_ONCE: usize = 8;

/// Whether it is a shard's turn, where some of `of` shards are asked at a time.
pub(crate) fn is_turn_of(number: usize, of: usize, turn: usize) -> bool {
    let turns = of.div_ceil(IN_TURN).clamp(1, MOST_TURNS);
    number % turns == turn % turns
}

/// The handshake of a node: joins the shards that are on it.
pub(crate) struct JoinAll {
    shards: Arc<[Arc<KnownShard>]>,
    here: Box<[AtomicBool]>,
    /// Notified where a shard turns out to be on another node.
    elsewhere: Arc<Notify>,
    turn: AtomicUsize,
}

impl JoinAll {
    pub(crate) fn new(
        shards: Arc<[Arc<KnownShard>]>,
        here: impl Fn(usize) -> bool,
        elsewhere: Arc<Notify>,
    ) -> Self {
        let here = (0..shards.len()).map(|number| AtomicBool::new(here(number))).collect();
        Self { shards, here, elsewhere, turn: AtomicUsize::new(0) }
    }

    pub(crate) fn first(&self) -> Option<usize> {
        (0..self.here.len()).find(|number| self.has(*number))
    }

    pub(crate) fn has(&self, number: usize) -> bool {
        self.here[number].load(Ordering::SeqCst)
    }

    pub(crate) fn take(&self, number: usize) {
        self.here[number].store(true, Ordering::SeqCst);
    }

    /// Joins a shard, and notes what was learnt, or why nothing was: the others answer all the same.
    async fn join_one(
        &self,
        number: usize,
        transport: &dyn Transport,
        process: &RedisProcess,
        identities: &Identities,
    ) -> Result<(), StoreError> {
        let shard = &self.shards[number];
        let known = shard.seen.last(None);
        match shard.join(transport, process, known, shard.recent.held_by()).await {
            Ok(identity) => {
                identities.note(number, Ok(identity));
                shard.joins.notify_waiters();
            }
            Err(error @ StoreError::NoAnswer { .. }) => return Err(error),
            Err(error) if self.shards.len() == 1 => return Err(error),
            Err(error) => {
                if let StoreError::Refused { reason, .. } = &error {
                    self.note_refusal(number, reason);
                }
                identities.note(number, Err(StoreError::not_joined(&error)));
            }
        }
        Ok(())
    }

    /// Has a shard looked for that another node serves (`regroup.rs`).
    fn note_refusal(&self, number: usize, reason: &str) {
        if has_moved(reason) {
            self.here[number].store(false, Ordering::SeqCst);
            self.elsewhere.notify_one();
        }
    }

    /// Fails where none of the node's shards is joined, and says why.
    fn any_is_joined(&self, identities: &Identities) -> Result<(), StoreError> {
        let here = (0..self.shards.len()).filter(|number| self.has(*number));
        let mut here = here.map(|number| identities.of(number));
        match here.next() {
            None => Err(elsewhere()),
            Some(Err(trouble)) if !here.any(|of| of.is_ok()) => Err(trouble),
            Some(_) => Ok(()),
        }
    }

    /// Looks at a shard. Where its metadata or data have changed, joins it anew and returns the reason.
    async fn look_at(
        &self,
        number: usize,
        transport: &dyn Transport,
        process: &RedisProcess,
        identities: &Identities,
        turn: usize,
    ) -> Result<Option<String>, StoreError> {
        let shard = &self.shards[number];
        if !self.has(number) {
            if identities.of(number).is_ok() {
                identities.note(number, Err(elsewhere()));
            }
            return Ok(None);
        }
        let Ok(identity) = identities.of(number) else {
            self.join_one(number, transport, process, identities).await?;
            return Ok(None);
        };
        let is_turn = is_turn_of(number, self.shards.len(), turn);
        let is_as_it_was =
            !is_turn && shard.is_as_it_was(transport, &identity).await.unwrap_or(false);
        let holds =
            if is_as_it_was { Ok(()) } else { shard.recheck(transport, process, &identity).await };
        match holds {
            Err(StoreError::Refused { reason, .. } | StoreError::GivenUp { reason, .. })
                if self.shards.len() > 1 =>
            {
                self.note_refusal(number, &reason);
                identities.note(number, Err(StoreError::disconnected(reason.clone())));
                if self.has(number) {
                    self.join_one(number, transport, process, identities).await?;
                }
                Ok(Some(reason))
            }
            holds => holds.map(|()| None),
        }
    }
}

fn elsewhere() -> StoreError {
    let reason = "the node that serves the shard's slot is looked for".to_owned();
    StoreError::NoAnswer { doubt: Doubt::Refused(Refusal::CLUSTER), reason }
}

impl Handshake<Identities> for JoinAll {
    fn join<'a>(
        &'a self,
        transport: &'a dyn Transport,
        process: &'a RedisProcess,
    ) -> BoxFuture<'a, Result<Identities, StoreError>> {
        Box::pin(async move {
            let identities = Identities::none(self.shards.len());
            let here: Vec<_> = (0..self.shards.len()).filter(|of| self.has(*of)).collect();
            for some in here.chunks(AT_ONCE) {
                let joins =
                    some.iter().map(|of| self.join_one(*of, transport, process, &identities));
                try_join_all(joins).await?;
            }
            self.any_is_joined(&identities)?;
            Ok(identities)
        })
    }

    fn recheck<'a>(
        &'a self,
        transport: &'a dyn Transport,
        process: &'a RedisProcess,
        identities: &'a Identities,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let turn = self.turn.fetch_add(1, Ordering::Relaxed);
            let looks = (0..self.shards.len())
                .map(|number| self.look_at(number, transport, process, identities, turn));
            let left: Vec<String> = try_join_all(looks).await?.into_iter().flatten().collect();
            if let Some(reason) = left.first() {
                tracing::warn!(
                    shards = left.len(),
                    reason,
                    "redis is there, and some shards are not as they were: the guard joins them anew, and refuses nothing by a \
                     filter that may lack ids"
                );
            }
            // Another session may lead to another node of a cluster.
            self.any_is_joined(identities)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shard_has_its_turn_within_sixteen_seconds_and_a_few_have_one_every_second() {
        for of in [1_usize, 2, 16, 17, 64, 256, 1_024] {
            let turns = of.div_ceil(IN_TURN).clamp(1, MOST_TURNS);
            for number in 0..of {
                let had = (0..turns).filter(|turn| is_turn_of(number, of, *turn)).count();
                assert_eq!(had, 1, "{number} of {of}");
            }
            assert!(turns == 1 || of > IN_TURN);
        }
    }
}
