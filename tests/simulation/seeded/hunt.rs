//! Runs seeds until each bug is found.

use std::env;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::list::{BUGS, Bug};
use crate::plan::Plan;
use crate::{kept, seeded, world};

/// By this variable the copy with the bugs knows what it is there for.
pub(crate) const ROLE: &str = "SIM_HUNT";

/// The bugs found, and those that were not.
pub(crate) struct Catch {
    pub(crate) found: usize,
    pub(crate) missed: Vec<String>,
}

/// Has the copy hunt, and shows what it says.
pub(crate) fn send(program: &Path, seeds: u64) -> Result<Catch, String> {
    let cannot = |error: std::io::Error| format!("cannot run the copy with the bugs: {error}");
    let mut hunter = Command::new(program)
        .env(ROLE, seeds.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(cannot)?;
    let mut said = Vec::new();
    for line in hunter.stdout.take().map(BufReader::new).into_iter().flat_map(BufRead::lines) {
        let line = line.map_err(cannot)?;
        println!("{line}");
        said.push(line);
    }
    if !hunter.wait().map_err(cannot)?.success() {
        return Err("the hunt failed".to_owned());
    }
    let found = said.iter().filter(|line| line.starts_with("found ")).count();
    let mut catch = Catch { found, missed: Vec::new() };
    for Bug { name, .. } in BUGS {
        let found = format!("found {name:?}");
        if !said.iter().any(|line| line.starts_with(&found)) {
            catch.missed.push((*name).to_owned());
        }
    }
    Ok(catch)
}

/// Hunts for every bug, in as many seeds at most; the copy's part.
pub(crate) fn hunt(seeds: u64, operations: usize) {
    // To look into one of them.
    let only = env::var("SIM_BUG").ok();
    let next = AtomicUsize::new(0);
    let said = Mutex::new(());
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(bug) = BUGS.get(index) else { break };
                    if only.as_ref().is_some_and(|only| !bug.name.contains(only.as_str())) {
                        continue;
                    }
                    let line = match find(index, bug, seeds, operations) {
                        Ok((seed, tried, what)) => format!(
                            "found {:?} with seed {seed}, the {tried}. tried: {what}",
                            bug.name
                        ),
                        Err(tried) => format!("missed {:?} in {tried} seeds", bug.name),
                    };
                    let _in_turn = said.lock();
                    println!("{line}");
                }
            });
        }
    });
}

/// The first seed that finds a bug, how many were tried for it, and what it showed.
fn find(index: usize, bug: &Bug, seeds: u64, operations: usize) -> Result<(u64, u64, String), u64> {
    let mut tried = 0;
    let drawn = (0..).map(|seed| Plan::draw(seed, operations));
    for plan in kept::plans().into_iter().chain(drawn) {
        if tried == seeds {
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
