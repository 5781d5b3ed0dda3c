//! One rebuild of another system's filter.
//!
//! Such a filter has no journal. So inserts go to both filters first, and the scan begins only when every transaction
//! is over whose insert went to one. Ids go straight to the store, in that system's layout.
//!
//! | step | what | against |
//! |---|---|---|
//! | *lease* | a token in Redis, beside an empty filter: from here on inserts go to both | two rebuilds at once |
//! | *catch up* | wait for the longest transaction | rows whose insert went to the live filter alone, and which the scan cannot see |
//! | *scan* | scan the source into the new filter | |
//! | *compare* | compare the count with the last one's | an empty view, a wrong tenant |
//! | *swap* | put it in the live filter's place, if token, seal and Redis are still the same; state that it is whole | whatever happened to it meanwhile |

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::report::{RebuildReport, RebuildStep};
use super::run::RebuildRun;
use super::target::IntoStore;
use crate::error::RebuildError;
use crate::store::{Refill, Refilled};

impl RebuildRun<'_> {
    /// Runs the steps after the lease.
    pub(super) async fn refill(
        &self,
        refill: &mut dyn Refill,
    ) -> Result<RebuildReport, RebuildError> {
        let began = Instant::now();
        let previous = refill.previous().unwrap_or(self.last_items);
        self.tell_of_begin();
        self.progress.enter(RebuildStep::CatchUp);
        refill.catch_up().await;
        self.progress.enter(RebuildStep::Scan);
        let scan_began = Instant::now();
        let ids = self.scan_into(refill).await?;
        let scan_took = scan_began.elapsed();
        self.progress.enter(RebuildStep::Compare);
        self.compare(previous, ids).await?;
        self.progress.enter(RebuildStep::Swap);
        let Refilled { live, bytes } = refill.swap(ids).await?;
        Ok(RebuildReport {
            generation: live.generation,
            ids,
            replayed: 0,
            capacity: live.capacity.into(),
            expected_rate: live.expected_rate,
            bytes,
            scans: 1,
            scan_took,
            took: began.elapsed(),
        })
    }

    /// Scans the source into the new filter, which takes one batch while the source gives the next.
    async fn scan_into(&self, refill: &mut dyn Refill) -> Result<u64, RebuildError> {
        let (batches, mut given) = mpsc::channel(1);
        let scan = async move {
            let mut target = IntoStore::new(batches);
            let ids = self.read_source(&mut target).await?;
            target.hand_on().await;
            Ok::<_, RebuildError>(ids)
        };
        let write = async {
            while let Some(ids) = given.recv().await {
                refill.write(ids).await?;
            }
            Ok(())
        };
        let (ids, ()) = tokio::try_join!(scan, write)?;
        Ok(ids)
    }
}
