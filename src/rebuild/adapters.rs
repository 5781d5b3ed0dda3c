//! Sources made from closures and iterators.

use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;

use futures_core::Stream;
use tokio::sync::mpsc;

use super::sink::IdSink;
use super::source::RebuildSource;
use crate::error::BoxError;
use crate::extract::AsId;
use crate::id::Id;

const CHUNK: usize = 1024;
const CHUNKS: usize = 4;

/// Returns a source that runs an asynchronous closure, for everything that is read by `await`: a pool of
/// connections, pages, a cursor, a stream. What the closure captures is cloned for each scan and may be borrowed across
/// an `await`: capture a pool or an [`Arc`].
///
/// `Ok(())` says that every id was pushed. A scan that ends early must be an `Err`, which `?` does.
///
/// ```
/// use bloom_guard::{BloomGuard, PathPattern, Schedule, from_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), bloom_guard::BoxError> {
/// # async fn page(table: &[i64], after: i64) -> std::io::Result<Vec<i64>> {
/// #     Ok(table.iter().copied().filter(|id| *id > after).take(2).collect())
/// # }
/// let table = [3, 5, 8]; // or a pool of connections
/// let source = from_fn(async move |ids| {
///     let mut last = 0;
///     loop {
///         let page = page(&table, last).await?;
///         for id in &page {
///             ids.push(id).await?;
///         }
///         let Some(id) = page.last() else { return Ok(()) };
///         last = *id;
///     }
/// });
/// let guard = BloomGuard::builder("users", PathPattern::<i64>::new("/users/{id}")?)
///     .in_process()
///     .rebuild(Schedule::manual(), source)
///     .build()?;
/// assert_eq!(guard.rebuild_now().await?.ids, 3);
/// # Ok(())
/// # }
/// ```
///
/// An `async fn` that takes the ids is such a closure, too. The future has to be [`Send`]: it holds no `Rc`, and no lock's guard
/// of the standard library, across an `await`.
pub fn from_fn<F>(scan: F) -> impl RebuildSource
where
    // The first bound tells the compiler the closure's types; only the second can ask for `Send`.
    F: AsyncFnOnce(&mut IdSink<'_>) -> Result<(), BoxError>,
    F: for<'a, 'ids> ScanFn<&'a mut IdSink<'ids>>,
    F: Clone + Send + Sync + 'static,
{
    FromFn(scan)
}

/// A closure whose future can be sent to another thread. Every async closure can be called once by way of
/// `FnOnce`, which names its future; one that borrows from itself cannot be called by `Fn`.
pub trait ScanFn<Ids>: FnOnce(Ids) -> Self::Scan {
    /// The scan.
    type Scan: Future<Output = Result<(), BoxError>> + Send;
}

impl<Ids, F, Scan> ScanFn<Ids> for F
where
    F: FnOnce(Ids) -> Scan,
    Scan: Future<Output = Result<(), BoxError>> + Send,
{
    type Scan = Scan;
}

struct FromFn<F>(F);

impl<F> RebuildSource for FromFn<F>
where
    F: for<'a, 'ids> ScanFn<&'a mut IdSink<'ids>>,
    F: Clone + Send + Sync + 'static,
{
    async fn scan(&self, ids: &mut IdSink<'_>) -> Result<(), BoxError> {
        self.0.clone()(ids).await
    }
}

/// Returns a source that iterates over what the closure returns, for ids that are in memory.
pub fn from_iter<F, I>(ids: F) -> impl RebuildSource
where
    F: Fn() -> I + Send + Sync + 'static,
    I: IntoIterator<IntoIter: Send>,
    I::Item: AsId + Send + Sync,
{
    let ids = Arc::new(ids);
    from_fn(async move |sink: &mut IdSink<'_>| {
        for id in ids() {
            sink.push(&id).await?;
        }
        Ok(())
    })
}

