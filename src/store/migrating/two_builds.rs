//! One rebuild of two filters, from one scan: of a guard's own, and of that which it is to take the place of.

use futures_util::future::join;

use crate::error::StoreError;
use crate::filter::Sizing;
use crate::id::Id;
use crate::store::{BoxFuture, Build, Parts};

/// Both rebuilds.
pub(super) struct TwoBuilds {
    own: Box<dyn Build>,
    /// Nothing once it has failed: the other one goes on.
    old: Option<Box<dyn Build>>,
    /// Why it is not built.
    failed: Vec<StoreError>,
    /// What each has not taken yet. A write that is given up leaves it here.
    for_own: Vec<Id>,
    for_old: Vec<Id>,
}

impl TwoBuilds {
    pub(super) fn new(own: Box<dyn Build>, old: Result<Box<dyn Build>, StoreError>) -> Self {
        let (old, failed) = match old {
            Ok(old) => (Some(old), Vec::new()),
            Err(error) => (None, vec![error]),
        };
        Self { own, old, failed, for_own: Vec::new(), for_old: Vec::new() }
    }

    /// Goes on without the former.
    async fn give_up_old(&mut self, error: StoreError) {
        tracing::warn!(%error, "the filter that is to be left is not rebuilt with the guard's own");
        self.for_old.clear();
        self.failed.push(error);
        if let Some(mut old) = self.old.take() {
            old.release().await;
        }
    }

    async fn write_both(&mut self, ids: &mut Vec<Id>) -> Result<(), StoreError> {
        if let Some(old) = &mut self.old {
            self.for_old.extend(ids.iter().cloned());
            self.for_own.append(ids);
            if let Err(error) = old.write(&mut self.for_old).await {
                self.give_up_old(error).await;
            }
        }
        self.for_own.append(ids);
        self.own.write(&mut self.for_own).await
    }
}

impl Build for TwoBuilds {
    /// The guard's own may be new: the other one tells how many ids a source should give, too.
    fn previous(&self) -> Option<u64> {
        self.own.previous().max(self.old.as_ref().and_then(|old| old.previous()))
    }

    fn keep_lease(&self) -> BoxFuture<'static, ()> {
        let (own, old) = (self.own.keep_lease(), self.old.as_ref().map(|old| old.keep_lease()));
        Box::pin(async {
            match old {
                Some(old) => drop(join(own, old).await),
                None => own.await,
            }
        })
    }

    fn prepare(&mut self, sizing: Sizing) -> BoxFuture<'_, Result<u64, StoreError>> {
        Box::pin(async move {
            self.for_own.clear();
            self.for_old.clear();
            let room = self.own.prepare(sizing).await?;
            if let Some(old) = &mut self.old
                && let Err(error) = old.prepare(sizing).await
            {
                self.give_up_old(error).await;
            }
            Ok(room)
        })
    }

    fn write<'a>(&'a mut self, ids: &'a mut Vec<Id>) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.write_both(ids))
    }

    fn parts(&mut self) -> BoxFuture<'_, Result<Parts<'_>, StoreError>> {
        Box::pin(async {
            self.write_both(&mut Vec::new()).await?;
            let (mut parts, mut failed) = self.own.parts().await?;
            failed.append(&mut self.failed);
            if let Some(old) = &mut self.old {
                let (of_old, failed_of_old) = old.parts().await?;
                parts.extend(of_old);
                failed.extend(failed_of_old);
            }
            Ok((parts, failed))
        })
    }

    fn release(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.own.release().await;
            if let Some(old) = &mut self.old {
                old.release().await;
            }
        })
    }
}
