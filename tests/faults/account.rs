//! What a row's traffic met.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

use crate::noise::{CALM, Noise, Timer};

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
#[derive(Debug)]
pub(crate) struct Visit {
    pub(crate) about: About,
    pub(crate) passed: bool,
    pub(crate) busy: bool,
    pub(crate) begun: Instant,
    pub(crate) ended: Instant,
    /// Plain timers that ran beside the request.
    pub(crate) timers: Vec<Timer>,
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
    /// The most by which an answer was over its deadline, the noise taken off.
    pub(crate) net: Duration,
}

#[derive(Debug, Default)]
struct Books {
    phase: Option<Phase>,
    sums: Sums,
    noise: Noise,
}

/// Counts while the traffic runs.
#[derive(Debug)]
pub(crate) struct Account {
    deadline: Duration,
    books: Mutex<Books>,
    pub(crate) inserts: AtomicU64,
    pub(crate) inserts_failed: AtomicU64,
}

impl Account {
    pub(crate) fn new(deadline: Duration) -> Self {
        Self {
            deadline,
            books: Mutex::default(),
            inserts: AtomicU64::new(0),
            inserts_failed: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap()
    }

    pub(crate) fn enter(&self, phase: Phase) {
        self.lock().phase = Some(phase);
    }

    pub(crate) fn phase(&self) -> Phase {
        self.lock().phase.unwrap_or(Phase::Before)
    }

    pub(crate) fn visit(&self, sent: Phase, visit: &Visit) {
        let Books { sums, noise, .. } = &mut *self.lock();
        let took = visit.ended - visit.begun;
        let over = took.saturating_sub(self.deadline);
        let plain = noise.note((visit.begun, visit.ended), over, &visit.timers);
        sums.requests += 1;
        sums.busy += u64::from(visit.busy);
        if sent == Phase::During {
            sums.during += 1;
            sums.during_passed += u64::from(visit.passed);
            // A machine that stands still makes checks late, whatever the fault is.
            if visit.about == About::Absent && plain < CALM {
                sums.absent_during += 1;
                sums.absent_passed += u64::from(visit.passed);
                sums.absent_busy += u64::from(visit.busy);
            }
        }
        sums.slowest = sums.slowest.max(took);
        sums.over = sums.over.max(over);
        sums.plain = sums.plain.max(plain);
    }

    pub(crate) fn false_404(&self, what: String) {
        let sums = &mut self.lock().sums;
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
        let books = self.lock();
        Sums { net: books.noise.most_without(), ..books.sums.clone() }
    }
}
