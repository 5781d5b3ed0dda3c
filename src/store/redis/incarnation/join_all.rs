//! A new connection joins the metadata of every shard on its node.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::{join_all, try_join_all};

use super::identity::Identities;
use super::join::JoinIncarnation;
use crate::error::StoreError;
use crate::store::BoxFuture;
use crate::store::link::handshake::{End, Handshake};
use crate::store::link::process::RedisProcess;
use crate::store::link::supervised::LinkTrouble;
use crate::store::link::transport::Transport;

/// How many shards are asked in a second, beside those in trouble, what costs Redis more than a look at a key; and in how many
/// seconds each is asked at the latest. A filter that no process has joined for a minute settles.
const IN_TURN: usize = 16;
const MOST_TURNS: usize = 16;

/// Whether it is a shard's turn, where some of so many are asked at a time.
pub(crate) fn is_turn_of(number: usize, of: usize, turn: usize) -> bool {
    let turns = of.div_ceil(IN_TURN).clamp(1, MOST_TURNS);
    number % turns == turn % turns
}

/// The handshake of a node: how each shard is joined, by number.
pub(crate) struct JoinAll {
    shards: Vec<JoinIncarnation>,
    /// How often the shards were looked at.
    turn: AtomicUsize,
}

impl JoinAll {
    pub(crate) fn new(shards: Vec<JoinIncarnation>) -> Self {
        Self { shards, turn: AtomicUsize::new(0) }
    }
}

impl Handshake<Identities> for JoinAll {
    /// One shard whose metadata cannot be joined does not keep the others from answering.
    fn join<'a>(
        &'a self,
        transport: &'a dyn Transport,
        process: &'a RedisProcess,
    ) -> BoxFuture<'a, Result<Arc<Identities>, StoreError>> {
        Box::pin(async move {
            let joins = self.shards.iter().map(|shard| shard.join(transport, process));
            let (mut identities, mut first) = (Identities::new(), None);
            for joined in join_all(joins).await {
                match joined {
                    Ok(identity) => identities.push(Ok(Arc::new(identity))),
                    Err(error @ (StoreError::Disconnected { .. } | StoreError::Timeout { .. })) => {
                        return Err(error);
                    }
                    Err(error) => {
                        let error = first.get_or_insert(error);
                        identities.push(Err(LinkTrouble::of(error)));
                    }
                }
            }
            match first {
                Some(error) if identities.iter().all(Result::is_err) => Err(error),
                _ => Ok(Arc::new(identities)),
            }
        })
    }

    fn recheck<'a>(
        &'a self,
        transport: &'a dyn Transport,
        process: &'a RedisProcess,
        identities: &'a Identities,
    ) -> BoxFuture<'a, Result<(), End>> {
        Box::pin(async move {
            let turn = self.turn.fetch_add(1, Ordering::Relaxed);
            let shards = self.shards.iter().zip(identities).enumerate();
            let rechecks = shards.map(async |(number, (shard, joined))| {
                let joined = joined.as_deref();
                if !is_turn_of(number, self.shards.len(), turn)
                    && let Ok(identity) = joined
                    && shard.is_as_it_was(transport, process, identity).await
                {
                    return Ok(());
                }
                shard.recheck(transport, process, joined).await
            });
            try_join_all(rechecks).await.map(drop)
        })
    }

    fn holds(&self, process: &RedisProcess, identities: &Identities) -> Result<(), End> {
        let shards = self.shards.iter().zip(identities);
        for (shard, joined) in shards {
            if let Ok(identity) = joined {
                shard.holds(process, identity)?;
            }
        }
        Ok(())
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
