//! The simulation with all seeded bugs in the crate's sources, each behind a question: it has to find
//! every one of them.
#![expect(
    dead_code,
    unreachable_pub,
    unused_imports,
    unused_parens,
    clippy::all,
    reason = "the crate's own sources, changed, and compiled for this program, which uses its part of them"
)]

// The simulation's modules and the changed sources: see `build.rs`.
include!(concat!(env!("OUT_DIR"), "/sources_with_bugs.rs"));

/// A run allocates all the time; this takes a tenth off it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    seeded::hunt::main(UNPLACED)
}
