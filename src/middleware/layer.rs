//! The guard itself: layer and handle in one.

#[cfg(feature = "redis")]
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tokio::time::Instant;

use crate::background::Background;
use crate::error::StoreError;
use crate::extract::AsId;
use crate::guard::Guard;
use crate::guard::canary::Finding;
use crate::id::{Id, InvalidId};
use crate::mode::Mode;
use crate::nulls::scope::Scope;
use crate::observe::metrics::Stats;
use crate::observe::state::GuardState;
#[cfg(feature = "redis")]
use crate::refusal::Refusal;
use crate::store::{Inserted, Removed, Sought};
use crate::verdict::Verdict;

const READY_POLL: Duration = Duration::from_millis(10);

/// How many ids are given to the store at a time: some 10 MB of them. The more they are, the more of them share a
/// block of the filter.
const BATCH: usize = 1 << 18;

/// Ids that [`BloomGuard::check_many`] asks for at once: with Redis a batch, so that all have their answers in time.
const ASKED: usize = 256;

/// A guard against requests for records that do not exist.
///
/// It is the [`Layer`](tower_layer::Layer) that goes in front of the handlers, and the handle by which the application
/// tells of the records it creates and deletes. It is cheap to clone; all clones, and all services made
/// from them, share one state. Refused requests are answered by [`NotFound`](crate::rejection::NotFound);
/// [`rejecting_with`](Self::rejecting_with) makes a layer that answers them otherwise.
///
/// Dropping the future of any of these methods is safe. An insert so dropped is not acknowledged.
///
/// # Panics
///
/// Its methods that wait, and services made from it, panic outside of a Tokio runtime with IO and time.
#[derive(Clone)]
pub struct BloomGuard {
    pub(crate) guard: Arc<Guard>,
    /// Ends with the last clone.
    pub(crate) background: Arc<Background>,
}

impl BloomGuard {
    pub(crate) fn new(guard: Guard) -> Self {
        Self { guard: Arc::new(guard), background: Arc::default() }
    }

    /// Starts what runs in the background, at the first use inside a runtime; returns what decides.
    pub(crate) fn start(&self) -> &Arc<Guard> {
        self.background.start(|tasks| self.guard.spawn(tasks));
        &self.guard
    }

    /// Returns the layer that answers refused requests by this [`Rejection`](crate::rejection::Rejection).
    #[must_use]
    pub fn rejecting_with<R>(&self, rejection: R) -> RejectingLayer<R> {
        RejectingLayer { guard: self.clone(), rejection: Arc::new(rejection) }
    }

    /// Returns what is known of an id, as a GET with credentials would find it: a 404 that some caller was
    /// answered refuses here only if it holds for all. Redis is asked also of ids that were found lately or are in the copy. The [mode](Self::mode) has no say in it: an application that refuses
    /// by the verdict does so only in [`Mode::Enforce`].
    ///
    /// # Errors
    ///
    /// The reason why the value is no id. A request for it would be refused as invalid.
    pub async fn check(&self, id: &(impl AsId + ?Sized)) -> Result<Verdict, InvalidId> {
        Ok(self.verdicts(&[self.canonical(id)?]).await[0])
    }

    /// Returns what is known of each of these ids, in their order. All are asked for at once: with Redis this is a
    /// round trip for every 256 of them, or [a fence](crate::guide::attackers#the-copy) for those that the copy lacks.
    ///
    /// # Errors
    ///
    /// The reason why the first value that is no id is none. Nothing was asked then.
    pub async fn check_many<I>(&self, ids: I) -> Result<Vec<Verdict>, InvalidId>
    where
        I: IntoIterator<Item: AsId>,
    {
        let ids = ids.into_iter().map(|id| self.canonical(&id)).collect::<Result<Vec<_>, _>>()?;
        let mut verdicts = Vec::with_capacity(ids.len());
        for ids in ids.chunks(ASKED) {
            verdicts.extend(self.verdicts(ids).await);
        }
        Ok(verdicts)
    }

