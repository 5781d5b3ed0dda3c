//! What a row's traffic met.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// What the request was about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum About {
    /// An id with a row.
    Existing,
    /// An id that was never there.
    Absent,
    /// An id that the filter knows and the table lost.
    Gone,
}

/// One answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Visit {
    pub(crate) about: About,
    pub(crate) passed: bool,
    pub(crate) busy: bool,
    pub(crate) took: Duration,
    /// How late plain timers were that ran beside the request, and how late before it ended.
    pub(crate) plain: Duration,
    pub(crate) noise: Duration,
}

/// When a request was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Before,
    /// From the fault's beginning until everything works again.
    During,
    After,
}

/// Sums of one row.
#[derive(Debug, Default, Clone)]
pub(crate) struct Sums {
    pub(crate) requests: u64,
    pub(crate) busy: u64,
    pub(crate) false_404s: u64,
    /// The first of them, in words.
    pub(crate) examples: Vec<String>,
    pub(crate) during: u64,
    pub(crate) during_passed: u64,
    pub(crate) absent_during: u64,
    pub(crate) absent_passed: u64,
    pub(crate) absent_busy: u64,
    /// The longest that an answer took, and that one went over its deadline.
    pub(crate) slowest: Duration,
    pub(crate) over: Duration,
    /// The latest plain timer.
    pub(crate) plain: Duration,
    /// The most by which an answer was later over its deadline than the plain timers beside it were late
    /// until then: what is left when a busy machine is not to blame.
    pub(crate) net: Duration,
}

/// Counts while the traffic runs.
#[derive(Debug)]
pub(crate) struct Account {
    deadline: Duration,
    sums: Mutex<(Option<Phase>, Sums)>,
    pub(crate) inserts: AtomicU64,
    pub(crate) inserts_failed: AtomicU64,
}

impl Account {
    pub(crate) fn new(deadline: Duration) -> Self {
        Self {
            deadline,
            sums: Mutex::default(),
            inserts: AtomicU64::new(0),
            inserts_failed: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, (Option<Phase>, Sums)> {
        self.sums.lock().unwrap()
    }

    pub(crate) fn enter(&self, phase: Phase) {
        self.lock().0 = Some(phase);
    }

    pub(crate) fn phase(&self) -> Phase {
        self.lock().0.unwrap_or(Phase::Before)
    }

    pub(crate) fn visit(&self, sent: Phase, visit: Visit) {
        let sums = &mut self.lock().1;
        sums.requests += 1;
        sums.busy += u64::from(visit.busy);
        if sent == Phase::During {
            sums.during += 1;
            sums.during_passed += u64::from(visit.passed);
            if visit.about == About::Absent {
                sums.absent_during += 1;
                sums.absent_passed += u64::from(visit.passed);
                sums.absent_busy += u64::from(visit.busy);
            }
        }
        let over = visit.took.saturating_sub(self.deadline);
        sums.slowest = sums.slowest.max(visit.took);
        sums.over = sums.over.max(over);
        sums.plain = sums.plain.max(visit.plain);
        sums.net = sums.net.max(over.saturating_sub(visit.noise));
    }

    pub(crate) fn false_404(&self, what: String) {
        let sums = &mut self.lock().1;
        sums.false_404s += 1;
        if sums.examples.len() < 3 {
            sums.examples.push(what);
        }
    }

    pub(crate) fn inserted(&self, acknowledged: bool) {
        let counter = if acknowledged { &self.inserts } else { &self.inserts_failed };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn sums(&self) -> Sums {
        self.lock().1.clone()
    }
}
