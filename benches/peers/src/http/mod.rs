//! Requests over loopback: what a middleware costs, and what it keeps from the database.

mod app;
mod load;
mod postgres;
mod traffic;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use self::app::{Connections, DATABASE_CONNECTIONS, Database};
use self::load::{CONNECTIONS, Load};
use self::postgres::Postgres;
use self::traffic::Traffic;
use crate::contender::{Contender, OURS};
use crate::redis_server::RedisServer;
use crate::report::{Report, Rounds, grouped};
use crate::scale::{RATE, Scale};

/// What is measured of each round.
const WHAT: [&str; 8] =
    ["requests", "p50", "p99", "p99 of existing", "queries", "PostgreSQL", "Redis", "odd answers"];
/// Answers 404 to everything.
const BARE: &str = "axum answering 404";

pub fn run(scale: &Scale, report: &mut Report) {
    measure(&Traffic::ALL, scale, report);
}

/// Measures a flood of absent ids only.
pub fn flood(scale: &Scale, report: &mut Report) {
    measure(&[Traffic::MostlyAbsent], scale, report);
}

fn measure(traffic: &[Traffic], scale: &Scale, report: &mut Report) {
    let server = Runtime::new().expect("a runtime");
    let client = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let redis = RedisServer::start();
    report.version(format!("redis-server {}", redis.version()));
    let filter = server.block_on(Contender::go_zero(&redis, scale.ids));
    let postgres = server.block_on(Postgres::start(scale.ids));
    report.version(format!("PostgreSQL {}", server.block_on(postgres.version())));
    let connections = server.block_on(Connections::open(&postgres));
    let mut rounds = Rounds::default();
    for traffic in traffic.iter().copied() {
        let sites = server.block_on(sites(scale.ids, traffic, &redis, &connections, &filter));
        for round in 0..scale.http_rounds as u64 {
            for site in &sites {
                let before = Cost::so_far(&site.database, &redis, &postgres);
                let sent = load::send(site.address, traffic, scale.ids, round, scale.http_time);
                let load = client.block_on(sent);
                let cost = Cost::so_far(&site.database, &redis, &postgres).since(&before);
                site.note(traffic, &load, &cost, &mut rounds);
            }
        }
    }
    let conditions = format!(
        "{CONNECTIONS} connections on loopback, client and server in one process, {} ids at {RATE}, a PostgreSQL on the same machine \
         by {DATABASE_CONNECTIONS} connections, guards with their defaults, median of {} rounds of {:?}",
        grouped(scale.ids as f64),
        scale.http_rounds,
        scale.http_time
    );
    report.add(rounds.medians(&conditions));
    for what in WHAT {
        let column = |traffic: &Traffic| (name(*traffic, what), traffic.as_str().to_owned());
        let columns: Vec<_> = traffic.iter().map(column).collect();
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
    postgres: Duration,
}

impl Cost {
    fn so_far(database: &Database, redis: &RedisServer, postgres: &Postgres) -> Self {
        Self { queries: database.queries(), redis: redis.cpu(), postgres: postgres.cpu() }
    }

    fn since(&self, before: &Self) -> Self {
        Self {
            queries: self.queries - before.queries,
            redis: self.redis - before.redis,
            postgres: self.postgres.saturating_sub(before.postgres),
        }
    }
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
        if let Some(p99) = load.quantile_of_existing(0.99) {
            note("p99 of existing", "µs", p99);
        }
        note("PostgreSQL", "µs/request", cost.postgres.as_secs_f64() * 1e6 / requests);
        note("Redis", "µs/request", cost.redis.as_secs_f64() * 1e6 / requests);
        note("queries", "of 1,000 requests", cost.queries as f64 / requests * 1e3);
        note("odd answers", "of 1,000 requests", load.odd as f64 / requests * 1e3);
    }
}

/// Starts all contenders afresh, each with a database of its own.
async fn sites(
    ids: u64,
    traffic: Traffic,
    redis: &RedisServer,
    connections: &Arc<Connections>,
    filter: &Contender,
) -> Vec<Site> {
    let name = format!("users-{}", traffic as u8);
    let connections = Some(connections).filter(|_| traffic != Traffic::Cold);
    let database = || Database::new(ids, connections);
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
