//! One key that is put back as an old copy of itself, while all others stay.

use super::{CONFIG, DRAWN_UP, create, plan};
use crate::net::{Effect, Trap};
use crate::plan::{Config, Create, Mishap, Plan, What};

/// Not among the first rows.
const ID: u64 = 8;
/// Just after a poll, so that the next one comes when all is over.
const COPIED: u64 = 6000;

/// One process inserts a row and commits it. The live filter is put back as it was before that. At once the other process,
/// which has heard of no insert since, is asked for the row.
pub(super) fn old_bits_refuse_no_row_that_was_inserted_since() -> Plan {
    let mut operations = vec![
        (COPIED, What::Redis(Mishap::Dump)),
        (COPIED + 10, create(0, ID, 0, 1)),
        (COPIED + 30, What::Redis(Mishap::PutBack("bits"))),
    ];
    operations.extend((31..36).map(|at| (COPIED + at, What::Check { instance: 1, id: ID })));
    plan(DRAWN_UP + 43, CONFIG, operations)
}

/// While the filter settles, a program that does not insert creates a row. As soon as the filter goes live that has it,
/// the one before is put back: no insert tells them apart. The other process has met that one only. It learns that the
/// filter has settled, and is asked for the row; it would rebuild, but for a lease that is given back late.
pub(super) fn filter_that_settled_put_back_as_the_next_goes_live() -> Plan {
    const SETTLE: u64 = 12_000;
    let trap =
        |on, effect| (SETTLE - 100, What::Trap(Trap { on, instance: None, effect, times: 1 }));
    let mut operations = vec![
        (5000, What::Redis(Mishap::Dump)),
        (5000, What::Stranger { id: ID, hold: 0 }),
        trap("swap.lua", Effect::Then(Mishap::PutBack("bits"))),
        trap("release.lua", Effect::DelayRequest(400)),
    ];
    let checks = (SETTLE..SETTLE + 1000).step_by(50);
    operations.extend(
        checks.flat_map(|at| [0, 1].map(|instance| (at, What::Check { instance, id: ID }))),
    );
    plan(DRAWN_UP + 76, Config { settle: SETTLE, ..CONFIG }, operations)
}

/// A row is inserted, and committed late; the record is lost, and older metadata are put back, which name no number that the record
/// had. Before any poll the other process inserts: its number is greater than all before, and the floor is below that of the row.
pub(super) fn old_metadata_and_an_insert_before_the_next_poll() -> Plan {
    const LATER: u64 = 61;
    let mut operations = vec![
        (COPIED, What::Redis(Mishap::Dump)),
        (COPIED + 10, create(0, LATER, 0, 3900)),
        (COPIED + 20, What::Redis(Mishap::Delete(vec!["recent"]))),
        (COPIED + 30, What::Redis(Mishap::PutBack("fleet"))),
        (COPIED + 40, create(1, ID, 0, 1)),
    ];
    let asked = (COPIED + 4000..COPIED + 5000).step_by(50);
    operations.extend(asked.map(|at| (at, What::Check { instance: 1, id: LATER })));
    plan(DRAWN_UP + 78, CONFIG, operations)
}

/// Old bits of many rows, in the midst of a batch that asks for all of them.
pub(super) fn old_bits_in_a_batch() -> Plan {
    let trap = |effect, times| What::Trap(Trap { on: "check", instance: Some(1), effect, times });
    let create = Create { ids: 0..CONFIG.pool, ..Create::of(0, 1) };
    let check = |id| What::Check { instance: 1, id };
    let operations = [
        (COPIED, What::Redis(Mishap::Dump)),
        (COPIED + 10, What::Create { instance: 0, create }),
        // Two are under way, so that the others wait, and are one batch.
        (COPIED + 40, trap(Effect::DelayReply(5), 2)),
        (COPIED + 40, check(0)),
        (COPIED + 41, check(10)),
        (COPIED + 42, trap(Effect::Midway(Mishap::PutBack("bits")), 1)),
        (COPIED + 42, What::Sweep { instance: 1 }),
        (COPIED + 100, check(0)),
    ];
    plan(DRAWN_UP + 66, CONFIG, operations)
}

/// A program that does not insert creates a row while the filter settles. When the next filter is live, the process that did not
/// build it hears in a poll that the filter has settled. At once the one before is put back; nothing was inserted meanwhile.
pub(super) fn filter_of_before_it_had_settled() -> Plan {
    const SETTLED: u64 = 12_110;
    let effect = Effect::Then(Mishap::PutBack("bits"));
    let trap = Trap { on: "join.lua", instance: Some(0), effect, times: 1 };
    let mut operations = vec![
        (4000, What::Stranger { id: ID, hold: 0 }),
        (COPIED, What::Redis(Mishap::Dump)),
        (SETTLED, What::Rebuild { instance: 1, accepting_loss: false, short: false }),
        (SETTLED + 1915, What::Trap(trap)),
    ];
    let asked = (SETTLED + 1920..SETTLED + 4000).step_by(20);
    operations.extend(asked.map(|at| (at, What::Check { instance: 0, id: ID })));
    let config = Config { settle: SETTLED - 100, page: (2, 100), ..CONFIG };
    plan(DRAWN_UP + 64, config, operations)
}
