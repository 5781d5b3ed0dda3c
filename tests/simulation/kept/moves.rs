//! A hand-over waits for the longest transaction that a process of either filter states, and is not forgotten with Redis's data.
//!
//! A process of before has a row's transaction open when one takes its place that promises shorter ones. The row is committed
//! when the new filter could have been built without it, and answer.
//!
//! Or all data are lost after a hand-over, and a process begins that inserts into both filters, while another one has the new one
//! only. A row of that one is refused by the former filter, if that is rebuilt, and answers.

use super::{CONFIG, DRAWN_UP, PROCESS, create, plan};
use crate::moves::Version;
use crate::plan::{Config, Flavour, Former, Mishap, Plan, Process, What};

/// Not among the first rows.
const ID: u64 = 8;
/// When the row is inserted, ms.
const INSERTED: u64 = 3000;

const MOVES: Config = Config {
    former: Some(Former { shards: 1, elsewhere: true, renamed: false }),
    flavour: Flavour::Calm,
    ..CONFIG
};

fn moves(seed: u64, befalls: Option<(u64, What)>) -> Plan {
    let process = Process { longest_transaction: 500, ..PROCESS };
    let run = |instance| What::Run { instance, version: Version::Moving, process };
    let called = INSERTED + 60;
    let mut operations =
        vec![(INSERTED, create(0, ID, 0, 3900)), (INSERTED + 20, run(0)), (INSERTED + 20, run(1))];
    operations.extend(befalls);
    operations.push((called, What::HandOver { instance: 1 }));
    let checks = (INSERTED + 3950..INSERTED + 5000).step_by(50);
    operations.extend(
        checks.flat_map(|at| [0, 1].map(|instance| (at, What::Check { instance, id: ID }))),
    );
    plan(seed, MOVES, operations)
}

/// Only the former filter knows how long that may be.
pub(super) fn known_to_the_former() -> Plan {
    moves(DRAWN_UP + 28, None)
}

/// The same, while it cannot be asked.
pub(super) fn former_stands_still() -> Plan {
    let still = Mishap::AtFormer(Box::new(Mishap::StandStill(1500)));
    moves(DRAWN_UP + 29, Some((INSERTED + 30, What::Redis(still))))
}

/// When one has the new filter only, and when all data are lost, ms.
const MOVED: u64 = 18_000;
const LOST: u64 = MOVED + 6000;

/// The process that has the new filter only tells of the hand-over.
pub(super) fn lost_by_both() -> Plan {
    let run = |instance, version| What::Run { instance, version, process: PROCESS };
    let lost = [Mishap::FlushAll, Mishap::AtFormer(Box::new(Mishap::FlushAll))];
    // When both processes have told Redis what they know.
    let begins = LOST + 6000;
    let mut operations = vec![
        (INSERTED, run(0, Version::Moving)),
        (INSERTED, run(1, Version::Moving)),
        (INSERTED + 60, What::HandOver { instance: 1 }),
        (MOVED, run(0, Version::New)),
    ];
    operations.extend(lost.map(|lost| (LOST, What::Redis(lost))));
    operations.push((begins, What::Crash { instance: 1 }));
    operations.push((begins + 9000, create(0, ID, 0, 100)));
    let checks = (begins + 9200..begins + 11_000).step_by(100);
    operations.extend(checks.map(|at| (at, What::Check { instance: 1, id: ID })));
    plan(DRAWN_UP + 30, MOVES, operations)
}
