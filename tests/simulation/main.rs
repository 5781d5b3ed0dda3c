//! The deterministic simulation.
#![expect(dead_code, unused_imports, reason = "the crate's own sources, of which a run uses its part")]

#[path = "../../src/absence.rs"]
mod absence;
#[path = "../../src/background.rs"]
mod background;
#[path = "../../src/builder.rs"]
mod builder;
#[path = "../../src/edge.rs"]
mod edge;
#[path = "../../src/error/mod.rs"]
mod error;
#[path = "../../src/extract/mod.rs"]
mod extract;
#[path = "../../src/filter/mod.rs"]
pub mod filter;
#[path = "../../src/future.rs"]
mod future;
#[path = "../../src/guard.rs"]
mod guard;
#[path = "../../src/id.rs"]
mod id;
#[path = "../../src/layer.rs"]
mod layer;
#[path = "../../src/metrics.rs"]
mod metrics;
#[path = "../../src/null_cache.rs"]
mod null_cache;
#[path = "../../src/rebuild/mod.rs"]
mod rebuild;
#[path = "../../src/rejection.rs"]
mod rejection;
#[path = "../../src/removal.rs"]
mod removal;
#[path = "../../src/scope.rs"]
mod scope;
#[path = "../../src/service.rs"]
mod service;
#[path = "../../src/settings.rs"]
mod settings;
#[path = "../../src/state.rs"]
mod state;
#[path = "../../src/store/mod.rs"]
mod store;
#[path = "../../src/verdict.rs"]
mod verdict;
#[path = "../../src/visit.rs"]
mod visit;

mod bugs;
mod database;
mod invariants;
mod mishaps;
mod model;
mod net;
mod oracle;
mod plan;
mod random;
mod rng;
mod scripts;
mod trace;
mod world;

pub use absence::Missing;
pub use builder::Builder;
pub use edge::OnInvalid;
pub use error::{BoxError, ConfigError, InsertError, RebuildError, RemoveError, StoreError};
#[cfg(feature = "axum")]
pub use extract::Captures;
pub use extract::{AsId, Extraction, Header, IdExtractor, PathPattern, PatternError, Query};
pub use future::ResponseFuture;
pub use id::{Digest, Digester, Id, InvalidId, SecretKey};
pub use layer::BloomGuard;
pub use metrics::Stats;
pub use rebuild::{
    BlockingIds, IdSink, RebuildReport, RebuildSource, RebuildStatus, RebuildStep, Schedule,
    from_blocking, from_iter, from_stream,
};
pub use rejection::{NotFound, ProblemDetails, RejectReason, Rejected, Rejection};
pub use removal::Removed;
pub use service::BloomGuardService;
pub use state::{GuardState, LiveFilter};
pub use verdict::{Doubt, Proof, Verdict};

use std::time::Instant;

fn main() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let operations = 500;
    if let Some(seed) = number("SIM_SEED") {
        let outcome = world::run(&plan::Plan::draw(seed, operations), true);
        for line in &outcome.lines {
            println!("{line}");
        }
        println!("{:?}\n{:016x}", outcome.findings, outcome.hash);
        return;
    }
    let seeds = number("SIM_SEEDS").unwrap_or(2000);
    let began = Instant::now();
    let mut all = oracle::Findings::default();
    for seed in 0..seeds {
        let plan = plan::Plan::draw(seed, operations);
        let outcome = world::run(&plan, false);
        if !outcome.findings.violations.is_empty() {
            println!("seed {seed} {:?}: {:?}", plan.config.flavour, &outcome.findings.violations[..1]);
        }
        all.add(&outcome.findings);
    }
    println!("{all:?} in {:?}", began.elapsed());
}
