//! Looks at filters in Redis, and changes how processes act on them.

use std::process::ExitCode;

fn main() -> ExitCode {
    bloom_guard::command::run()
}
