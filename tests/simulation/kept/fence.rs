//! Copies that a fence brings up to the last insert.

use super::{CONFIG, DRAWN_UP, PROCESS, create, plan};
use crate::plan::{Config, Create, Plan, Process, What};

/// When each process has copied the first filter, ms.
const COPIED: u64 = 20_000;
/// Rows that are inserted while the one process's copy falls behind.
const FIRST: u64 = 40;

/// Two such processes, each with a copy of the filter, and room for so many rows more than there are at first.
fn config(process: Process, rows: u64) -> Config {
    Config { processes: [process; 4], pool: FIRST + rows, initial: FIRST, copies: true, ..CONFIG }
}

/// One process is cut off while the other one inserts rows, and sees its copy fall behind by them.
fn behind(seed: u64, process: Process, rows: u64) -> Plan {
    let create = Create { ids: FIRST..FIRST + rows, ..Create::of(FIRST, 1) };
    let mut operations = vec![
        (COPIED, What::CutOff { instance: 0, for_ms: 2000 }),
        (COPIED + 500, What::Create { instance: 1, create }),
    ];
    // An id that is asked for by itself is put into the copy.
    operations.push((COPIED + 6000, What::Sweep { instance: 0 }));
    plan(seed, config(process, rows), operations)
}

/// The record has dropped some of them since.
pub(super) fn passed_by_the_floor() -> Plan {
    behind(DRAWN_UP + 50, Process { recent_ids: 2, ..PROCESS }, 40)
}

/// There are more of them than one page holds.
pub(super) fn by_more_than_a_page() -> Plan {
    behind(DRAWN_UP + 51, Process { recent_ids: 1000, ..PROCESS }, 40)
}

/// Rows are inserted, one after another, while the one process copies a filter of many pieces.
pub(super) fn inserts_beside_a_load() -> Plan {
    const ROWS: u64 = 500;
    let (capacity, rate) = Process::LARGE;
    let process = Process { capacity, rate, recent_ids: 10_000, ..PROCESS };
    let mut operations: Vec<_> =
        (0..ROWS).map(|row| (1500 + row * 12, create(1, FIRST + row, 0, 1))).collect();
    operations.push((COPIED, What::Sweep { instance: 0 }));
    plan(DRAWN_UP + 52, config(process, ROWS), operations)
}
