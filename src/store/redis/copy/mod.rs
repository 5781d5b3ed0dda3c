//! A copy of the live filter in this process: requests for what it holds ask nobody.
//!
//! It is a hint. "Present" may come from any copy, however old, since a request that passes is never wrong; only Redis says
//! "absent". What others insert after the copy was read is absent in it, and is asked of Redis once.
//!
//! | file | what |
//! |---|---|
//! | `load` | reads it, when a filter has gone live |
//! | `room` | how much memory all copies of a process take |

mod load;
mod room;

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use tokio::time::Instant;

use self::room::Room;
use super::shard::Shard;
use crate::filter::{Filter, Header, Membership};
use crate::id::{Digest, Digester, Id};
use crate::store::{Copied, CopyCondition};

/// The copy that this process has of the live filter, or of one before.
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
    /// When it began to be read.
    at: Instant,
    room: Room,
}

impl Copies {
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit, current: ArcSwapOption::empty() }
    }

    /// Whether any filter may be copied.
    pub(crate) const fn are_wanted(&self) -> bool {
        self.limit > 0
    }

    /// Puts ids into the copy that the filter with this header holds, if it is a copy of that one.
    pub(crate) fn hold<'a>(&self, header: &Header, digests: impl Iterator<Item = &'a Digest>) {
        let current = self.current.load();
        let Some(copy) = current.as_ref().filter(|copy| copy.header.is_same_build(header)) else {
            return;
        };
        for digest in digests {
            // To read is cheaper, and most are there.
            if copy.filter.lookup(digest) == Membership::Never {
                copy.filter.insert(digest);
            }
        }
    }

    pub(crate) fn condition(&self) -> Option<CopyCondition> {
        let copy = self.current.load_full()?;
        let generation = copy.header.generation;
        Some(CopyCondition { generation, bytes: copy.room.bytes(), at: copy.at })
    }
}

impl Shard {
    /// Says whether the copy holds an id.
    pub(crate) fn copied(&self, id: &Id) -> Option<Copied> {
        let current = self.copies.current.load();
        let copy = current.as_ref()?;
        match copy.filter.lookup(&copy.digester.digest(id)) {
            Membership::Never => None,
            Membership::Possible => {
                let live: &Option<Arc<Header>> = &self.filter.load();
                let of_live = live.as_ref().is_none_or(|live| live.is_same_build(&copy.header));
                Some(Copied { at: copy.at, of_live })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ::redis::RedisResult;

    use super::*;
    use crate::filter::{Generation, Sizing};
    use crate::id::SecretKey;
    use crate::settings::Settings;
    use crate::store::BoxFuture;
    use crate::store::link::connector::Connector;
    use crate::store::link::endpoint::Endpoint;
    use crate::store::link::transport::Transport;
    use crate::store::redis::RedisStore;

    #[derive(Debug)]
    struct NoConnector;

    impl Connector for NoConnector {
        fn connect(&self) -> BoxFuture<'_, RedisResult<Arc<dyn Transport>>> {
            Box::pin(std::future::pending())
        }
    }

    fn id(n: u64) -> Id {
        Id::display(&n).unwrap()
    }

    fn header(generation: i64) -> Header {
        let sizing = Sizing::new(100, 0.001).unwrap();
        Header::new(Generation::new(generation).unwrap(), 6, &sizing, 7)
    }

    /// A store whose copy is of the first generation and holds id 1.
    fn store() -> (RedisStore, Digester) {
        let store =
            RedisStore::new(&Settings::new("users".into()), Endpoint(Arc::new(NoConnector)));
        let digester = Digester::new(&SecretKey::new([7; 16]), "users");
        let (header, room) = (header(1), Room::take(0, u64::MAX).unwrap());
        let filter = Filter::new(header.geometry);
        filter.insert(&digester.digest(&id(1)));
        let copy =
            FilterCopy { header, digester: digester.clone(), filter, at: Instant::now(), room };
        store.shard.copies.current.store(Some(Arc::new(copy)));
        (store, digester)
    }

    #[tokio::test(start_paused = true)]
    async fn while_another_filter_is_live_a_copy_is_not_of_the_live_one() {
        let (store, _) = store();
        let at = Instant::now();
        tokio::time::advance(Duration::from_secs(60)).await;
        let live = |header: Option<Header>| store.shard.filter.store(header.map(Arc::new));
        for (header, of_live) in [(None, true), (Some(header(1)), true), (Some(header(2)), false)] {
            live(header);
            assert_eq!(store.shard.copied(&id(1)), Some(Copied { at, of_live }), "{header:?}");
            assert_eq!(store.shard.copied(&id(2)), None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_copy_takes_in_ids_of_its_own_filter_and_of_no_other() {
        let (store, digester) = store();
        let digest = digester.digest(&id(2));
        store.shard.copies.hold(&header(2), [&digest].into_iter());
        assert_eq!(store.shard.copied(&id(2)), None);
        store.shard.copies.hold(&header(1), [&digest].into_iter());
        assert!(store.shard.copied(&id(2)).is_some());
    }
}
