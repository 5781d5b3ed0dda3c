//! What an operator does to all processes of a filter at once.

use std::time::Duration;

use tokio::time::sleep;

use super::shared::Shared;
use crate::error::{FleetError, RebuildError};
use crate::mode::Mode;
use crate::rebuild::{RebuildReport, Shrinking};
use crate::store::{FleetChange, FleetChanged};

/// How long a rebuild of another process is waited for, before this one tries again.
const BUSY_WAIT: Duration = Duration::from_secs(1);

impl Shared {
    /// Sets the mode of all processes.
    pub(super) async fn set_fleet_mode(&self, mode: Mode) -> Result<(), FleetError> {
        self.start();
        self.change_fleet(FleetChange::Mode(mode)).await
    }

    /// Has all processes enforce, by a filter that has what processes created which are gone by now.
    pub(super) async fn enforce_everywhere(&self) -> Result<RebuildReport, FleetError> {
        self.start();
        let seen = self.guard.fleet().await?;
        // What was begun until now may become visible until then.
        sleep(seen.longest_transaction).await;
        let after_us = self.guard.fleet().await?.now_us;
        let report = loop {
            match self.rebuild(Shrinking::Refused).await {
                // One that began before now may lack what has become visible since.
                Err(error) if matches!(*error, RebuildError::Busy) => sleep(BUSY_WAIT).await,
                ended => break ended?,
            }
        };
        self.change_fleet(FleetChange::Enforce { seen, after_us }).await?;
        Ok(report)
    }

    async fn change_fleet(&self, change: FleetChange) -> Result<(), FleetError> {
        match self.guard.change_fleet(change).await? {
            FleetChanged::Done => Ok(()),
            FleetChanged::Overtaken => Err(FleetError::Overtaken),
        }
    }
}
