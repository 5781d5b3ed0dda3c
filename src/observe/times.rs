//! How long checks, inserts and rebuilds take, for the recorder of the feature `metrics`.
//!
//! Without the feature, and without a recorder, no clock is read for it.

#[cfg(feature = "metrics")]
use metrics::{Histogram, IntoF64, Unit, describe_histogram, histogram};
use tokio::time::Instant;

/// How long one kind of work takes, by its outcome: every handle, made once.
pub(crate) struct Times {
    #[cfg(feature = "metrics")]
    handles: Vec<(&'static str, Histogram)>,
}

#[cfg_attr(
    not(feature = "metrics"),
    expect(unused_variables, clippy::unused_self, reason = "only a recorder wants to know")
)]
impl Times {
    pub(crate) fn new(
        filter: &str,
        name: &'static str,
        help: &'static str,
        outcomes: &[&'static str],
    ) -> Self {
        #[cfg(feature = "metrics")]
        describe_histogram!(name, Unit::Seconds, help);
        Self {
            #[cfg(feature = "metrics")]
            handles: outcomes
                .iter()
                .map(|&outcome| {
                    let filter = filter.to_owned();
                    (outcome, histogram!(name, "filter" => filter, "outcome" => outcome))
                })
                .collect(),
        }
    }

    /// Some work, begun then, has ended.
    pub(crate) fn took(&self, outcome: &'static str, begun: Instant) {
        #[cfg(feature = "metrics")]
        if let Some((_, histogram)) = self.handles.iter().find(|(name, _)| *name == outcome) {
            histogram.record(Since(begun));
        }
    }
}

/// The time since then: a histogram that no recorder has made does not ask for it, and no clock is read.
#[cfg(feature = "metrics")]
struct Since(Instant);

#[cfg(feature = "metrics")]
impl IntoF64 for Since {
    fn into_f64(self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}
