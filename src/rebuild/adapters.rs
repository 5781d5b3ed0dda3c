//! Sources made from iterators, streams and blocking closures.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;

use futures_core::Stream;
use tokio::sync::mpsc;

use super::sink::IdSink;
use super::source::{RebuildSource, panic_text};
use crate::error::BoxError;
use crate::extract::AsId;
use crate::id::Id;

/// Ids handed over at once by a blocking source.
const CHUNK: usize = 1024;
/// Chunks waiting at most.
const CHUNKS: usize = 4;

/// Returns a source that iterates over what the closure returns, for ids that are in memory.
///
/// ```
/// let ids: std::sync::Arc<[u64]> = (0..1_000).collect();
/// let source = bloom_guard::from_iter(move || ids.to_vec());
/// # let _ = source;
/// ```
pub fn from_iter<F, I>(ids: F) -> impl RebuildSource
where
    F: Fn() -> I + Send + Sync + 'static,
    I: IntoIterator<IntoIter: Send>,
    I::Item: AsId + Send + Sync,
{
    FromIter(ids)
}

struct FromIter<F>(F);

impl<F, I> RebuildSource for FromIter<F>
where
    F: Fn() -> I + Send + Sync + 'static,
    I: IntoIterator<IntoIter: Send>,
    I::Item: AsId + Send + Sync,
{
    async fn scan(&self, ids: &mut IdSink<'_>) -> Result<(), BoxError> {
        let iter = (self.0)().into_iter();
        for id in iter {
            ids.push(&id).await?;
        }
        Ok(())
    }
}

/// Returns a source that reads the stream which the closure returns, for asynchronous drivers. An
/// `Err` ends the scan and the rebuild with it.
///
/// ```
/// use futures_util::stream;
///
/// let rows = || stream::iter([Ok::<_, std::io::Error>("a"), Ok("b")]);
/// let source = bloom_guard::from_stream(rows);
/// # let _ = source;
/// ```
pub fn from_stream<F, S, T, E>(ids: F) -> impl RebuildSource
where
    F: Fn() -> S + Send + Sync + 'static,
    S: Stream<Item = Result<T, E>> + Send,
    T: AsId + Send + Sync,
    E: Into<BoxError> + Send,
{
    FromStream(ids)
}

struct FromStream<F>(F);

impl<F, S, T, E> RebuildSource for FromStream<F>
where
    F: Fn() -> S + Send + Sync + 'static,
    S: Stream<Item = Result<T, E>> + Send,
    T: AsId + Send + Sync,
    E: Into<BoxError> + Send,
{
    async fn scan(&self, ids: &mut IdSink<'_>) -> Result<(), BoxError> {
        let mut stream = pin!((self.0)());
        while let Some(id) = poll_fn(|cx| stream.as_mut().poll_next(cx)).await {
            let id = id.map_err(Into::into)?;
            ids.push(&id).await?;
        }
        Ok(())
    }
}

/// Returns a source that runs a closure on Tokio's pool of blocking threads, for drivers that block.
///
/// A rebuild that is given up cannot end the closure. Give the driver a time-out, or a query that hangs
/// keeps its thread.
///
/// ```
/// let source = bloom_guard::from_blocking(|ids| {
///     for id in 0..1_000_u64 {
///         ids.push(id)?;
///     }
///     Ok(())
/// });
/// # let _ = source;
/// ```
pub fn from_blocking<F>(scan: F) -> impl RebuildSource
where
    F: Fn(&mut BlockingIds) -> Result<(), BoxError> + Send + Sync + 'static,
{
    FromBlocking(Arc::new(scan))
}

struct FromBlocking<F>(Arc<F>);

impl<F> RebuildSource for FromBlocking<F>
where
    F: Fn(&mut BlockingIds) -> Result<(), BoxError> + Send + Sync + 'static,
{
    async fn scan(&self, ids: &mut IdSink<'_>) -> Result<(), BoxError> {
        let (sender, mut chunks) = mpsc::channel(CHUNKS);
        let scan = Arc::clone(&self.0);
        let scanning = tokio::task::spawn_blocking(move || {
            let mut ids = BlockingIds { chunk: Vec::with_capacity(CHUNK), sender };
            scan(&mut ids)?;
            ids.flush()
        });
        while let Some(chunk) = chunks.recv().await {
            for id in &chunk {
                ids.push_text(id)?;
            }
        }
        // The channel closes however the scan ends. Only its result tells whether it was whole.
        match scanning.await {
            Ok(ended) => ended,
            // The same text each time, which is logged once.
            Err(error) => Err(match error.try_into_panic() {
                Ok(panic) => panic_text(&*panic).into(),
                Err(cancelled) => cancelled.into(),
            }),
        }
    }
}

/// Where a blocking scan pushes its ids.
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

impl fmt::Debug for BlockingIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockingIds").finish_non_exhaustive()
    }
}
