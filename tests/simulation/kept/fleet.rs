//! A fleet that changes: its mode, programs that do not insert, and the Redis that its name leads to.

use super::{CONFIG, DRAWN_UP, PROCESS, create, plan};
use crate::Mode;
use crate::net::{Effect, Trap};
use crate::plan::{Ask, Config, Mishap, Old, Plan, Process, What};

/// Not among the first rows.
const ID: u64 = 8;
/// When a mode is set, and from when on all processes follow it, ms.
const SET: u64 = 5000;
const FOLLOWED: u64 = 8100;

/// No process refuses from now on, so a program that does not insert may create rows.
fn watch() -> (u64, What) {
    (SET, What::FleetMode { instance: 0, mode: Mode::Shadow })
}

fn check(instance: usize) -> What {
    What::Check { instance, id: ID }
}

/// A program that does not insert has a transaction open as the step begins, and commits it when a rebuild could be
/// through.
pub(super) fn open_as_the_step_begins() -> Plan {
    let operations = [
        watch(),
        (FOLLOWED, What::Stranger { id: ID, hold: 900 }),
        (FOLLOWED + 10, What::Step { instance: 0 }),
        (FOLLOWED + 950, check(0)),
    ];
    plan(DRAWN_UP + 14, CONFIG, operations)
}

/// One process is asked for the step, and may be slow to look at the mode. Meanwhile another is told that no process
/// refuses, and a program that does not insert creates a row.
pub(super) fn mode_set_as_a_step_was_under_way(late: u64) -> Plan {
    let looks =
        Trap { on: "view.lua", instance: Some(0), effect: Effect::DelayRequest(late), times: 1 };
    // The step's rebuild has read the table.
    let read = SET + 5010 + late;
    let mut operations = vec![
        (SET - 100, What::Step { instance: 0 }),
        (SET, What::FleetMode { instance: 1, mode: Mode::Shadow }),
        (read - 50, What::Stranger { id: ID, hold: 400 }),
        (read + 400, check(0)),
    ];
    if late > 0 {
        operations.insert(0, (SET - 150, What::Trap(looks)));
    }
    let seed = if late > 0 { DRAWN_UP + 19 } else { DRAWN_UP + 70 };
    plan(seed, CONFIG, operations)
}

/// Redis loses the mode, as it was set after the last dump. The process that goes on knows it, and one that begins anew
/// later has to learn it. The row comes when the next filter is live.
pub(super) fn mode_lost() -> Plan {
    let lost = FOLLOWED + 1000;
    let told = lost + 5000;
    let operations = [
        (SET - 1000, What::Redis(Mishap::Dump)),
        watch(),
        (lost, What::Redis(Mishap::Restart { from_dump: true, loading: 0 })),
        (told, What::Stranger { id: ID, hold: 1 }),
        (told + 10, What::Crash { instance: 1 }),
        (told + 500, check(0)),
        (told + 500, check(1)),
    ];
    plan(DRAWN_UP + 15, CONFIG, operations)
}

/// No process refuses, and a row was created by a program that does not insert. It is asked for as the mode becomes another
/// that refuses nothing.
pub(super) fn switched_off_under_way() -> Plan {
    let late = Trap { on: "check", instance: Some(0), effect: Effect::DelayReply(15), times: 3 };
    let get = What::Ask(Ask::get(0, ID));
    let operations = [
        watch(),
        (FOLLOWED, What::Stranger { id: ID, hold: 1 }),
        (FOLLOWED + 100, What::Trap(late)),
        // One of them may be let through for a look.
        (FOLLOWED + 100, get.clone()),
        (FOLLOWED + 100, get),
        (FOLLOWED + 101, What::FleetMode { instance: 0, mode: Mode::Off }),
    ];
    plan(DRAWN_UP + 18, CONFIG, operations)
}

/// The name leads to another Redis, and a row is created by a process that ends: none says the insert again. Then the name
/// leads back to the first Redis, which has lived on with a whole filter that lacks the row.
pub(super) fn name_leads_back() -> Plan {
    let operations = [
        (6000, What::Redis(Mishap::Astray { from_dump: false })),
        (11_000, create(0, ID, 0, 1)),
        (11_100, What::Crash { instance: 0 }),
        (13_000, What::Redis(Mishap::Back)),
        (13_200, check(1)),
    ];
    plan(DRAWN_UP + 16, CONFIG, operations)
}

/// All processes were gone for longer than a filter is remembered, so that it settles anew. Then Redis fails over, and has the data
/// of before. A program that does not insert creates a row when the next filter is live. One process may have stood still instead
/// of being gone, and knows only that the filter had settled: `first` is who then comes first to the Redis that took over.
pub(super) fn settles_as_data_go_back(first: Option<usize>) -> Plan {
    const GONE: u64 = 100_000;
    const BACK: u64 = 16_100;
    // Not among the rows that came meanwhile.
    const ID: u64 = 26;
    let mut operations = vec![(BACK - 100, What::Redis(Mishap::Dump))];
    if first.is_some() {
        operations.push((BACK - 50, What::Pause { instance: 0, for_ms: GONE + 1500 }));
    }
    operations.extend([
        (BACK, What::Gone { for_ms: GONE }),
        (BACK + 1000, What::Redis(Mishap::FailOver { from_dump: true, old: Old::Ends })),
    ]);
    if first.is_none() {
        // It lacks the rows that came meanwhile.
        operations.insert(2, (BACK + 500, What::Sweep { instance: 1 }));
    }
    if first == Some(0) {
        operations.push((BACK + 1010, What::CutOff { instance: 1, for_ms: 1500 }));
    }
    operations.push((BACK + 5200, What::Stranger { id: ID, hold: 0 }));
    let asked = (BACK + 5300..BACK + 7000).step_by(100);
    operations.extend(asked.map(|at| (at, What::Check { instance: 1, id: ID })));
    let seed = DRAWN_UP + first.map_or(45, |first| 46 + first as u64);
    plan(seed, Config { settle: 12_000, ..CONFIG }, operations)
}

/// Redis's clock is set forward while a filter settles, so that the moment until which it does seems to be over. The next filter is
/// live at once, and a program that does not insert creates a row.
pub(super) fn settles_as_the_clock_is_set_forward() -> Plan {
    let mut operations = vec![
        (500, What::Redis(Mishap::Clock(600_000))),
        (4600, What::Stranger { id: ID, hold: 0 }),
    ];
    let asked = (4700..7000).step_by(100);
    operations.extend(asked.map(|at| (at, What::Check { instance: 1, id: ID })));
    plan(DRAWN_UP + 48, Config { settle: 12_000, ..CONFIG }, operations)
}

/// An operator's step sets the longest transaction down, and another process has longer ones than the caller: one is open, and
/// its process is cut off. The record drops its insert, if nobody knows better, and the next rebuild lacks it.
pub(super) fn longer_transactions_as_a_step_ends() -> Plan {
    const ENDS: u64 = 12_200;
    let short = Process { longest_transaction: 1000, ..PROCESS };
    let processes = [Process { longest_transaction: 8000, ..short }, short, short, short];
    let operations = [
        (3000, What::Step { instance: 1 }),
        (ENDS - 6300, create(0, ID, 0, 7900)),
        (ENDS - 250, What::CutOff { instance: 0, for_ms: 3000 }),
        (ENDS + 300, create(1, ID + 1, 0, 1)),
        (ENDS + 350, What::Rebuild { instance: 1, accepting_loss: false, short: false }),
        (ENDS + 1700, check(1)),
    ];
    plan(DRAWN_UP + 44, Config { processes, ..CONFIG }, operations)
}
