//! An incarnation's first scan waits for processes that have inserts to say again.
//!
//! Redis fails over and loses a row's insert, whose transaction is still open. Its process is cut off, and the other
//! one rebuilds. The scan does not see the row, which is committed when a filter could be live that lacks it.

use super::{CONFIG, DRAWN_UP, PROCESS, create, plan};
use crate::net::{AGAIN, Effect, Trap};
use crate::plan::{Config, Create, Mishap, Old, Plan, Process, What};

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
    let begins = WORKS - 40;
    let effect = Effect::DelayRequest(450);
    let slow = Trap { on: AGAIN, instance: Some(ONE), effect, times: 8 };
    let create = |instance, create| What::Create { instance, create };
    let mut operations = lost(9850, 7600);
    operations.extend([
        (begins, create(ONE, Create { ids: 0..IDS, ..Create::of(0, 9850 - begins) })),
        (WORKS, What::Trap(slow)),
        // Redis knows the script from then on.
        (7200, create(OTHER, Create::of(IDS, 1))),
    ]);
    operations.extend((9860..10_500).step_by(60).map(|at| (at, What::Sweep { instance: OTHER })));
    let processes = [Process { capacity: 1000, ..PATIENT }; 4];
    sorted(DRAWN_UP + 7, Config { pool: IDS, processes, ..config(5) }, operations)
}
