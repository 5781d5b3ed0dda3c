//! The command `bloom-guard`: looks at filters in Redis, and changes how processes act on them.
//!
//! It reads as an *observer*: a guard that joins a filter without writing to it, and does not count as one of its processes. So what
//! it says of an id or a filter is what a guard would do.

mod check;
mod doctor;
mod mode;
mod outcome;
mod rebuild;
mod rights;
mod status;
mod target;
mod trust;
mod verify;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use self::outcome::{Failure, Outcome};
use self::target::Target;

const AFTER: &str = "\
Exit status: 0 all is well; 1 something is wrong, as the command's own help says; 2 bad usage, no such filter, or no \
Redis.

URL is redis://[user][:password@]host[:port][/database], or any other that Builder::redis lists; `-` takes it from \
BLOOM_GUARD_URL, so that no password is in the list of processes. BLOOM_GUARD_SECRET_KEY is the filter's secret key, \
32 hex digits, if the application gives it one.

Only `mode`, `rebuild` and `trust` change a filter; `doctor` writes to keys of its own. All else only reads.";

/// Looks at the filters of bloom-guard in Redis.
#[derive(Debug, Parser)]
#[command(version, after_help = AFTER, disable_help_subcommand = true)]
struct Arguments {
    /// Answers in JSON: one object, or one a line where there are several.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Check(check::Arguments),
    /// Reads ids that exist, one a line, and names each that the filter lacks, or that a null refuses. Only reads.
    ///
    /// The mode does not count: it is told at the end. While the filter settles, what it lacks is unknown. Give ids as the guard's extractor
    /// writes them. Empty lines are left out.
    ///
    /// Exit status 1: an id would be refused, or could not be looked up. Without any id nothing is verified: 2.
    Verify(Target),
    /// Says how a filter stands, and which processes are connected (that needs `+client|list`). Only reads.
    ///
    /// Exit status 1: it, or one of its shards, refuses nothing now, or a rebuild that began now would have to wait.
    Status(Target),
    /// Says what is wrong with a Redis for a guard, and what mends it: of a cluster, with each primary that has a part of the filter.
    ///
    /// Rights are tried on keys of its own (`bg:{NAME}:doctor:…`), which end within ten seconds and are deleted; the filter's keys are only
    /// read. The filter need not be there yet: its NAME and --shards say which keys the user has to have rights for.
    ///
    /// Exit status 1: something is wrong.
    Doctor(Target),
    Mode(mode::Arguments),
    /// Asks the processes of a filter to rebuild it, and does not wait: `status` tells of the rebuild, and of the filter's age.
    ///
    /// A process that has a source begins within a few seconds: after a rebuild that is under way, or after the wait that follows one that
    /// failed. What was asked stays asked.
    Rebuild(Target),
    Trust(trust::Arguments),
}

impl Command {
    async fn run(self, json: bool) -> Outcome {
        match self {
            Self::Check(arguments) => check::run(&arguments, json).await,
            Self::Verify(target) => verify::run(&target, json).await,
            Self::Status(target) => status::run(&target, json).await,
            Self::Doctor(target) => doctor::run(&target, json).await,
            Self::Mode(arguments) => mode::run(&arguments, json).await,
            Self::Rebuild(target) => rebuild::run(&target, json).await,
            Self::Trust(arguments) => trust::run(&arguments, json).await,
        }
    }
}

/// Runs the command with the arguments of this process, and returns its exit status.
#[must_use]
pub fn run() -> ExitCode {
    let arguments = Arguments::parse();
    let json = arguments.json;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome = match runtime {
        Ok(runtime) => runtime.block_on(arguments.command.run(json)),
        Err(error) => Err(Failure(format!("the system gives no threads or sockets: {error}"))),
    };
    outcome::tell(outcome, json)
}