    async fn verdicts(&self, ids: &[Id]) -> SmallVec<[Verdict; 1]> {
        let guard = self.start();
        let now = Instant::now();
        let sought: SmallVec<[Sought<'_>; 1]> = ids.iter().map(|id| (id, None)).collect();
        let lookups = guard.store.check(&sought, now).answer().await;
        lookups.iter().map(|lookup| guard.heed(lookup, now, || Scope::Everyone)).collect()
    }

    /// Adds an id to the filter. To be called **before** the transaction that creates the record
    /// commits, and the record must not be committed unless this succeeds: in the other order there is
    /// a moment at which the record exists and is refused.
    ///
    /// A record that is never committed costs one false positive until the next rebuild. Inserting an
    /// id again does no harm. What it [returns](Inserted) says whether the id is new, as far as the filter
    /// knows; that is no substitute for the database's unique index.
    ///
    /// # Errors
    ///
    /// [`StoreError::InvalidId`] when every check would refuse the id, another one when the
    /// store did not acknowledge it. Try again, or let the creation fail.
    pub async fn insert(&self, id: &(impl AsId + ?Sized)) -> Result<Inserted, StoreError> {
        let id = self.canonical(id)?;
        self.start().insert(vec![id]).await
    }

    /// Adds many ids to the filter, in batches. What [`insert`](Self::insert) says holds for each.
    ///
    /// [`longest_transaction`](crate::Builder::longest_transaction) counts from the beginning of this
    /// call, for all its ids, and so includes the time that the iterator takes. Split a large import
    /// into several calls, each with its own transaction.
    ///
    /// # Errors
    ///
    /// As for [`insert`](Self::insert). Some of the ids may have been added then, which does no harm;
    /// none counts as acknowledged.
    pub async fn insert_many<I>(&self, ids: I) -> Result<(), StoreError>
    where
        I: IntoIterator<Item: AsId>,
    {
        let guard = self.start();
        let mut ids = ids.into_iter().map(|id| self.canonical(&id)).fuse();
        loop {
            let batch = ids.by_ref().take(BATCH).collect::<Result<Vec<_>, _>>()?;
            if batch.is_empty() {
                return Ok(());
            }
            guard.insert(batch).await?;
        }
    }

    /// Remembers for a while that an id was deleted, so that requests for it are refused at once. To be
    /// called after the deletion has committed, and soon after: within the time that
    /// [`longest_transaction`](crate::Builder::longest_transaction) states.
    ///
    /// The filter itself forgets the id with its next rebuild. [`Removed::Withheld`] says when nothing is remembered.
    ///
    /// # Errors
    ///
    /// [`StoreError::InvalidId`] when every check would refuse the id, another one when the
    /// store failed. Both are harmless: requests for the id reach the handler and find nothing.
    pub async fn remove(&self, id: &(impl AsId + ?Sized)) -> Result<Removed, StoreError> {
        let id = self.canonical(id)?;
        self.start().remove(&id).await
    }

    /// Waits for the next record that exists although this guard held it absent, and takes it. Each goes to
    /// one caller. Up to 1,024 are kept until they are taken. See [`Finding`] for an example.
    ///
    /// The id has been inserted meanwhile. What is left to do is to find out why it was missing: it was
    /// created without [`insert`](Self::insert), or the source does not give it.
    pub async fn next_finding(&self) -> Finding {
        self.start().findings.next().await
    }

    /// Switches this process between enforcing, watching and standing aside, from the next request on. It works without Redis,
    /// too. A milder mode of [all processes](Self::set_fleet_mode) counts.
    pub fn set_mode(&self, mode: Mode) {
        self.guard.gate.own_mode.change(mode);
    }

    /// Returns whether this process acts on what it finds: the milder of its own mode and that of all processes.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.guard.gate.mode()
    }

    /// Returns what this process has counted since the guard was built.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.guard.metrics.stats()
    }

    /// Returns how the guard fares, as this process knows it. Asks nobody and waits for nothing, so it may be
    /// called as often as is liked.
    #[must_use]
    pub fn state(&self) -> GuardState {
        self.start().state()
    }

    /// Waits until there is a filter that answers, also one that still [settles](crate::Builder::settle) and refuses
    /// nothing. Nothing has to wait for this: until then requests pass unchecked, or share the lane. Without a source in any process there never is one: see
    /// [`Builder::rebuild`](crate::Builder::rebuild). It waits for as long as Redis or the source are
    /// away, so bound it, with `tokio::time::timeout` say.
    pub async fn ready(&self) {
        while !self.state().is_ready() {
            self.guard.metrics.probe(&self.guard.store).await;
            if !self.state().is_ready() {
                tokio::time::sleep(READY_POLL).await;
            }
        }
    }

    fn canonical(&self, id: &(impl AsId + ?Sized)) -> Result<Id, InvalidId> {
        id.as_id(&*self.guard.extractor)
    }
}

/// Of other systems' filters, with the crate feature `redis`.
#[cfg(feature = "redis")]
impl BloomGuard {
    /// States that [another system's filter](crate::Builder::foreign) holds every id there is, and so that an id which it lacks
    /// does not exist. The statement is kept in Redis beside the filter, and holds for all processes and restarts of the service.
    ///
    /// `known` are ids that exist, some of the oldest and some of the newest, in the form in which requests name them: a hundred of
    /// each, say. All must be in the filter. They show that layout, numbers and the form of ids are those of the programs that
    /// write it. Enough are needed that under wrong numbers all would be in it once in 10⁹ filters: five at a rate of 1 %.
    ///
    /// To be called by hand: once, when the guard is put in front of the filter, and again after whatever ended trust, as
    /// a failover or a lost key; first have the other system write again what may be missing. Not with every start, and by no timer.
    /// [`state`](Self::state) says afterwards how many ids the filter has: compare that with the database.
    ///
    /// # Errors
    ///
    /// [`Refusal::UNFIT`] says what does not fit, and what to compare. What was stated before stays. Of a filter that is spread over
    /// several Redis servers, some parts may be trusted.
    pub async fn trust_foreign<I>(&self, known: I) -> Result<(), StoreError>
    where
        I: IntoIterator<Item: AsId>,
    {
        let guard = self.start();
        let ids = known.into_iter().map(|id| id.as_id(&*guard.extractor));
        let ids = ids.collect::<Result<BTreeSet<Id>, _>>()?;
        let none =
            || StoreError::given_up(Refusal::UNFIT, "the guard has no filter of another system");
        guard.store.foreign().ok_or_else(none)?.trust(&ids).await
    }
}

impl fmt::Debug for BloomGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BloomGuard")
            .field("filter", &self.guard.metrics.filter)
            .finish_non_exhaustive()
    }
}

/// A [`BloomGuard`] as a layer that answers refused requests in a way of its own. Made by
/// [`BloomGuard::rejecting_with`]; shares the guard's state.
#[derive(Debug)]
pub struct RejectingLayer<R> {
    pub(super) guard: BloomGuard,
    pub(super) rejection: Arc<R>,
}

impl<R> Clone for RejectingLayer<R> {
    fn clone(&self) -> Self {
        Self { guard: self.guard.clone(), rejection: Arc::clone(&self.rejection) }
    }
}
