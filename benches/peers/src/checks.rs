//! Checks a second, and what they cost Redis: each contender at 1, 64 and 512 checks in flight.

use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::contender::{Contender, Said};
use crate::ids::{Kind, Random};
use crate::redis_server::RedisServer;
use crate::redisbloom;
use crate::report::{Report, Rounds, grouped};
use crate::scale::{RATE, Scale};

const IN_FLIGHT: [u64; 3] = [1, 64, 512];

pub fn run(scale: &Scale, report: &mut Report) {
    Runtime::new().expect("a runtime").block_on(measure(scale, report));
}

async fn measure(scale: &Scale, report: &mut Report) {
    let module = redisbloom::module();
    let server = RedisServer::start(module.as_deref().ok());
    report.version(format!("redis-server {}", server.version()));
    let mut contenders = vec![
        Contender::go_zero(&server, scale.ids).await,
        Contender::rueidisprob(&server, scale.ids, RATE).await,
        Contender::redisson(&server, scale.ids, RATE).await,
        Contender::getbits(&server, scale.ids, RATE).await,
    ];
    match module {
        Ok(_) => contenders.push(Contender::redisbloom(&server, scale.ids, RATE).await),
        Err(why) => report.leave_out(why),
    }
    contenders.push(Contender::get(&server, scale.ids).await);
    contenders.push(Contender::ours(&server, scale.ids, RATE).await);
    for contender in &contenders {
        contender.verify(scale.ids).await;
    }
    let mut rounds = Rounds::default();
    for round in 0..scale.check_rounds as u64 {
        for (kind, in_flight) in cells() {
            for contender in &contenders {
                let work = Work { ids: scale.ids, kind, in_flight, seed: round };
                work.run(contender, scale.check_time / 8).await;
                let before = server.cpu();
                let tally = work.run(contender, scale.check_time).await;
                let used = server.cpu() - before;
                let name = name(kind, in_flight);
                let checks = tally.checks as f64;
                rounds.note(&name, contender.name, "checks/s", checks / tally.took.as_secs_f64());
                let each = used.as_secs_f64() * 1e6 / checks;
                rounds.note(&format!("{name}, Redis"), contender.name, "µs/check", each);
                if tally.unknown > 0 {
                    println!("{}: {name}: {} checks unknown", contender.name, tally.unknown);
                }
            }
        }
    }
    let conditions = format!("{} ids at {RATE}, one multiplexed connection on loopback, as many tasks as checks in flight, median of {} rounds of {:?}", grouped(scale.ids as f64), scale.check_rounds, scale.check_time);
    report.add(rounds.medians(&conditions));
    print(report);
}

fn cells() -> impl Iterator<Item = (Kind, u64)> {
    Kind::BOTH.into_iter().flat_map(|kind| IN_FLIGHT.map(|in_flight| (kind, in_flight)))
}

/// The figure's name.
fn name(kind: Kind, in_flight: u64) -> String {
    format!("checks, {}, {in_flight} in flight", kind.as_str())
}

/// The figures' names, for a chart.
pub fn names() -> Vec<String> {
    cells().map(|(kind, in_flight)| name(kind, in_flight)).collect()
}

fn print(report: &Report) {
    for kind in Kind::BOTH {
        for (what, suffix) in [("checks", ""), ("Redis's processor time", ", Redis")] {
            let column = |in_flight| (name(kind, in_flight) + suffix, format!("{in_flight} in flight"));
            report.table(&format!("{what}, ids {}", kind.as_str()), &IN_FLIGHT.map(column));
        }
    }
}

/// What a round does.
struct Work {
    ids: u64,
    kind: Kind,
    in_flight: u64,
    seed: u64,
}

#[derive(Default)]
struct Tally {
    checks: u64,
    unknown: u64,
    took: Duration,
}

impl Work {
    /// Checks for this long, in as many tasks as there are to be checks in flight.
    async fn run(&self, contender: &Contender, time: Duration) -> Tally {
        let begun = Instant::now();
        let mut tasks = JoinSet::new();
        for task in 0..self.in_flight {
            let (contender, ids, kind) = (contender.clone(), self.ids, self.kind);
            let mut random = Random::new(self.seed << 32 | task);
            tasks.spawn(async move {
                let (mut checks, mut unknown) = (0, 0);
                while begun.elapsed() < time {
                    let said = contender.check(kind.draw(ids, &mut random)).await;
                    checks += 1;
                    unknown += u64::from(said == Said::Unknown);
                }
                (checks, unknown)
            });
        }
        let mut tally = Tally::default();
        for (checks, unknown) in tasks.join_all().await {
            tally.checks += checks;
            tally.unknown += unknown;
        }
        tally.took = begun.elapsed();
        tally
    }
}
