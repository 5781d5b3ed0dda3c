//! How long it takes to fill a filter in Redis with ids that are in memory.

use std::pin::pin;
use std::time::{Duration, Instant};

use bloom_guard::rebuild::RebuildStep;
use bloom_guard::{BloomGuard, PathPattern, Schedule, from_iter};
use redis::aio::MultiplexedConnection;
use redis::{Pipeline, cmd};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::contender::{Layout, OURS, reserve};
use crate::redis_server::RedisServer;
use crate::redisbloom;
use crate::report::{Report, Rounds, grouped};
use crate::scale::{RATE, Scale};

const NAME: &str = "fill";
/// The contenders of this figure are our rebuild's steps.
const STEP: &str = "fill, ours, step";
/// From `build` to `ready`, with the two seconds that a new Redis is given before anything goes live.
const FIRST: &str = "fill, ours, first filter on a new Redis";
/// Ids in one pipeline or command.
const BATCH: u64 = 1_000;
/// Pipelines under way together, so that neither Redis nor its client waits for the other.
const AT_ONCE: u64 = 4;

pub fn run(scale: &Scale, report: &mut Report) {
    Runtime::new().expect("a runtime").block_on(measure(scale, report));
}

async fn measure(scale: &Scale, report: &mut Report) {
    let ids = scale.fill_ids;
    let (server, redisbloom) = redisbloom::start(report);
    let mut rounds = Rounds::default();
    let guard = guard(&server, ids);
    let begun = Instant::now();
    guard.ready().await;
    rounds.note(FIRST, OURS, "s", begun.elapsed().as_secs_f64());
    let mut connection = server.multiplexed().await;
    for _ in 0..scale.fill_rounds {
        let part = setbit(&mut connection, ids, scale.setbit_ids).await;
        let scaled = part.as_secs_f64() * ids as f64 / scale.setbit_ids as f64;
        rounds.note(NAME, "pipelined SETBIT (scaled)", "s", scaled);
        if redisbloom {
            let took = madd(&mut connection, ids).await;
            rounds.note(NAME, "BF.MADD (RedisBloom)", "s", took.as_secs_f64());
        }
        rebuild(&guard, &mut rounds).await;
    }
    report.add(rounds.medians(&conditions(scale)));
    let of = format!("{} ids", grouped(ids as f64));
    for (title, name) in [(&*of, NAME), ("our rebuild's steps", STEP), ("our first filter", FIRST)]
    {
        report.table(title, &[(name.to_owned(), String::new())]);
    }
}

fn conditions(scale: &Scale) -> String {
    format!(
        "{} ids at {RATE} from memory, into a Redis on loopback; SETBIT: {} of them, {} bits each, times {}; \
         {BATCH} ids a pipeline or command, {AT_ONCE} of these at once; ours: rebuild_now, beside the filter that is \
         in use; median of {} rounds",
        grouped(scale.fill_ids as f64),
        grouped(scale.setbit_ids as f64),
        Layout::rueidisprob(scale.fill_ids, RATE).hashes,
        scale.fill_ids / scale.setbit_ids,
        scale.fill_rounds
    )
}

fn guard(server: &RedisServer, ids: u64) -> BloomGuard {
    BloomGuard::builder("users", PathPattern::<u64>::new("/users/{id}").expect("valid"))
        .redis(&server.url())
        .settle(Duration::ZERO)
        .capacity(ids, RATE)
        .rebuild(Schedule::manual(), from_iter(move || 0..ids))
        .build()
        .expect("valid")
}

/// Sets the bits of the first `part` of so many ids in a bitmap that has its full length.
async fn setbit(connection: &mut MultiplexedConnection, ids: u64, part: u64) -> Duration {
    let layout = Layout::rueidisprob(ids, RATE);
    let mut pipeline = redis::pipe();
    pipeline.cmd("DEL").arg("setbit");
    pipeline.cmd("SETBIT").arg("setbit").arg(layout.bits - 1).arg(0);
    pipeline.exec_async(connection).await.expect("room for it");
    in_batches(connection, part, move |first, last| {
        let mut pipeline = redis::pipe();
        for offset in (first..last).flat_map(|id| layout.offsets(id)) {
            pipeline.cmd("SETBIT").arg("setbit").arg(offset).arg(1).ignore();
        }
        pipeline
    })
    .await
}

async fn madd(connection: &mut MultiplexedConnection, ids: u64) -> Duration {
    reserve(connection, "madd", ids, RATE).await;
    in_batches(connection, ids, |first, last| {
        let mut command = cmd("BF.MADD");
        command.arg("madd").arg((first..last).collect::<Vec<_>>());
        let mut pipeline = redis::pipe();
        pipeline.add_command(command).ignore();
        pipeline
    })
    .await
}

/// Sends a pipeline for each batch of ids, some at once.
async fn in_batches(
    connection: &MultiplexedConnection,
    ids: u64,
    pipeline: impl Fn(u64, u64) -> Pipeline + Clone + Send + 'static,
) -> Duration {
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for task in 0..AT_ONCE {
        let (mut connection, pipeline) = (connection.clone(), pipeline.clone());
        tasks.spawn(async move {
            for first in (task * BATCH..ids).step_by((AT_ONCE * BATCH) as usize) {
                let pipeline = pipeline(first, (first + BATCH).min(ids));
                pipeline.exec_async(&mut connection).await.expect("an answer");
            }
        });
    }
    tasks.join_all().await;
    begun.elapsed()
}

/// Rebuilds, and looks each millisecond at which step that is.
async fn rebuild(guard: &BloomGuard, rounds: &mut Rounds) {
    let mut steps = Vec::<(RebuildStep, Duration)>::new();
    let mut looked = Instant::now();
    let mut rebuild = pin!(guard.rebuild_now());
    let report = loop {
        tokio::select! {
            report = &mut rebuild => break report.expect("a rebuild"),
            () = tokio::time::sleep(Duration::from_millis(1)) => {}
        }
        let (step, passed) = (guard.rebuild_status().step, looked.elapsed());
        looked += passed;
        match steps.iter_mut().find(|(known, _)| *known == step) {
            Some((_, time)) => *time += passed,
            None => steps.push((step, passed)),
        }
    };
    rounds.note(NAME, OURS, "s", report.took.as_secs_f64());
    for (step, time) in steps {
        if step != RebuildStep::Idle {
            rounds.note(STEP, step.as_str(), "s", time.as_secs_f64());
        }
    }
}
