//! The nulls that this process remembers, bounded in bytes. A null may be lost early: the next request for its id asks the database.

use std::time::Duration;

use moka::Expiry;
use moka::sync::Cache;
use tokio::time::Instant;

use super::scope::Scope;
use crate::filter::Generation;
use crate::id::Digest;

/// The size of an entry with the cache's own bookkeeping, as measured with 10,000 entries and more. Smaller caches take up to 100
/// bytes an entry more.
pub(crate) const BYTES_PER_NULL: u32 = 352;

pub(crate) struct NullCache(Cache<Digest, Null>);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Null {
    generation: Generation,
    pub(crate) scope: Scope,
    expires: Instant,
}

impl Null {
    fn outlasts(&self, other: &Self) -> bool {
        self.generation == other.generation
            && self.scope >= other.scope
            && self.expires >= other.expires
    }
}

impl NullCache {
    pub(crate) fn new(bytes: u64) -> Self {
        let cache = Cache::builder()
            .max_capacity(bytes)
            .weigher(|_, _| BYTES_PER_NULL)
            .expire_after(AtDeadline)
            .build();
        Self(cache)
    }

    pub(crate) fn find(&self, digest: &Digest, generation: Generation) -> Option<Null> {
        let null = self.0.get(digest)?;
        (null.generation == generation && Instant::now() < null.expires).then_some(null)
    }

    /// Remembers a null, unless one that says as much lasts longer.
    pub(crate) fn put(&self, digest: Digest, generation: Generation, scope: Scope, ttl: Duration) {
        let null = Null { generation, scope, expires: Instant::now() + ttl };
        if !self.0.get(&digest).is_some_and(|there| there.outlasts(&null)) {
            // As a new entry, it has a deadline of its own.
            self.0.invalidate(&digest);
            self.0.insert(digest, null);
        }
    }

    pub(crate) fn forget(&self, digest: &Digest) {
        self.0.invalidate(digest);
    }
}

struct AtDeadline;

impl Expiry<Digest, Null> for AtDeadline {
    fn expire_after_create(
        &self,
        _: &Digest,
        null: &Null,
        _: std::time::Instant,
    ) -> Option<Duration> {
        Some(null.expires.saturating_duration_since(Instant::now()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(30);

    fn generation(n: i64) -> Generation {
        Generation::new(n).unwrap()
    }

    fn digest(n: u64) -> Digest {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&n.to_be_bytes());
        Digest::from_bytes(bytes)
    }

    #[tokio::test(start_paused = true)]
    async fn a_null_ends_at_its_deadline() {
        let cache = NullCache::new(1 << 20);
        cache.put(digest(1), generation(1), Scope::Everyone, TTL);
        assert!(cache.find(&digest(1), generation(1)).is_some());
        tokio::time::advance(TTL - Duration::from_millis(1)).await;
        assert!(cache.find(&digest(1), generation(1)).is_some());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(cache.find(&digest(1), generation(1)).is_none());
    }

    #[test]
    fn a_null_counts_for_its_own_generation_only() {
        let cache = NullCache::new(1 << 20);
        cache.put(digest(1), generation(1), Scope::Everyone, TTL);
        assert!(cache.find(&digest(1), generation(2)).is_none());
        cache.put(digest(1), generation(2), Scope::Everyone, TTL);
        assert!(cache.find(&digest(1), generation(2)).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_null_is_not_cut_short_by_one_that_says_no_more() {
        let cache = NullCache::new(1 << 20);
        let scope = |of| cache.find(&digest(1), generation(of)).map(|null| null.scope);
        cache.put(digest(1), generation(1), Scope::Everyone, TTL * 2);
        cache.put(digest(1), generation(1), Scope::Anonymous, TTL);
        tokio::time::advance(TTL).await;
        assert_eq!(scope(1), Some(Scope::Everyone));
        cache.put(digest(1), generation(2), Scope::Anonymous, TTL);
        assert_eq!(scope(2), Some(Scope::Anonymous), "of another generation");
    }

    #[test]
    fn a_forgotten_null_is_gone_at_once() {
        let cache = NullCache::new(1 << 20);
        cache.put(digest(1), generation(1), Scope::Everyone, TTL);
        cache.forget(&digest(1));
        assert!(cache.find(&digest(1), generation(1)).is_none());
    }

    #[test]
    fn a_flood_of_nulls_stays_within_the_bound() {
        let room = 100;
        let cache = NullCache::new(room * u64::from(BYTES_PER_NULL));
        for n in 0..10_000 {
            cache.put(digest(n), generation(1), Scope::Everyone, TTL);
        }
        cache.0.run_pending_tasks();
        assert!(cache.0.entry_count() <= room);
    }
}
