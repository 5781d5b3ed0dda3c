//! A rebuild of a filter that only guards write to.
//!
//! While one is under way, the marker `{key}:bg:refill` holds its token. An insert looks at it behind the bits that it
//! has set in the live filter:
//!
//! | the marker | the insert |
//! |---|---|
//! | none | is done: a scan that begins later sees its row, since it begins when all transactions are over |
//! | a token | sets its bits in the new filter, too, in one step with another look at the marker |
//! | … another, or none, by then | begins again: the new filter is live, or was given up |
//!
//! The new filter is sealed as it is made, and both have a life of a few seconds that the rebuild renews. One that was
//! lost on the way and made again by an insert lacks the seal, and is not put live. What Redis acknowledged and lost in a
//! failover is why a rebuild ends with the Redis process that it began on.

mod fence;
mod site;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::sleep;

use self::fence::{Fence, LIFE};
use self::site::SiteRefill;
use super::layout::Layout;
use super::site::Site;
use crate::error::StoreError;
use crate::id::Id;
use crate::random;
use crate::store::{Begun, BoxFuture, Refill, Refilled};

/// One rebuild, on all instances that the filter is spread over.
pub(super) struct ForeignRefill {
    layout: Arc<dyn Layout>,
    sites: Vec<SiteRefill>,
    longest_transaction: Duration,
    /// Whether it has come to the swap, which ends the marker.
    swaps: Arc<AtomicBool>,
}

impl ForeignRefill {
    /// Begins a rebuild, unless another one is under way.
    pub(super) async fn begin(
        layout: &Arc<dyn Layout>,
        sites: &[Arc<Site>],
        longest_transaction: Duration,
    ) -> Result<Begun, StoreError> {
        let token = format!("{:016x}{:016x}", random::scatter(), random::scatter());
        let layout = Arc::clone(layout);
        let swaps = Arc::default();
        let mut refill = Self { layout, sites: Vec::new(), longest_transaction, swaps };
        for site in sites {
            match SiteRefill::begin(site, &token).await {
                Ok(Some(site)) => refill.sites.push(site),
                otherwise => {
                    refill.release().await;
                    return otherwise.map(|_| Begun::Busy);
                }
            }
        }
        Ok(Begun::Refill(Box::new(refill)))
    }
}

impl Refill for ForeignRefill {
    fn previous(&self) -> Option<u64> {
        self.sites.iter().filter_map(SiteRefill::previous).max()
    }

    fn keep_lease(&self) -> BoxFuture<'static, ()> {
        let fences: Vec<(Fence, Vec<_>)> =
            self.sites.iter().map(|site| (site.fence.clone(), site.renewal())).collect();
        let swaps = Arc::clone(&self.swaps);
        Box::pin(async move {
            loop {
                sleep(LIFE / 3).await;
                for (fence, renewal) in &fences {
                    let is_lost = matches!(fence.run(renewal).await, Ok(false));
                    if is_lost && !swaps.load(Ordering::Relaxed) {
                        return;
                    }
                }
            }
        })
    }

    fn catch_up(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(sleep(self.longest_transaction))
    }

    fn write(&mut self, ids: Vec<Id>) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let count = self.sites.len();
            for (at, site) in self.sites.iter_mut().enumerate() {
                let is_here = |id: &&[u8]| self.layout.instance(id) % count == at;
                let ids: Vec<&[u8]> = ids.iter().map(Id::as_bytes).filter(is_here).collect();
                site.write(&ids).await?;
            }
            Ok(())
        })
    }

    fn swap(&mut self, ids: u64) -> BoxFuture<'_, Result<Refilled, StoreError>> {
        Box::pin(async move {
            self.swaps.store(true, Ordering::Relaxed);
            for site in &self.sites {
                site.swap(ids).await?;
            }
            let first = &self.sites[0];
            let live = first.live().map_err(|doubt| first.fence.site.foreign(doubt.as_str()))?;
            let bits = first.size.bits * self.layout.keys().len() as u64;
            let bytes = first.module_bytes().unwrap_or(bits.div_ceil(8));
            Ok(Refilled { live, bytes })
        })
    }

    fn release(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            for site in &self.sites {
                site.release().await;
            }
        })
    }
}
