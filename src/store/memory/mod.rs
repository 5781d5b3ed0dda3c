//! The store of a single process.
//!
//! It runs the protocol of the store in Redis, with a mutex in place of Redis's single thread. Inserts, nulls and the steps of a
//! rebuild take it, never across an await. A check does not: an insert sets its bits and deletes the null before it returns, and no
//! null comes back while the insert is recent.

pub(crate) mod build;
mod recent;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use tokio::time::Instant;

use self::recent::Recent;
use super::clock::Clock;
use super::{
    Answer, Condition, FleetChange, FleetView, Inserted, LiveFilter, Lookup, Lookups, NewNull,
    NullClaim, Record, Removed, SeenMetadata, Sought, Survey,
};
use crate::error::{SettingError, StoreError};
use crate::filter::{Filter, Generation, Membership};
use crate::id::{Digest, Digester, Id, SecretKey};
use crate::mode::{Mode, SharedMode};
use crate::nulls::cache::NullCache;
use crate::nulls::scope::Scope;
use crate::random;
use crate::settings::Settings;
use crate::verdict::{Doubt, Proof, Verdict};

const BATCH: usize = 1024;
/// Some 23,800 nulls.
const NULL_CACHE_BYTES: u64 = 8 << 20;

pub(crate) struct MemoryStore {
    digester: Digester,
    settings: Settings,
    /// It runs with the runtime's clock, and so never jumps.
    clock: Clock,
    live: ArcSwapOption<MemoryFilter>,
    nulls: NullCache,
    books: Mutex<Books>,
    /// The mode of all clones of the guard. Its number is how often it was set.
    mode: Arc<SharedMode>,
}

struct MemoryFilter {
    figures: LiveFilter,
    filter: Arc<Filter>,
    /// Set if it is out of use.
    doubt: Option<Doubt>,
    /// Whether it took the place of a disproved filter.
    replaced_disproved: bool,
    /// The first id that exists and was found missing from it.
    lacked: Option<Digest>,
}

impl MemoryFilter {
    fn figures(&self) -> LiveFilter {
        let rate = self.filter.rate_beyond(self.figures.capacity);
        LiveFilter { expected_rate: rate.unwrap_or(self.figures.expected_rate), ..self.figures }
    }
}

struct Books {
    recent: Recent,
    /// The filter that is built, which gets every insert, too.
    building: Option<Arc<Filter>>,
    asked_us: i64,
}

