//! Runs the simulation as a test. The crate's unit tests must not be compiled into that program.

use std::env;
use std::process::{Command, ExitCode};

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
    let program = env!("CARGO_BIN_EXE_simulation");
    let ended = Command::new(program).status();
    match ended.unwrap_or_else(|error| panic!("{program}: {error}")).success() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
