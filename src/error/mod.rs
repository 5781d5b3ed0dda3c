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

/// Names each error once: its code, and what to do about it. Doubts have theirs in `verdict.rs`, what Redis refuses in
/// `refusal.rs`. The state of a guard, its log lines and the documentation say these sentences, and no others.
macro_rules! advice {
    ($($type:ident { $($cause:pat => $code:expr, $advice:expr;)* })*) => { $(
        impl $type {
            /// Returns its code, fit for a metric's label.
            #[must_use]
            pub const fn as_str(&self) -> &'static str {
                self.row().0
            }

            /// Returns what to do about it, in a sentence or two:
            ///
            $(#[doc = concat!("- `", stringify!($cause), "`: ", stringify!($advice))])*
            #[must_use]
            pub const fn advice(&self) -> &'static str {
                self.row().1
            }

            const fn row(&self) -> (&'static str, &'static str) {
                match self {
                    $($cause => ($code, $advice),)*
                }
            }
        }
    )* };
}

#[rustfmt::skip]
advice! {
    StoreError {
        Self::InvalidId(id) => id.as_str(), "Refuse the record: no request can name it.";
        Self::NoAnswer { doubt, .. } | Self::Refused { doubt, .. } | Self::GivenUp { doubt, .. } => doubt.as_str(), doubt.advice();
    }

    RebuildError {
        Self::NoSource => "no_source", "Give the builder a source, or leave rebuilds to another process.";
        Self::Busy => "busy", "The filter of the other process serves this one, too.";
        Self::OtherSource { .. } => "other_source", "Give each set of records a name of its own. If it is the same set elsewhere, call rebuild_accepting_loss once.";
        Self::Source(_) => "source", "See that the database answers the source's queries. The error names the first cause.";
        Self::InvalidId { .. } => "invalid_id", "Have the source give ids as requests name them.";
        Self::Empty => "empty", "See that the source reads the right table. If that may be empty, call rebuild_accepting_loss.";
        Self::Shrunk { .. } => "shrunk", "See that the source reads the right table, and all of it. After a purge, call rebuild_accepting_loss.";
        Self::GivenUp { advice, .. } => "given_up", advice;
        Self::Shards { first, .. } => "shards", first.advice();
        Self::Store(error) => error.as_str(), error.advice();
    }
}
