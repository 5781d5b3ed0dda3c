//! The table that a run prints.

use std::io::Write as _;
use std::time::Duration;

use crate::account::Sums;
use crate::recovery::LIMIT;

/// How far over its deadline an answer may be where the machine has other work to do: it shows that the wait has an end.
const GRACE: Duration = Duration::from_secs(2);

/// What the filter must do while a fault lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Filter {
    /// It cannot refuse at least for a while: a row in which it never fails shows no fault.
    Fails,
    /// It goes on refusing.
    Holds,
}

/// One fault and what became of it.
pub(crate) struct Row {
    pub(crate) fault: &'static str,
    pub(crate) filter: Filter,
    pub(crate) sums: Sums,
    pub(crate) inserts: (u64, u64),
    /// How long it took until everything worked again, or what did not in the end.
    pub(crate) recovery: Result<Duration, String>,
    /// What else went wrong.
    pub(crate) trouble: Vec<String>,
}

impl Row {
    /// Returns what of the promises this row broke.
    pub(crate) fn broken(&self) -> Vec<String> {
        let sums = &self.sums;
        let mut broken = self.trouble.clone();
        let mut check = |holds: bool, what: String| {
            if !holds {
                broken.push(what);
            }
        };
        check(sums.false_404s == 0, format!("{} false 404s: {:?}", sums.false_404s, sums.examples));
        check(sums.over <= GRACE, format!("{} ms over a deadline", ms(sums.over)));
        match &self.recovery {
            Ok(time) => check(*time <= LIMIT, format!("works only after {}", seconds(*time))),
            Err(what) => check(false, format!("never works again: {what}")),
        }
        check(sums.absent_during > 0, "no absent id was asked for".to_owned());
        let open = sums.absent_passed + sums.absent_busy;
        let seen = format!("{open} of {} absent ids were not refused", sums.absent_during);
        match self.filter {
            // More than the few false positives and late answers that there always are.
            Filter::Fails => check(20 * open >= sums.absent_during, seen + ": was there a fault?"),
            Filter::Holds => check(10 * open <= sums.absent_during, seen),
        }
        broken
    }
}

/// Prints past the capture of tests that pass: the table is there to be read.
pub(crate) fn print(row: &Row) {
    let sums = &row.sums;
    let recovery = row.recovery.as_ref().map_or("never".to_owned(), |time| seconds(*time));
    let text = format!(
        "{:<42} {:>6} requests, {} false 404s, {} ms over a deadline, {} passed, {} of the absent ones, {}/{} inserts \
         made/failed, works after {recovery}",
        row.fault,
        sums.requests,
        sums.false_404s,
        ms(sums.over),
        share(sums.during_passed, sums.during),
        share(sums.absent_passed, sums.absent_during),
        row.inserts.0,
        row.inserts.1,
    );
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).expect("somebody listens");
}

fn ms(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1e3)
}

fn seconds(time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64())
}

fn share(part: u64, whole: u64) -> String {
    format!("{:.1}%", 100.0 * part as f64 / whole.max(1) as f64)
}
