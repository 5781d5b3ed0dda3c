//! The store of a single process.
//!
//! For a quick start, for tests, and for services that run once. Runs the protocols of the store in
//! Redis with one mutex in the place of Redis's single thread: inserts, nulls and the steps of a
//! rebuild take it, each for a moment and never across an await. A check does not: an insert has set
//! its bits and taken the id's null away before it returns, and no null comes back while the id is marked.

mod build;
mod fleet;
mod inner;
mod journal;
mod marks;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use self::build::MemoryBuild;
use self::inner::{BATCH, Inner};
use super::{
    Answer, Begun, BoxFuture, Condition, Distrusted, FleetChange, FleetView, JournalReach, Lookups,
    NewNull, Remembered, SeenMetadata, Sought, Store, Survey,
};
use crate::error::{FleetError, StoreError};
use crate::filter::Generation;
use crate::id::{Digest, Id, SecretKey};
use crate::mode::SharedMode;
use crate::settings::Settings;

/// The store of a single process.
pub(crate) struct MemoryStore(Arc<Inner>);

impl MemoryStore {
    pub(crate) fn new(settings: &Settings, key: &SecretKey) -> Self {
        Self(Arc::new(Inner::new(settings, key)))
    }
}

impl Store for MemoryStore {
    fn start(&self) {}

    fn digest(&self, id: &Id) -> Option<Digest> {
        Some(self.0.digester.digest(id))
    }

