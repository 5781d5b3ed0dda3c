//! Runs seeds until each bug is found.

use std::env;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::list::{BUGS, Bug};
use crate::campaign::{self, OPERATIONS};
use crate::plan::Plan;
use crate::{kept, seeded, world};

/// Seeds tried for each bug at most.
const SEEDS: u64 = 5000;

/// Hunts for every bug; the program whose sources have them does this. `SIM_BUG` names a part of those
/// bugs' names that are looked for, and with `SIM_SEED` the first one is put into that run.
pub(crate) fn main(unplaced: &[&str]) -> ExitCode {
    let named = env::var("SIM_BUG").unwrap_or_default();
    let wanted: Vec<usize> =
        (0..BUGS.len()).filter(|index| BUGS[*index].name.contains(&named)).collect();
    if let Some(seed) = campaign::number("SIM_SEED") {
        seeded::put_in(wanted.first().copied());
        return campaign::replay(seed);
    }
    for bug in unplaced {
        println!("{bug}");
    }
    let found = hunt(&wanted);
    println!("simulation: {found} of {} seeded bugs found", wanted.len());
    if found == wanted.len() && unplaced.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Hunts for these bugs; returns how many were found.
fn hunt(wanted: &[usize]) -> usize {
    let (next, found) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(index) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let bug = &BUGS[*index];
                    match find(*index, bug) {
                        Ok((seed, tried, what)) => {
                            println!(
                                "found {:?} with seed {seed}, the {tried}. tried: {what}",
                                bug.name
                            );
                            found.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(tried) => println!("missed {:?} in {tried} seeds", bug.name),
                    }
                }
            });
        }
    });
    found.into_inner()
}

/// The first seed that finds a bug, how many were tried for it, and what it showed.
fn find(index: usize, bug: &Bug) -> Result<(u64, u64, String), u64> {
    let mut tried = 0;
    let drawn = (0..).flat_map(|seed| {
        let clustered = Plan::draw(seed, OPERATIONS);
        let clustered = clustered.config.cluster.then_some(clustered);
        std::iter::once(Plan::draw_on_one(seed, OPERATIONS)).chain(clustered)
    });
    for plan in kept::plans().into_iter().chain(drawn) {
        if tried == SEEDS {
            break;
        }
        if !bug.flavours.contains(&plan.config.flavour) {
            continue;
        }
        tried += 1;
        seeded::put_in(Some(index));
        let outcome = world::run(&plan, false);
        seeded::put_in(None);
        if let Some(what) = outcome.findings.violations.into_iter().next()
            // What the sources break without the bug is not its doing.
            && world::run(&plan, false).findings.violations.is_empty()
        {
            return Ok((plan.seed, tried, what));
        }
    }
    Err(tried)
}