/// Returns a source that reads the stream which the closure makes of a pool, a client or whatever else the stream borrows from. With
/// sqlx that is one line:
///
/// ```ignore
/// let source = from_stream(pool, |pool| sqlx::query_scalar::<_, i64>("SELECT id FROM users").fetch(pool));
/// ```
///
/// The first error ends the scan, which has failed then. The end of the stream is the end of the scan: a stream that ends early
/// without an error looks like a table that has shrunk, and is [not believed](crate::guide::rebuilds#sources-that-shrink) if much is
/// missing. A stream that is awaited first, as tokio-postgres's `query_raw` is, becomes one by `try_flatten_stream`.
///
/// ```
/// use bloom_guard::{BloomGuard, BoxError, PathPattern, Schedule, from_stream};
/// use futures_util::{StreamExt, stream};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// let table = [3_i64, 5, 8];
/// let source = from_stream(table, |table| stream::iter(*table).map(Ok::<_, BoxError>).boxed());
/// let guard = BloomGuard::builder("users", PathPattern::<i64>::new("/users/{id}")?)
///     .in_process()
///     .rebuild(Schedule::manual(), source)
///     .build()?;
/// assert_eq!(guard.rebuild_now().await?.ids, 3);
/// # Ok(())
/// # }
/// ```
///
/// A stream that borrows a connection from the pool, as diesel-async's does, is read by [`from_fn`]:
///
/// ```ignore
/// let source = from_fn(async move |ids: &mut IdSink<'_>| {
///     let mut connection = pool.get().await?;
///     let mut rows = users::table.select(users::id).load_stream::<i64>(&mut connection).await?;
///     while let Some(id) = rows.try_next().await? {
///         ids.push(&id).await?;
///     }
///     Ok(())
/// });
/// ```
pub fn from_stream<P, F, T, E>(pool: P, rows: F) -> impl RebuildSource
where
    P: Send + Sync + 'static,
    F: for<'a> Fn(&'a P) -> Pin<Box<dyn Stream<Item = Result<T, E>> + Send + 'a>>,
    F: Send + Sync + 'static,
    T: AsId + Send + Sync,
    E: Into<BoxError> + Send,
{
    let scanned = Arc::new((pool, rows));
    from_fn(async move |ids: &mut IdSink<'_>| {
        let (pool, rows) = &*scanned;
        let mut rows = rows(pool);
        while let Some(id) = poll_fn(|context| rows.as_mut().poll_next(context)).await {
            ids.push(&id.map_err(Into::into)?).await?;
        }
        Ok(())
    })
}

/// Returns a source that runs a closure on Tokio's pool of blocking threads, for drivers that block.
///
/// A rebuild that is given up cannot end the closure. Give the driver a time-out, or a query that hangs
/// keeps its thread.
///
/// ```
/// use bloom_guard::{BloomGuard, BoxError, PathPattern, Schedule, from_blocking};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// # fn select_all() -> std::io::Result<[&'static str; 3]> { Ok(["A-1", "A-2", "A-3"]) }
/// // One statement is one snapshot. Any error, also halfway, leaves the live filter as it is.
/// let source = from_blocking(|ids| {
///     for number in select_all()? {
///         ids.push(number)?;
///     }
///     Ok(())
/// });
/// let guard = BloomGuard::builder("orders", PathPattern::<String>::new("/orders/{number}")?)
///     .in_process()
///     .rebuild(Schedule::cron("30 3 * * *"), source) // every night, UTC (feature `cron`); the first one now
///     .build()?;
///
/// let report = guard.rebuild_now().await?;
/// assert_eq!((report.ids, report.scans), (3, 1));
/// # Ok(())
/// # }
/// ```
pub fn from_blocking<F>(scan: F) -> impl RebuildSource
where
    F: Fn(&mut BlockingIds) -> Result<(), BoxError> + Send + Sync + 'static,
{
    let scan = Arc::new(scan);
    from_fn(async move |ids: &mut IdSink<'_>| {
        let (sender, mut chunks) = mpsc::channel(CHUNKS);
        let scanning = tokio::task::spawn_blocking(move || {
            let mut ids = BlockingIds { chunk: Vec::with_capacity(CHUNK), sender };
            scan(&mut ids)?;
            ids.flush()
        });
        while let Some(chunk) = chunks.recv().await {
            for id in &chunk {
                // Its canonical form is not known yet.
                ids.push(std::str::from_utf8(id.as_bytes())?).await?;
            }
        }
        // The channel closes however the scan ends. Only its result tells whether it was whole.
        scanning.await.unwrap_or_else(|error| match error.try_into_panic() {
            // The rebuild makes an error of it.
            Ok(panic) => resume_unwind(panic),
            Err(cancelled) => Err(cancelled.into()),
        })
    })
}

