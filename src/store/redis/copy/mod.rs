//! A copy of the live filter in this process: requests for what it holds ask nobody.
//!
//! "Present" may come from any copy, however old, since a request that passes is never wrong; only Redis says "absent": of an id by
//! itself, or of all that a copy lacks once a fence has brought it up to the last insert (`check/catch_up.rs`). `load` reads it.

mod audit;
mod load;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::filter::{Filter, Header, Membership};
use crate::id::{Digest, Digester, Id, KeyedDigest};
use crate::store::{Copied, CopyState};

pub(crate) struct Copies {
    /// How many bytes the copies of all guards of this process may take.
    limit: u64,
    current: ArcSwapOption<FilterCopy>,
    /// The generation of a copy that was dropped, as it was damaged; 0 if none was.
    damaged: AtomicI64,
    /// How many ids fences have answered for, and one of the last.
    fenced: AtomicU64,
    sample: Mutex<Option<KeyedDigest>>,
}

pub(crate) struct FilterCopy {
    pub(crate) header: Header,
    digester: Digester,
    filter: Filter,
    /// When the filter's build began: what requests have learnt of an id since may be missing in it.
    built: Instant,
    read: Instant,
    /// Up to which number it holds all inserts; [`LEFT_BEHIND`] where it lacks some that the record has dropped.
    position: AtomicI64,
    /// Whether the last fence has proven nothing, as when more inserts came since than it reads.
    is_behind: AtomicBool,
    room: Room,
}

const LEFT_BEHIND: i64 = -1;

impl FilterCopy {
    fn is_of(&self, header: &Header) -> bool {
        self.header.is_same_build(header) && self.position().is_some()
    }

    /// Returns up to which number it holds all inserts, unless it was left behind.
    pub(crate) fn position(&self) -> Option<i64> {
        // Whoever sees this sees the bits that were set before.
        Some(self.position.load(Ordering::Acquire)).filter(|at| *at != LEFT_BEHIND)
    }

    pub(crate) fn is_behind(&self) -> bool {
        self.is_behind.load(Ordering::Relaxed)
    }

    pub(crate) fn advance_to(&self, number: i64) {
        let grows = |at: i64| (at != LEFT_BEHIND).then_some(at.max(number));
        self.position.fetch_update(Ordering::Release, Ordering::Relaxed, grows).ok();
    }

    pub(crate) fn note_behind(&self, is_behind: bool) {
        self.is_behind.store(is_behind, Ordering::Relaxed);
    }

    /// Notes that it lacks inserts that the record has dropped: another copy is read.
    pub(crate) fn leave_behind(&self) {
        self.position.store(LEFT_BEHIND, Ordering::Relaxed);
    }

    pub(crate) fn hold<'a>(&self, digests: impl Iterator<Item = &'a Digest>) {
        for digest in digests {
            // To read is cheaper, and most are there.
            if self.filter.lookup(digest) == Membership::Never {
                self.filter.insert(digest);
            }
        }
    }

    pub(crate) fn lookup(&self, digest: &Digest) -> Membership {
        self.filter.lookup(digest)
    }

    /// Whether it lacks an id; false of a digest by another key.
    pub(crate) fn lacks(&self, made: &KeyedDigest) -> bool {
        let digest = made.by(&self.digester);
        digest.is_some_and(|digest| self.filter.lookup(&digest) == Membership::Never)
    }
}

impl Copies {
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            limit,
            current: ArcSwapOption::empty(),
            damaged: AtomicI64::new(0),
            fenced: AtomicU64::new(0),
            sample: Mutex::default(),
        }
    }

    /// Drops a damaged copy. No other is read of its filter.
    pub(crate) fn drop_damaged(&self, copy: &Arc<FilterCopy>) {
        self.damaged.store(copy.header.generation.get(), Ordering::Relaxed);
        self.current.compare_and_swap(copy, None::<Arc<FilterCopy>>);
    }

    /// Puts inserted ids into the copy, also into one of an earlier filter: ids that it holds pass.
    pub(crate) fn hold(&self, digests: &[Digest], key_id: u32) {
        let current = self.current.load();
        if let Some(copy) = current.as_ref().filter(|copy| copy.header.key_id == key_id) {
            copy.hold(digests.iter());
        }
    }

    pub(crate) fn of(&self, header: &Header) -> Option<Arc<FilterCopy>> {
        self.current.load_full().filter(|copy| copy.is_of(header))
    }

    /// Returns the copy of the live filter, if a fence may bring it up to the last insert.
    pub(crate) fn to_fence(&self, live: &Header) -> Option<Arc<FilterCopy>> {
        self.of(live).filter(|copy| !copy.is_behind())
    }

    /// Returns the false-positive rate of a filter whose copy holds more ids than it was sized for.
    pub(crate) fn rate_beyond(&self, header: &Header) -> Option<f64> {
        self.of(header)?.filter.rate_beyond(header.capacity.into())
    }

    /// Says whether the copy holds an id; returns also the digest that it took.
    pub(crate) fn copied(
        &self,
        id: &Id,
        made: Option<KeyedDigest>,
        live: Option<&Header>,
    ) -> (Option<KeyedDigest>, Option<Copied>) {
        let current = self.current.load();
        let Some(copy) = current.as_ref() else { return (made, None) };
        let made = copy.digester.digest_once(id, made);
        let copied = match copy.filter.lookup(&made.digest) {
            Membership::Never => None,
            Membership::Possible => {
                let of_live = live.is_none_or(|live| live.is_same_build(&copy.header));
                Some(Copied { at: copy.built, of_live })
            }
        };
        (Some(made), copied)
    }

    pub(crate) fn answered(&self, ids: u64, sample: KeyedDigest) {
        self.fenced.fetch_add(ids, Ordering::Relaxed);
        *self.sample.lock() = Some(sample);
    }

    /// Takes an id that a fence has answered for since the last call.
    pub(crate) fn refused(&self) -> Option<KeyedDigest> {
        self.sample.lock().take()
    }

    pub(crate) fn condition(&self) -> Option<CopyState> {
        let copy = self.current.load_full()?;
        Some(CopyState {
            generation: copy.header.generation,
            bytes: copy.room.0,
            built: copy.built,
            age: copy.read.elapsed(),
            silent: 0.0,
            fenced: self.fenced.load(Ordering::Relaxed),
        })
    }
}

