//! What a session learns when it joins the filter's metadata.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::time::Instant;

use crate::id::Digester;
use crate::store::link::session::Session;
use crate::store::link::supervised::LinkTrouble;
use crate::store::redis::fleet::Fleet;

/// What a session learnt of each shard, by number.
pub(crate) struct Identities(Box<[ArcSwap<Place>]>);

/// What a session learnt of one shard, or why it has not joined it.
type Place = Result<Arc<Identity>, LinkTrouble>;

pub(crate) type JoinedAll = Session<Identities>;

impl Identities {
    pub(crate) fn none(shards: usize) -> Self {
        let place = |_| ArcSwap::from_pointee(Err(LinkTrouble::not_yet()));
        Self((0..shards).map(place).collect())
    }

    pub(crate) fn of(&self, shard: usize) -> Place {
        (**self.0[shard].load()).clone()
    }

    /// Looks at the identity of a shard that is joined. Unlike [`of`](Self::of) it changes no count that all threads share.
    pub(crate) fn see<T>(&self, shard: usize, look: impl FnOnce(&Identity) -> T) -> Option<T> {
        self.0[shard].load().as_ref().as_ref().ok().map(|identity| look(identity))
    }

    pub(crate) fn is_joined(&self, shard: usize, identity: &Arc<Identity>) -> bool {
        matches!(&**self.0[shard].load(), Ok(now) if Arc::ptr_eq(now, identity))
    }

    /// Notes what was learnt of a shard, or why it is not joined.
    pub(crate) fn note(&self, shard: usize, place: Result<Identity, LinkTrouble>) {
        self.0[shard].store(Arc::new(place.map(Arc::new)));
    }
}

/// What a session learnt when it joined a shard's metadata.
pub(crate) struct Identity {
    pub(crate) digester: Digester,
    /// 16 random bytes.
    pub(crate) incarnation: Vec<u8>,
    /// How old the incarnation was at most, when it was joined.
    pub(crate) age: Duration,
    pub(crate) joined: Instant,
    /// The last generation that had gone live, or 0: no older one is trusted.
    pub(crate) newest: i64,
    /// What the metadata say of the fleet, as last read by this session.
    pub(crate) fleet: ArcSwap<Fleet>,
}
