//! What can go wrong, by what was tried.

mod config;
mod rebuild;
mod store;

pub use config::{ConfigError, SettingError};
pub use rebuild::RebuildError;
pub use store::StoreError;

/// Writes an error and its causes in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source().map(|cause| cause as _));
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// An error of the application's own making, whatever its type.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
