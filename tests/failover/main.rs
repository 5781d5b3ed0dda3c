//! Real failovers: Sentinels promote a replica that lacks the last acknowledged adds, while records
//! are created, asked for and scanned. No record whose create has returned is refused, ever.
//!
//! `FAILOVER_RUNS` says how many failovers there are, by turns of each kind; `FAILOVER_KIND` says that all are of one.

#![expect(unreachable_pub, reason = "a test is a crate of its own")]

mod ledger;
mod network;
mod run;
mod topology;
mod traffic;

use run::{Kind, Outcome};

const KINDS: [Kind; 3] = [Kind::Severed, Kind::Paused, Kind::Planned];

/// Returns the kinds that are run.
fn kinds() -> Vec<Kind> {
    let Ok(wanted) = std::env::var("FAILOVER_KIND") else { return KINDS.to_vec() };
    let kinds: Vec<_> = KINDS.into_iter().filter(|kind| format!("{kind:?}") == wanted).collect();
    assert!(!kinds.is_empty(), "{wanted:?} is none of {KINDS:?}");
    kinds
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_that_loses_acknowledged_adds_never_refuses_a_record() {
    let runs = std::env::var("FAILOVER_RUNS").map_or(2, |runs| runs.parse().expect("a number"));
    let kinds = kinds();
    assert!(runs > 0, "no failover shows nothing");
    let mut outcomes: Vec<Outcome> = Vec::new();
    for index in 0..runs {
        let kind = kinds[index % kinds.len()];
        let outcome = run::run(kind).await;
        println!("{:>3} {outcome}", index + 1);
        outcomes.push(outcome);
    }
    let wrong: Vec<_> =
        outcomes.iter().flat_map(|outcome| outcome.false_refusals.iter().take(5)).collect();
    assert!(wrong.is_empty(), "for instance {wrong:#?}");
    let meant = outcomes.iter().all(|outcome| outcome.lost > 0 && outcome.refusals > 0);
    assert!(meant, "a failover that loses nothing, or a guard that refuses nothing, shows nothing");
}
