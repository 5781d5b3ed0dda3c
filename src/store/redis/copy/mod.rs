//! A copy of the live filter in this process: requests for what it holds ask nobody.
//!
//! It is a hint. "Present" may come from any copy, however old, since a request that passes is never wrong; only Redis says
//! "absent". What others insert after the copy was read is absent in it, and is asked of Redis once. `load` reads it.

mod load;

use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use tokio::time::Instant;

use crate::filter::{Filter, Header, Membership};
use crate::id::{Digest, Digester, Id, KeyedDigest};
use crate::store::{Copied, CopyCondition};

pub(crate) struct Copies {
    /// How many bytes the copies of all guards of this process may take.
    limit: u64,
    current: ArcSwapOption<FilterCopy>,
}

struct FilterCopy {
    /// That of the filter it was read from.
    header: Header,
    digester: Digester,
    filter: Filter,
    /// When the build of that filter began: what was learnt of an id since may be missing in it.
    built: Instant,
    /// When it began to be read.
    read: Instant,
    room: Room,
}

impl Copies {
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit, current: ArcSwapOption::empty() }
    }

    pub(crate) const fn are_wanted(&self) -> bool {
        self.limit > 0
    }

    /// Puts ids into the copy, if it is of such a filter.
    pub(crate) fn hold<'a>(
        &self,
        is_of: impl Fn(&Header) -> bool,
        digests: impl Iterator<Item = &'a Digest>,
    ) {
        let current = self.current.load();
        let Some(copy) = current.as_ref().filter(|copy| is_of(&copy.header)) else { return };
        for digest in digests {
            // To read is cheaper, and most are there.
            if copy.filter.lookup(digest) == Membership::Never {
                copy.filter.insert(digest);
            }
        }
    }

    /// Says whether the copy holds an id, where the filter with this header is live, or none is; returns also the digest that
    /// it took.
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

    pub(crate) fn condition(&self) -> Option<CopyCondition> {
        let copy = self.current.load_full()?;
        Some(CopyCondition {
            generation: copy.header.generation,
            bytes: copy.room.0,
            built: copy.built,
            read: copy.read,
        })
    }
}

/// What the copies of all guards of this process take together.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// Room for one copy, given back when it is dropped.
struct Room(u64);

impl Room {
    /// Takes room for so many bytes, if all copies of this process stay within a limit.
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
mod tests {
    use std::sync::Arc;
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

    /// A copy of the first generation that holds id 1.
    fn copies() -> (Copies, Digester) {
        let digester = Digester::new(&SecretKey::new([7; 16]), "users");
        let header = header(1);
        let filter = Filter::new(header.geometry);
        filter.insert(&digester.digest(&id(1)));
        let copies = Copies::new(u64::MAX);
        let copy = FilterCopy {
            header,
            digester: digester.clone(),
            filter,
            built: Instant::now(),
            read: Instant::now(),
            room: Room::take(0, u64::MAX).unwrap(),
        };
        copies.current.store(Some(Arc::new(copy)));
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
    async fn a_copy_takes_in_ids_of_its_own_filter_and_of_no_other() {
        let (copies, digester) = copies();
        let digest = digester.digest(&id(2));
        copies.hold(|of| of.is_same_build(&header(2)), [&digest].into_iter());
        assert_eq!(copies.copied(&id(2), None, None).1, None);
        copies.hold(|of| of.is_same_build(&header(1)), [&digest].into_iter());
        assert!(copies.copied(&id(2), None, None).1.is_some());
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
