//! Finds each bug: by the run that found it before, else by trying others.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::list::{BUGS, Bug};
use crate::campaign::{self, OPERATIONS};
use crate::plan::Plan;
use crate::{UNPLACED, kept, seeded, world};

/// Runs that are tried for a bug which its kept run does not find, unless `SIM_TRIES` says otherwise.
const TRIES: u64 = 400;
/// The run that found each bug: a line has its seed and the bug's name. `KEEP=1` writes it anew.
const RUNS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/seeded/runs.txt");

/// The place in the list of the first bug whose name has this in it.
pub(crate) fn place_of(name: &str) -> Option<usize> {
    BUGS.iter().position(|bug| bug.name.contains(name))
}

/// Hunts for the bugs whose names have this in them, or else for those of which the run that found them is kept; says whether all
/// were found.
pub(crate) fn hunt(named: Option<&str>) -> bool {
    let text = fs::read_to_string(RUNS).unwrap_or_default();
    let mut runs = parse(&text);
    assert!(named.is_some() || !runs.is_empty(), "{RUNS}: no run is kept");
    for bug in UNPLACED {
        println!("{bug}");
    }
    let is_wanted = |bug: &&Bug| match named {
        Some(part) => bug.name.contains(part),
        None => runs.contains_key(bug.name),
    };
    let wanted: Vec<&Bug> = BUGS.iter().filter(is_wanted).collect();
    let found = find_all(&wanted, &runs);
    let all = found.len() == wanted.len();
    println!(
        "simulation: {} of {} seeded bugs found; there are {}",
        found.len(),
        wanted.len(),
        BUGS.len()
    );
    if env::var("KEEP").is_ok_and(|keep| keep == "1") {
        runs.extend(found);
        keep(&runs);
    }
    all && UNPLACED.is_empty()
}

fn parse(text: &str) -> BTreeMap<&str, u64> {
    let line = |line| {
        let (seed, name) = str::split_once(line, ' ')?;
        Some((name, seed.parse().ok()?))
    };
    text.lines().map(|text| line(text).unwrap_or_else(|| panic!("{RUNS}: {text}"))).collect()
}

fn keep(runs: &BTreeMap<&str, u64>) {
    let lines =
        BUGS.iter().filter_map(|bug| Some(format!("{} {}\n", runs.get(bug.name)?, bug.name)));
    fs::write(RUNS, lines.collect::<String>()).unwrap_or_else(|error| panic!("{RUNS}: {error}"));
}

/// The seeds that found these bugs.
fn find_all<'a>(wanted: &[&'a Bug], runs: &BTreeMap<&str, u64>) -> BTreeMap<&'a str, u64> {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(BTreeMap::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(bug) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let known = runs.get(bug.name).copied();
                    match find(bug, known) {
                        Ok((seed, what)) => {
                            if known != Some(seed) {
                                println!("found {:?} with seed {seed}: {what}", bug.name);
                            }
                            found.lock().expect("no hunter panics").insert(bug.name, seed);
                        }
                        Err(tried) => println!("missed {:?} in {tried} runs", bug.name),
                    }
                }
            });
        }
    });
    found.into_inner().expect("no hunter panics")
}

/// The first seed that finds a bug, and what it showed; or how many were tried.
fn find(bug: &Bug, known: Option<u64>) -> Result<(u64, String), u64> {
    let index = BUGS.iter().position(|other| other.name == bug.name);
    let known = known.map(campaign::plan_of).into_iter();
    let others = kept::plans().into_iter().chain((0..).map(|seed| Plan::draw(seed, OPERATIONS)));
    let others = others.filter(|plan| bug.flavours.contains(&plan.config.flavour));
    let mut tried = 0;
    for plan in known.chain(others) {
        if tried == campaign::number("SIM_TRIES").unwrap_or(TRIES) {
            break;
        }
        tried += 1;
        seeded::put_in(index);
        let outcome = world::run(&plan, false);
        seeded::put_in(None);
        if let Some(what) = outcome.findings.violations.into_iter().next()
            // What the sources break without the bug is not its doing.
            && world::run(&plan, false).findings.violations.is_empty()
        {
            return Ok((plan.seed, what));
        }
    }
    Err(tried)
}
