//! What the program does: many seeds, or one again.

use std::env;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use crate::kept;
use crate::oracle::Findings;
use crate::plan::Plan;
use crate::seeded::{self, hunt};
use crate::{CLEAN, differential, shrink, world};

/// Seeds unless `SIM_SEEDS` says otherwise.
const SEEDS: u64 = 1000;
/// Things that happen in a run.
pub(crate) const OPERATIONS: usize = 500;
/// Every n-th seed is run twice.
const TWICE: u64 = 50;
/// The least share of ids that Redis must have been asked for together with others.
const MERGED: f64 = 0.05;
/// Failing seeds that are shown in full.
const SHOWN: usize = 3;

/// `SIM_SEED` is one run, with its trace; `SIM_SEEDS` says how many there are, without a hunt. `SIM_BUG` is a part of the names of those
/// seeded bugs that are hunted for (without it, those whose run is kept); with `SIM_SEED`, of the one that is put into that run.
pub(crate) fn main() -> ExitCode {
    let named = env::var("SIM_BUG").ok();
    if let Some(seed) = number("SIM_SEED") {
        seeded::put_in(named.and_then(|name| hunt::place_of(&name)));
        return replay(seed);
    }
    let mut sound = true;
    if named.is_none() {
        let kept = kept::run();
        let compared = differential::compare(OPERATIONS);
        match &compared {
            Ok(commands) => println!("the model answered {commands} commands as redis-server does"),
            Err(difference) => println!("the model differs from redis-server: {difference}"),
        }
        let seeds = run_seeds(number("SIM_SEEDS").unwrap_or(SEEDS));
        sound = conclude(&seeds, &kept, compared.err());
    }
    if !CLEAN && (named.is_some() || number("SIM_SEEDS").is_none()) {
        sound &= hunt::hunt(named.as_deref());
    }
    if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

pub(crate) fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text:?}")))
}

/// What all seeds have come to.
#[derive(Default)]
struct Seeds {
    count: u64,
    findings: Findings,
    /// The seeds that broke something, and what.
    failed: Vec<(u64, String)>,
    /// The seeds whose second run went another way.
    unsteady: Vec<u64>,
    /// Tells whether sources without the seeded bugs' questions go the same way.
    trace: u64,
}

fn run_seeds(count: u64) -> Seeds {
    let from = number("SIM_FROM").unwrap_or(0);
    let next = AtomicU64::new(from);
    let all = Mutex::new(Seeds { count, ..Seeds::default() });
    let began = Instant::now();
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= from + count {
                        break;
                    }
                    let (findings, trace, steady) = run_one(seed);
                    // At once, as a long campaign may be cut short.
                    for what in findings.violations.iter().take(1) {
                        println!("seed {seed} fails: {what}");
                    }
                    let mut all = all.lock().expect("no run panics while it counts");
                    all.findings.add(&findings);
                    all.trace = all.trace.wrapping_add(trace);
                    all.failed
                        .extend(findings.violations.into_iter().next().map(|what| (seed, what)));
                    all.unsteady.extend((!steady).then_some(seed));
                }
            });
        }
    });
    let seeds = all.into_inner().expect("no run panics while it counts");
    println!("{count} seeds in {:.1?}: {:?}", began.elapsed(), seeds.findings);
    seeds
}

/// One run, its trace, and whether a second one is the same.
fn run_one(seed: u64) -> (Findings, u64, bool) {
    let plan = Plan::draw(seed, OPERATIONS);
    let outcome = world::run(&plan, false);
    let steady = !seed.is_multiple_of(TWICE) || world::run(&plan, false).hash == outcome.hash;
    (outcome.findings, outcome.hash, steady)
}

