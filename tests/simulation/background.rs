//! Stands in for the crate's background tasks: they stand still with their process.

use std::sync::Arc;

use tokio::task::JoinSet;
use tracing::Span;

use crate::pauses;

#[path = "../../src/background.rs"]
mod real;

pub(crate) use real::{Background, span};

/// Spawns a task of a filter's, and runs it again if it panics.
pub(crate) fn persist<T, F>(
    tasks: &mut JoinSet<()>,
    filter: &Arc<str>,
    name: &'static str,
    with: &Arc<T>,
    task: impl Fn(Arc<T>) -> F + Send + 'static,
) where
    T: Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let process = pauses::current();
    real::persist(tasks, filter, name, with, move |with| pauses::run(process, task(with)));
}
