//! The database, as a rebuild sees it.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use super::sink::IdSink;
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
///   still open may be missing: the record of recent inserts brings it back, provided no transaction stays open longer
///   than the builder's `longest_transaction`.
/// - **A stable order**: one snapshot, or pages over an immutable unique key. A page order that
///   changes underneath skips rows.
/// - **An honest end.** `Ok(())` says that everything was pushed. A scan that ends early must be an
///   `Err`; then the live filter stays as it is. A panic is taken for one.
///
/// A scan may be run again at once, when it turns out to hold more ids than the filter was sized for.
///
/// ```
/// use bloom_guard::BoxError;
/// use bloom_guard::rebuild::{IdSink, RebuildSource};
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

    /// Names what is read, such as database and table. The name is kept in Redis with the filter; a rebuild whose source has
    /// another one fails. Defaults to none, as services may share a filter on purpose.
    fn identity(&self) -> Option<String> {
        None
    }

    /// Returns this source with an [`identity`](Self::identity).
    fn with_identity(self, identity: impl Into<String>) -> impl RebuildSource
    where
        Self: Sized,
    {
        Identified(self, identity.into())
    }
}

struct Identified<S>(S, String);

impl<S: RebuildSource> RebuildSource for Identified<S> {
    fn scan(&self, ids: &mut IdSink<'_>) -> impl Future<Output = Result<(), BoxError>> + Send {
        self.0.scan(ids)
    }

    fn count(&self) -> impl Future<Output = Result<Option<u64>, BoxError>> + Send {
        self.0.count()
    }

    fn identity(&self) -> Option<String> {
        Some(self.1.clone())
    }
}

pub(crate) trait ErasedSource: Send + Sync + 'static {
    fn scan<'a>(&'a self, ids: &'a mut IdSink<'_>) -> BoxFuture<'a, Result<(), BoxError>>;

    fn count(&self) -> BoxFuture<'_, Result<Option<u64>, BoxError>>;

    fn identity(&self) -> Option<String>;
}

impl<S: RebuildSource> ErasedSource for S {
    fn scan<'a>(&'a self, ids: &'a mut IdSink<'_>) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(caught(async move { RebuildSource::scan(self, ids).await }))
    }

    fn count(&self) -> BoxFuture<'_, Result<Option<u64>, BoxError>> {
        Box::pin(caught(async move { RebuildSource::count(self).await }))
    }

    fn identity(&self) -> Option<String> {
        RebuildSource::identity(self)
    }
}

/// Turns a panic of a source into an error. The half-filled filter is thrown away.
async fn caught<T>(reading: impl Future<Output = Result<T, BoxError>>) -> Result<T, BoxError> {
    let mut reading = pin!(reading);
    poll_fn(|cx| {
        let polled = catch_unwind(AssertUnwindSafe(|| reading.as_mut().poll(cx)));
        polled.unwrap_or_else(|panic| Poll::Ready(Err(panic_text(&*panic).into())))
    })
    .await
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.map_or_else(|| "it panicked".to_owned(), |text| format!("it panicked: {text}"))
}
