//! What a store of a single process holds: the live filter, nulls, marks and journal.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::fleet::Fleet;
use super::journal::Journal;
use super::marks::Marks;
use crate::filter::{Filter, Generation, Membership};
use crate::id::{Digest, Digester, SecretKey};
use crate::nulls::cache::NullCache;
use crate::nulls::scope::Scope;
use crate::settings::Settings;
use crate::store::journal_room::JournalRoom;
use crate::store::{Distrusted, Live, Lookup, NewNull, NullClaim, Remembered};
use crate::verdict::{Doubt, Proof, Verdict};

/// How many digests are worked on before other tasks get their turn.
pub(super) const BATCH: usize = 1024;

pub(super) struct Inner {
    pub(super) digester: Digester,
    pub(super) settings: Settings,
    pub(super) journal_room: JournalRoom,
    pub(super) clock: Clock,
    pub(super) live: ArcSwapOption<LiveFilter>,
    pub(super) nulls: NullCache,
    pub(super) books: Mutex<Books>,
    pub(super) fleet: Fleet,
}

/// The filter that answers.
pub(super) struct LiveFilter {
    pub(super) figures: Live,
    pub(super) filter: Arc<Filter>,
    /// Why it is out of use, if it is.
    pub(super) doubt: Option<Doubt>,
    /// Whether it took the place of a disproved filter.
    pub(super) replaced_disproved: bool,
    /// An id that exists and was found missing from it since.
    pub(super) lacked: Option<Digest>,
}

/// What is read and written under the lock.
pub(super) struct Books {
    pub(super) marks: Marks,
    pub(super) journal: Journal,
    /// The filter that a rebuild is putting together, once it gets every insert.
    pub(super) building: Option<Arc<Filter>>,
    /// The last token given out.
    pub(super) token: i64,
}

/// Wall-clock time that runs with the runtime's clock, and so never jumps.
pub(super) struct Clock {
    origin: Instant,
    origin_us: i64,
}

impl Inner {
    pub(super) fn new(settings: &Settings, key: &SecretKey) -> Self {
        let entries = usize::try_from(settings.journal_entries).unwrap_or(usize::MAX);
        Self {
            digester: Digester::new(key, &settings.name),
            clock: Clock::new(),
            journal_room: JournalRoom::new(&settings.name, settings.journal_entries),
            live: ArcSwapOption::empty(),
            nulls: NullCache::new(settings.null_cache_bytes),
            books: Mutex::new(Books {
                marks: Marks::new(settings.mark_ttl()),
                journal: Journal::new(settings.journal_reach(), entries),
                building: None,
                token: 0,
            }),
            settings: settings.clone(),
            fleet: Fleet::default(),
        }
    }

    pub(super) fn look_up(&self, digest: &Digest, at: Instant) -> Lookup {
        let live = self.live.load();
        let (generation, (verdict, scope)) = match &*live {
            None => (None, (Verdict::Unknown(Doubt::NoFilter), Scope::Everyone)),
            Some(live) => (Some(live.figures.generation), self.look_into(live, digest)),
        };
        // No null can rest on other verdicts: a claim of long ago, which is too late.
        let asked_us = match verdict {
            Verdict::Present | Verdict::Absent(Proof::Null) => self.clock.us(at),
            Verdict::Absent(Proof::Filter) | Verdict::Unknown(_) => i64::MIN,
        };
        Lookup { verdict, scope, claim: NullClaim { asked_us, generation } }
    }

    fn look_into(&self, live: &LiveFilter, digest: &Digest) -> (Verdict, Scope) {
        if let Some(doubt) = live.doubt {
            return (Verdict::Unknown(doubt), Scope::Everyone);
        }
        if live.filter.lookup(digest) == Membership::Never {
            return (Verdict::Absent(Proof::Filter), Scope::Everyone);
        }
        match self.nulls.find(digest, live.figures.generation) {
            Some(null) => (Verdict::Absent(Proof::Null), null.scope),
            None => (Verdict::Present, Scope::Everyone),
        }
    }

