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
//! | `swap` | *swap* and *settle* |
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

use std::sync::Arc;

use self::build::RedisBuild;
use self::wait::FirstSwapWait;
use crate::error::StoreError;
use crate::filter::{Filter, Generation};
use crate::id::{Digest, Digester};
use crate::store::{BoxFuture, Build, Plan};

impl Build for RedisBuild {
    fn token(&self) -> Generation {
        self.token
    }

    fn previous(&self) -> Option<u64> {
        self.previous
    }

    fn digester(&self) -> &Digester {
        &self.digester
    }

    fn keep_lease(&self) -> BoxFuture<'static, ()> {
        let (lease, wait) = (self.lease.keep(), FirstSwapWait::of(self).count());
        Box::pin(async { tokio::join!(lease, wait).0 })
    }

    fn read_journal<'a>(&'a mut self, into: &'a Filter) -> BoxFuture<'a, Result<u64, StoreError>> {
        Box::pin(self.read_journal_into(into))
    }

    fn room(&self, bytes: u64) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(RedisBuild::room(self, bytes))
    }

    fn allocate(&mut self, plan: Plan) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.allocate_next(plan))
    }

    fn upload<'a>(
        &'a mut self,
        filter: &'a Arc<Filter>,
        progress: &'a (dyn Fn(u64) + Send + Sync),
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.upload_blocks(filter, progress))
    }

    fn catch_up(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.begin_to_catch_up())
    }

    fn replay(&mut self) -> BoxFuture<'_, Result<u64, StoreError>> {
        Box::pin(self.replay_tail())
    }

    fn verify<'a>(
        &'a mut self,
        filter: &'a Filter,
        sample: &'a [Digest],
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.verify_next(filter, sample))
    }

    fn swap(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.put_live())
    }

    fn release(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(self.lease.release())
    }
}
