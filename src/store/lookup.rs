//! What a store is asked about ids, and what it answers.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use smallvec::SmallVec;
use tokio::time::Instant;

use crate::filter::Generation;
use crate::id::{Id, KeyedDigest};
use crate::nulls::scope::Scope;
#[cfg(feature = "redis")]
use crate::verdict::Doubt;
use crate::verdict::{Proof, Verdict};

pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An id that is looked up, with its digest if that was made before.
pub(crate) type Sought<'a> = (&'a Id, Option<KeyedDigest>);

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

/// The answer to a check, and what a null learnt later rests on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lookup {
    pub(crate) verdict: Verdict,
    /// For which requests it holds, if a null is the proof.
    pub(crate) scope: Scope,
    pub(crate) claim: NullClaim,
}

impl Lookup {
    #[cfg(feature = "redis")]
    pub(crate) fn unknown(doubt: Doubt) -> Self {
        Self::of(Verdict::Unknown(doubt), Scope::Everyone, None)
    }

    /// Leaves `asked_us` to be set.
    #[cfg(feature = "redis")]
    pub(crate) fn of(verdict: Verdict, scope: Scope, generation: Option<Generation>) -> Self {
        Self { verdict, scope, claim: NullClaim { asked_us: 0, generation } }
    }

    /// Returns the verdict for a request that only a null of this scope may refuse.
    pub(crate) fn verdict_for(&self, needed: impl FnOnce() -> Scope) -> Verdict {
        match self.verdict {
            Verdict::Absent(Proof::Null) if self.scope < needed() => Verdict::Present,
            other => other,
        }
    }
}

/// A copy of the filter holds an id. There is no value for "lacks it", so that no copy refuses by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Copied {
    /// When the build of the copied filter began.
    pub(crate) at: Instant,
    /// Whether that filter is live, or this process knows of no live one.
    pub(crate) of_live: bool,
}

/// What a null rests on: a check before the database was read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NullClaim {
    /// When it was asked, by the store's clock, µs since the Unix epoch. This process's clock may stand still, as while its machine is
    /// suspended.
    pub(crate) asked_us: i64,
    pub(crate) generation: Option<Generation>,
}

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
    /// The id was new: by what this process knew, a check would have found it absent just before. Of several inserts of one id at most
    /// one is told so, until a rebuild finds that there is no such record.
    New,
    /// The id may have been there before. The filter held it, which is a false positive as often as its rate says; or there is no
    /// filter to tell, as while one [settles](crate::Builder::settle); or the answer to a first attempt was lost.
    Perhaps,
}

/// What became of a removal that succeeded. Either is fine: requests for the id are refused at once, or
/// reach the handler, which finds nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Removed {
    /// Requests for the id are refused from now on, until it is created anew or the filter rebuilt, or, in
    /// this process, until there is no more room for it.
    Remembered,
    /// Nothing was remembered, for one of these reasons:
    ///
    /// - The id was inserted lately: within twice the sum of
    ///   [`longest_transaction`](crate::Builder::longest_transaction),
    ///   [`handler_time`](crate::NegativeCaching::handler_time) and a second. A record with this id may be there, or on its way.
    /// - The filter's data in Redis are younger than that: it started, failed over or lost them. Without Redis, this process is.
    /// - More ids were inserted within that time than the record of recent inserts holds: a million.
    /// - There is no filter, and nothing is refused anyway; or it was replaced during the call.
    /// - This process has removed too many ids: 10,000 at once, and 100 a second after that.
    Withheld,
}

impl Removed {
    /// Returns a short fixed name, fit for a metric's label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Remembered => "remembered",
            Self::Withheld => "withheld",
        }
    }
}