static TAKEN: AtomicU64 = AtomicU64::new(0);

/// Room for one copy, given back when it is dropped.
struct Room(u64);

impl Room {
    fn take(bytes: u64, limit: u64) -> Option<Self> {
        let fits = |taken: u64| taken.checked_add(bytes).filter(|all| *all <= limit);
        TAKEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).ok()?;
        Some(Self(bytes))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        TAKEN.fetch_sub(self.0, Ordering::Relaxed);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use super::*;
    use crate::filter::{Generation, Sizing};
    use crate::id::SecretKey;

    fn id(n: u64) -> Id {
        Id::display(&n).unwrap()
    }

    fn header(generation: i64) -> Header {
        let sizing = Sizing::new(100, 0.001).unwrap();
        Header::new(Generation::new(generation).unwrap(), 6, &sizing, 7)
    }

    /// An empty copy, which holds all inserts up to a number.
    pub(crate) fn copy_of(header: Header, digester: &Digester, position: i64) -> Arc<FilterCopy> {
        Arc::new(FilterCopy {
            header,
            digester: digester.clone(),
            filter: Filter::new(header.geometry),
            built: Instant::now(),
            read: Instant::now(),
            position: AtomicI64::new(position),
            is_behind: AtomicBool::new(false),
            room: Room::take(0, u64::MAX).unwrap(),
        })
    }

    impl Copies {
        pub(crate) fn put(&self, copy: Arc<FilterCopy>) {
            self.current.store(Some(copy));
        }
    }

    impl FilterCopy {
        pub(crate) fn holds(&self, digest: &Digest) -> bool {
            self.filter.lookup(digest) == Membership::Possible
        }
    }

    /// A copy of the first generation that holds id 1.
    fn copies() -> (Copies, Digester) {
        let digester = Digester::new(&SecretKey::new([7; 16]), "users");
        let copy = copy_of(header(1), &digester, 0);
        copy.hold([digester.digest(&id(1))].iter());
        let copies = Copies::new(u64::MAX);
        copies.put(copy);
        (copies, digester)
    }

    #[tokio::test(start_paused = true)]
    async fn while_another_filter_is_live_a_copy_is_not_of_the_live_one() {
        let (copies, _) = copies();
        let at = Instant::now();
        tokio::time::advance(Duration::from_secs(60)).await;
        for (live, of_live) in [(None, true), (Some(header(1)), true), (Some(header(2)), false)] {
            let live = live.as_ref();
            assert_eq!(
                copies.copied(&id(1), None, live).1,
                Some(Copied { at, of_live }),
                "{live:?}"
            );
            assert_eq!(copies.copied(&id(2), None, live).1, None);
        }
        assert_eq!(Copies::new(u64::MAX).copied(&id(1), None, None).1, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_copy_takes_in_ids_of_its_own_secret_key_and_of_no_other() {
        let (copies, digester) = copies();
        let (digest, key_id) = (digester.digest(&id(2)), header(1).key_id);
        copies.hold(&[digest], key_id + 1);
        assert_eq!(copies.copied(&id(2), None, None).1, None);
        copies.hold(&[digest], key_id);
        assert!(copies.copied(&id(2), None, None).1.is_some());
    }

    /// `campaign.sh order` runs it by Miri, whose processors show writes late and in another order.
    #[test]
    fn whoever_sees_the_position_sees_the_ids_up_to_there() {
        let digester = Digester::new(&SecretKey::new([7; 16]), "users");
        let digests: Vec<Digest> = (0..3).map(|n| digester.digest(&id(n))).collect();
        let copy = copy_of(header(1), &digester, 0);
        let holds = |first: usize, last: usize| {
            copy.hold(digests[first..last].iter());
            copy.advance_to(last as i64);
        };
        std::thread::scope(|scope| {
            // A fence that read one insert, and one that read all of them.
            scope.spawn(|| holds(0, 1));
            scope.spawn(|| holds(0, 3));
            while copy.position() != Some(3) {
                let seen = copy.position().unwrap() as usize;
                assert!(digests[..seen].iter().all(|digest| copy.holds(digest)), "{seen}");
                std::thread::yield_now();
            }
            assert!(digests.iter().all(|digest| copy.holds(digest)));
        });
    }

    #[test]
    fn all_copies_of_a_process_keep_within_a_limit() {
        // Beyond what other tests take meanwhile.
        const HALF: u64 = 1 << 60;
        let limit = 2 * HALF + HALF / 2;
        let first = Room::take(HALF, limit).unwrap();
        let _second = Room::take(HALF, limit).unwrap();
        assert!(Room::take(HALF, limit).is_none());
        drop(first);
        assert!(Room::take(HALF, limit).is_some());
        assert!(Room::take(u64::MAX, u64::MAX).is_none());
    }
}
