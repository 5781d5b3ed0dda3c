//! How long checks, inserts and rebuilds take, for the recorder of the feature `metrics`. Without the feature no clock is read.

#[cfg(feature = "metrics")]
use metrics::{Histogram, Unit, describe_histogram, histogram};
use tokio::time::Instant;

/// Each kind of work, its help text and its outcomes.
#[cfg(feature = "metrics")]
const WORK: [(&str, &str, &[&str]); 3] = [
    ("check", "How long a look-up of an id takes", &["present", "absent", "unknown"]),
    ("insert", "How long an insert takes, of one id or many", &["done", "failed"]),
    ("rebuild", "How long a rebuild of this process takes", &["done", "failed"]),
];

pub(crate) struct Times {
    #[cfg(feature = "metrics")]
    handles: Vec<(&'static str, &'static str, Histogram)>,
}

#[cfg_attr(
    not(feature = "metrics"),
    expect(unused_variables, clippy::unused_self, reason = "only a recorder wants to know")
)]
impl Times {
    pub(crate) fn new(filter: &str) -> Self {
        #[cfg(feature = "metrics")]
        let mut handles = Vec::new();
        #[cfg(feature = "metrics")]
        for (work, help, outcomes) in WORK {
            let name = format!("bloom_guard_{work}_seconds");
            describe_histogram!(name.clone(), Unit::Seconds, help);
            for outcome in outcomes {
                let labels = [("filter", filter.to_owned()), ("outcome", (*outcome).to_owned())];
                handles.push((work, *outcome, histogram!(name.clone(), &labels)));
            }
        }
        Self {
            #[cfg(feature = "metrics")]
            handles,
        }
    }

    pub(crate) fn took(&self, work: &str, outcome: &str, begun: Instant) {
        #[cfg(feature = "metrics")]
        if let Some((.., histogram)) =
            self.handles.iter().find(|of| (of.0, of.1) == (work, outcome))
        {
            histogram.record(begun.elapsed());
        }
    }
}
