//! How a store stands, and its fleet.

use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

use crate::filter::Generation;
use crate::mode::Mode;
use crate::verdict::Doubt;

/// The filter that answers. Of one in shards, all that answer together.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "cli", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LiveFilter {
    /// Which build of the filter it is; of shards, the oldest.
    pub generation: Generation,
    /// How many ids it was built from; later inserts are not counted.
    pub items: u64,
    /// How many ids it was sized for.
    pub capacity: u64,
    /// The false-positive rate it was sized for: a fraction, 0.01 being one per cent.
    pub rate: f32,
    /// The false-positive rate to expect with the ids it was built from; or with those that it holds by now, where they are more than it
    /// was sized for, and its bits or a copy of them are in this process.
    pub expected_rate: f64,
    /// The false-positive rate that requests have met here since the guard was built: the share `p / (p + a)`,
    /// where `p` is [`present_missing`](crate::observe::Stats::present_missing) and `a` is
    /// [`absent_by_filter`](crate::observe::Stats::absent_by_filter). Deleted records count as false positives. None
    /// before the first such request.
    pub measured_rate: Option<f64>,
    /// How many bytes it takes, in Redis or in this process; those of all shards together.
    pub bytes: u64,
    /// How long ago its build began, as nearly as the clocks of this process and of the store agree.
    pub age: Duration,
}

impl LiveFilter {
    /// Leaves age and measured rate to be set.
    pub(crate) fn new(
        generation: Generation,
        (items, capacity): (u64, u64),
        (rate, expected_rate): (f32, f64),
        bytes: u64,
    ) -> Self {
        let (measured_rate, age) = (None, Duration::ZERO);
        Self { generation, items, capacity, rate, expected_rate, measured_rate, bytes, age }
    }

    /// Whether absent ids pass more than twice as often as they should: more ids were inserted than it was sized for.
    pub(crate) fn is_crowded(&self) -> bool {
        self.expected_rate > 2.0 * f64::from(self.rate)
    }

    #[cfg(feature = "redis")]
    pub(crate) fn with(self, other: Self) -> Self {
        let part = |live: &Self| live.expected_rate * live.capacity as f64;
        let capacity = self.capacity + other.capacity;
        let expected_rate = (part(&self) + part(&other)) / capacity as f64;
        let rates = (self.rate.max(other.rate), expected_rate);
        let generation = self.generation.min(other.generation);
        Self::new(generation, (self.items + other.items, capacity), rates, self.bytes + other.bytes)
    }
}

/// What this process knows of its store, without asking it.
#[derive(Debug, Clone)]
pub(crate) struct Condition {
    pub(crate) live: Result<LiveFilter, Doubt>,
    /// None if there is only one.
    pub(crate) shards: Option<ShardsState>,
    pub(crate) copy: Option<CopyState>,
    /// For how long the filter still settles; zero if it waits for a rebuild.
    pub(crate) settling: Option<Duration>,
    /// The record of recent inserts, if it was read within the last seconds.
    pub(crate) record: Option<Record>,
    pub(crate) trouble: Option<String>,
}

impl Condition {
    pub(crate) fn of(live: Result<LiveFilter, Doubt>, trouble: Option<String>) -> Self {
        Self { live, shards: None, copy: None, settling: None, record: None, trouble }
    }
}

/// This process's copy of a filter in Redis.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "cli", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CopyState {
    /// Which filter it was read from. While another one is live, the copy answers only where Redis does not.
    pub generation: Generation,
    /// How many bytes it takes.
    pub bytes: u64,
    /// How long ago it began to be read.
    pub age: Duration,
    /// Ids for which [fences](crate::guide::attackers#the-copy) have answered since the guard was built.
    pub fenced: u64,
    /// The share of all ids about which it is silent, because there were more suspects than can be
    /// remembered, from 0 to 1, as estimated from a part of them. See the guide's page
    /// [`attackers`](crate::guide::attackers).
    pub silent: f64,
    /// When the build of that filter began.
    #[cfg_attr(feature = "cli", serde(skip))]
    pub(crate) built: Instant,
}

/// How a store stands, as it answers itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Survey {
    /// The live filter, or why there is none to trust. One that is disproved twice is as due as others, and stands here.
    pub(crate) live: Result<LiveFilter, Doubt>,
    /// The store's clock, µs since the Unix epoch.
    pub(crate) now_us: i64,
    /// Since when a rebuild is due, by that clock, whatever the schedule says: the time to settle is over, or somebody asked for it.
    pub(crate) due_us: Option<i64>,
}

impl Survey {
    /// A rebuild is not due for what a later build has met. Both times are of one clock here, but not for all shards.
    pub(crate) fn new(live: Result<LiveFilter, Doubt>, now_us: i64, due_us: Option<i64>) -> Self {
        let is_due = |us: &i64| live.as_ref().map_or(true, |live| live.generation.get() <= *us);
        let due_us = due_us.filter(is_due);
        Self { live, now_us, due_us }
    }
}

/// What an operator does to all processes of a filter at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FleetChange {
    Mode(Mode),
    /// All enforce, and settling ends: if metadata and mode are still as first seen, and the live filter's rebuild began after the
    /// second view.
    Enforce {
        seen: FleetView,
        after: FleetView,
    },
    /// A process with a source rebuilds the filter.
    Rebuild,
}

/// How all processes of a filter stand, before a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FleetView {
    /// One for each shard.
    pub(crate) metadata: Vec<SeenMetadata>,
    /// The longest transaction that any process has stated.
    pub(crate) longest_transaction: Duration,
}

/// What a filter's metadata say of its processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SeenMetadata {
    /// Another incarnation may have lost a mode.
    pub(crate) incarnation: Vec<u8>,
    /// The number of the mode; 0 if none was ever set.
    pub(crate) mode_number: i64,
    /// The store's clock, µs. That of another shard may differ.
    pub(crate) now_us: i64,
}

impl FleetView {
    /// Whether a mode was set this lately. One beyond the store's clock is older: the clock was set back.
    pub(crate) fn was_set_within(&self, lately: Duration) -> bool {
        let lately_us = lately.as_micros() as u64;
        let mut metadata = self.metadata.iter();
        metadata.any(|of| {
            (of.now_us.saturating_sub_unsigned(lately_us)..=of.now_us).contains(&of.mode_number)
        })
    }
}

/// How many shards of a filter answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ShardsState {
    /// How many do. What is not in them is unknown.
    pub live: u64,
    /// How many there are.
    pub all: u64,
}

/// What the record of recent inserts holds, and how far back it must reach.
///
/// It holds a million ids at the most. Where more are inserted in the time that it must reach back, a rebuild waits before its scan until
/// the transactions of those that are missing are over. Where more are inserted in twice that time, no 404 is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Record {
    /// How many ids it holds.
    pub ids: u64,
    /// For how long back it holds every insert; none while it holds all there ever were.
    pub reaches: Option<Duration>,
    /// For how long back a rebuild that begins now needs it: over the longest transaction that any process has stated, with some
    /// to spare.
    pub required: Duration,
}

impl Record {
    /// Whether a rebuild that begins now would wait.
    #[must_use]
    pub fn is_too_short(&self) -> bool {
        self.reaches.is_some_and(|reaches| reaches < self.required)
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ids, required) = (self.ids, self.required.as_secs());
        match self.reaches {
            Some(reaches) => {
                let reaches = reaches.as_secs();
                write!(f, "{ids} ids, reaches back {reaches} s, must reach back {required} s")
            }
            None => write!(f, "{ids} ids, every insert, must reach back {required} s"),
        }
    }
}
