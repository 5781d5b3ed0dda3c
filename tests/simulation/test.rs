//! Runs the simulation as a test: many seeds, then the hunt for the seeded bugs.

use std::env;
use std::process::{Command, ExitCode};

const PROGRAMS: [&str; 2] =
    [env!("CARGO_BIN_EXE_simulation"), env!("CARGO_BIN_EXE_simulation_bugs")];

fn main() -> ExitCode {
    // As the standard harness would: told to list its tests, or to run others only.
    let arguments: Vec<String> = env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        println!("simulation: test");
        return ExitCode::SUCCESS;
    }
    let mut filters = arguments.iter().filter(|argument| !argument.starts_with('-')).peekable();
    if filters.peek().is_some() && !filters.any(|filter| "simulation".contains(filter.as_str())) {
        return ExitCode::SUCCESS;
    }
    let mut sound = true;
    for program in PROGRAMS {
        let ended = Command::new(program).status();
        sound &= ended.unwrap_or_else(|error| panic!("{program}: {error}")).success();
    }
    if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
