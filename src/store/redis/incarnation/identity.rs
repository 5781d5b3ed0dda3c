//! What a session learns when it joins the filter's metadata.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::time::Instant;

use crate::id::Digester;
use crate::store::link::session::Session;
use crate::store::link::supervised::LinkTrouble;
use crate::store::redis::fleet::Fleet;

/// What a session learnt when it joined the metadata of each shard, by number; or why it has not joined one.
pub(crate) struct Identities(Box<[Place]>);

/// What a session knows of one shard.
struct Place {
    identity: ArcSwapOption<Identity>,
    trouble: ArcSwapOption<LinkTrouble>,
}

/// A session that has done so.
pub(crate) type JoinedAll = Session<Identities>;

impl Identities {
    /// Returns those of so many shards, of which none has been joined yet.
    pub(crate) fn none(shards: usize) -> Self {
        let place = |_| Place { identity: ArcSwapOption::empty(), trouble: ArcSwapOption::empty() };
        Self((0..shards).map(place).collect())
    }

    pub(crate) fn of(&self, shard: usize) -> Result<Arc<Identity>, LinkTrouble> {
        let Some(place) = self.0.get(shard) else { return Err(LinkTrouble::not_yet()) };
        place.identity.load_full().ok_or_else(|| {
            place.trouble.load().as_deref().cloned().unwrap_or_else(LinkTrouble::not_yet)
        })
    }

    /// Looks at what was learnt of a shard, where it is joined. That costs a check less than [`of`](Self::of): no count that all
    /// threads change.
    pub(crate) fn see<T>(&self, shard: usize, look: impl FnOnce(&Identity) -> T) -> Option<T> {
        self.0.get(shard)?.identity.load().as_deref().map(look)
    }

    /// Whether what was learnt of a shard is still this.
    pub(crate) fn is_joined(&self, shard: usize, identity: &Arc<Identity>) -> bool {
        let now = self.0.get(shard).map(|place| place.identity.load());
        now.is_some_and(|now| now.as_ref().is_some_and(|now| Arc::ptr_eq(now, identity)))
    }

    pub(crate) fn joined(&self, shard: usize, identity: Identity) {
        if let Some(place) = self.0.get(shard) {
            place.identity.store(Some(Arc::new(identity)));
        }
    }

    /// Notes that a shard is not joined, or no more.
    pub(crate) fn is_not_joined(&self, shard: usize, trouble: LinkTrouble) {
        if let Some(place) = self.0.get(shard) {
            place.trouble.store(Some(Arc::new(trouble)));
            place.identity.store(None);
        }
    }
}

/// What a session learnt when it joined a shard's metadata.
pub(crate) struct Identity {
    pub(crate) digester: Digester,
    /// Random, and new whenever the metadata had to be created or lives on another Redis process. What
    /// was acknowledged in an earlier incarnation may be lost.
    pub(crate) incarnation: Vec<u8>,
    /// How old the incarnation was, at most.
    pub(crate) age: Duration,
    /// When that was.
    pub(crate) joined: Instant,
    /// The last generation that had gone live; 0 if none had. None that is older is trusted.
    pub(crate) newest: i64,
    /// What the metadata say of the fleet, as they were last looked at in this session.
    pub(crate) fleet: ArcSwap<Fleet>,
}
