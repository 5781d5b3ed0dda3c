//! An incarnation's first scan waits for processes that have inserts to say again.
//!
//! Redis fails over and loses a row's insert, whose transaction is still open. Its process is cut off, and the other
//! one rebuilds. The scan does not see the row, which is committed when a filter could be live that lacks it.

use super::{CONFIG, DRAWN_UP, PROCESS, create, plan};
use crate::net::{AGAIN, Effect, Trap};
use crate::plan::{Answers, Ask, Config, Create, Mishap, Old, Plan, Process, What};

/// Not among the first rows.
const ID: u64 = 8;
/// The process with the open transaction, and the one that rebuilds.
const ONE: usize = 0;
const OTHER: usize = 1;
/// When Redis begins to work without the insert, ms.
const WORKS: u64 = 7000;

const PATIENT: Process = Process { longest_transaction: 8000, ..PROCESS };

/// A rebuild whose scan takes 19 times as long, ms.
fn config(rest: u64) -> Config {
    Config { processes: [PATIENT; 4], page: (2, rest), ..CONFIG }
}

/// The row is inserted, and lost; its process reaches nobody before this moment.
fn lost(commit: u64, cut_off: u64) -> Vec<(u64, What)> {
    let begins = WORKS - 50;
    vec![
        (6000, What::Redis(Mishap::Dump)),
        (begins, create(ONE, ID, 0, commit - begins)),
        (WORKS - 10, What::CutOff { instance: ONE, for_ms: cut_off - (WORKS - 10) }),
        (WORKS, What::Redis(Mishap::FailOver { from_dump: true, old: Old::Ends })),
    ]
}

/// The row is asked for until its process could have said its insert again.
fn asked(from: u64, to: u64) -> impl Iterator<Item = (u64, What)> {
    (from..to).step_by(10).map(|at| (at, What::Check { instance: OTHER, id: ID }))
}

fn sorted(seed: u64, config: Config, mut operations: Vec<(u64, What)>) -> Plan {
    operations.sort_by_key(|(at, _)| *at);
    plan(seed, config, operations)
}

/// Redis works for a few moments only, and stands still in between.
pub(super) fn works_for_moments() -> Plan {
    let still = || What::Redis(Mishap::StandStill(700));
    let mut operations = lost(9250, 9750);
    operations.extend([(WORKS + 100, still()), (WORKS + 1000, still())]);
    operations.extend(asked(9420, 9740));
    sorted(DRAWN_UP + 5, config(20), operations)
}

/// Redis has worked for long enough, and the row's process has begun to say its insert again. Then Redis stands still
/// for longer than scans wait for that.
pub(super) fn stands_still_in_a_replay() -> Plan {
    let trap = Trap { on: AGAIN, instance: Some(ONE), effect: Effect::LoseRequest, times: 6 };
    let mut operations = lost(12_900, 8200);
    operations.extend([
        (WORKS, What::Trap(trap)),
        (9200, What::Redis(Mishap::StandStill(2600))),
        (9200, What::CutOff { instance: ONE, for_ms: 4100 }),
    ]);
    operations.extend(asked(12_950, 13_250));
    sorted(DRAWN_UP + 6, config(20), operations)
}

/// A replay takes many calls, each of them slow, and in all longer than swaps wait for the next one.
pub(super) fn slow_replay() -> Plan {
    // Six calls of the script.
    const IDS: u64 = 800;
    // Behind the scan, whenever the process is back.
    const COMMITS: u64 = 10_100;
    let begins = WORKS - 40;
    let effect = Effect::DelayRequest(450);
    let slow = Trap { on: AGAIN, instance: Some(ONE), effect, times: 8 };
    let create = |instance, create| What::Create { instance, create };
    let mut operations = lost(COMMITS, 7600);
    operations.extend([
        (begins, create(ONE, Create { ids: 0..IDS, ..Create::of(0, COMMITS - begins) })),
        (WORKS, What::Trap(slow)),
        // Redis knows the script from then on.
        (7200, create(OTHER, Create::of(IDS, 1))),
    ]);
    let asked = COMMITS + 10..COMMITS + 500;
    operations.extend(asked.step_by(60).map(|at| (at, What::Sweep { instance: OTHER })));
    let processes = [Process { capacity: 1000, ..PATIENT }; 4];
    sorted(DRAWN_UP + 7, Config { pool: IDS, processes, ..config(5) }, operations)
}

