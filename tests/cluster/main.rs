//! A real Redis Cluster of three primaries and three replicas: nodes die, are replaced, and hand the filter's slot on, while
//! records are created, asked for and scanned. No record whose create has returned is refused, ever.
//!
//! `CLUSTER_RUNS` says how many faults there are, by turns of each kind; `CLUSTER_KIND` says that all are of one. By turns the
//! filter is whole and in shards; `CLUSTER_SHARDS` says in how many it is in all.

#![expect(unreachable_pub, reason = "a test is a crate of its own")]

mod doors;
#[path = "../failover/ledger.rs"]
mod ledger;
mod nodes;
mod run;
#[path = "../failover/traffic.rs"]
mod traffic;
mod url;

use run::{KINDS, Kind, Outcome};

/// Returns the kinds that are run.
fn kinds() -> Vec<Kind> {
    let wanted = std::env::var("CLUSTER_KIND").ok();
    let is_wanted = |kind: &Kind| match &wanted {
        Some(wanted) => format!("{kind:?}") == *wanted,
        None => *kind != Kind::CutOff || doors::are_possible(),
    };
    let kinds: Vec<_> = KINDS.into_iter().filter(is_wanted).collect();
    assert!(!kinds.is_empty(), "{wanted:?} is none of {KINDS:?}");
    kinds
}

/// In how many shards the filter is in a run.
fn shards(run: usize) -> u32 {
    match std::env::var("CLUSTER_SHARDS") {
        Ok(shards) => shards.parse().expect("a number"),
        Err(_) => [1, 8][run % 2],
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_becomes_of_the_filters_slot_no_record_is_refused() {
    let runs = std::env::var("CLUSTER_RUNS").map_or(4, |runs| runs.parse().expect("a number"));
    let kinds = kinds();
    assert!(runs > 0, "no fault shows nothing");
    let mut outcomes: Vec<Outcome> = Vec::new();
    for index in 0..runs {
        let outcome = run::run(kinds[index % kinds.len()], shards(index)).await;
        println!("{:>3} {outcome}", index + 1);
        outcomes.push(outcome);
    }
    let wrong: Vec<_> =
        outcomes.iter().flat_map(|outcome| outcome.false_refusals.iter().take(5)).collect();
    assert!(wrong.is_empty(), "for instance {wrong:#?}");
    assert!(outcomes.iter().all(|outcome| outcome.refusals > 0), "a guard that refuses nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_gone_keeps_no_other_shards_from_being_rebuilt() {
    run::rebuilt_beside().await;
}
