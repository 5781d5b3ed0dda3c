//! The deterministic simulation, with all seeded bugs in the crate's sources: see `build.rs`.
#![expect(
    dead_code,
    unreachable_pub,
    unused_imports,
    unused_parens,
    clippy::all,
    reason = "the crate's own sources, changed, and compiled for this program, which uses its part of them"
)]

mod background;
mod campaign;
mod client;
mod cluster;
mod copies;
mod database;
mod differential;
mod fleet;
mod invariants;
mod kept;
mod mishaps;
mod model;
mod net;
mod oracle;
mod pauses;
mod plan;
mod random;
mod recording;
#[path = "../support/redis_server.rs"]
mod redis_server;
mod rng;
mod scripts;
mod seeded;
mod shards;
mod shrink;
mod trace;
mod world;

include!(concat!(env!("OUT_DIR"), "/sources.rs"));

/// A run allocates all the time; this takes a tenth off it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    campaign::main()
}
