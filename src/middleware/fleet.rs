//! What an operator does to all processes of a filter at once: rebuilds it, and changes how they act.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing::Instrument;

use super::layer::BloomGuard;
use crate::background;
use crate::error::{RebuildError, StoreError};
use crate::mode::Mode;
use crate::rebuild::Cause;
use crate::store::{FleetChange, RebuildReport, RebuildStatus};

/// How long a rebuild of another process is waited for, before this one tries again.
const BUSY_WAIT: Duration = Duration::from_secs(1);

/// For operators.
impl BloomGuard {
    /// Switches all processes of the filter between enforcing, watching and standing aside. Returns after three seconds, when
    /// all of them do so. Each takes the milder of this mode and its own.
    /// The mode is kept in Redis until it is set again, and processes that know it tell a Redis that came back empty.
    ///
    /// The way back from a milder mode is [`enforce_everywhere`](Self::enforce_everywhere). With [`Mode::Enforce`] this turns
    /// back at once: what processes created meanwhile that do not insert into this filter is refused. It does not end settling:
    /// [`state`](Self::state) says whether the filter settles.
    ///
    /// Without Redis it cannot be set: there is [`set_mode`](Self::set_mode) in each process. Without a filter in Redis it is
    /// the mode of all clones of this guard.
    ///
    /// # Errors
    ///
    /// What [`StoreError`] says: Redis did not take it, or did not say so, or has lost it since. Call again, unless another call has set
    /// the mode meanwhile ([`Refusal::OVERTAKEN`](crate::Refusal::OVERTAKEN)).
    pub async fn set_fleet_mode(&self, mode: Mode) -> Result<(), StoreError> {
        self.start().store.change_fleet(FleetChange::Mode(mode)).await
    }

    /// Has all processes of the filter refuse what it lacks: ends settling, and any milder mode that was set for all.
    ///
    /// To be called by an operator, not by start-up code, **once the last process is gone that creates records and does not
    /// insert them into this filter**: this is what the call states. See the guide's page [`fleet`](crate::guide::fleet).
    ///
    /// It waits for the longest transaction and handler that any process has stated since the last such call, 15.5 minutes by default,
    /// for transactions of those that are gone, and 20 seconds at least where the filter is cut into shards; rebuilds the filter; and
    /// then turns mode and filter in one step. The process that calls it needs a [source](crate::Builder::rebuild). If the future is
    /// dropped before, no process acts otherwise than before: spawn it.
    ///
    /// # Errors
    ///
    /// As [`rebuild_now`](Self::rebuild_now), but it waits for a rebuild of another process; and
    /// [`Refusal::OVERTAKEN`](crate::Refusal::OVERTAKEN) when another call has set the mode meanwhile, or Redis is another. Where a
    /// reply was lost, all processes may act as they were told; call again.
    pub async fn enforce_everywhere(&self) -> Result<RebuildReport, Arc<RebuildError>> {
        let store = &self.start().store;
        let asked = Instant::now();
        let seen = store.view_fleet().await.map_err(RebuildError::from)?;
        // The mode may have been set by another call while this one was on its way: it was not this caller's to end.
        if seen.was_set_within(asked.elapsed()) {
            return Err(RebuildError::from(StoreError::overtaken()).into());
        }
        tracing::info!(
            filter = &*self.guard.metrics.filter,
            wait = ?seen.longest_transaction,
            "waits for the transactions that have begun, and then rebuilds"
        );
        // What they create may become visible until then.
        sleep(seen.longest_transaction).await;
        let after = store.view_fleet().await.map_err(RebuildError::from)?;
        let report = loop {
            match self.rebuild(Cause::ByHand).await {
                // One that began before now may lack what has become visible since.
                Err(error) if matches!(*error, RebuildError::Busy) => sleep(BUSY_WAIT).await,
                ended => break ended?,
            }
        };
        let change = FleetChange::Enforce { seen, after };
        store.change_fleet(change).await.map_err(RebuildError::from)?;
        Ok(report)
    }

    /// Rebuilds the filter now, whatever the schedule says; after the rebuild that this process is at,
    /// if there is one.
    ///
    /// # Errors
    ///
    /// Why no new filter went live; the one that was live still is. In particular
    /// [`RebuildError::Busy`] when another process is rebuilding, [`RebuildError::GivenUp`] after 105 minutes,
    /// [`RebuildError::Shrunk`] and [`RebuildError::Empty`] when the source gave suspiciously few ids.
    pub async fn rebuild_now(&self) -> Result<RebuildReport, Arc<RebuildError>> {
        self.rebuild(Cause::ByHand).await
    }

    /// Rebuilds the filter now, and takes it even if it has far fewer ids than the one before, or none:
    /// after a purge, or for a table that is empty to begin with. Until then, or until a
    /// rebuild reads a first row, an empty table has no filter.
    ///
    /// # Errors
    ///
    /// Why no new filter went live; the one that was live still is.
    pub async fn rebuild_accepting_loss(&self) -> Result<RebuildReport, Arc<RebuildError>> {
        self.rebuild(Cause::AcceptingLoss).await
    }

    /// Has a process of the filter that has a [source](crate::Builder::rebuild) rebuild it, whatever its schedule says. This one
    /// need not have any. It returns at once, and the rebuild begins within a few seconds: after one that is under way, or after
    /// the wait that follows one that failed.
    ///
    /// # Errors
    ///
    /// What [`StoreError`] says: Redis did not take it, or did not say so. Call again.
    pub async fn request_rebuild(&self) -> Result<(), StoreError> {
        self.start().store.change_fleet(FleetChange::Rebuild).await
    }

    /// Returns how far a rebuild in this process is, and how the last one ended.
    #[must_use]
    pub fn rebuild_status(&self) -> RebuildStatus {
        self.guard.rebuilder.progress.status()
    }

    async fn rebuild(&self, cause: Cause) -> Result<RebuildReport, Arc<RebuildError>> {
        let guard = self.start();
        let rebuild = guard.rebuilder.rebuild(cause, i64::MAX);
        rebuild.instrument(background::span(&guard.metrics.filter)).await
    }
}
