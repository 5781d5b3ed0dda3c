//! A guarded service with a Redis of its own, a `/metrics`, and traffic.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Path;
use axum::http::StatusCode;
use axum::{Router, routing};
use bloom_guard::BloomGuard;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use support::http::HttpServer;
use support::model::{Strangers, Table, by_default, copied, live};
use support::redis_server::RedisServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use crate::queries::{Series, scraped};

/// As the README has them.
const BUCKETS: [f64; 8] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 1.0];

/// The service, and what it stands on.
pub(crate) struct Guarded {
    pub(crate) redis: RedisServer,
    pub(crate) guard: BloomGuard,
    pub(crate) address: SocketAddr,
    _server: Arc<HttpServer>,
    _traffic: JoinSet<()>,
}

impl Guarded {
    /// Starts all of it, and waits until the filter is live and copied.
    pub(crate) async fn start() -> Self {
        let redis = RedisServer::start();
        let table = Table::with(0..1_000);
        let buckets = Matcher::Full("bloom_guard_check_seconds".to_owned());
        let recorder = PrometheusBuilder::new()
            .set_buckets_for_metric(buckets, &BUCKETS)
            .expect("buckets")
            .build_recorder();
        let builder = by_default(&redis.url()).capacity(1_000, 0.05).copy_limit(1 << 20);
        let builder = builder.lane(4, 10).check_deadline(Duration::from_millis(250));
        let builder =
            builder.rebuild(bloom_guard::Schedule::every(Duration::from_secs(3600)), table.clone());
        let guard = metrics::with_local_recorder(&recorder, || builder.build().expect("a guard"));
        let handle = recorder.handle();
        let app = Router::new()
            .route("/users/{id}", routing::get(show))
            .layer(guard.clone())
            .with_state(table.clone())
            .route("/metrics", routing::get(move || std::future::ready(handle.render())));
        let server = Arc::new(HttpServer::start(app).await);
        live(&guard).await;
        copied(&guard).await;
        let mut traffic = JoinSet::new();
        traffic.spawn(ask(Arc::clone(&server)));
        traffic.spawn(write(guard.clone(), table));
        let address = server.address();
        Self { redis, guard, address, _server: server, _traffic: traffic }
    }

    /// What `/metrics` says now.
    pub(crate) async fn scrape(&self) -> Vec<(Series, f64)> {
        scraped(&get(self.address, "/metrics").await)
    }
}

async fn show(
    axum::extract::State(table): axum::extract::State<Table>,
    Path(id): Path<u64>,
) -> StatusCode {
    if table.look_up(id) { StatusCode::OK } else { StatusCode::NOT_FOUND }
}

fn every(time: Duration) -> tokio::time::Interval {
    let mut beat = interval(time);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    beat
}

/// Forty requests a second, most of them for ids that do not exist.
async fn ask(server: Arc<HttpServer>) {
    let mut client = server.connect().await;
    let mut beat = every(Duration::from_millis(25));
    for (n, stranger) in Strangers(7).enumerate() {
        beat.tick().await;
        let id = if n % 4 == 0 { n as u64 % 1_000 } else { stranger };
        client.get(&format!("/users/{id}")).await;
    }
}

/// Creates a record a second, and deletes an old one for it. Without Redis nothing is created.
async fn write(guard: BloomGuard, table: Table) {
    let mut beat = every(Duration::from_secs(1));
    for n in 0.. {
        beat.tick().await;
        if guard.insert(&(10_000 + n)).await.is_ok() {
            table.commit(10_000 + n);
            table.delete(n);
            guard.remove(&n).await.ok();
        }
    }
}

/// One GET on a connection of its own; returns the body.
pub(crate) async fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    let request = format!("GET {path} HTTP/1.0\r\nhost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("a request");
    let mut response = String::new();
    stream.read_to_string(&mut response).await.expect("a response");
    response.split_once("\r\n\r\n").expect("a body").1.to_owned()
}
