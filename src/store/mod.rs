//! Where filters, journal and nulls live.
//!
//! The seam between the guard and its stores. It is private. [`Store`] answers requests, [`Build`] runs the steps of one rebuild,
//! [`BuildPart`] those that each of its filters takes. The stores in this process and in Redis run the same protocol; the third
//! has filters that other systems write.

#[cfg(feature = "redis")]
pub(crate) mod foreign;
pub(crate) mod journal_room;
#[cfg(feature = "redis")]
pub(crate) mod link;
#[cfg(feature = "redis")]
pub(crate) mod map;
pub(crate) mod memory;
#[cfg(feature = "redis")]
pub(crate) mod redis;
pub(crate) mod scan;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tokio::time::Instant;

use crate::error::{FleetError, StoreError};
use crate::filter::{Generation, Sizing};
use crate::id::{Digest, Id, KeyedDigest};
use crate::mode::{Mode, SharedMode};
use crate::nulls::scope::Scope;
use crate::random;
use crate::refusal::Refusal;
use crate::verdict::{Doubt, Proof, Verdict};

pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An answer that is there, or one that has to be waited for.
pub(crate) enum Answer<T> {
    Ready(T),
    Pending(BoxFuture<'static, T>),
}

/// What was said of each of several ids, in their order.
pub(crate) type Lookups = SmallVec<[Lookup; 1]>;

impl Answer<Lookups> {
    /// Answers for several ids at once: those that were asked for are waited for, and the others are unknown.
    #[cfg(feature = "redis")]
    pub(crate) fn to_all<T, F>(
        asked: impl Iterator<Item = Result<T, Doubt>>,
        answer: impl Fn(T) -> F + Send + 'static,
    ) -> Self
    where
        T: Send + 'static,
        F: Future<Output = Lookup> + Send,
    {
        let asked: SmallVec<[Result<T, Doubt>; 1]> = asked.collect();
        let unknown = |asked: &Result<T, Doubt>| asked.as_ref().err().copied().map(Lookup::unknown);
        if let Some(lookups) = asked.iter().map(unknown).collect() {
            return Self::Ready(lookups);
        }
        Self::Pending(Box::pin(async move {
            let mut lookups = Lookups::with_capacity(asked.len());
            for asked in asked {
                lookups.push(match asked {
                    Ok(asked) => answer(asked).await,
                    Err(doubt) => Lookup::unknown(doubt),
                });
            }
            lookups
        }))
    }
}

impl<T: 'static> Answer<T> {
    /// Waits for the answer.
    pub(crate) async fn answer(self) -> T {
        match self {
            Self::Ready(answer) => answer,
            Self::Pending(future) => future.await,
        }
    }

    /// Applies a function to the answer, now or when it comes.
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
        Self {
            verdict: Verdict::Unknown(doubt),
            scope: Scope::Everyone,
            claim: NullClaim { asked_us: 0, generation: None },
        }
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

/// The filter that answers, whatever it is made of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Live {
    pub(crate) generation: Generation,
    /// How many ids it held when it went live.
    pub(crate) items: u64,
    pub(crate) capacity: u64,
    /// The false-positive rate it was sized for.
    pub(crate) rate: f32,
    /// The rate to expect with `items` ids.
    pub(crate) expected_rate: f64,
    /// What it takes in the store.
    pub(crate) bytes: u64,
}

impl Live {
    /// Returns two filters as one, as old as the older.
    pub(crate) fn with(self, other: Self) -> Self {
        let items = self.items + other.items;
        let part = |live: &Self| live.expected_rate * live.capacity as f64;
        let capacity = self.capacity + other.capacity;
        Self {
            generation: self.generation.min(other.generation),
            items,
            capacity,
            rate: self.rate.max(other.rate),
            expected_rate: (part(&self) + part(&other)) / capacity as f64,
            bytes: self.bytes + other.bytes,
        }
    }
}

/// What this process knows of a store at one moment, without asking anybody.
#[derive(Debug, Clone)]
pub(crate) struct Condition {
    /// The live filter as last seen, or why there is none to trust.
    pub(crate) live: Result<Live, Doubt>,
    /// How many shards are live, of how many; nothing where there is only one.
    pub(crate) shards: Option<(u64, u64)>,
    /// This process's copy of a filter, if there is one.
    pub(crate) copy: Option<CopyCondition>,
    /// For how long the filter still settles, zero if it waits for a rebuild; nothing once it has.
    pub(crate) settling: Option<Duration>,
    /// How far back the journal reaches, as read within the last seconds; nothing where that is not known.
    pub(crate) journal: Option<JournalReach>,
    /// What is wrong, in words, when something is.
    pub(crate) trouble: Option<String>,
}

/// This process's copy of a filter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CopyCondition {
    /// Which filter it was read from.
    pub(crate) generation: Generation,
    pub(crate) bytes: u64,
    /// When the build of that filter began.
    pub(crate) built: Instant,
    /// When it began to be read.
    pub(crate) read: Instant,
}

