//! Real failovers: Sentinels promote a replica that lacks the last acknowledged adds, while records
//! are created, asked for and scanned. No record whose create has returned is refused, ever.
//!
//! The application asks the Sentinels, or calls a proxy that does.
//!
//! `FAILOVER_RUNS` says how many failovers there are, by turns of each kind; `FAILOVER_KIND` says that all are of one.

#![expect(unreachable_pub, reason = "a test is a crate of its own")]

mod front;
mod ledger;
mod network;
mod run;
mod topology;
mod traffic;

use run::{Kind, Outcome};

const KINDS: [Kind; 7] = [
    Kind::Paused,
    Kind::Planned,
    Kind::CutOff,
    Kind::SeveredBehindProxy,
    Kind::Severed,
    Kind::PlannedBare,
    Kind::PausedBehindProxy,
];

/// Returns the kinds that are run.
fn kinds() -> Vec<Kind> {
    let Ok(wanted) = std::env::var("FAILOVER_KIND") else { return KINDS.to_vec() };
    let kinds: Vec<_> = KINDS.into_iter().filter(|kind| format!("{kind:?}") == wanted).collect();
    assert!(!kinds.is_empty(), "{wanted:?} is none of {KINDS:?}");
    kinds
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_that_loses_acknowledged_adds_never_refuses_a_record() {
    let runs = std::env::var("FAILOVER_RUNS").map_or(4, |runs| runs.parse().expect("a number"));
    let kinds = kinds();
    assert!(runs > 0, "no failover shows nothing");
    let mut outcomes = Vec::new();
    for index in 0..runs {
        let kind = kinds[index % kinds.len()];
        let outcome = run::run(kind).await;
        println!("{:>3} {outcome}", index + 1);
        outcomes.push(outcome);
    }
    let sum = |count: fn(&Outcome) -> u64| outcomes.iter().map(count).sum::<u64>();
    let slowest = outcomes.iter().map(|outcome| outcome.recovery).fold(0.0, f64::max);
    let lost = sum(|outcome| outcome.lost);
    let promised = || outcomes.iter().filter(|outcome| outcome.kind.is_promised());
    let wrong: usize = promised().map(|outcome| outcome.false_refusals.len()).sum();
    println!(
        "failover: {runs} runs, {} requests, {} adds, {lost} adds lost by redis, {wrong} false 404s, \
         slowest recovery {slowest:.1} s",
        sum(|outcome| outcome.requests),
        sum(|outcome| outcome.adds),
    );
    let examples: Vec<_> =
        promised().flat_map(|outcome| outcome.false_refusals.iter().take(5)).collect();
    assert_eq!(wrong, 0, "for instance {examples:#?}");
    let meant = outcomes.iter().all(|outcome| outcome.lost > 0 && outcome.refusals > 0);
    assert!(meant, "a failover that loses nothing, or a guard that refuses nothing, shows nothing");
}
