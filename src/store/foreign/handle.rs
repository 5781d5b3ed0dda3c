//! What the application can ask of a filter that another system writes.

use std::fmt;
use std::sync::Arc;

use super::ForeignStore;
use super::inspection::Inspection;
use crate::error::StoreError;

/// A guard's filter that another system writes. From [`BloomGuard::foreign`](crate::BloomGuard::foreign).
#[derive(Clone)]
pub struct ForeignHandle(pub(crate) Arc<ForeignStore>);

impl ForeignHandle {
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
        self.0.inspect().await
    }

    /// States that the filter which was inspected holds every id there is, and so that an id which it lacks does not exist.
    ///
    /// To be called by hand: once, when the guard is put in front of the filter, and again after whatever ended trust, as
    /// a failover or a lost key. Not with every start: the statement is kept in Redis, beside the filter, and holds for
    /// all processes and restarts of the service. Compare [`Inspection::ids`] with what the database has, and have the
    /// other system write again what may be missing, before it is inspected.
    ///
    /// # Errors
    ///
    /// [`StoreError::Foreign`], when the filter is not the one that was inspected any more, or holds no id; otherwise when
    /// Redis does not take the statement. Nothing is refused then, as before.
    pub async fn trust_after(&self, inspected: &Inspection) -> Result<(), StoreError> {
        self.0.trust_after(inspected).await
    }
}

impl fmt::Debug for ForeignHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ForeignHandle").field(&self.0).finish()
    }
}
