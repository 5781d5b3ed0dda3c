//! What a row's traffic met.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use crate::site::Answer;

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
    pub(crate) false_404s: u64,
    /// The first of them, in words.
    pub(crate) examples: Vec<String>,
    pub(crate) during: u64,
    pub(crate) during_passed: u64,
    pub(crate) absent_during: u64,
    pub(crate) absent_passed: u64,
    pub(crate) absent_busy: u64,
    /// The most by which an answer was over its deadline.
    pub(crate) over: Duration,
}

#[derive(Debug, Default)]
struct Books {
    phase: Option<Phase>,
    sums: Sums,
}

/// Counts while the traffic runs.
#[derive(Debug, Default)]
pub(crate) struct Account {
    books: Mutex<Books>,
    pub(crate) inserts: AtomicU64,
    pub(crate) inserts_failed: AtomicU64,
}

impl Account {
    fn lock(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap()
    }

    pub(crate) fn enter(&self, phase: Phase) {
        self.lock().phase = Some(phase);
    }

    pub(crate) fn phase(&self) -> Phase {
        self.lock().phase.unwrap_or(Phase::Before)
    }

    pub(crate) fn visit(&self, sent: Phase, about: About, answer: Answer, over: Duration) {
        let sums = &mut self.lock().sums;
        sums.requests += 1;
        if sent == Phase::During {
            sums.during += 1;
            sums.during_passed += u64::from(answer.passed());
            if about == About::Absent {
                sums.absent_during += 1;
                sums.absent_passed += u64::from(answer.passed());
                sums.absent_busy += u64::from(answer.is_busy());
            }
        }
        sums.over = sums.over.max(over);
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
        self.lock().sums.clone()
    }
}
