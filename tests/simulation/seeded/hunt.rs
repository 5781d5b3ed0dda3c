//! Runs seeds until each bug is found.

use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::list::{BUGS, Bug};
use crate::plan::Plan;
use crate::{seeded, world};

/// By this variable the copy with the bugs knows what it is there for.
pub(crate) const ROLE: &str = "SIM_HUNT";

/// The bugs found, and those that were not.
pub(crate) struct Catch {
    pub(crate) found: usize,
    pub(crate) missed: Vec<String>,
}

/// Has the copy hunt, and shows what it says.
pub(crate) fn send(program: &Path, seeds: u64) -> Result<Catch, String> {
    let output = Command::new(program)
        .env(ROLE, seeds.to_string())
        .output()
        .map_err(|error| format!("cannot run the copy with the bugs: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let mut catch = Catch { found: 0, missed: Vec::new() };
    for line in said.lines() {
        println!("{line}");
        catch.found += usize::from(line.starts_with("found "));
    }
    if !output.status.success() {
        return Err(format!("the hunt failed: {}", String::from_utf8_lossy(&output.stderr)));
    }
    for Bug { name, .. } in BUGS {
        if !said
            .lines()
            .any(|line| line.starts_with("found ") && line.contains(&format!("{name:?}")))
        {
            catch.missed.push((*name).to_owned());
        }
    }
    Ok(catch)
}

/// Hunts for every bug, in as many seeds at most; the copy's part.
pub(crate) fn hunt(seeds: u64, operations: usize) {
    let next = AtomicUsize::new(0);
    let said = Mutex::new(());
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(bug) = BUGS.get(index) else { break };
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
    for seed in 0.. {
        if tried == seeds {
            break;
        }
        let plan = Plan::draw(seed, operations);
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
            return Ok((seed, tried, what));
        }
    }
    Err(tried)
}