    fn check(&self, ids: &[Sought<'_>], now: Instant) -> Answer<Lookups> {
        let digest = |(id, made): &Sought<'_>| self.0.digester.digest_once(id, *made).digest;
        let look_up = |sought| self.0.look_up(&digest(sought), now);
        let mut lookups = Lookups::with_capacity(ids.len());
        ids.iter().for_each(|sought| lookups.push(look_up(sought)));
        Answer::Ready(lookups)
    }

    fn add(&self, ids: Vec<Id>) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            for (n, id) in ids.iter().enumerate() {
                if n > 0 && n % BATCH == 0 {
                    tokio::task::yield_now().await;
                }
                self.0.add(self.0.digester.digest(id), ids.len());
            }
            Ok(())
        })
    }

    fn remember(&self, id: &Id, null: NewNull) -> Answer<Remembered> {
        Answer::Ready(self.0.remember(self.0.digester.digest(id), null))
    }

    fn remove(&self, id: &Id, ttl: Duration) -> BoxFuture<'_, Result<Remembered, StoreError>> {
        Box::pin(std::future::ready(Ok(self.0.remove(self.0.digester.digest(id), ttl))))
    }

    fn distrust(
        &self,
        id: &Id,
        generation: Generation,
    ) -> BoxFuture<'_, Result<Distrusted, StoreError>> {
        let distrusted = self.0.distrust(self.0.digester.digest(id), generation);
        Box::pin(std::future::ready(Ok(distrusted)))
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn condition(&self) -> Condition {
        let (now, books) = (Instant::now(), self.0.books.lock());
        let required = self.0.settings.longest_transaction;
        let journal = Some(JournalReach { reaches: books.journal.reaches(now), required });
        let trouble = books.marks.are_incomplete(now).then(|| {
            "more ids were inserted in a short time than are marked: no 404 is remembered"
                .to_owned()
        });
        drop(books);
        Condition {
            live: self.0.live(),
            shards: None,
            copy: None,
            settling: None,
            journal,
            trouble,
        }
    }

    fn survey(&self) -> BoxFuture<'_, Result<Survey, StoreError>> {
        let live = self.0.surveyed();
        let due_us = Some(self.0.fleet.asked_us.load(Ordering::SeqCst));
        let survey = Survey::new(live, self.0.clock.now_us(), due_us);
        Box::pin(std::future::ready(Ok(survey)))
    }

    fn view_fleet(&self) -> BoxFuture<'_, Result<Option<FleetView>, StoreError>> {
        let (_, mode_number) = self.0.fleet.mode.numbered();
        let now_us = self.0.clock.now_us();
        let view = FleetView {
            metadata: vec![SeenMetadata { incarnation: Vec::new(), mode_number, now_us }],
            longest_transaction: self.0.settings.longest_transaction,
        };
        Box::pin(std::future::ready(Ok(Some(view))))
    }

    fn fleet_mode(&self) -> Arc<SharedMode> {
        Arc::clone(&self.0.fleet.mode)
    }

    fn change_fleet(&self, change: FleetChange) -> BoxFuture<'_, Result<(), FleetError>> {
        let live = self.0.live().map_or(0, |live| live.generation.get());
        let changed = self.0.fleet.change(change, live, self.0.clock.now_us());
        Box::pin(std::future::ready(changed))
    }

    fn begin(&self, _: i64) -> BoxFuture<'_, Result<Begun, StoreError>> {
        let build = MemoryBuild::begin(&self.0);
        let begun = build.map_or(Begun::Busy, |build| Begun::Leased(Box::new(build)));
        Box::pin(std::future::ready(Ok(begun)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

    use super::inner::LiveFilter;
    use super::marks::Marks;
    use super::*;
    use crate::filter::{Filter, Sizing};
    use crate::nulls::scope::Scope;
    use crate::store::{Live, NullClaim};
    use crate::verdict::Verdict;

    fn null(claim: NullClaim) -> NewNull {
        NewNull { claim, scope: Scope::Everyone, ttl: Duration::from_secs(30) }
    }

    fn digest(n: u8) -> Digest {
        Digest::from_bytes([n; 16])
    }

    /// A store with room for `marks` marks, and a live filter that contains every id.
    fn store(marks: u64) -> MemoryStore {
        let settings = Settings { journal_entries: marks, ..Settings::new("users".into()) };
        let store = MemoryStore::new(&settings, &SecretKey::new([7; 16]));
        let inner = &store.0;
        let sizing = Sizing::new(10, 0.01).unwrap();
        let filter = Filter::new(sizing.geometry(0));
        (0..=u8::MAX).for_each(|n| filter.insert(&digest(n)));
        let figures = Live {
            generation: Generation::new(1).unwrap(),
            items: 256,
            capacity: 10,
            rate: 0.01,
            expected_rate: 1.0,
            bytes: sizing.bytes(),
        };
        inner.live.store(Some(Arc::new(LiveFilter {
            figures,
            filter: Arc::new(filter),
            doubt: None,
            replaced_disproved: false,
            lacked: None,
        })));
        store
    }

    #[tokio::test(start_paused = true)]
    async fn an_attacker_who_creates_records_cannot_wash_a_mark_out() {
        let store = store(2);
        let inner = &store.0;
        let victim = digest(1);
        inner.add(victim, 1);
        let claim = inner.look_up(&victim, Instant::now()).claim;
        for n in 2..10 {
            inner.add(digest(n), 1);
        }
        assert_eq!(inner.remember(victim, null(claim)), Remembered::Created);
        assert_eq!(inner.remember(digest(77), null(claim)), Remembered::Created);
        assert!(store.condition().trouble.is_some());

        tokio::time::advance(inner.settings.mark_ttl()).await;
        let claim = inner.look_up(&digest(77), Instant::now()).claim;
        assert_eq!(inner.remember(digest(77), null(claim)), Remembered::Stored);
        assert!(store.condition().trouble.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn an_import_stops_nulls_instead_of_filling_the_memory_with_marks() {
        let store = store(1_000_000);
        let inner = &store.0;
        let of = |n: u32| Digest::from_bytes(u128::from(n).to_be_bytes());
        (0..100_001).for_each(|n| inner.add(of(n), 100_001));
        let claim = inner.look_up(&of(100_000), Instant::now()).claim;
        assert_eq!(inner.remember(of(100_000), null(claim)), Remembered::Created);
        assert!(!inner.books.lock().marks.hold(&of(100_000), Instant::now()));
        inner.add(of(7_000_000), 1);
        assert!(
            inner.books.lock().marks.hold(&of(7_000_000), Instant::now()),
            "there is room for one"
        );
    }

    /// With marks that last no time, so that only the bits can tell.
    #[test]
    fn an_acknowledged_insert_is_seen_by_every_later_check_whatever_is_swapped_meanwhile() {
        let store = store(1_000_000);
        let inner = &store.0;
        inner.books.lock().marks = Marks::new(Duration::ZERO);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        std::thread::scope(|scope| {
            let inserting: Vec<_> = (0..2_u64)
                .map(|thread| {
                    scope.spawn(move || {
                        for n in 0..20_000 {
                            let id = Id::display(&(n * 2 + thread)).unwrap();
                            let digest = inner.digester.digest(&id);
                            inner.add(digest, 1);
                            assert_eq!(
                                inner.look_up(&digest, Instant::now()).verdict,
                                Verdict::Present
                            );
                        }
                    })
                })
                .collect();
            while inserting.iter().any(|thread| !thread.is_finished()) {
                runtime.block_on(rebuild(&store));
            }
        });
    }

    /// With checks that look at no marks: what keeps nulls from coming back are the marks.
    #[test]
    fn an_acknowledged_insert_is_hidden_by_no_null_that_is_remembered_meanwhile() {
        let store = store(100_000);
        let inner = &store.0;
        let done = AtomicBool::new(false);
        let victim = AtomicU8::new(0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        let digest = digest(victim.load(Ordering::Relaxed));
                        let claim = inner.look_up(&digest, Instant::now()).claim;
                        inner.remember(digest, null(claim));
                    }
                });
            }
            for n in 0..=u8::MAX {
                victim.store(n, Ordering::Relaxed);
                while inner.look_up(&digest(n), Instant::now()).verdict == Verdict::Present {
                    std::hint::spin_loop();
                }
                inner.add(digest(n), 1);
                for _ in 0..100 {
                    let verdict = inner.look_up(&digest(n), Instant::now()).verdict;
                    assert_eq!(verdict, Verdict::Present, "inserted, and hidden by a null");
                }
            }
            done.store(true, Ordering::Relaxed);
        });
    }

    /// A whole rebuild whose scan finds nothing: all there is comes from the journal.
    async fn rebuild(store: &MemoryStore) {
        use crate::store::{Build as _, BuildPart as _};

        let mut build = MemoryBuild::begin(&store.0).unwrap();
        build.prepare(Sizing::new(100_000, 1e-6).unwrap()).await.unwrap();
        build.parts().await.unwrap();
        build.read_journal().await.unwrap();
        build.allocate().await.unwrap();
        build.upload(&|_| ()).await.unwrap();
        build.catch_up().await.unwrap();
        build.replay().await.unwrap();
        build.verify().await.unwrap();
        build.swap().await.unwrap();
    }
}