impl MemoryStore {
    pub(crate) fn new(settings: &Settings) -> Result<Self, SettingError> {
        let draw = || random::bytes().map(SecretKey::new);
        let key = settings.secret_key.clone().map_or_else(draw, Ok);
        let key = key.map_err(|error| {
            let reason = format!("no random one could be drawn: {error}");
            SettingError::Invalid { setting: "secret_key", reason }
        })?;
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Self {
            digester: Digester::new(&key, &settings.name),
            clock: Clock::now(since_epoch.as_micros() as i64),
            live: ArcSwapOption::empty(),
            nulls: NullCache::new(NULL_CACHE_BYTES),
            books: Mutex::new(Books {
                recent: Recent::new(settings.record_life(), settings.recent_ids),
                building: None,
                asked_us: 0,
            }),
            settings: settings.clone(),
            mode: Arc::default(),
        })
    }

    pub(crate) fn check(&self, ids: &[Sought<'_>], now: Instant) -> Answer<Lookups> {
        let digest = |(id, made): &Sought<'_>| self.digester.digest_once(id, *made).digest;
        let look_up = |sought| self.look_up(&digest(sought), now);
        let mut lookups = Lookups::with_capacity(ids.len());
        ids.iter().for_each(|sought| lookups.push(look_up(sought)));
        Answer::Ready(lookups)
    }

    fn look_up(&self, digest: &Digest, at: Instant) -> Lookup {
        let (mut scope, mut generation) = (Scope::Everyone, None);
        let verdict = match &*self.live.load() {
            None => Verdict::Unknown(Doubt::NoFilter),
            Some(live) => {
                generation = Some(live.figures.generation);
                if let Some(doubt) = live.doubt {
                    Verdict::Unknown(doubt)
                } else if live.filter.lookup(digest) == Membership::Never {
                    Verdict::Absent(Proof::Filter)
                } else if let Some(null) = self.nulls.find(digest, live.figures.generation) {
                    scope = null.scope;
                    Verdict::Absent(Proof::Null)
                } else {
                    Verdict::Present
                }
            }
        };
        // No null can rest on other verdicts: a claim of long ago, which is too late.
        let asked_us = match verdict {
            Verdict::Present | Verdict::Absent(Proof::Null) => self.clock.at(at),
            Verdict::Absent(Proof::Filter) | Verdict::Unknown(_) => i64::MIN,
        };
        Lookup { verdict, scope, claim: NullClaim { asked_us, generation } }
    }

    pub(crate) async fn add(&self, ids: Vec<Id>) -> Result<Inserted, StoreError> {
        let mut inserted = Inserted::Perhaps;
        for (n, id) in ids.iter().enumerate() {
            if n > 0 && n % BATCH == 0 {
                tokio::task::yield_now().await;
            }
            inserted = self.add_one(self.digester.digest(id));
        }
        Ok(if ids.len() == 1 { inserted } else { Inserted::Perhaps })
    }

    fn add_one(&self, digest: Digest) -> Inserted {
        let mut inserted = Inserted::Perhaps;
        let mut books = self.books.lock();
        books.recent.insert(digest, Instant::now());
        self.nulls.forget(&digest);
        if let Some(live) = &*self.live.load() {
            if live.doubt.is_none() && live.filter.lookup(&digest) == Membership::Never {
                inserted = Inserted::New;
            }
            live.filter.insert(&digest);
        }
        if let Some(building) = &books.building {
            building.insert(&digest);
        }
        inserted
    }

    pub(crate) fn remember(&self, id: &Id, null: NewNull) -> Answer<Option<Removed>> {
        Answer::Ready(Some(self.put_null(self.digester.digest(id), null)))
    }

    pub(crate) async fn remove(&self, id: &Id, ttl: Duration) -> Result<Removed, StoreError> {
        // The process before this one may have created the record anew.
        if self.clock.age() < self.settings.record_life() {
            return Ok(Removed::Withheld);
        }
        let generation = self.live.load().as_ref().map(|live| live.figures.generation);
        let claim = NullClaim { asked_us: self.clock.at(Instant::now()), generation };
        let null = NewNull { claim, scope: Scope::Everyone, ttl };
        Ok(self.put_null(self.digester.digest(id), null))
    }

    fn put_null(&self, digest: Digest, null: NewNull) -> Removed {
        let NewNull { claim, scope, ttl } = null;
        let books = self.books.lock();
        let now = Instant::now();
        if books.recent.may_hold(&digest, now) {
            return Removed::Withheld;
        }
        let handler = self.settings.nulls.handler_time.as_micros() as i64;
        match claim.generation {
            Some(of) if self.clock.at(now) <= claim.asked_us.saturating_add(handler) => {
                self.nulls.put(digest, of, scope, ttl);
                Removed::Remembered
            }
            _ => Removed::Withheld,
        }
    }

    pub(crate) async fn distrust(
        &self,
        id: &Id,
        generation: Generation,
    ) -> Result<Option<Doubt>, StoreError> {
        let digest = self.digester.digest(id);
        // Under the lock, so that no swap falls in between.
        let _books = self.books.lock();
        let live = self.live.load();
        let of = |live: &&Arc<MemoryFilter>| live.figures.generation == generation;
        let Some(live) = live.as_ref().filter(of).filter(|live| live.doubt.is_none()) else {
            return Ok(None);
        };
        let doubt = if live.replaced_disproved {
            live.lacked.filter(|other| *other != digest).map(|_| Doubt::DisprovedTwice)
        } else {
            Some(Doubt::Disproved)
        };
        let filter = Arc::clone(&live.filter);
        let lacked = Some(digest);
        self.live.store(Some(Arc::new(MemoryFilter { filter, doubt, lacked, ..**live })));
        Ok(doubt)
    }

    fn live(&self) -> Result<LiveFilter, Doubt> {
        match &*self.live.load() {
            None => Err(Doubt::NoFilter),
            Some(live) => live.doubt.map_or_else(|| Ok(live.figures()), Err),
        }
    }

    pub(crate) fn condition(&self) -> Condition {
        let now = Instant::now();
        let books = self.books.lock();
        let required = self.settings.longest_transaction;
        let reaches = books.recent.floor.map(|at| now.saturating_duration_since(at));
        let record = Some(Record { ids: books.recent.inserted.len() as u64, reaches, required });
        let trouble = books.recent.is_short(now).then(|| {
            "more ids were inserted in a short time than the record of recent inserts holds: no 404 is remembered"
                .to_owned()
        });
        drop(books);
        Condition { record, ..Condition::of(self.live(), trouble) }
    }

    pub(crate) async fn survey(&self) -> Result<Survey, StoreError> {
        let live = match &*self.live.load() {
            // Such a filter is due when others are, and no sooner.
            Some(live) if live.doubt == Some(Doubt::DisprovedTwice) => Ok(live.figures()),
            _ => self.live(),
        };
        let due_us = Some(self.books.lock().asked_us);
        Ok(Survey::new(live, self.clock.at(Instant::now()), due_us))
    }

    pub(crate) async fn view_fleet(&self) -> Result<FleetView, StoreError> {
        let (_, mode_number) = self.mode.numbered();
        let now_us = self.clock.at(Instant::now());
        Ok(FleetView {
            metadata: vec![SeenMetadata { incarnation: Vec::new(), mode_number, now_us }],
            longest_transaction: self.settings.longest_transaction,
        })
    }

    pub(crate) fn fleet_mode(&self) -> Arc<SharedMode> {
        Arc::clone(&self.mode)
    }

    pub(crate) async fn change_fleet(&self, change: FleetChange) -> Result<(), StoreError> {
        match change {
            FleetChange::Mode(mode) => self.mode.change(mode),
            FleetChange::Enforce { seen, after } => {
                let (_, number) = self.mode.numbered();
                let is_same = seen.metadata.iter().all(|seen| seen.mode_number == number);
                let live = self.live().map_or(0, |live| live.generation.get());
                if !is_same || after.metadata.iter().any(|after| live <= after.now_us) {
                    return Err(StoreError::overtaken());
                }
                // A mode that another call set has this number, too, and is milder.
                self.mode.note(Mode::Enforce, number + 1);
            }
            FleetChange::Rebuild => self.books.lock().asked_us = self.clock.at(Instant::now()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

    use super::build::MemoryBuild;
    use super::*;
    use crate::filter::Sizing;
    use crate::store::Progress;

    fn null(claim: NullClaim) -> NewNull {
        NewNull { claim, scope: Scope::Everyone, ttl: Duration::from_secs(30) }
    }

    fn digest(n: u8) -> Digest {
        Digest::from_bytes([n; 16])
    }

    /// A store with room for so many recent inserts, and a live filter that contains every id.
    fn store(recent_ids: u64) -> Arc<MemoryStore> {
        let settings = Settings { recent_ids, ..Settings::new("users".into()) };
        let store = Arc::new(MemoryStore::new(&settings).unwrap());
        let sizing = Sizing::new(10, 0.01).unwrap();
        let filter = Filter::new(sizing.geometry(0));
        (0..=u8::MAX).for_each(|n| filter.insert(&digest(n)));
        let generation = Generation::new(1).unwrap();
        let figures = LiveFilter::new(generation, (256, 10), (0.01, 1.0), sizing.bytes());
        store.live.store(Some(Arc::new(MemoryFilter {
            figures,
            filter: Arc::new(filter),
            doubt: None,
            replaced_disproved: false,
            lacked: None,
        })));
        store
    }

    #[tokio::test(start_paused = true)]
    async fn an_attacker_who_creates_records_cannot_wash_an_insert_out() {
        let store = store(2);
        let victim = digest(1);
        store.add_one(victim);
        let claim = store.look_up(&victim, Instant::now()).claim;
        for n in 2..10 {
            store.add_one(digest(n));
        }
        assert_eq!(store.put_null(victim, null(claim)), Removed::Withheld);
        assert_eq!(store.put_null(digest(77), null(claim)), Removed::Withheld);

        tokio::time::advance(store.settings.record_life()).await;
        let claim = store.look_up(&digest(77), Instant::now()).claim;
        assert_eq!(store.put_null(digest(77), null(claim)), Removed::Remembered);
    }

    #[test]
    fn an_acknowledged_insert_is_seen_by_every_later_check_whatever_is_swapped_meanwhile() {
        let store = &store(1_000_000);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        std::thread::scope(|scope| {
            let inserting: Vec<_> = (0..2_u64)
                .map(|thread| {
                    scope.spawn(move || {
                        for n in 0..20_000 {
                            let id = Id::display(&(n * 2 + thread)).unwrap();
                            let digest = store.digester.digest(&id);
                            store.add_one(digest);
                            assert_eq!(
                                store.look_up(&digest, Instant::now()).verdict,
                                Verdict::Present
                            );
                        }
                    })
                })
                .collect();
            while inserting.iter().any(|thread| !thread.is_finished()) {
                runtime.block_on(rebuild(store));
            }
        });
    }

    /// With checks that look at no record: what keeps nulls from coming back is the record.
    #[test]
    fn an_acknowledged_insert_is_hidden_by_no_null_that_is_remembered_meanwhile() {
        let store = store(100_000);
        let done = AtomicBool::new(false);
        let victim = AtomicU8::new(0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        let digest = digest(victim.load(Ordering::Relaxed));
                        let claim = store.look_up(&digest, Instant::now()).claim;
                        store.put_null(digest, null(claim));
                    }
                });
            }
            for n in 0..=u8::MAX {
                victim.store(n, Ordering::Relaxed);
                while store.look_up(&digest(n), Instant::now()).verdict == Verdict::Present {
                    std::hint::spin_loop();
                }
                store.add_one(digest(n));
                for _ in 0..100 {
                    let verdict = store.look_up(&digest(n), Instant::now()).verdict;
                    assert_eq!(verdict, Verdict::Present, "inserted, and hidden by a null");
                }
            }
            done.store(true, Ordering::Relaxed);
        });
    }

    /// A whole rebuild whose scan finds nothing: all there is comes from the record, and from inserts meanwhile.
    async fn rebuild(store: &Arc<MemoryStore>) {
        let mut build = MemoryBuild::begin(store).unwrap();
        build.lease(Sizing::new(100_000, 1e-6).unwrap()).await.unwrap();
        let (scan, _) = build.read_recent().await.unwrap();
        build.put_live(scan.end().await.unwrap(), &Progress::default()).unwrap();
    }
}
