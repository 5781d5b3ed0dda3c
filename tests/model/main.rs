//! The model of the protocol: two processes, one or two ids, one Redis that may lose or get back anything, and a search
//! through every order in which their steps can happen.
//!
//! Each test run searches the quick instances, `MODEL=all` all, `MODEL=name` those so named, and shows their traces.

mod instance;
mod instances;
mod redis;
mod rules;
mod search;
mod state;
mod steps;

use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;
use std::{env, iter, thread};

use instance::Instance;
use search::search;

fn main() -> ExitCode {
    // As the standard harness would: told to list its tests, or to run others only.
    let is_other = |name: &str| !name.starts_with('-') && !"model".contains(name);
    if env::args().skip(1).any(|argument| argument == "--list" || is_other(&argument)) {
        return ExitCode::SUCCESS;
    }
    let wanted = env::var("MODEL").ok();
    let is_wanted = |of: &Instance| match wanted.as_deref() {
        None => of.is_quick,
        Some("all") => true,
        Some(name) => of.title().contains(name),
    };
    let picked: Vec<Instance> = instances::instances().into_iter().filter(is_wanted).collect();
    let shows = wanted.is_some_and(|name| name != "all");
    let queue = Mutex::new(picked.iter());
    let next = || queue.lock().expect("no panic").next();
    let failed: usize = thread::scope(|scope| {
        let work = || iter::from_fn(next).filter(|of| !is_right(of, shows)).count();
        let workers = [scope.spawn(work), scope.spawn(work)];
        workers.map(|worker| worker.join().expect("no panic")).iter().sum()
    });
    println!("{} instances, {failed} of them not as expected", picked.len());
    if failed > 0 || picked.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Searches an instance, and says what was found. Returns whether that was expected.
fn is_right(instance: &Instance, shows: bool) -> bool {
    let begun = Instant::now();
    let (end, states, trace) = search(instance);
    let is_right = end == instance.expected;
    let other = if is_right { String::new() } else { format!(", BUT FOUND: {end}") };
    let (title, took) = (instance.title(), begun.elapsed().as_secs_f64());
    println!("{title}{other} ({states} states, {took:.1} s). {}", instance.says);
    if shows || !is_right {
        let left_out = instance.without.iter().map(|rule| format!("without: {}\n", rule.says()));
        let steps = (1..).zip(trace).map(|(at, step)| format!("{at:>4}. {step}\n"));
        // In one piece, as others are searched at the same time.
        print!("{}", left_out.chain(steps).collect::<String>());
    }
    is_right
}
