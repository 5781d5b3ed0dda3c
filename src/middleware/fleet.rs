//! What an operator does to all processes of a filter at once.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::shared::Shared;
use crate::error::{FleetError, RebuildError, StoreError};
use crate::mode::Mode;
use crate::rebuild::{RebuildReport, Shrinking};
use crate::store::{FleetChange, FleetChanged, FleetView};

/// How long a rebuild of another process is waited for, before this one tries again.
const BUSY_WAIT: Duration = Duration::from_secs(1);

/// A rebuild that has what was begun before it was asked for.
struct Rebuilt {
    /// What the metadata said when it was asked for.
    seen: FleetView,
    /// It began after this, by Redis's clock.
    after_us: i64,
    report: RebuildReport,
}

impl Shared {
    /// Sets the mode of all processes.
    pub(super) async fn set_fleet_mode(&self, mode: Mode) -> Result<(), FleetError> {
        self.start();
        self.change_fleet(FleetChange::Mode(mode)).await
    }

    /// Has all processes enforce, by a filter that has what processes created which are gone by now.
    pub(super) async fn enforce_everywhere(&self) -> Result<RebuildReport, FleetError> {
        self.start();
        let rebuilt = self.rebuild_with_what_was_begun().await?;
        let (seen, after_us) = (rebuilt.seen, rebuilt.after_us);
        self.change_fleet(FleetChange::Enforce { seen, after_us }).await?;
        Ok(rebuilt.report)
    }

    /// Has the guard's own filter take the other system's place.
    pub(super) async fn hand_over(&self) -> Result<RebuildReport, Arc<RebuildError>> {
        let old = self.foreign.as_ref().filter(|old| old.is_left());
        let old = old.ok_or(RebuildError::NotMigrating)?;
        self.start();
        let Rebuilt { seen, after_us, report } = self.rebuild_with_what_was_begun().await?;
        // What was said of other programs holds for processes that do not insert into the guard's own filter, too.
        let settled = FleetChange::Settled { seen, after_us };
        let changed = self.guard.change_fleet(settled).await.map_err(RebuildError::from)?;
        if changed == FleetChanged::Overtaken {
            return Err(Arc::new(RebuildError::from(StoreError::OtherRedis)));
        }
        old.hand_over().await.map_err(RebuildError::from)?;
        Ok(report)
    }

    /// Makes a filter live that has what all processes have begun to create until now.
    async fn rebuild_with_what_was_begun(&self) -> Result<Rebuilt, Arc<RebuildError>> {
        let fleet = async || self.guard.fleet().await.map_err(RebuildError::from);
        let seen = fleet().await?;
        let filter = &*self.guard.metrics().filter;
        tracing::info!(
            filter,
            wait = ?seen.longest_transaction,
            "waits for the transactions that have begun, and then rebuilds"
        );
        // What they create may become visible until then.
        sleep(seen.longest_transaction).await;
        let after_us = fleet().await?.now_us;
        let report = loop {
            match self.rebuild(Shrinking::Refused).await {
                // One that began before now may lack what has become visible since.
                Err(error) if matches!(*error, RebuildError::Busy) => sleep(BUSY_WAIT).await,
                ended => break ended?,
            }
        };
        Ok(Rebuilt { seen, after_us, report })
    }

    async fn change_fleet(&self, change: FleetChange) -> Result<(), FleetError> {
        match self.guard.change_fleet(change).await? {
            FleetChanged::Done => Ok(()),
            FleetChanged::Overtaken => Err(FleetError::Overtaken),
        }
    }
}
