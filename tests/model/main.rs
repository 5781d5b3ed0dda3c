//! The model of the protocol: two processes, one or two ids, one Redis that may lose or get back anything, and a search
//! through every order in which their steps can happen.
//!
//! Each test run searches the quick instances, `MODEL=all` all of them, and `MODEL=name` those with this in their
//! names, with traces.

mod instance;
mod instances;
mod redis;
mod rules;
mod search;
mod state;
mod steps;

use std::env;
use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;

use instance::Instance;
use search::search;

fn main() -> ExitCode {
    // As the standard harness would: told to list its tests, or to run others only.
    let arguments: Vec<String> = env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        println!("model: test");
        return ExitCode::SUCCESS;
    }
    let mut filters = arguments.iter().filter(|argument| !argument.starts_with('-')).peekable();
    if filters.peek().is_some() && !filters.any(|filter| "model".contains(filter.as_str())) {
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
    let (queue, failed) = (Mutex::new(picked.iter()), Mutex::new(0));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(next) = queue.lock().expect("no panic").next() else { return };
                    if !run(next, shows) {
                        *failed.lock().expect("no panic") += 1;
                    }
                }
            });
        }
    });
    let failed = *failed.lock().expect("no panic");
    println!("{} instances, {failed} of them not as expected", picked.len());
    if failed > 0 || picked.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Searches an instance, and says what was found. Returns whether that was expected.
fn run(instance: &Instance, shows: bool) -> bool {
    let found = search(instance);
    let is_right = found.verdict == Some(instance.expected);
    let other = if is_right { String::new() } else { format!(", BUT FOUND {:?}", found.verdict) };
    let (title, states, took) = (instance.title(), found.states, found.took.as_secs_f64());
    println!("{title}{other}: {states} states, {took:.1} s. {}", instance.says);
    if !found.trace.is_empty() && (shows || !is_right) {
        let left_out = instance.without.iter().map(|rule| format!("without: {}", rule.says()));
        let steps = found.trace.into_iter().zip(1..).map(|(step, at)| format!("{at:>4}. {step}"));
        // In one piece, as others are searched at the same time.
        println!("{}", left_out.chain(steps).collect::<Vec<_>>().join("\n"));
    }
    is_right
}
