//! Requests over loopback: what a middleware costs, and what it keeps from the database.

mod app;
mod load;
mod traffic;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use self::app::Database;
use self::load::{CONNECTIONS, Load};
use self::traffic::Traffic;
use crate::contender::{Contender, OURS};
use crate::redis_server::RedisServer;
use crate::report::{Report, Rounds, grouped};
use crate::scale::{RATE, Scale};

/// What is measured of each round.
const WHAT: [&str; 6] = ["requests", "p50", "p99", "queries", "Redis", "odd answers"];
/// Answers 404 to everything.
const BARE: &str = "axum answering 404";

pub fn run(scale: &Scale, report: &mut Report) {
    let server = Runtime::new().expect("a runtime");
    let client = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let redis = RedisServer::start();
    report.version(format!("redis-server {}", redis.version()));
    let filter = server.block_on(Contender::go_zero(&redis, scale.ids));
    let mut rounds = Rounds::default();
    for traffic in Traffic::ALL {
        let sites = server.block_on(sites(scale.ids, traffic, &redis, &filter));
        for round in 0..scale.http_rounds as u64 {
            for site in &sites {
                let (queries, used) = (site.database.queries(), redis.cpu());
                let sent = load::send(site.address, traffic, scale.ids, round, scale.http_time);
                let load = client.block_on(sent);
                let cost =
                    Cost { queries: site.database.queries() - queries, redis: redis.cpu() - used };
                site.note(traffic, &load, &cost, &mut rounds);
            }
        }
    }
    let conditions = format!(
        "{CONNECTIONS} connections on loopback, client and server in one process, {} ids at {RATE}, a database of \
         20 queries at once that take 1 ms by tokio's clock, guards with their defaults, median of {} rounds of {:?}",
        grouped(scale.ids as f64),
        scale.http_rounds,
        scale.http_time
    );
    report.add(rounds.medians(&conditions));
    for what in WHAT {
        let columns =
            Traffic::ALL.map(|traffic| (name(traffic, what), traffic.as_str().to_owned()));
        report.table(what, &columns);
    }
}

/// The figure's name.
pub fn name(traffic: Traffic, what: &str) -> String {
    format!("http, {}, {what}", traffic.as_str())
}

/// The figures' names of all traffic, for a chart.
pub fn names(what: &str) -> Vec<String> {
    Traffic::ALL.map(|traffic| name(traffic, what)).into()
}

/// What a round cost others.
struct Cost {
    queries: u64,
    /// Processor time.
    redis: Duration,
}

/// An application that is being served.
struct Site {
    name: &'static str,
    address: SocketAddr,
    database: Arc<Database>,
}

impl Site {
    fn note(&self, traffic: Traffic, load: &Load, cost: &Cost, rounds: &mut Rounds) {
        if self.name != BARE {
            assert_eq!(load.false_404s, 0, "{}: an id that exists was answered 404", self.name);
        }
        let requests = load.requests() as f64;
        let mut note =
            |what, unit, value| rounds.note(&name(traffic, what), self.name, unit, value);
        note("requests", "requests/s", requests / load.took.as_secs_f64());
        note("p50", "µs", load.quantile(0.5));
        note("p99", "µs", load.quantile(0.99));
        note("Redis", "µs/request", cost.redis.as_secs_f64() * 1e6 / requests);
        note("queries", "of 1,000 requests", cost.queries as f64 / requests * 1e3);
        note("odd answers", "of 1,000 requests", load.odd as f64 / requests * 1e3);
    }
}

/// Starts all contenders afresh, each with a database of its own.
async fn sites(ids: u64, traffic: Traffic, redis: &RedisServer, filter: &Contender) -> Vec<Site> {
    let name = format!("users-{}", traffic as u8);
    let database = || Database::new(ids, traffic != Traffic::Cold);
    let mut sites = Vec::new();
    let mut add = async |name, database, router| {
        sites.push(Site { name, address: app::serve(router).await, database });
    };
    let of = database();
    add(BARE, of, app::bare()).await;
    let of = database();
    let router = app::unguarded(&of);
    add("unguarded", of, router).await;
    let of = database();
    let router = app::go_zero(&of, filter.clone());
    add("go-zero's check", of, router).await;
    let of = database();
    let router = app::cached_in_process(&of);
    add("tower-http-cache, in process", of, router).await;
    let of = database();
    let router = app::cached_in_redis(&of, redis, &name).await;
    add("tower-http-cache, Redis", of, router).await;
    let of = database();
    let router = app::guarded(&of, None, &name).await;
    add("bloom-guard, in process", of, router).await;
    let of = database();
    let router = app::guarded(&of, Some(redis), &name).await;
    add(OURS, of, router).await;
    sites
}
