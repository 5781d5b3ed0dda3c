//! Copies of the filter in each process.

use super::{CONFIG, DRAWN_UP, PROCESS, plan};
use crate::net::{Effect, Trap};
use crate::plan::{Answers, Ask, Config, Mishap, Old, Plan, Process, What};

/// When each process has copied the first filter, ms.
const COPIED: u64 = 9_000;

/// Two such processes, each with a copy of the filter.
const COPIES: Config = Config { copies: true, ..CONFIG };

/// A row is asked for again and again, and no answer tells of it: at once, and when what was missed counts as missed no
/// more.
pub(super) fn asked_in_vain() -> Plan {
    // One of the first rows.
    const ID: u64 = 2;
    let answers = Answers::Always(403, None);
    let ask = || What::Ask(Ask { answers, ..Ask::get(0, ID) });
    let later = COPIED + CONFIG.null_ttl * 2;
    let operations = [(COPIED, ask()), (COPIED + 50, ask()), (later, ask()), (later + 50, ask())];
    plan(DRAWN_UP + 21, COPIES, operations)
}

/// A filter of many pieces goes live. While one process copies it, the name leads to another Redis; and while it copies
/// the next, all is deleted.
pub(super) fn read_from_another_redis() -> Plan {
    let (capacity, rate) = Process::LARGE;
    let processes = [Process { capacity, rate, ..PROCESS }; 4];
    let config = Config { processes, pool: 400, initial: 200, ..COPIES };
    let meanwhile = |mishap| {
        let effect = Effect::Then(mishap);
        What::Trap(Trap { on: "GETRANGE", instance: Some(0), effect, times: 1 })
    };
    let rebuild = || What::Rebuild { instance: 1, accepting_loss: false, short: false };
    let operations = [
        (COPIED, meanwhile(Mishap::FailOver { from_dump: false, old: Old::Demoted })),
        (COPIED + 10, rebuild()),
        (COPIED + 12_000, meanwhile(Mishap::FlushAll)),
        (COPIED + 12_010, rebuild()),
        // All heals when the last has happened.
        (COPIED + 16_000, What::Check { instance: 0, id: 0 }),
    ];
    plan(DRAWN_UP + 22, config, operations)
}

/// Redis's clock jumps, so that the next filter seems to be ten minutes younger than the copy; and there is another one
/// each second.
pub(super) fn far_behind() -> Plan {
    let config = Config { instances: 4, period: Some(1000), ..COPIES };
    let operations = [(COPIED, What::Redis(Mishap::Clock(600_000)))];
    plan(DRAWN_UP + 23, config, operations)
}
