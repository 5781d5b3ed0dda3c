//! What can go wrong, by who has to act on it.

mod change;
mod config;
mod rebuild;
mod store;

pub use change::ChangeError;
pub use config::{ConfigError, SettingError};
pub use rebuild::RebuildError;
pub use store::StoreError;

/// An error of the application's own making, whatever its type.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
