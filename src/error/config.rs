//! What is wrong with the settings.

use std::fmt;

/// Settings that the builder cannot accept: all of them, in the order in which they were set.
pub struct ConfigError {
    problems: Vec<SettingError>,
}

impl ConfigError {
    pub(crate) const fn new(problems: Vec<SettingError>) -> Self {
        Self { problems }
    }

    /// Returns what is wrong: at least one thing.
    #[must_use]
    pub fn problems(&self) -> &[SettingError] {
        &self.problems
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problems: Vec<_> = self.problems.iter().map(ToString::to_string).collect();
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
    /// A value cannot be read, or not be used. Of the URL of a Redis nothing is repeated, as it may hold a password.
    #[error("{setting}: {reason}")]
    Invalid {
        /// The name of its setter.
        setting: &'static str,
        /// The value, but for a secret, and what is wrong with it.
        reason: String,
    },
    /// A value is outside its bounds.
    #[error("{setting} of {value} is not between {min} and {max}")]
    OutOfBounds {
        /// The setting's name.
        setting: &'static str,
        /// The value given.
        value: String,
        /// The least value.
        min: String,
        /// The greatest value.
        max: String,
    },
    /// The filter would not fit into a Redis string.
    #[error(
        "filter for {capacity} ids at a rate of {rate} takes {bytes} bytes, more than {max}: in Redis it may be cut into more shards"
    )]
    TooLarge {
        /// The ids that the filter, or a shard of it, would be for.
        capacity: u64,
        /// The rate asked for.
        rate: f64,
        /// The bytes it would take.
        bytes: u64,
        /// The bytes there are: 512 MiB.
        max: u64,
    },
    /// A setting means nothing where the filter lives. It would be ignored, so it is refused.
    #[error("{setting} has no effect on {place}: leave it out")]
    NoEffect {
        /// The name of its setter.
        setting: &'static str,
        /// Where the filter lives.
        place: &'static str,
    },
    /// A setting is missing, or two do not go together.
    #[error("{reason}")]
    Combination {
        /// Which, in words.
        reason: &'static str,
    },
}
