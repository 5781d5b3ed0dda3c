//! What is wrong with the settings.

use std::fmt;

/// Settings that the builder cannot accept: all of them, in the order in which they were set.
pub struct ConfigError(pub(crate) Vec<SettingError>);

impl ConfigError {
    /// Returns what is wrong: at least one thing.
    #[must_use]
    pub fn problems(&self) -> &[SettingError] {
        &self.0
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problems: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&problems.join("; "))
    }
}

/// As its `Display`: it is what a `main` prints that returns it.
impl fmt::Debug for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for ConfigError {}

/// A setting that the builder cannot accept.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingError {
    /// A value cannot be read, is outside its bounds, or has no effect where the filter lives. Of the URL of a Redis nothing is repeated,
    /// as it may hold a password.
    #[error("{setting}: {reason}")]
    Invalid {
        /// The name of its setter.
        setting: &'static str,
        /// The value, but for a secret, and what is wrong with it: its bounds, where it has some.
        reason: String,
    },
    /// A setting is missing, or two do not go together.
    #[error("{reason}")]
    Combination {
        /// Which, in words.
        reason: &'static str,
    },
}
