//! Nulls: what they are learnt from, what they rest on, and how long a request waits for one.

use super::{CONFIG, DRAWN_UP, create, plan};
use crate::net::{Effect, Trap};
use crate::plan::{Answers, Ask, Config, Mishap, Old, Plan, Rules, Told, What};

/// One of the first rows.
const ID: u64 = 7;
/// Another one of them.
const OTHER: u64 = 12;

fn check(instance: usize, id: u64) -> What {
    What::Check { instance, id }
}

/// A handler answers 404 for rows that are there, and says by a header that the next caller may be answered otherwise.
pub(super) fn not_to_be_kept() -> Plan {
    let rules = Rules { shared: true, ..Rules::DEFAULT };
    let ask = |id, header| {
        What::Ask(Ask { answers: Answers::Always(404, Some(header)), ..Ask::get(0, id) })
    };
    let operations = [
        (6000, ask(ID, ("cache-control", "no-store"))),
        (6000, ask(OTHER, ("vary", "accept-language"))),
        (6100, check(1, ID)),
        (6100, check(1, OTHER)),
    ];
    plan(DRAWN_UP + 71, Config { rules, ..CONFIG }, operations)
}

/// The first null of a run: Redis does not know its script, and takes its time to say so, as with all it is asked by
/// that request.
pub(super) fn written_slowly() -> Plan {
    let late = |on, times| {
        What::Trap(Trap { on, instance: Some(0), effect: Effect::DelayReply(20), times })
    };
    let operations = [
        (6000, What::Delete { instance: 1, id: ID, takes: 0, told: Told::Never }),
        (6100, late("check", 1)),
        (6100, late("null.lua", 2)),
        (6100, What::Ask(Ask::get(0, ID))),
        (6200, check(1, ID)),
    ];
    plan(DRAWN_UP + 72, CONFIG, operations)
}

/// A row is missed, and created anew long before Redis fails over to data in which it is still missed. The next filter
/// holds it.
pub(super) fn found_again_after_a_failover() -> Plan {
    let answers = Answers::Truly { marked: true, gone: false };
    let missed = || What::Ask(Ask { answers, ..Ask::get(0, ID) });
    let operations = [
        (6000, What::Delete { instance: 1, id: ID, takes: 0, told: Told::Never }),
        (6100, missed()),
        (6150, missed()),
        (6200, What::Redis(Mishap::Dump)),
        (6300, create(1, ID, 0, 1)),
        // No process repeats that insert any more.
        (30_000, What::Redis(Mishap::FailOver { from_dump: true, old: Old::Ends })),
        (34_000, check(0, ID)),
        (34_000, check(1, ID)),
    ];
    plan(DRAWN_UP + 73, Config { null_ttl: 60_000, ..CONFIG }, operations)
}