/// What a store answers when it is asked how it stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Survey {
    /// The live filter, also one that is disproved twice and no more due than others; or why there is none to trust.
    pub(crate) live: Result<Live, Doubt>,
    /// The store's clock, µs since the Unix epoch.
    pub(crate) now_us: i64,
    /// Since when one is due, by that clock, whatever the schedule says: the time to settle is over, or somebody asked for it.
    /// A filter whose build began later is what was due.
    pub(crate) due_us: Option<i64>,
}

impl Survey {
    /// Returns what a store answers. What was due and is there by now is due no more: here alone both are of one clock.
    pub(crate) fn new(live: Result<Live, Doubt>, now_us: i64, due_us: Option<i64>) -> Self {
        let is_due = |us: &i64| live.as_ref().map_or(true, |live| live.generation.get() <= *us);
        let due_us = due_us.filter(is_due);
        Self { live, now_us, due_us }
    }
}

/// What an operator does to all processes of a filter at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FleetChange {
    /// All act so from now on.
    Mode(Mode),
    /// All enforce, and the filter has settled: if the metadata and the mode are still those that were seen then, and the live
    /// filter's rebuild began after the fleet was seen again.
    Enforce { seen: FleetView, after: FleetView },
    /// A process that has a source rebuilds the filter.
    Rebuild,
}

/// How all processes of a filter stand: what a change of them begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FleetView {
    /// What those of each shard say.
    pub(crate) metadata: Vec<SeenMetadata>,
    /// The longest transaction that any process states.
    pub(crate) longest_transaction: Duration,
}

/// What a filter's metadata say of its processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SeenMetadata {
    /// Which life of them it is: another Redis process may have lost a mode.
    pub(crate) incarnation: Vec<u8>,
    /// The number of the mode; 0 if none was ever set.
    pub(crate) mode_number: i64,
    /// What the store's clock showed then, µs. That of another shard's may show something else.
    pub(crate) now_us: i64,
}

impl FleetView {
    /// Whether a mode was set within so long before. What is beyond the store's clock was set before that was set back.
    pub(crate) fn was_set_within(&self, lately: Duration) -> bool {
        let lately_us = lately.as_micros() as u64;
        let mut metadata = self.metadata.iter();
        metadata.any(|of| {
            (of.now_us.saturating_sub_unsigned(lately_us)..=of.now_us).contains(&of.mode_number)
        })
    }
}

/// How far back the journal reaches, and how far it must.
///
/// A rebuild that needs inserts from before fails with [`StoreError::JournalGap`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(serde::Serialize))]
#[non_exhaustive]
pub struct JournalReach {
    /// For how long back it holds every insert; none while it holds all there ever were.
    pub reaches: Option<Duration>,
    /// For how long back a rebuild that begins now reads it: over the longest transaction that any process has
    /// stated, with some to spare. The longer the rebuild takes, the farther back it must still reach.
    pub required: Duration,
}

impl JournalReach {
    /// Whether a rebuild that begins now would fail.
    #[must_use]
    pub fn is_too_short(&self) -> bool {
        self.reaches.is_some_and(|reaches| reaches < self.required)
    }
}

impl fmt::Display for JournalReach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let required = self.required.as_secs();
        match self.reaches {
            Some(reaches) => {
                write!(f, "reaches back {} s, must reach back {required} s", reaches.as_secs())
            }
            None => write!(f, "holds every insert, must reach back {required} s"),
        }
    }
}

/// An id that is looked up, with its digest if that was made before.
pub(crate) type Sought<'a> = (&'a Id, Option<KeyedDigest>);

