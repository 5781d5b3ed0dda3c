//! Real failovers: Sentinels promote a replica that lacks the last acknowledged adds, while records
//! are created, asked for and scanned. No record whose create has returned is refused, ever.
//!
//! `FAILOVER_RUNS` says how many failovers there are, by turns of each kind.

#![expect(unreachable_pub, reason = "a test is a crate of its own")]

mod front;
mod ledger;
mod network;
mod run;
mod topology;
mod traffic;

use run::{Kind, Outcome};

const KINDS: [Kind; 5] =
    [Kind::Paused, Kind::SeveredAndKept, Kind::Split, Kind::Severed, Kind::PausedAndKept];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_that_loses_acknowledged_adds_never_refuses_a_record() {
    let runs = std::env::var("FAILOVER_RUNS").map_or(3, |runs| runs.parse().expect("a number"));
    assert!(runs > 0, "no failover shows nothing");
    let mut outcomes = Vec::new();
    for index in 0..runs {
        let kind = KINDS[index % KINDS.len()];
        let outcome = run::run(kind).await;
        println!("{:>3} {outcome}", index + 1);
        outcomes.push(outcome);
    }
    let sum = |count: fn(&Outcome) -> u64| outcomes.iter().map(count).sum::<u64>();
    let slowest = outcomes.iter().map(|outcome| outcome.recovery).fold(0.0, f64::max);
    let lost = sum(|outcome| outcome.lost);
    let wrong = sum(|outcome| outcome.false_refusals.len() as u64);
    println!(
        "failover: {runs} runs, {} requests, {} adds, {lost} adds lost by redis, {wrong} false 404s, \
         slowest recovery {slowest:.1} s",
        sum(|outcome| outcome.requests),
        sum(|outcome| outcome.adds),
    );
    let examples: Vec<_> =
        outcomes.iter().flat_map(|outcome| outcome.false_refusals.iter().take(5)).collect();
    assert_eq!(wrong, 0, "for instance {examples:#?}");
    let meant = outcomes.iter().all(|outcome| outcome.lost > 0 && outcome.refusals > 0);
    assert!(meant, "a failover that loses nothing, or a guard that refuses nothing, shows nothing");
}
