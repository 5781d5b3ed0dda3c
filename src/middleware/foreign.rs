//! A guard that has another filter than its own: it stands in front of one, or moves away from one.

use std::sync::Arc;

use super::layer::BloomGuard;
use crate::error::{FleetError, RebuildError, StoreError};
use crate::rebuild::RebuildReport;
use crate::store::FleetChange;
use crate::store::foreign::handle::ForeignHandle;

/// Of other filters than the guard's own, with the crate feature `redis`.
impl BloomGuard {
    /// Returns the filter that another system writes, if this guard stands in front of one or moves away from it:
    /// [`Builder::foreign`](crate::Builder::foreign), [`Builder::migrate_from`](crate::Builder::migrate_from).
    #[must_use]
    pub fn foreign(&self) -> Option<ForeignHandle> {
        self.shared.start();
        let store = self.shared.foreign.clone()?;
        Some(ForeignHandle::new(store, Arc::clone(&self.shared.extractor)))
    }

    /// Ends a migration ([`Builder::migrate_from`](crate::Builder::migrate_from)): once this returns, no process refuses by the
    /// old filter any more. Then the application may be run without `migrate_from`, and the old filter be deleted once all its
    /// processes are.
    ///
    /// To be called once, by one process, when every program that creates records inserts into the new filter: this
    /// is what the call states. It waits for the longest transaction that any process states, for transactions
    /// of programs that did not (15.5 minutes by default: spawn it); rebuilds the new filter from then; and writes beside both
    /// filters that the new one has taken the old one's place.
    ///
    /// # Errors
    ///
    /// As [`rebuild_now`](Self::rebuild_now), [`RebuildError::NotMigrating`], and [`StoreError::Move`]. The old filter still
    /// answers then, or, if one of the last steps failed, the guard's own. Call it again.
    pub async fn hand_over(&self) -> Result<RebuildReport, Arc<RebuildError>> {
        let hand_over = self.shared.guard.store.hand_over().ok_or(RebuildError::NotMigrating)?;
        let hand_over = hand_over.map_err(RebuildError::from)?;
        let seen = self.shared.view_fleet().await?;
        let (after, report) = self.shared.rebuild_with_what_was_begun(&seen).await?;
        // What was said of other programs holds for processes that do not insert into the guard's own filter, too.
        let settled = FleetChange::Settled { seen, after };
        match self.shared.guard.store.change_fleet(settled).await {
            Ok(()) => {}
            Err(FleetError::Overtaken | FleetError::Migrating) => {
                return Err(Arc::new(StoreError::OtherRedis.into()));
            }
            Err(FleetError::Rebuild(error)) => return Err(error),
            Err(FleetError::Store(error)) => return Err(Arc::new(error.into())),
        }
        hand_over.await.map_err(RebuildError::from)?;
        Ok(report)
    }
}
