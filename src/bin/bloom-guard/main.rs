//! Looks at filters in Redis, and changes how processes act on them.

mod check;
mod doctor;
mod drop;
mod findings;
mod fleet_mode;
mod joined;
mod nodes;
mod outcome;
mod plan;
mod processes;
mod rebuild;
mod rights;
mod server;
mod status;
mod target;
mod trust;
mod verify;
mod watch;
mod words;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use self::outcome::{Failure, Outcome};

const AFTER: &str = "\
Exit status: 0 all is well; 1 something is wrong, as the command's own help says; 2 bad usage, no such filter, or no \
Redis.

URL is redis://[user][:password@]host[:port][/database], or any other that Builder::redis lists; `-` takes it from \
BLOOM_GUARD_URL, so that no password is in the list of processes. BLOOM_GUARD_SECRET_KEY is the filter's secret key, \
32 hex digits, if the application gives it one.

Only `mode`, `rebuild`, `trust` and `drop` change a filter; `doctor` writes to keys of its own. All else only reads.";

/// Looks at the filters of bloom-guard in Redis.
#[derive(Debug, Parser)]
#[command(version, after_help = AFTER, disable_help_subcommand = true)]
struct Arguments {
    /// Answers in JSON: one object, or one a line where there is a line for each id or second.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Check(check::Arguments),
    Verify(verify::Arguments),
    Status(status::Arguments),
    Mode(fleet_mode::Arguments),
    Rebuild(rebuild::Arguments),
    Doctor(doctor::Arguments),
    Plan(plan::Arguments),
    Watch(watch::Arguments),
    Trust(trust::Arguments),
    Drop(drop::Arguments),
}

impl Command {
    async fn run(self, json: bool) -> Outcome {
        match self {
            Self::Check(arguments) => check::run(&arguments, json).await,
            Self::Verify(arguments) => verify::run(&arguments, json).await,
            Self::Status(arguments) => status::run(&arguments, json).await,
            Self::Mode(arguments) => fleet_mode::run(&arguments, json).await,
            Self::Rebuild(arguments) => rebuild::run(&arguments, json).await,
            Self::Doctor(arguments) => doctor::run(&arguments, json).await,
            Self::Plan(arguments) => plan::run(&arguments, json),
            Self::Watch(arguments) => watch::run(&arguments, json).await,
            Self::Trust(arguments) => trust::run(&arguments, json).await,
            Self::Drop(arguments) => drop::run(&arguments, json).await,
        }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let json = arguments.json;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome = match runtime {
        Ok(runtime) => runtime.block_on(arguments.command.run(json)),
        Err(error) => Err(Failure(format!("the system gives no threads or sockets: {error}."))),
    };
    outcome::tell(outcome, json)
}