/// What answers requests.
pub(crate) trait Store: Send + Sync + 'static {
    /// Starts what runs in the background, once; needs a Tokio runtime.
    fn start(&self);

    /// Says whether this process's copy of the filter holds an id, where there is a copy; returns also the digest that it took.
    fn copied(&self, _id: &Id) -> (Option<KeyedDigest>, Option<Copied>) {
        (None, None)
    }

    /// The digest of an id, by which the log and Redis name it; none where there is no key, or not yet.
    fn digest(&self, _id: &Id) -> Option<Digest> {
        None
    }

    /// What is known of each of these ids, asked for together at this moment. One alone need not wait for a batch.
    fn check(&self, ids: &[Sought<'_>], now: Instant) -> Answer<Lookups>;

    /// Acknowledges ids in every filter that needs them.
    fn add(&self, ids: Vec<Id>) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Remembers that an id was missing, unless a create of it can have begun since.
    fn remember(&self, id: &Id, null: NewNull) -> Answer<Remembered>;

    /// Remembers that an id was deleted, under the same rule.
    fn remove(&self, id: &Id, ttl: Duration) -> BoxFuture<'_, Result<Remembered, StoreError>>;

    /// Puts the live filter of an id out of use for everybody, if it is still of this generation: the id
    /// exists and was found missing from it. One that took the place of a disproved filter stays in use until a second id is
    /// found missing: another rebuild at once would miss both again.
    fn distrust(
        &self,
        id: &Id,
        generation: Generation,
    ) -> BoxFuture<'_, Result<Distrusted, StoreError>>;

    /// Whether other processes may have the filter, too.
    fn is_shared(&self) -> bool {
        true
    }

    /// What this process knows of the store.
    fn condition(&self) -> Condition;

    /// Asks how the store stands, in one round trip.
    fn survey(&self) -> BoxFuture<'_, Result<Survey, StoreError>>;

    /// Asks how the filter's processes stand, where they have a mode in common. Fails where not all that know can say.
    fn view_fleet(&self) -> BoxFuture<'_, Result<Option<FleetView>, StoreError>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Returns the mode that all processes of the filter share, as it changes.
    fn fleet_mode(&self) -> Arc<SharedMode>;

    /// Changes how all processes act. Nothing was changed where it was overtaken: the mode was set by another call, the
    /// metadata are others, or an older filter is live.
    fn change_fleet(&self, change: FleetChange) -> BoxFuture<'_, Result<(), FleetError>>;

    /// *Lease* and *mark*: takes the lease and a token, and notes where the journal stands. A store of several filters
    /// rebuilds those that are not trusted, and those whose build began before this moment of the store's clock, µs.
    fn begin(&self, before_us: i64) -> BoxFuture<'_, Result<Begun, StoreError>>;
}

/// Asks what is known of one id, now.
pub(crate) async fn look_up(store: &dyn Store, id: &Id) -> Lookup {
    let lookups = store.check(&[(id, None)], Instant::now()).answer().await;
    lookups[0]
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

/// The result of trying to begin a rebuild.
pub(crate) enum Begun {
    /// This process rebuilds.
    Leased(Box<dyn Build>),
    /// Another rebuild holds the lease.
    Busy,
}

/// One rebuild under way. Each step is safe to be the last: the live filter stays as it is until
/// [`swap`](BuildPart::swap).
pub(crate) trait Build: Send {
    /// How many ids the filter was built from that is there as the rebuild begins, in use or not.
    fn previous(&self) -> Option<u64>;

    /// Keeps the lease for as long as it is polled. A failure is harmless: the lease only saves work.
    fn keep_lease(&self) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }

    /// Notes in the store what the source reads. Returns what is noted there if that is something else, unless a loss is
    /// accepted.
    fn identify<'a>(
        &'a mut self,
        _source: &'a str,
        _accepts_loss: bool,
    ) -> BoxFuture<'a, Result<Option<String>, StoreError>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// *Scan*: makes room for ids, and returns for how many; what an earlier scan gave is forgotten. Fails if the store would have
    /// no room for a filter of that size.
    fn prepare(&mut self, sizing: Sizing) -> BoxFuture<'_, Result<u64, StoreError>>;

    /// Takes ids of the source out of there. Lets other tasks run, and waits while it is behind. The wait may be given up: the
    /// ids are taken by then, or are still there.
    fn write<'a>(&'a mut self, ids: &'a mut Vec<Id>) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Ends the scan, and returns the filters that it was for, and why others that were due are not built.
    fn parts(&mut self) -> BoxFuture<'_, Result<Parts<'_>, StoreError>>;

    /// Gives the lease back, whatever became of the rebuild, and frees what is not live.
    fn release(&mut self) -> BoxFuture<'_, ()>;
}

/// The filters of a rebuild, each of which takes the further steps by itself; and why others are left out.
pub(crate) type Parts<'a> = (Vec<&'a mut dyn BuildPart>, Vec<StoreError>);

/// One filter of a rebuild.
pub(crate) trait BuildPart: Send {
    /// *Journal*: takes in the journal from `overlap` before *mark* until now, so that only its tail is left to replay;
    /// returns how many ids it held.
    fn read_journal(&mut self) -> BoxFuture<'_, Result<u64, StoreError>>;

    /// *Allocate*: resets and allocates the building filter in the loading state; returns how many bytes are to be uploaded.
    fn allocate(&mut self) -> BoxFuture<'_, Result<u64, StoreError>>;

    /// *Upload*: uploads what was taken in.
    fn upload<'a>(
        &'a mut self,
        progress: &'a (dyn Fn(u64) + Send + Sync),
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// *Catch up*: from here on adds go to both filters.
    fn catch_up(&mut self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// *Replay*: replays the journal's tail; returns how many ids it held.
    fn replay(&mut self) -> BoxFuture<'_, Result<u64, StoreError>>;

    /// *Verify*: proves that the building filter holds what it should.
    fn verify(&mut self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// *Swap* and *confirm*: puts the building filter in the live one's place; returns what is live then.
    fn swap(&mut self) -> BoxFuture<'_, Result<Live, StoreError>>;
}

/// Draws random bytes.
pub(crate) fn random_bytes<const N: usize>() -> Result<[u8; N], StoreError> {
    random::bytes().map_err(|error| StoreError::Refused {
        doubt: Doubt::Refused(Refusal::OTHER),
        reason: format!("the system's random source: {error}"),
    })
}
