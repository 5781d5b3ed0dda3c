//! Stands in for the crate's background tasks: they stand still with their process.

use std::sync::Arc;

use tokio::task::JoinSet;
use tracing::Span;

use crate::pauses;

#[path = "../../src/background.rs"]
mod real;

pub(crate) use real::{Background, span};

/// Runs a task of a filter's, and again if it panics.
pub(crate) fn persist<F>(
    filter: Arc<str>,
    name: &'static str,
    task: impl Fn() -> F,
) -> impl Future<Output = ()>
where
    F: Future<Output = ()> + Send + 'static,
{
    let process = pauses::current();
    real::persist(filter, name, move || pauses::run(process, task()))
}
