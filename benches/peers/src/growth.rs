//! The same with ever more ids: time of the first filter and of a rebuild, memory, and checks with 512 in flight.

use std::fs;
use std::time::Instant;

use tokio::runtime::Runtime;

use crate::checks::Work;
use crate::contender::{Contender, OURS};
use crate::ids::Kind;
use crate::redis_server::RedisServer;
use crate::report::{Report, Rounds, grouped};
use crate::scale::{RATE, Scale};

const IN_FLIGHT: u64 = 512;
/// What is measured, with what a table says of it.
const FIGURES: [(&str, &str); 6] = [
    ("first filter", "from build to ready, on a new Redis"),
    ("rebuild", "rebuild_now"),
    ("memory of Redis", "with the live filter"),
    ("memory of the process", "the most, during rebuilds"),
    ("checks, present", "512 in flight"),
    ("checks, absent", "512 in flight"),
];

pub fn run(scale: &Scale, report: &mut Report) {
    let runtime = Runtime::new().expect("a runtime");
    for ids in scale.growth_ids {
        runtime.block_on(measure(scale, ids, report));
    }
    for (figure, title) in FIGURES {
        let column = |ids| (name(figure, ids), grouped(ids as f64));
        report.table(&format!("{figure}, {title}"), &scale.growth_ids.map(column));
    }
}

fn name(figure: &str, ids: u64) -> String {
    format!("growth, {figure}, {} ids", grouped(ids as f64))
}

async fn measure(scale: &Scale, ids: u64, report: &mut Report) {
    let server = RedisServer::start();
    let mut rounds = Rounds::default();
    let empty = memory_of(&server);
    let mut note =
        |figure, contender, unit, value| rounds.note(&name(figure, ids), contender, unit, value);
    let resting = process_memory("VmRSS");
    forget_peak();
    let begun = Instant::now();
    let ours = Contender::ours(&server, ids, RATE).await;
    note("first filter", OURS, "s", begun.elapsed().as_secs_f64());
    note("memory of Redis", OURS, "MB", (memory_of(&server) - empty) / 1e6);
    note("rebuild", OURS, "s", ours.rebuild().await.as_secs_f64());
    note("memory of the process", OURS, "MB", (process_memory("VmHWM") - resting) / 1e6);
    let filled = memory_of(&server);
    let getbits = Contender::getbits(&server, ids, RATE).await;
    note("memory of Redis", getbits.name, "MB", (memory_of(&server) - filled) / 1e6);
    for contender in [&ours, &getbits] {
        contender.verify(ids).await;
    }
    for seed in 0..scale.check_rounds as u64 {
        for kind in Kind::BOTH {
            let work = Work { ids, kind, in_flight: IN_FLIGHT, seed };
            for contender in [&ours, &getbits] {
                let tally = work.run(contender, scale.check_time).await;
                note(checks(kind), contender.name, "checks/s", tally.a_second());
            }
        }
    }
    let conditions = format!(
        "{} ids at {RATE} from memory; checks: median of {} rounds of {:?}",
        grouped(ids as f64),
        scale.check_rounds,
        scale.check_time
    );
    report.add(rounds.medians(&conditions));
}

fn checks(kind: Kind) -> &'static str {
    match kind {
        Kind::Present => "checks, present",
        Kind::Absent => "checks, absent",
    }
}

/// Returns the bytes of Redis's data.
fn memory_of(server: &RedisServer) -> f64 {
    let info: String = server.run(&["INFO", "memory"]);
    let line = info.lines().find_map(|line| line.strip_prefix("used_memory_dataset:"));
    line.and_then(|bytes| bytes.trim().parse().ok()).expect("a number of bytes")
}

/// Returns a figure of this process's memory, in bytes.
fn process_memory(field: &str) -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kilobytes.expect("Linux tells it") * 1024.0
}

/// Has the kernel count the peak of this process's memory anew.
fn forget_peak() {
    fs::write("/proc/self/clear_refs", "5").expect("Linux takes it");
}
