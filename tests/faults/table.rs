//! The table that a run prints.

use std::io::Write as _;
use std::time::Duration;

use crate::account::Sums;
use crate::recovery::LIMIT;

/// How far over its deadline an answer may be.
const GRACE: Duration = Duration::from_millis(25);

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
    pub(crate) panics: u64,
    /// How late a plain timer of the system was on a thread of its own.
    pub(crate) machine: Duration,
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
        check(self.panics == 0, format!("{} panics", self.panics));
        check(sums.net <= GRACE, format!("{} ms over a deadline, noise apart", ms(sums.net)));
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
fn line(text: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).expect("somebody listens");
}

pub(crate) fn print_head() {
    line("");
    line(&format!(
        "{:<42} {:>8} {:>6} {:>6} {:>8} {:>8} {:>8} {:>8} {:>5} {:>7} {:>7} {:>11} {:>8}",
        "fault",
        "requests",
        "false",
        "panics",
        "slowest",
        "over",
        "plain",
        "thread",
        "503s",
        "passed",
        "absent",
        "inserts",
        "recovery",
    ));
    line(&format!(
        "{:<42} {:>8} {:>6} {:>6} {:>8} {:>8} {:>8} {:>8} {:>5} {:>7} {:>7} {:>11} {:>8}",
        "", "", "404s", "", "ms", "ms", "timer", "timer", "", "during", "ids", "made/failed", "s",
    ));
}

pub(crate) fn print_row(row: &Row) {
    let sums = &row.sums;
    let recovery = row.recovery.as_ref().map_or("never".to_owned(), |time| seconds(*time));
    line(&format!(
        "{:<42} {:>8} {:>6} {:>6} {:>8} {:>8} {:>8} {:>8} {:>5} {:>7} {:>7} {:>11} {:>8}",
        row.fault,
        sums.requests,
        sums.false_404s,
        row.panics,
        ms(sums.slowest),
        ms(sums.over),
        ms(sums.plain),
        ms(row.machine),
        sums.busy,
        share(sums.during_passed, sums.during),
        share(sums.absent_passed, sums.absent_during),
        format!("{}/{}", row.inserts.0, row.inserts.1),
        recovery,
    ));
    for what in row.broken() {
        line(&format!("  BROKEN: {what}"));
    }
}

pub(crate) fn print_summary(rows: &[Row]) {
    let requests: u64 = rows.iter().map(|row| row.sums.requests).sum();
    let false_404s: u64 = rows.iter().map(|row| row.sums.false_404s).sum();
    let over = rows.iter().map(|row| row.sums.over).max().unwrap_or_default();
    let net = rows.iter().map(|row| row.sums.net).max().unwrap_or_default();
    let recovery = rows.iter().filter_map(|row| row.recovery.as_ref().ok()).max();
    let never = rows.iter().filter(|row| row.recovery.is_err()).count();
    let slowest = match (recovery, never) {
        (Some(time), 0) => format!("{} s", seconds(*time)),
        _ => format!("never in {never} rows"),
    };
    line("");
    line(&format!(
        "faults: {} rows, {requests} requests, {false_404s} false 404s, slowest {} ms over its \
         deadline ({} ms with the machine's noise taken off), slowest recovery {slowest}",
        rows.len(),
        ms(over),
        ms(net),
    ));
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
