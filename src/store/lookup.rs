//! What a store is asked about ids, and what it answers.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use smallvec::SmallVec;
use tokio::time::Instant;

use crate::filter::Generation;
use crate::id::{Digest, Id, KeyedDigest};
use crate::nulls::scope::Scope;
#[cfg(feature = "redis")]
use crate::verdict::Doubt;
use crate::verdict::{Proof, Verdict};

pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An id that is looked up, with its digest if that was made before.
pub(crate) type Sought<'a> = (&'a Id, Option<KeyedDigest>);

/// An answer that is there, or one that has to be waited for.
pub(crate) enum Answer<T> {
    Ready(T),
    Pending(BoxFuture<'static, T>),
}

/// What was said of each of several ids, in their order.
pub(crate) type Lookups = SmallVec<[Lookup; 1]>;

impl<T: 'static> Answer<T> {
    pub(crate) async fn answer(self) -> T {
        match self {
            Self::Ready(answer) => answer,
            Self::Pending(future) => future.await,
        }
    }

    pub(crate) fn map<U>(self, f: impl FnOnce(T) -> U + Send + 'static) -> Answer<U> {
        match self {
            Self::Ready(answer) => Answer::Ready(f(answer)),
            Self::Pending(future) => Answer::Pending(Box::pin(async move { f(future.await) })),
        }
    }
}

/// The answer to a check, and what is needed to remember a null for it later.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lookup {
    pub(crate) verdict: Verdict,
    /// For which requests it holds, where a null is the proof; otherwise for all.
    pub(crate) scope: Scope,
    pub(crate) claim: NullClaim,
}

impl Lookup {
    /// Nothing can be said, and why.
    #[cfg(feature = "redis")]
    pub(crate) fn unknown(doubt: Doubt) -> Self {
        Self::of(Verdict::Unknown(doubt), Scope::Everyone, None)
    }

    /// What was said, under which generation. When it was asked for is noted later.
    #[cfg(feature = "redis")]
    pub(crate) fn of(verdict: Verdict, scope: Scope, generation: Option<Generation>) -> Self {
        Self { verdict, scope, claim: NullClaim { asked_us: 0, generation } }
    }

    /// What it says to a request that only a null of this scope may refuse. It matters where the proof is a null.
    pub(crate) fn verdict_for(&self, needed: impl FnOnce() -> Scope) -> Verdict {
        match self.verdict {
            Verdict::Absent(Proof::Null) if !self.scope.covers(needed()) => Verdict::Present,
            other => other,
        }
    }
}

/// What a copy of the filter says of an id: that it holds it. There is nothing else that it can say, so that nothing
/// is refused for a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Copied {
    /// When the build of the filter began that was copied.
    pub(crate) at: Instant,
    /// Whether it is of the filter that is live, or none is that this process knows.
    pub(crate) of_live: bool,
}

/// What a null rests on: when the check was asked, before the database was read, and under which
/// generation of the filter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NullClaim {
    /// By the store's clock, µs since the Unix epoch, as read before then. This process's clock may stand still
    /// meanwhile, as while its machine is suspended.
    pub(crate) asked_us: i64,
    pub(crate) generation: Option<Generation>,
}

/// A null that is to be remembered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewNull {
    pub(crate) claim: NullClaim,
    pub(crate) scope: Scope,
    pub(crate) ttl: Duration,
}

/// What an [insert](crate::BloomGuard::insert) shows of its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Inserted {
    /// The id was new: a check would have found it absent just before. Of several inserts of one id at most one is told so, until
    /// a rebuild finds that there is no such record.
    New,
    /// The id may have been there before. The filter held it, which is a false positive as often as its rate says; or there is no
    /// filter to tell, as while one [settles](crate::Builder::settle); or the answer to a first attempt was lost.
    Perhaps,
}

/// What became of a null that was to be remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Remembered {
    /// It is stored.
    Stored,
    /// A create of the id may have begun since the database was read: nothing was stored.
    Created,
    /// The request took too long, or no filter is live: nothing was stored.
    Late,
    /// The store did not do it.
    Failed,
}

/// What became of a filter from which an id that exists was found missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Distrusted {
    /// It is another one by now, is out of use already, or took a disproved one's place and lacks only this id.
    Stays,
    /// It is out of use, and a rebuild is due at once.
    Disproved,
    /// It had taken a disproved one's place, and lacks the id with this digest, too: it is out of use until a rebuild by schedule
    /// or by hand.
    DisprovedTwice(Digest),
}