    /// Adds one of `of` ids that are inserted at once.
    pub(super) fn add(&self, digest: Digest, of: usize) {
        let mut books = self.books.lock();
        let now = Instant::now();
        books.marks.set(digest, now, self.settings.most_marks(of));
        self.nulls.forget(&digest);
        books.journal.push(digest, now);
        if let Some(live) = &*self.live.load() {
            live.filter.insert(&digest);
        }
        if let Some(building) = &books.building {
            building.insert(&digest);
        }
    }

    pub(super) fn remember(&self, digest: Digest, null: NewNull) -> Remembered {
        let NewNull { claim, scope, ttl } = null;
        let books = self.books.lock();
        let now = Instant::now();
        if books.marks.hold(&digest, now) || books.marks.are_incomplete(now) {
            return Remembered::Created;
        }
        let handler = self.settings.handler_time.as_micros() as i64;
        match claim.generation {
            Some(of) if self.clock.us(now) <= claim.asked_us.saturating_add(handler) => {
                self.nulls.put(digest, of, scope, ttl);
                Remembered::Stored
            }
            _ => Remembered::Late,
        }
    }

    pub(super) fn remove(&self, digest: Digest, ttl: Duration) -> Remembered {
        // The process before this one may have created the record anew.
        if self.clock.origin.elapsed() < self.settings.mark_ttl() {
            return Remembered::Created;
        }
        let claim = NullClaim { asked_us: self.clock.now_us(), generation: self.generation() };
        self.remember(digest, NewNull { claim, scope: Scope::Everyone, ttl })
    }

    pub(super) fn generation(&self) -> Option<Generation> {
        self.live.load().as_ref().map(|live| live.figures.generation)
    }

    /// Returns what the live filter is, or why there is none to trust.
    pub(super) fn live(&self) -> Result<Live, Doubt> {
        match &*self.live.load() {
            None => Err(Doubt::NoFilter),
            Some(live) => live.doubt.map_or(Ok(live.figures), Err),
        }
    }

    /// Returns the live filter for a survey: one that is disproved twice is no more due than others.
    pub(super) fn surveyed(&self) -> Result<Live, Doubt> {
        match &*self.live.load() {
            Some(live) if live.doubt == Some(Doubt::DisprovedTwice) => Ok(live.figures),
            _ => self.live(),
        }
    }

    pub(super) fn distrust(&self, digest: Digest, generation: Generation) -> Distrusted {
        // Under the lock, so that no swap falls in between.
        let _books = self.books.lock();
        let live = self.live.load();
        let of = |live: &&Arc<LiveFilter>| live.figures.generation == generation;
        let Some(live) = live.as_ref().filter(of).filter(|live| live.doubt.is_none()) else {
            return Distrusted::Stays;
        };
        let (doubt, distrusted) = match live.lacked {
            _ if !live.replaced_disproved => (Some(Doubt::Disproved), Distrusted::Disproved),
            Some(other) if other != digest => {
                (Some(Doubt::DisprovedTwice), Distrusted::DisprovedTwice(other))
            }
            _ => (None, Distrusted::Stays),
        };
        let (filter, lacked) = (Arc::clone(&live.filter), Some(digest));
        self.live.store(Some(Arc::new(LiveFilter { filter, doubt, lacked, ..**live })));
        distrusted
    }
}

impl Clock {
    fn new() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let origin_us = i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX);
        Self { origin: Instant::now(), origin_us }
    }

    pub(super) fn now_us(&self) -> i64 {
        self.us(Instant::now())
    }

    fn us(&self, at: Instant) -> i64 {
        let passed = at.saturating_duration_since(self.origin).as_micros();
        self.origin_us.saturating_add(i64::try_from(passed).unwrap_or(i64::MAX))
    }
}
