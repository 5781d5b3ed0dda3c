//! How a guard fares.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::activity::WorkState;
use super::metrics::Metrics;
use crate::decide::gate::Gate;
use crate::decide::lane::LaneState;
use crate::error::{StoreError, chain};
use crate::mode::Mode;
use crate::store::{Condition, CopyState, LiveFilter, Record, ShardsState};
use crate::verdict::Doubt;

/// The condition of a guard, as this process knows it at one moment.
///
/// Its `Display` form is a report of some lines: what there is, what fails, since when, and what to do.
/// No id is in it.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "cli", derive(serde::Serialize))]
#[non_exhaustive]
pub struct GuardState {
    /// The filter that answers. Otherwise why none does, or why the latest check learnt nothing.
    pub live: Result<LiveFilter, Doubt>,
    /// How many of the filter's shards answer; none where it has only one.
    pub shards: Option<ShardsState>,
    /// This process's copy of the filter, if there is one.
    pub copy: Option<CopyState>,
    /// For how long a new filter still settles, zero if it waits for a rebuild; none once it has. Nothing is refused until
    /// then. See the guide's page [`fleet`](crate::guide::fleet).
    pub settling: Option<Duration>,
    /// Whether this process acts on what it finds: the milder of its own mode and that of all processes.
    pub mode: Mode,
    /// The mode of all processes of the filter, as read within the last second.
    pub fleet_mode: Mode,
    /// How checks fare. A guard that no request asks checks an id of its own once a second.
    pub checks: WorkState,
    /// How inserts fare.
    pub inserts: WorkState,
    /// How rebuilds in this process fare, and its looks whether one is due. A failure of this process
    /// is over when another process has put a new filter live.
    pub rebuilds: WorkState,
    /// What the record of recent inserts holds, as asked within the last seconds; none where that is not known.
    pub record: Option<Record>,
    /// How full the lane is.
    pub lane: LaneState,
    /// What is wrong and what to do about it, in words, when something is.
    pub trouble: Option<String>,
}

#[cfg(feature = "cli")]
impl serde::Serialize for crate::filter::Generation {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(self.get())
    }
}

impl GuardState {
    pub(crate) fn new(condition: Condition, gate: &Gate, metrics: &Metrics) -> Self {
        let Condition { live, shards, copy, settling, record, trouble } = condition;
        // Checks of a known filter may fail. If some shards do not answer, that is known anyway.
        let all_live = shards.is_none_or(|shards| shards.live == shards.all);
        let failing = metrics.checks.failing().filter(|_| live.is_ok() && all_live);
        let live = failing.map_or(live, Err);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let live = live.map(|live| LiveFilter {
            measured_rate: metrics.stats().false_positive_rate(),
            age: now.saturating_sub(Duration::from_micros(live.generation.get().unsigned_abs())),
            ..live
        });
        let mut state = Self {
            live,
            shards,
            copy: copy
                .map(|copy| CopyState { silent: gate.missed.forgotten_since(copy.built), ..copy }),
            settling,
            mode: gate.mode(),
            fleet_mode: gate.fleet_mode.get(),
            checks: metrics.checks.state(|doubt| (doubt.to_string(), doubt.advice())),
            inserts: metrics.inserting.state(store_error),
            rebuilds: rebuilds(metrics),
            record,
            lane: gate.lane.state(),
            trouble: None,
        };
        let troubles = state.troubles(trouble);
        state.trouble = (!troubles.is_empty()).then(|| troubles.join("; "));
        state
    }

    /// Whether there is a filter that answers, also one that still settles. All its shards do.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.live.is_ok() && self.shards.is_none_or(|shards| shards.live == shards.all)
    }

    fn troubles(&self, store: Option<String>) -> Vec<String> {
        let mut troubles = Vec::new();
        match &self.live {
            Err(doubt) => {
                let words = store.unwrap_or_else(|| doubt.to_string());
                troubles.push(format!("{}. {}", words.trim_end_matches('.'), doubt.advice()));
            }
            Ok(_) => troubles.extend(store),
        }
        // A failure with the advice that is given above has the same cause.
        let is_told = |advice| self.live.as_ref().is_err_and(|doubt| doubt.advice() == advice);
        for (name, work) in [("inserts", &self.inserts), ("rebuilds", &self.rebuilds)] {
            if let Some(failure) = work.failing.as_ref().filter(|failing| !is_told(failing.advice))
            {
                troubles.push(format!("{name}: {failure}"));
            }
        }
        if let Some(record) = self.record.filter(Record::is_too_short) {
            troubles.push(format!("recent inserts: {record}"));
        }
        troubles
    }
}

fn store_error(error: &StoreError) -> (String, &'static str) {
    (error.to_string(), error.advice())
}

/// Returns how rebuilds fare: they fail, too, while the looks fail whether one is due.
fn rebuilds(metrics: &Metrics) -> WorkState {
    let rebuilds = metrics.rebuilding.state(|error| (chain(&**error), error.advice()));
    let surveys = metrics.surveys.state(store_error);
    if surveys.failing.is_some() {
        WorkState { succeeded: rebuilds.succeeded, ..surveys }
    } else {
        rebuilds
    }
}

impl fmt::Display for GuardState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.live {
            Ok(live) => writeln!(f, "filter: {live}")?,
            Err(doubt) => writeln!(f, "filter: {doubt}. {}", doubt.advice())?,
        }
        if let Some(ShardsState { live, all }) = self.shards {
            writeln!(f, "shards: {live} of {all} answer")?;
        }
        if let Some(copy) = &self.copy {
            writeln!(f, "copy: {copy}")?;
        }
        match self.settling {
            Some(Duration::ZERO) => writeln!(f, "settling: until the next rebuild")?,
            Some(rest) => writeln!(f, "settling: for {:.0} s more", rest.as_secs_f64())?,
            None => {}
        }
        writeln!(f, "mode: {}, of all processes: {}", self.mode, self.fleet_mode)?;
        writeln!(f, "checks: {}", self.checks)?;
        writeln!(f, "inserts: {}", self.inserts)?;
        writeln!(f, "rebuilds: {}", self.rebuilds)?;
        match &self.record {
            Some(record) => writeln!(f, "recent inserts: {record}")?,
            None => writeln!(f, "recent inserts: not known")?,
        }
        write!(f, "lane: {}", self.lane)?;
        self.trouble.as_ref().map_or(Ok(()), |trouble| write!(f, "\ntrouble: {trouble}"))
    }
}

impl fmt::Display for CopyState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { generation, bytes, age, fenced, silent, .. } = self;
        write!(
            f,
            "generation {generation}, {bytes} bytes, {:.0} s old, with fences for {fenced} ids",
            age.as_secs_f64()
        )?;
        if *silent > 0.0 {
            write!(f, ", silent about {:.1} % of all ids", silent * 100.0)?;
        }
        Ok(())
    }
}

impl fmt::Display for LiveFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { generation, items, capacity, expected_rate, measured_rate, bytes, age, rate: _ } =
            self;
        write!(
            f,
            "generation {generation}, {:.0} s old, {items} ids of {capacity}, {bytes} bytes, false \
             positives {expected_rate:.2e} expected",
            age.as_secs_f64()
        )?;
        measured_rate.map_or(Ok(()), |rate| write!(f, ", {rate:.2e} measured"))
    }
}
