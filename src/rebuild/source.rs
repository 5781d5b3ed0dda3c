//! The database, as a rebuild sees it.

use std::future::Future;

use super::IdSink;
use crate::error::BoxError;
use crate::store::BoxFuture;

/// Where a rebuild reads the ids from.
///
/// What a source owes, because the filter refuses whatever it leaves out:
///
/// - **Every id** for which the handler can answer anything but 404: soft-deleted rows that are still
///   served, all tenants, all partitions. Too many ids are harmless, a missing one is refused.
/// - **Current data.** Read the primary, or a replica that has caught up with the moment the scan
///   began. A row whose insert was acknowledged before the rebuild began and whose transaction is
///   still open may be missing: the journal brings it back, provided no transaction stays open longer
///   than the builder's `longest_transaction`.
/// - **A stable order**: one snapshot, or pages over an immutable unique key. A page order that
///   changes underneath skips rows.
/// - **An honest end.** `Ok(())` says that everything was pushed. A scan that ends early must be an
///   `Err`; then the live filter stays as it is.
///
/// A scan may be run again at once, when it turns out to hold more ids than the filter was sized for.
///
/// ```
/// use bloom_guard::{BoxError, IdSink, RebuildSource};
///
/// struct Evens;
///
/// impl RebuildSource for Evens {
///     async fn scan(&self, ids: &mut IdSink<'_>) -> Result<(), BoxError> {
///         for id in (0..1_000_u64).step_by(2) {
///             ids.push(&id).await?;
///         }
///         Ok(())
///     }
///
///     async fn count(&self) -> Result<Option<u64>, BoxError> {
///         Ok(Some(500))
///     }
/// }
/// ```
pub trait RebuildSource: Send + Sync + 'static {
    /// Pushes every id; `Ok(())` is the explicit end.
    fn scan(&self, ids: &mut IdSink<'_>) -> impl Future<Output = Result<(), BoxError>> + Send;

    /// Returns how many ids a scan will give, if that is cheap to tell. It sizes the filter and need
    /// not be exact. Defaults to not knowing.
    fn count(&self) -> impl Future<Output = Result<Option<u64>, BoxError>> + Send {
        async { Ok(None) }
    }
}

/// A source whose type is forgotten.
pub(crate) trait ErasedSource: Send + Sync + 'static {
    fn scan<'a>(&'a self, ids: &'a mut IdSink<'_>) -> BoxFuture<'a, Result<(), BoxError>>;

    fn count(&self) -> BoxFuture<'_, Result<Option<u64>, BoxError>>;
}

impl<S: RebuildSource> ErasedSource for S {
    fn scan<'a>(&'a self, ids: &'a mut IdSink<'_>) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(RebuildSource::scan(self, ids))
    }

    fn count(&self) -> BoxFuture<'_, Result<Option<u64>, BoxError>> {
        Box::pin(RebuildSource::count(self))
    }
}