/// Where a blocking scan pushes its ids.
#[derive(Debug)]
pub struct BlockingIds {
    chunk: Vec<Id>,
    sender: mpsc::Sender<Vec<Id>>,
}

impl BlockingIds {
    /// Takes one id in, by its [`Display`](fmt::Display) form; waits while the rebuild is behind.
    ///
    /// # Errors
    ///
    /// The reason why it is no id, or that the rebuild was given up. Return it.
    pub fn push(&mut self, id: impl fmt::Display) -> Result<(), BoxError> {
        self.chunk.push(Id::display(&id)?);
        if self.chunk.len() == CHUNK { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), BoxError> {
        let chunk = std::mem::replace(&mut self.chunk, Vec::with_capacity(CHUNK));
        self.sender.blocking_send(chunk).map_err(|_| "the rebuild was given up".into())
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;
    use crate::error::RebuildError;
    use crate::{BloomGuard, PathPattern, Schedule};

    /// Connections of which one at a time is lent.
    #[derive(Clone)]
    struct Pool {
        connection: Arc<tokio::sync::Mutex<Vec<Result<u64, &'static str>>>>,
        scans: Arc<Mutex<u32>>,
    }

    impl Pool {
        fn with(rows: impl IntoIterator<Item = Result<u64, &'static str>>) -> Self {
            let rows = rows.into_iter().collect();
            Self { connection: Arc::new(tokio::sync::Mutex::new(rows)), scans: Arc::default() }
        }
    }

    #[tokio::test]
    async fn a_stream_that_ends_in_an_error_is_no_whole_scan() {
        let rows = [Ok(1_u64), Err("connection reset by peer"), Ok(2)];
        let source = from_stream(rows, |rows| Box::pin(futures_util::stream::iter(*rows)));
        let pattern = PathPattern::<u64>::new("/users/{id}").unwrap();
        let guard = BloomGuard::builder("users", pattern).in_process();
        let guard = guard.rebuild(Schedule::manual(), source).build().unwrap();
        let error = guard.rebuild_now().await.unwrap_err();
        assert!(matches!(&*error, RebuildError::Source(_)), "{error:?}");
    }

    fn guard(pool: &Pool) -> BloomGuard {
        let pool = pool.clone();
        let source = from_fn(async move |ids| {
            *pool.scans.lock() += 1;
            let rows = pool.connection.lock().await;
            for row in rows.iter().copied() {
                ids.push(&row?).await?;
            }
            Ok(())
        });
        BloomGuard::builder("users", PathPattern::<u64>::new("/users/{id}").unwrap())
            .in_process()
            .rebuild(Schedule::manual(), source)
            .build()
            .unwrap()
    }

    #[tokio::test]
    async fn a_closure_that_borrows_its_pool_across_awaits_is_run_by_every_rebuild() {
        let pool = Pool::with((0..5_000).map(Ok));
        let guard = guard(&pool);
        guard.ready().await;
        let before = *pool.scans.lock();
        assert_eq!(guard.rebuild_now().await.unwrap().ids, 5_000);
        assert_eq!(*pool.scans.lock(), before + 1);
    }

    #[tokio::test]
    async fn a_closure_that_fails_halfway_is_no_whole_scan() {
        let pool = Pool::with((0..5_000).map(Ok));
        let guard = guard(&pool);
        guard.ready().await;
        let live = guard.state().live.unwrap().generation;
        *pool.connection.lock().await.last_mut().unwrap() = Err("the connection broke");
        let error = guard.rebuild_now().await.unwrap_err();
        let RebuildError::Source(cause) = &*error else { panic!("{error:?}") };
        assert_eq!(cause.to_string(), "the connection broke");
        assert_eq!(guard.state().live.unwrap().generation, live, "the filter stays");
    }

    #[tokio::test]
    async fn a_function_is_a_source_too() {
        async fn scan(ids: &mut IdSink<'_>) -> Result<(), BoxError> {
            Ok(ids.push(&7_u64).await?)
        }
        let guard = BloomGuard::builder("users", PathPattern::<u64>::new("/users/{id}").unwrap())
            .in_process()
            .rebuild(Schedule::manual(), from_fn(scan))
            .build()
            .unwrap();
        assert_eq!(guard.rebuild_now().await.unwrap().ids, 1);
    }
}
