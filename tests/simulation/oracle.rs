//! What a run has shown: the promise kept or broken, and that it was worth something.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::client::Answered;
use crate::database;
use crate::mishaps;
use crate::model::keyspace::Bytes;
use crate::net;
use crate::pauses;
use crate::shards;
use crate::trace;

/// The longest that a check may wait for Redis, and the longest that a null may.
pub(crate) const CHECK_DEADLINE: Duration = Duration::from_millis(25);
/// Timers count in ms, and there is one in each wait.
const ROUNDING: Duration = Duration::from_millis(4);

/// For how long rows may be refused which the sources leave out, ms: until three of them are found.
const MISREAD: u64 = 15_000;

thread_local! {
    static FINDINGS: RefCell<Findings> = RefCell::default();
}

/// What a run has shown.
#[derive(Debug, Clone, Default)]
pub(crate) struct Findings {
    pub(crate) operations: u64,
    /// Requests and checks for ids that existed throughout.
    pub(crate) existing: u64,
    /// Refusals of such.
    pub(crate) false_404s: u64,
    /// Refusals of such just after data went back in time or the clock was set forward, by processes that cannot have
    /// noticed. The guide states them, and they are no violation.
    pub(crate) refused_unnoticed: u64,
    /// Such that were answered 503.
    pub(crate) busy: u64,
    /// Requests that passed as found lately, or asked of a guard that stands aside: nobody was asked.
    pub(crate) quiet: u64,
    /// Those of them that passed by a copy of the filter.
    pub(crate) copied: u64,
    /// Rows that had to pass by a copy, or as found lately, when all had healed.
    pub(crate) copied_rows: u64,
    /// Requests and checks for ids that were never created, and how many were refused.
    pub(crate) absent: u64,
    pub(crate) refused: u64,
    /// The same after everything has healed.
    pub(crate) healed_absent: u64,
    pub(crate) healed_refused: u64,
    /// Filters that went live.
    pub(crate) swaps: u64,
    /// When the first did in each place, ms since the run began.
    pub(crate) first_swaps: BTreeMap<Bytes, u64>,
    /// Nulls that refused.
    pub(crate) nulls: u64,
    /// How many filters had gone live when an id was last inserted as new.
    pub(crate) new: BTreeMap<u64, u64>,
    pub(crate) commits: u64,
    /// Rows that programs created which do not insert.
    pub(crate) strangers: u64,
    /// Shards that another node of a cluster came to serve, and commands that a node did not execute for it.
    pub(crate) carried: u64,
    pub(crate) redirected: u64,
    /// Ids that Redis was asked for one by one, and with others.
    pub(crate) alone: u64,
    pub(crate) merged: u64,
    /// Fences, also of processes whom nobody asks.
    pub(crate) fences: u64,
    /// Traps that have befallen a request.
    pub(crate) sprung: usize,
    /// What was broken, in words.
    pub(crate) violations: Vec<String>,
}

impl Findings {
    /// Adds another run's.
    pub(crate) fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.existing += other.existing;
        self.false_404s += other.false_404s;
        self.refused_unnoticed += other.refused_unnoticed;
        self.busy += other.busy;
        self.quiet += other.quiet;
        self.copied += other.copied;
        self.copied_rows += other.copied_rows;
        self.absent += other.absent;
        self.refused += other.refused;
        self.healed_absent += other.healed_absent;
        self.healed_refused += other.healed_refused;
        self.swaps += other.swaps;
        self.nulls += other.nulls;
        self.commits += other.commits;
        self.strangers += other.strangers;
        self.carried += other.carried;
        self.redirected += other.redirected;
        self.alone += other.alone;
        self.merged += other.merged;
        self.fences += other.fences;
    }
}

pub(crate) fn begin() {
    FINDINGS.with_borrow_mut(|findings| *findings = Findings::default());
}

pub(crate) fn note(see: impl FnOnce(&mut Findings)) {
    FINDINGS.with_borrow_mut(see);
}

pub(crate) fn swapped(bits: &[u8], now_ms: u64) {
    note(|findings| {
        findings.swaps += 1;
        findings.first_swaps.entry(bits.to_vec()).or_insert(now_ms);
    });
}

/// Whether there has been a filter for so many ms, in all shards.
pub(crate) fn live_for(ms: u64) -> bool {
    let now = net::now_ms();
    FINDINGS.with_borrow(|Findings { first_swaps, .. }| {
        first_swaps.len() == shards::all().len() && first_swaps.values().all(|at| at + ms <= now)
    })
}

/// Something was broken.
pub(crate) fn violated(what: String) {
    trace::line(|| format!("       !!! {what}"));
    note(|findings| findings.violations.push(what));
}

/// An id that existed throughout was asked for.
pub(crate) fn existed(id: u64, instance: usize, answered: Answered) {
    let absent = answered == Answered::Absent;
    let misread = database::misread_for().is_some_and(|ms| ms < MISREAD);
    let lately = mishaps::rewound_lately(id) || mishaps::set_forward_lately(id);
    let unnoticed = misread || lately;
    note(|findings| {
        findings.existing += 1;
        findings.busy += u64::from(answered == Answered::Busy);
        findings.false_404s += u64::from(absent && !unnoticed);
        findings.refused_unnoticed += u64::from(absent && unnoticed);
    });
    if absent && !unnoticed {
        violated(format!("{} ms: instance {instance} refused {id}, which exists", net::now_ms()));
    }
}

/// An insert said that its id was new.
pub(crate) fn was_new(id: u64, instance: usize) {
    let swaps = FINDINGS.with_borrow(|findings| findings.swaps);
    let before = FINDINGS.with_borrow_mut(|findings| findings.new.insert(id, swaps));
    if before == Some(swaps) && !mishaps::rewound_lately(id) {
        violated(format!("{} ms: instance {instance}: {id} was new twice", net::now_ms()));
    }
}

/// An id that was never created was asked for.
pub(crate) fn never_was(refused: bool, healed: bool) {
    note(|findings| {
        findings.absent += 1;
        findings.refused += u64::from(refused);
        findings.healed_absent += u64::from(healed);
        findings.healed_refused += u64::from(healed && refused);
    });
}

/// A request or a check had to wait for the guard, for so many deadlines at most.
pub(crate) fn waited(instance: usize, asked: Instant, busy: Duration, deadlines: u32) {
    if pauses::since(instance, asked) {
        return;
    }
    let wait = asked.elapsed().saturating_sub(busy);
    let most = CHECK_DEADLINE * deadlines + ROUNDING;
    if wait > most {
        violated(format!("{} ms: instance {instance} let wait for {wait:?}", net::now_ms()));
    }
}

pub(crate) fn end() -> Findings {
    FINDINGS.take()
}
