//! Checks a second, and what they cost Redis: each contender at 1, 64 and 512 checks in flight.

use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::contender::{Contender, GETBITS, OURS, Said};
use crate::ids::{Kind, Random};
use crate::redis_server::RedisServer;
use crate::redisbloom;
use crate::report::{Report, Rounds, grouped};
use crate::scale::{RATE, Scale};

const IN_FLIGHT: [u64; 3] = [1, 64, 512];
/// What the name of Redis's processor time ends with.
const REDIS: &str = ", Redis";
/// What it ends with where Redis holds as many other keys as there are ids.
const CROWDED: &str = ", among other keys";

pub fn run(scale: &Scale, report: &mut Report) {
    Runtime::new().expect("a runtime").block_on(measure(scale, report));
}

async fn measure(scale: &Scale, report: &mut Report) {
    let (server, redisbloom) = redisbloom::start(report);
    let contenders = contenders(&server, redisbloom, scale.ids).await;
    let all: Vec<_> = contenders.iter().collect();
    contend(&server, &all, "", scale, report).await;
    fill_with_other_keys(&server, scale.ids).await;
    let asks_for_keys = |one: &&Contender| one.name == GETBITS || one.name.starts_with(OURS);
    let two: Vec<_> = contenders.iter().filter(asks_for_keys).collect();
    contend(&server, &two, CROWDED, scale, report).await;
    print(report);
}

/// Lets contenders check by turns. The figures' names end with `among`.
async fn contend(
    server: &RedisServer,
    contenders: &[&Contender],
    among: &str,
    scale: &Scale,
    report: &mut Report,
) {
    let mut rounds = Rounds::default();
    for round in 0..scale.check_rounds as u64 {
        for (kind, in_flight) in cells() {
            let work = Work { ids: scale.ids, kind, in_flight, seed: round };
            for contender in contenders.iter().filter(|one| one.ids_a_call() <= in_flight) {
                work.run(contender, scale.check_time / 8).await;
                let before = server.cpu();
                let tally = work.run(contender, scale.check_time).await;
                let name = name(kind, in_flight) + among;
                tally.note(&name, contender, server.cpu() - before, &mut rounds);
            }
        }
    }
    let conditions = format!(
        "{} ids at {RATE}, one multiplexed connection on loopback, as many tasks as checks in flight, \
         median of {} rounds of {:?}",
        grouped(scale.ids as f64),
        scale.check_rounds,
        scale.check_time
    );
    report.add(rounds.medians(&conditions));
}

/// Puts as many keys as there are ids beside the filters, as an application's cache would. Who looks for a key an id
/// then looks among them.
async fn fill_with_other_keys(server: &RedisServer, count: u64) {
    let mut connection = server.multiplexed().await;
    let numbers: Vec<u64> = (0..count).collect();
    for some in numbers.chunks(1_000) {
        let mut command = redis::cmd("MSET");
        for number in some {
            command.arg(format!("cache:{number}")).arg(1);
        }
        command.exec_async(&mut connection).await.expect("room for it");
    }
}

/// Fills all filters, and sees to it that they are.
async fn contenders(server: &RedisServer, redisbloom: bool, ids: u64) -> Vec<Contender> {
    let mut contenders = vec![
        Contender::go_zero(server, ids).await,
        Contender::go_zero_guarded(server, ids).await,
        Contender::rueidisprob(server, ids, RATE).await,
        Contender::redisson(server, ids, RATE).await,
        Contender::getbits(server, ids, RATE).await,
    ];
    if redisbloom {
        contenders.push(Contender::redisbloom(server, ids, RATE).await);
    }
    contenders.push(Contender::get(server, ids).await);
    contenders.push(Contender::ours(server, ids, RATE).await);
    for contender in &contenders {
        contender.verify(ids).await;
    }
    contenders.extend(contenders.last().map(Contender::many));
    contenders
}

fn cells() -> impl Iterator<Item = (Kind, u64)> {
    IN_FLIGHT.into_iter().flat_map(|in_flight| Kind::BOTH.map(|kind| (kind, in_flight)))
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
        for among in ["", CROWDED] {
            for (what, suffix) in [("checks", ""), ("Redis's processor time", REDIS)] {
                let column = |in_flight| {
                    (name(kind, in_flight) + among + suffix, format!("{in_flight} in flight"))
                };
                let title = format!("{what}, ids {}{among}", kind.as_str());
                report.table(&title, &IN_FLIGHT.map(column));
            }
        }
    }
}

/// What a round does.
pub struct Work {
    pub ids: u64,
    pub kind: Kind,
    pub in_flight: u64,
    pub seed: u64,
}

#[derive(Default)]
pub struct Tally {
    checks: u64,
    unknown: u64,
    /// Why one of them was unknown.
    doubt: Option<&'static str>,
    took: Duration,
}

impl Tally {
    pub fn a_second(&self) -> f64 {
        self.checks as f64 / self.took.as_secs_f64()
    }

    /// `used` is the processor time that Redis used.
    fn note(&self, name: &str, contender: &Contender, used: Duration, rounds: &mut Rounds) {
        let checks = self.checks as f64;
        let mut note = |suffix, unit, value| {
            rounds.note(&format!("{name}{suffix}"), contender.name, unit, value)
        };
        note("", "checks/s", self.a_second());
        note(REDIS, "µs/check", used.as_secs_f64() * 1e6 / checks);
        note(", unknown", "of 1,000 checks", self.unknown as f64 / checks * 1e3);
        if let Some(doubt) = self.doubt {
            println!("{}: {name}: {} checks unknown: {doubt}", contender.name, self.unknown);
        }
    }
}

impl Work {
    /// Checks for this long, in as many tasks as there are to be checks in flight.
    pub async fn run(&self, contender: &Contender, time: Duration) -> Tally {
        let begun = Instant::now();
        let mut tasks = JoinSet::new();
        for task in 0..self.in_flight / contender.ids_a_call() {
            let (contender, ids, kind) = (contender.clone(), self.ids, self.kind);
            let mut random = Random::new(self.seed << 32 | task);
            tasks.spawn(async move {
                let mut tally = Tally::default();
                while begun.elapsed() < time {
                    tally.checks += contender.ids_a_call();
                    let said = contender.call(|| kind.draw(ids, &mut random)).await;
                    if let Said::Unknown(doubt) = said {
                        tally.unknown += 1;
                        tally.doubt = Some(doubt);
                    }
                }
                tally
            });
        }
        let mut tally = Tally::default();
        for own in tasks.join_all().await {
            tally.checks += own.checks;
            tally.unknown += own.unknown;
            tally.doubt = tally.doubt.or(own.doubt);
        }
        tally.took = begun.elapsed();
        tally
    }
}
