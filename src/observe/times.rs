//! How long checks, inserts and rebuilds take, for the recorder of the feature `metrics`.
//!
//! Without the feature, and without a recorder, no clock is read for it.

use tokio::time::Instant;

/// Work of which it is told how long it takes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Work {
    Check,
    Insert,
    Rebuild,
}

#[cfg(feature = "metrics")]
pub(crate) use self::recorded::Times;
#[cfg(not(feature = "metrics"))]
pub(crate) use self::unrecorded::Times;

#[cfg(not(feature = "metrics"))]
mod unrecorded {
    use super::{Instant, Work};

    pub(crate) struct Times;

    #[expect(clippy::unused_self, reason = "only a recorder wants to know")]
    impl Times {
        pub(crate) const fn new(_: &str) -> Self {
            Self
        }

        pub(crate) const fn took(&self, _: Work, _: &'static str, _: Instant) {}
    }
}

#[cfg(feature = "metrics")]
mod recorded {

    use metrics::{Histogram, IntoF64, Unit, describe_histogram, histogram};

    use super::{Instant, Work};

    /// Every handle, made once, with its outcome.
    pub(crate) struct Times {
        checks: [(&'static str, Histogram); 3],
        inserts: [(&'static str, Histogram); 2],
        rebuilds: [(&'static str, Histogram); 2],
    }

    impl Times {
        pub(crate) fn new(filter: &str) -> Self {
            Self {
                checks: handles(
                    filter,
                    "bloom_guard_check_seconds",
                    "How long a look-up of an id takes",
                    ["present", "absent", "unknown"],
                ),
                inserts: handles(
                    filter,
                    "bloom_guard_insert_seconds",
                    "How long an insert takes, of one id or many",
                    ["done", "failed"],
                ),
                rebuilds: handles(
                    filter,
                    "bloom_guard_rebuild_seconds",
                    "How long a rebuild of this process takes",
                    ["done", "failed"],
                ),
            }
        }

        /// Some work, begun then, has ended.
        pub(crate) fn took(&self, work: Work, outcome: &'static str, begun: Instant) {
            let handles: &[(&str, Histogram)] = match work {
                Work::Check => &self.checks,
                Work::Insert => &self.inserts,
                Work::Rebuild => &self.rebuilds,
            };
            if let Some((_, histogram)) = handles.iter().find(|(name, _)| *name == outcome) {
                histogram.record(Since(begun));
            }
        }
    }

    /// The time since then: a histogram that no recorder has made does not ask for it, and no clock is read.
    struct Since(Instant);

    impl IntoF64 for Since {
        fn into_f64(self) -> f64 {
            self.0.elapsed().as_secs_f64()
        }
    }

    fn handles<const N: usize>(
        filter: &str,
        name: &'static str,
        help: &'static str,
        outcomes: [&'static str; N],
    ) -> [(&'static str, Histogram); N] {
        describe_histogram!(name, Unit::Seconds, help);
        outcomes.map(|outcome| {
            (outcome, histogram!(name, "filter" => filter.to_owned(), "outcome" => outcome))
        })
    }
}
