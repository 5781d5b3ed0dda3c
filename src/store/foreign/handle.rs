//! What the application can ask of a filter that another system writes.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use super::ForeignStore;
use super::error::TrustError;
use super::inspection::Inspection;
use crate::error::StoreError;
use crate::extract::{AsId, IdExtractor};
use crate::id::Id;

/// A guard's filter that another system writes. From [`BloomGuard::foreign`](crate::BloomGuard::foreign).
#[derive(Clone)]
pub struct ForeignHandle {
    store: Arc<ForeignStore>,
    extractor: Arc<dyn IdExtractor>,
}

impl ForeignHandle {
    pub(crate) fn new(store: Arc<ForeignStore>, extractor: Arc<dyn IdExtractor>) -> Self {
        Self { store, extractor }
    }

    /// Looks at the whole filter: how many bits are set, how many ids that are, and which false-positive rate. Redis counts
    /// a megabyte at a time.
    ///
    /// A module's filter (`RedisBloom`) tells how many ids it has. Where it is not trusted yet, and has room, 16 ids are inserted
    /// as its seal: so trust is stated in this very filter.
    ///
    /// # Errors
    ///
    /// [`StoreError`], when Redis does not answer, or answers that the filter's key holds something else. A key that is
    /// missing is no error: it holds no ids.
    pub async fn inspect(&self) -> Result<Inspection, StoreError> {
        self.store.inspect().await
    }

    /// States that the filter which was inspected holds every id there is, and so that an id which it lacks does not exist.
    ///
    /// `known` are ids that exist, some of the oldest and some of the newest, in the form in which requests name them: a hundred of
    /// each, say. All must be in the filter. They show that layout, numbers and the form of ids are those of the programs that
    /// write it. Enough are needed that under wrong numbers all would be in it once in 10⁹ filters: five at a rate of 1 %.
    ///
    /// To be called by hand: once, when the guard is put in front of the filter, and again after whatever ended trust, as
    /// a failover or a lost key. Not with every start: the statement is kept in Redis, under the filter's key, and holds for
    /// all processes and restarts of the service. Compare [`Inspection::ids`] with what the database has, and have the
    /// other system write again what may be missing, before it is inspected.
    ///
    /// # Errors
    ///
    /// [`TrustError`] says what does not fit, and what to compare. Nothing is stated and nothing written then; what was
    /// stated before stays.
    pub async fn trust_after<I>(&self, inspected: &Inspection, known: I) -> Result<(), TrustError>
    where
        I: IntoIterator<Item: AsId>,
    {
        let ids = known.into_iter().map(|id| id.as_id(&*self.extractor));
        let ids = ids.collect::<Result<BTreeSet<Id>, _>>()?;
        self.store.trust_after(inspected, &ids).await
    }
}

impl fmt::Debug for ForeignHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ForeignHandle").field(&self.store.layout).finish()
    }
}
