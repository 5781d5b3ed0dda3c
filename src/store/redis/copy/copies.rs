//! The copy that a process has, and what it says of an id.

use arc_swap::ArcSwapOption;
use tokio::time::Instant;

use super::room::Room;
use crate::filter::{Filter, Header, Membership};
use crate::id::{Digest, Digester, Id, KeyedDigest};
use crate::store::{Copied, CopyCondition};

/// The copy that this process has of the live filter, or of one before.
pub(crate) struct Copies {
    /// How many bytes the copies of all guards of this process may take.
    pub(super) limit: u64,
    pub(super) current: ArcSwapOption<FilterCopy>,
}

pub(super) struct FilterCopy {
    /// That of the filter it was read from.
    pub(super) header: Header,
    pub(super) digester: Digester,
    pub(super) filter: Filter,
    /// When the build of that filter began: what was learnt of an id since may be missing in it.
    pub(super) built: Instant,
    /// When it began to be read.
    pub(super) read: Instant,
    pub(super) room: Room,
}

impl Copies {
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit, current: ArcSwapOption::empty() }
    }

    /// Whether any filter may be copied.
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
        let generation = copy.header.generation;
        let (built, read) = (copy.built, copy.read);
        Some(CopyCondition { generation, bytes: copy.room.bytes(), built, read })
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
        let (header, room) = (header(1), Room::take(0, u64::MAX).unwrap());
        let filter = Filter::new(header.geometry);
        filter.insert(&digester.digest(&id(1)));
        let (copies, built) = (Copies::new(u64::MAX), Instant::now());
        let (digester_of, read) = (digester.clone(), built);
        let copy = FilterCopy { header, digester: digester_of, filter, built, read, room };
        copies.current.store(Some(Arc::new(copy)));
        (copies, digester)
    }

    #[tokio::test(start_paused = true)]
    async fn while_another_filter_is_live_a_copy_is_not_of_the_live_one() {
        let ((copies, _), at) = (copies(), Instant::now());
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
}
