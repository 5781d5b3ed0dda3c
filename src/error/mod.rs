//! What can go wrong, by what was tried.

mod advice;
mod config;
mod rebuild;
mod store;

pub use config::{ConfigError, SettingError};
pub use rebuild::RebuildError;
pub use store::StoreError;

/// Writes an error and its causes in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// An error of the application's own making, whatever its type.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
