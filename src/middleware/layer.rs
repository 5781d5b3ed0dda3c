//! The guard itself: layer and handle in one.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tower_layer::Layer;

use crate::decide::policy::Mode;
use crate::error::{InsertError, RebuildError, RemoveError};
use crate::extract::AsId;
use crate::guard::removed::Removed;
use crate::id::{Id, InvalidId};
use crate::middleware::rejection::NotFound;
use crate::middleware::service::BloomGuardService;
use crate::middleware::shared::Edge;
use crate::nulls::scope::Scope;
use crate::observe::metrics::Stats;
use crate::observe::state::GuardState;
use crate::rebuild::{RebuildReport, RebuildStatus, Shrinking};
use crate::verdict::Verdict;

/// How often [`BloomGuard::ready`] looks.
const READY_POLL: Duration = Duration::from_millis(10);

/// How many ids one question to the store carries at most.
const BATCH: usize = 1024;

/// A guard against requests for records that do not exist.
///
/// It is the [`Layer`] that goes in front of the handlers, and the handle by which the application
/// tells of the records it creates and deletes. It is cheap to clone; all clones, and all services made
/// from them, share one state. `R` makes the responses to refused requests.
///
/// Dropping the future of any of these methods is safe. An insert so dropped is not acknowledged.
///
/// # Panics
///
/// Its methods that wait, and services made from it, panic outside of a Tokio runtime with IO and time.
pub struct BloomGuard<R = NotFound> {
    edge: Arc<Edge>,
    rejection: Arc<R>,
}

impl<R> BloomGuard<R> {
    pub(crate) const fn new(edge: Arc<Edge>, rejection: Arc<R>) -> Self {
        Self { edge, rejection }
    }

    /// Returns what is known of an id, as a GET with credentials would find it: a 404 that some caller was
    /// answered refuses here only if it holds for all.
    ///
    /// # Errors
    ///
    /// The reason why the value is no id. A request for it would be refused as invalid.
    pub async fn check(&self, id: &(impl AsId + ?Sized)) -> Result<Verdict, InvalidId> {
        let id = self.canonical(id)?;
        self.edge.start();
        Ok(self.edge.core.check(&id).answer().await.verdict_for(Scope::ALL))
    }

    /// Adds an id to the filter. To be called **before** the transaction that creates the record
    /// commits, and the record must not be committed unless this succeeds: in the other order there is
    /// a moment at which the record exists and is refused.
    ///
    /// A record that is never committed costs one false positive until the next rebuild. Inserting an
    /// id again does no harm.
    ///
    /// # Errors
    ///
    /// [`InsertError::Invalid`] when every check would refuse the id, [`InsertError::Store`] when the
    /// store did not acknowledge it. Try again, or let the creation fail.
    pub async fn insert(&self, id: &(impl AsId + ?Sized)) -> Result<(), InsertError> {
        let id = self.canonical(id)?;
        self.edge.start();
        self.edge.core.insert(vec![id]).await
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
    pub async fn insert_many<I>(&self, ids: I) -> Result<(), InsertError>
    where
        I: IntoIterator<Item: AsId>,
    {
        self.edge.start();
        let mut batch = Vec::new();
        for id in ids {
            batch.push(self.canonical(&id)?);
            if batch.len() == BATCH {
                self.edge.core.insert(std::mem::take(&mut batch)).await?;
            }
        }
        if batch.is_empty() { Ok(()) } else { self.edge.core.insert(batch).await }
    }

    /// Remembers for a while that an id was deleted, so that requests for it are refused at once. To be
    /// called after the deletion has committed, and soon after: within the time that
    /// [`longest_transaction`](crate::Builder::longest_transaction) states.
    ///
    /// Remembers nothing when the id was inserted lately, within the last 31 minutes by default, as a
    /// record with this id may be there again or on its way; nor in the first 31 minutes of the
    /// filter's data in Redis (without it, of this process), because nobody knows what was inserted
    /// before; nor when there is no filter. The filter itself forgets the id with its next rebuild.
    ///
    /// # Errors
    ///
    /// [`RemoveError::Invalid`] when every check would refuse the id, [`RemoveError::Store`] when the
    /// store failed. Both are harmless: requests for the id reach the handler and find nothing.
    pub async fn remove(&self, id: &(impl AsId + ?Sized)) -> Result<Removed, RemoveError> {
        let id = self.canonical(id)?;
        self.edge.start();
        Ok(self.edge.core.remove(&id).await?)
    }

    /// Switches this process between enforcing, watching and standing aside, from the next request on.
    pub fn set_mode(&self, mode: Mode) {
        self.edge.core.gate().set_mode(mode);
    }

    /// Returns whether this process acts on what it finds.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.edge.core.gate().mode()
    }