/// Shows what was found, and judges it.
fn conclude(seeds: &Seeds, kept: &Findings, difference: Option<String>) -> bool {
    let Seeds { count, findings, failed, unsteady, trace } = seeds;
    let mut sound = true;
    let mut complain = |text: String| {
        println!("{text}");
        sound = false;
    };
    if let Some(difference) = difference {
        complain(format!("the model differs from redis-server: {difference}"));
    }
    for what in &kept.violations {
        complain(what.clone());
    }
    for (seed, what) in failed.iter().take(SHOWN) {
        complain(format!("seed {seed} fails: {what}"));
        show_smallest(*seed);
    }
    if failed.len() > SHOWN {
        let others: Vec<_> = failed[SHOWN..].iter().map(|(seed, _)| seed).collect();
        complain(format!("and {} more: {others:?}", others.len()));
    }
    for seed in unsteady {
        complain(format!("seed {seed} goes another way when it is run again"));
    }
    // A guard that never refuses would keep the promise, too.
    let share = |part: u64, of: u64| part as f64 / (of.max(1)) as f64;
    let (refused, healed) = (
        share(findings.refused, findings.absent),
        share(findings.healed_refused, findings.healed_absent),
    );
    if refused < 0.3 || healed < 0.9 || findings.nulls == 0 || findings.quiet == 0 {
        complain(format!(
            "too little was refused: {refused:.2} of absent ids, {healed:.2} once all had healed, \
             {} by nulls",
            findings.nulls
        ));
    }
    if findings.copied == 0 || findings.copied_rows == 0 {
        complain("no request passed by a copy of the filter".to_owned());
    }
    if findings.strangers == 0 {
        complain("no program created rows without inserting them".to_owned());
    }
    if findings.carried == 0 || findings.redirected == 0 {
        complain("no shard was moved to another node of a cluster".to_owned());
    }
    let merged = share(findings.merged, findings.merged + findings.alone);
    if merged < MERGED {
        complain(format!("too few ids were asked for in batches: {merged:.3} of them"));
    }
    println!(
        "simulation: {:.3} % of those checks were answered 503; {} requests passed unasked, {} of them \
         by a copy; {} refusals were nulls; {} existing ids were refused before a poll could show that data \
         or clock had jumped; {:.1} % of ids were asked for in batches",
        share(findings.busy, findings.existing) * 100.0,
        findings.quiet,
        findings.copied,
        findings.nulls,
        findings.refused_unnoticed,
        merged * 100.0,
    );
    println!(
        "simulation: {count} seeds, {} operations, {} existing-id checks, {} false 404s; trace {trace:016x}",
        findings.operations, findings.existing, findings.false_404s,
    );
    sound
}

/// The run of a seed, or one that is kept under its number.
pub(crate) fn plan_of(seed: u64) -> Plan {
    let kept = kept::plans().into_iter().find(|plan| plan.seed == seed);
    kept.unwrap_or_else(|| Plan::draw(seed, OPERATIONS))
}

/// Runs one seed, with its trace; a failing one is made small first.
fn replay(seed: u64) -> ExitCode {
    let outcome = world::run(&plan_of(seed), true);
    if outcome.findings.violations.is_empty() {
        for line in &outcome.lines {
            println!("{line}");
        }
        println!("seed {seed} keeps the promise; trace {:016x}", outcome.hash);
        return ExitCode::SUCCESS;
    }
    show_smallest(seed);
    ExitCode::FAILURE
}

/// Prints the smallest plan that fails as a seed's does, and its trace.
fn show_smallest(seed: u64) {
    let smallest = shrink::shrink(&plan_of(seed));
    println!("the smallest plan of seed {seed} that fails, with {:?}:", smallest.config);
    for operation in &smallest.operations {
        println!("  {:>6} ms {:?}", operation.at, operation.what);
    }
    println!("its trace, up to what is broken:");
    let lines = world::run(&smallest, true).lines;
    let end = lines.iter().position(|line| line.contains("!!!")).map_or(lines.len(), |at| at + 1);
    for line in &lines[..end] {
        println!("  {line}");
    }
}
