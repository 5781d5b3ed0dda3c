//! A hand-over waits for the longest transaction that a process of either filter states.
//!
//! A process of before has a row's transaction open when one takes its place that promises shorter ones. The row is committed
//! when the new filter could have been built without it, and answer.

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