    /// Returns what this process has counted since the guard was built.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.edge.core.metrics().stats()
    }

    /// Returns the guard's condition as this process knows it, asking nobody.
    #[must_use]
    pub fn state(&self) -> GuardState {
        let failed = self.edge.rebuilder.last_failure();
        GuardState::new(self.edge.core.condition(), self.mode(), failed)
    }

    /// Waits until there is a filter that can prove ids absent. Nothing has to wait for this: until
    /// then requests pass unchecked. Without a source in any process there never is one: see
    /// [`Builder::rebuild`](crate::Builder::rebuild). It waits for as long as Redis or the source are
    /// away, so bound it, with `tokio::time::timeout` say.
    pub async fn ready(&self) {
        self.edge.start();
        while !self.state().is_ready() {
            // The survey lets checks know of a filter that another process built.
            if self.edge.core.survey().await.is_err() || !self.state().is_ready() {
                tokio::time::sleep(READY_POLL).await;
            }
        }
    }

    /// Rebuilds the filter now, whatever the schedule says; after the rebuild that this process is at,
    /// if there is one.
    ///
    /// # Errors
    ///
    /// Why no new filter went live; the one that was live still is. In particular
    /// [`RebuildError::Busy`] when another process is rebuilding, [`RebuildError::TooLong`] after
    /// [`longest_rebuild`](crate::Builder::longest_rebuild),
    /// [`RebuildError::Shrunk`] and [`RebuildError::Empty`] when the source gave suspiciously few ids.
    pub async fn rebuild_now(&self) -> Result<RebuildReport, Arc<RebuildError>> {
        self.edge.rebuild(Shrinking::Refused).await
    }

    /// Rebuilds the filter now, and takes it even if it has far fewer ids than the one before, or none:
    /// after a purge, or for a table that is empty to begin with. Until one of these or the first row,
    /// an empty table has no filter.
    ///
    /// # Errors
    ///
    /// Why no new filter went live; the one that was live still is.
    pub async fn rebuild_accepting_loss(&self) -> Result<RebuildReport, Arc<RebuildError>> {
        self.edge.rebuild(Shrinking::Accepted).await
    }

    /// Returns how far a rebuild in this process is, and how the last one ended.
    #[must_use]
    pub fn rebuild_status(&self) -> RebuildStatus {
        self.edge.rebuilder.status()
    }

    pub(crate) const fn edge(&self) -> &Arc<Edge> {
        &self.edge
    }

    pub(crate) const fn rejection(&self) -> &Arc<R> {
        &self.rejection
    }

    fn canonical(&self, id: &(impl AsId + ?Sized)) -> Result<Id, InvalidId> {
        id.as_id(&*self.edge.extractor)
    }
}

impl<R> Clone for BloomGuard<R> {
    fn clone(&self) -> Self {
        Self { edge: Arc::clone(&self.edge), rejection: Arc::clone(&self.rejection) }
    }
}

impl<R> fmt::Debug for BloomGuard<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BloomGuard").field("edge", &self.edge).finish_non_exhaustive()
    }
}

impl<S, R> Layer<S> for BloomGuard<R> {
    type Service = BloomGuardService<S, R>;

    fn layer(&self, inner: S) -> Self::Service {
        BloomGuardService::new(inner, self.clone())
    }
}
