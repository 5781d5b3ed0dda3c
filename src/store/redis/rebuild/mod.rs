//! One rebuild on Redis. Each step carries the fencing token, so that a rebuild that was overtaken
//! changes nothing any more. The steps are those of [`rebuild`](crate::rebuild).
//!
//! | file | steps |
//! |---|---|
//! | `begin` | *lease* and *mark* |
//! | `build` | *journal*, and what all steps need |
//! | `upload` | *allocate* and *upload* |
//! | `catch_up` | *catch up* and *replay* |
//! | `verify` | *verify* |
//! | `swap` | *swap* and *confirm* |
//! | `wait` | the wait of an incarnation's first swap, beside the steps before it |
//! | `lease` | keeps the lease alive and gives it back |
//! | `journal` | reads journal entries and proves that none is missing |

mod begin;
pub(crate) mod build;
mod catch_up;
pub(super) mod journal;
mod lease;
mod swap;
mod upload;
mod verify;
mod wait;

use self::build::RedisBuild;
use self::wait::FirstSwapWait;
use crate::error::StoreError;
use crate::filter::Sizing;
use crate::id::Id;
use crate::store::{BoxFuture, Build, Live};

impl Build for RedisBuild {
    fn previous(&self) -> Option<u64> {
        self.previous
    }

    fn keep_lease(&self) -> BoxFuture<'static, ()> {
        let (lease, wait) = (self.lease.keep(), FirstSwapWait::of(self).count());
        Box::pin(async { tokio::join!(lease, wait).0 })
    }

    fn prepare(&mut self, sizing: Sizing) -> BoxFuture<'_, Result<u64, StoreError>> {
        Box::pin(async move {
            self.room(sizing.bytes()).await?;
            self.scan.begin(&self.digester, sizing).await
        })
    }

    fn write<'a>(&'a mut self, ids: &'a mut Vec<Id>) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.scan.write(ids))
    }

    fn read_journal(&mut self) -> BoxFuture<'_, Result<u64, StoreError>> {
        Box::pin(self.read_whole_journal())
    }

    fn allocate(&mut self) -> BoxFuture<'_, Result<u64, StoreError>> {
        Box::pin(self.allocate_next())
    }

    fn upload<'a>(
        &'a mut self,
        progress: &'a (dyn Fn(u64) + Send + Sync),
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.upload_blocks(progress))
    }

    fn catch_up(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.begin_to_catch_up())
    }

    fn replay(&mut self) -> BoxFuture<'_, Result<u64, StoreError>> {
        Box::pin(self.replay_tail())
    }

    fn verify(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.verify_next())
    }

    fn swap(&mut self) -> BoxFuture<'_, Result<Live, StoreError>> {
        Box::pin(self.put_live())
    }

    fn release(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(self.lease.release())
    }
}
