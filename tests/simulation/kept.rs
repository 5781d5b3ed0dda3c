//! Runs that once broke the promise, made small.

use crate::oracle::Findings;
use crate::plan::{Config, Flavour, Mishap, Operation, Plan, What};
use crate::world;

/// Runs them; returns what they come to.
pub(crate) fn run() -> Findings {
    let mut findings = Findings::default();
    for plan in plans() {
        let outcome = world::run(&plan, false);
        findings.add(&outcome.findings);
        let broken = outcome.findings.violations.into_iter();
        findings.violations.extend(broken.map(|what| format!("kept seed {}: {what}", plan.seed)));
    }
    findings
}

pub(crate) fn plans() -> Vec<Plan> {
    vec![refused_writes()]
}

/// The metadata is lost, and Redis refuses writes for longer than the grace: the process with an open
/// transaction cannot say its insert again, and the other one is the first to write when it may.
fn refused_writes() -> Plan {
    let config = Config {
        instances: 2,
        version: "7.0.15",
        capacity: 400,
        rate: 0.0002,
        initial: 38,
        longest_transaction: [2000, 4000, 2000, 4000],
        longest_rebuild: 60_000,
        handler_time: 2000,
        null_ttl: 5000,
        removed_ttl: 1000,
        period: Some(1000),
        journal_entries: 1000,
        node_entries: 2,
        page: (5, 0),
        slow: 0,
        flavour: Flavour::Evicting,
    };
    let create = |instance, id, hold| What::Create {
        instance,
        id,
        before: 50,
        hold,
        aborts: false,
        private: false,
    };
    let operations = [
        (255, create(1, 43, 3764)),
        (398, create(0, 91, 2)),
        (435, What::Redis(Mishap::Delete(&["log", "meta"]))),
        (469, What::Redis(Mishap::Misconfigured(true))),
        (2888, What::Redis(Mishap::Misconfigured(false))),
        (3064, What::Redis(Mishap::Lonely(true))),
        (9799, What::Crash { instance: 1 }),
    ];
    let operations = operations.map(|(at, what)| Operation { at, what }).to_vec();
    Plan { seed: 268_487, config, operations }
}
