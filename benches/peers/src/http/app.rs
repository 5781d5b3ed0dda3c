//! The application, and what stands before it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::error_handling::HandleError;
use axum::extract::{Path, Request, State};
use axum::http::{Response, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::IntoResponse;
use axum::routing::get;
use bloom_guard::{BloomGuard, PathPattern, Schedule, from_iter};
use http_body_util::Full;
use tokio::net::TcpListener;
use tokio_postgres::{Client, Statement};
use tower_http_cache::backend::CacheBackend;
use tower_http_cache::prelude::{CacheLayer, InMemoryBackend, RedisBackend};

use super::postgres::Postgres;
use super::traffic::DELETED;
use crate::contender::{Contender, Said};
use crate::redis_server::RedisServer;
use crate::scale::RATE;

/// What each request asks, over so many connections in turn.
const QUERY: &str = "SELECT name FROM users WHERE id = $1";
pub const DATABASE_CONNECTIONS: usize = 16;
/// How long tower-http-cache keeps a response: as long as ours remembers a 404.
const CACHED_FOR: Duration = Duration::from_secs(30);
/// Responses that tower-http-cache keeps in this process.
const CACHED: u64 = 100_000;

/// Connections to PostgreSQL, which all applications share.
pub struct Connections {
    all: Vec<(Client, Statement)>,
    next: AtomicUsize,
}

impl Connections {
    pub async fn open(postgres: &Postgres) -> Arc<Self> {
        let mut all = Vec::new();
        for _ in 0..DATABASE_CONNECTIONS {
            let client = postgres.connect().await;
            let statement = client.prepare(QUERY).await.expect("a table");
            all.push((client, statement));
        }
        Arc::new(Self { all, next: AtomicUsize::new(0) })
    }

    async fn name(&self, id: u64) -> Option<String> {
        let nth = self.next.fetch_add(1, Ordering::Relaxed) % self.all.len();
        let (client, statement) = &self.all[nth];
        let id = i64::try_from(id).expect("an id of the load");
        client.query_opt(statement, &[&id]).await.expect("an answer").map(|row| row.get(0))
    }
}

/// A table of users, in PostgreSQL or, where the database is not to be measured, in no database at all. It counts queries.
pub struct Database {
    ids: u64,
    connections: Option<Arc<Connections>>,
    queries: AtomicU64,
}

impl Database {
    pub fn new(ids: u64, connections: Option<&Arc<Connections>>) -> Arc<Self> {
        Arc::new(Self { ids, connections: connections.cloned(), queries: AtomicU64::new(0) })
    }

    pub fn queries(&self) -> u64 {
        self.queries.load(Ordering::Relaxed)
    }

    async fn name(&self, id: u64) -> Option<String> {
        self.queries.fetch_add(1, Ordering::Relaxed);
        match &self.connections {
            Some(connections) => connections.name(id).await,
            None => (id < self.ids && id != DELETED).then(|| format!("user {id}")),
        }
    }
}

pub fn unguarded(database: &Arc<Database>) -> Router {
    Router::new().route("/users/{id}", get(show)).with_state(Arc::clone(database))
}

async fn show(
    State(database): State<Arc<Database>>,
    Path(id): Path<u64>,
) -> Result<String, StatusCode> {
    database.name(id).await.ok_or(StatusCode::NOT_FOUND)
}

/// Answers 404 and asks nobody: the most that axum can do.
pub fn bare() -> Router {
    Router::new().route("/users/{id}", get(async |Path(_): Path<u64>| StatusCode::NOT_FOUND))
}

/// With the guard's defaults; `name` is the filter's.
pub async fn guarded(database: &Arc<Database>, redis: Option<&RedisServer>, name: &str) -> Router {
    let ids = database.ids;
    let pattern = PathPattern::<u64>::new("/users/{id}").expect("valid");
    let mut builder = BloomGuard::builder(name, pattern).capacity(ids, RATE);
    builder = match redis {
        Some(redis) => builder.redis(&redis.url()).settle(Duration::ZERO),
        None => builder.in_process(),
    };
    let guard =
        builder.rebuild(Schedule::manual(), from_iter(move || 0..ids)).build().expect("valid");
    guard.ready().await;
    unguarded(database).layer(guard)
}

/// Asks the filter for each request, as an application that uses go-zero's filter by hand.
pub fn go_zero(database: &Arc<Database>, filter: Contender) -> Router {
    unguarded(database).layer(from_fn_with_state(filter, check))
}

async fn check(
    State(filter): State<Contender>,
    Path(id): Path<u64>,
    request: Request,
    next: Next,
) -> axum::response::Response {
    match filter.check(id).await {
        Said::Absent => StatusCode::NOT_FOUND.into_response(),
        Said::Present | Said::Unknown(_) => next.run(request).await,
    }
}

pub fn cached_in_process(database: &Arc<Database>) -> Router {
    cached(database, InMemoryBackend::new(CACHED))
}

pub async fn cached_in_redis(database: &Arc<Database>, redis: &RedisServer, name: &str) -> Router {
    let manager = redis.client().get_connection_manager().await.expect("a connection");
    cached(database, RedisBackend::new(manager).with_namespace(name))
}

/// tower-http-cache wants a body that is `Sync`, which axum's is not. So the handler within is a plain service.
fn cached(database: &Arc<Database>, backend: impl CacheBackend) -> Router {
    let database = Arc::clone(database);
    let show = tower::service_fn(move |request: Request| {
        let database = Arc::clone(&database);
        async move {
            let id = request.uri().path().rsplit('/').next().and_then(|id| id.parse().ok());
            let name = database.name(id.unwrap_or(DELETED)).await;
            let mut response = Response::new(Full::default());
            match name {
                Some(name) => *response.body_mut() = Full::from(name),
                None => *response.status_mut() = StatusCode::NOT_FOUND,
            }
            Ok::<_, Infallible>(response)
        }
    });
    let layer = CacheLayer::builder(backend).ttl(CACHED_FOR).negative_ttl(CACHED_FOR).build();
    let cached = tower::Layer::layer(&layer, show);
    let failed = async |_: tower_http_cache::layer::BoxError| StatusCode::SERVICE_UNAVAILABLE;
    let service = HandleError::new(cached, failed);
    Router::new().route_service("/users/{id}", service)
}

/// Serves on a free port of loopback for as long as the runtime lives.
pub async fn serve(router: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let listener = axum::serve::ListenerExt::tap_io(listener, |stream| {
        stream.set_nodelay(true).expect("a socket");
    });
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}