/// A process comes just before the scan would begin, and its inserts are slow to arrive.
pub(super) fn comes_late() -> Plan {
    let effect = Effect::DelayRequest(900);
    let slow = Trap { on: AGAIN, instance: Some(ONE), effect, times: 1 };
    let mut operations = lost(9200, 8500);
    operations.push((WORKS, What::Trap(slow)));
    operations.extend(asked(9210, 9500));
    sorted(DRAWN_UP + 53, config(5), operations)
}

/// A process comes when a slow scan is under way, and cannot say its insert again before its transaction is over.
pub(super) fn gives_up() -> Plan {
    let trap = Trap { on: AGAIN, instance: Some(ONE), effect: Effect::LoseRequest, times: 30 };
    let mut operations = lost(10_900, 9200);
    operations.push((WORKS, What::Trap(trap)));
    operations.extend(asked(12_700, 13_500));
    sorted(DRAWN_UP + 54, Config { processes: [PROCESS; 4], ..config(200) }, operations)
}

/// A process has inserted more since than it can say again. When a filter is live that has the row, a handler reads the database
/// as it was before that.
pub(super) fn forgets() -> Plan {
    const COMMITS: u64 = 10_850;
    let process = Process { recent_ids: 2, handler_time: 4000, ..PROCESS };
    let answers = Answers::Truly { marked: true, gone: false };
    let late = What::Ask(Ask { lag: 3000, answers, ..Ask::get(OTHER, ID) });
    let mut operations = lost(COMMITS, WORKS);
    operations.extend([9, 11, 13].map(|id| (WORKS - 40, create(ONE, id, 0, 1))));
    operations.extend(asked(COMMITS + 10, COMMITS + 100));
    operations.push((COMMITS + 2400, late));
    operations.extend(asked(COMMITS + 2450, COMMITS + 2550));
    sorted(DRAWN_UP + 55, Config { processes: [process; 4], ..CONFIG }, operations)
}

/// Many rows are inserted at once, by several calls.
pub(super) fn many_rows() -> Plan {
    const IDS: u64 = 300;
    let begins = WORKS - 40;
    let create = Create { ids: 0..IDS, ..Create::of(0, 9500 - begins) };
    let mut operations = lost(9500, WORKS + 100);
    operations.push((begins, What::Create { instance: ONE, create }));
    operations.extend([9510, 9600].map(|at| (at, What::Sweep { instance: OTHER })));
    sorted(DRAWN_UP + 56, Config { pool: IDS, ..config(5) }, operations)
}

/// The process stands still before it handles the acknowledgement, and until a filter is live that lacks the row.
pub(super) fn handled_late() -> Plan {
    const GOES_ON: u64 = 9955;
    let late =
        Trap { on: "add.lua", instance: Some(ONE), effect: Effect::DelayReply(20), times: 2 };
    let mut operations = vec![
        // Redis knows the script from then on.
        (5900, create(ONE, ID + 1, 0, 1)),
        (6000, What::Redis(Mishap::Dump)),
        (WORKS - 60, What::Trap(late)),
        (WORKS - 60, create(ONE, ID, 0, 0)),
        (WORKS - 50, What::Pause { instance: ONE, for_ms: GOES_ON - (WORKS - 50) }),
        (WORKS, What::Redis(Mishap::FailOver { from_dump: true, old: Old::Demoted })),
    ];
    operations
        .extend((GOES_ON..GOES_ON + 50).map(|at| (at, What::Check { instance: OTHER, id: ID })));
    sorted(DRAWN_UP + 57, CONFIG, operations)
}

/// The process is far away, and has just polled when all data are lost: its next poll finds the metadata that the other one has made
/// anew, and each question takes a quarter of a second.
pub(super) fn far_away() -> Plan {
    const LOST: u64 = 7025;
    let far = Trap { on: "", instance: Some(ONE), effect: Effect::DelayRequest(290), times: 40 };
    let mut operations = vec![
        (6900, create(ONE, ID, 0, LOST + 2120 - 6900)),
        (LOST, What::Trap(far)),
        (LOST, What::Redis(Mishap::FlushAll)),
        (LOST + 1, What::Rebuild { instance: OTHER, accepting_loss: false, short: false }),
    ];
    operations.extend(asked(LOST + 2130, LOST + 2500));
    sorted(DRAWN_UP + 80, config(0), operations)
}
