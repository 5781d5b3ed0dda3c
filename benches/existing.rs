//! What the guard costs a service whose traffic is ids that exist and that nobody asked for lately, over HTTP/1.1 on
//! loopback: each id is asked for once, so that none is among the ids found lately.
//!
//! `cargo bench -p bloom-guard-tests --bench existing` serves in a process of its own without a guard, with one that keeps
//! its filter in that process, and with one whose filter is in a real Redis, without and with a copy, in turns. A filter in the process behind a PING shows the least that asking Redis can cost: all requests
//! that wait share one PING. First requests come at a fixed rate, whatever the answers do: that gives the process's and
//! Redis's CPU time, and the latency from when a request was due. Then 64 connections ask as fast as they are answered. `IDS`, `RATE` (a second) and `ROUNDS` set other numbers;
//! `ABSENT=95` has so many of 100 requests ask for ids that were never created.
//! With `POSTGRES=1` the handler reads the row of each id from a real PostgreSQL, by 16 connections. It needs Linux, and
//! `redis-server` on the PATH.

#![expect(unreachable_pub, reason = "a part of what is compiled in is used")]

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Path, Request};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::routing::get;
use axum::serve::ListenerExt;
use bloom_guard::{BloomGuard, Builder, PathPattern, Schedule, from_iter};
use support::redis_server::RedisServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_postgres::{Client as Postgres, NoTls, Statement};

use crate::cluster::Cluster;

#[path = "../tests/postgres/cluster.rs"]
mod cluster;

/// What is measured: a name, and the guard over so many ids with this Redis beside it. The first is what the others
/// are compared with.
const VARIANTS: &[(&str, Guarded)] = &[
    ("none", |_, _| None),
    ("memory", |ids, _| Some(guard(ids).in_process())),
    ("memory, behind a PING", |ids, _| Some(guard(ids).in_process())),
    ("redis, no copy", |ids, redis| Some(on_redis(ids, redis).copy_limit(0))),
    ("redis", |ids, redis| Some(on_redis(ids, redis))),
];
type Guarded = fn(u64, &str) -> Option<Builder>;

const CONNECTIONS: usize = 64;
const WARM_UP: Duration = Duration::from_secs(1);
const STEADY: Duration = Duration::from_secs(10);
const FULL: Duration = Duration::from_secs(5);
/// Says to this program which variant to serve, and where Redis is.
const SERVE: &str = "EXISTING_SERVE";
const REDIS: &str = "EXISTING_REDIS";
/// The directory of PostgreSQL's socket, where there is one.
const DATABASE: &str = "EXISTING_DATABASE";
/// What a connection is asked before it is used, and then for each request.
const ROW: &str = "SELECT name FROM users WHERE id = $1";
const DATABASE_CONNECTIONS: usize = 16;

/// A run's figures: their names and decimals.
const COLUMNS: [(&str, usize); 11] = [
    ("CPU µs a request", 2),
    ("over none", 2),
    ("answered a second", 0),
    ("p50 ms", 3),
    ("p99 ms", 3),
    ("p99.9 ms", 3),
    ("full load, requests/s", 0),
    ("Redis CPU µs a request", 2),
    ("Redis commands a request", 2),
    ("unknown answers", 0),
    ("process's memory, MB", 0),
];
const CPU: usize = 0;
const OVER_NONE: usize = 1;
type Figures = [f64; COLUMNS.len()];

fn main() {
    match std::env::var(SERVE) {
        Ok(name) => serve(&name),
        Err(_) => measure(),
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("a number"))
}

fn ids() -> u64 {
    setting("IDS", 20_000_000)
}

fn rate() -> u64 {
    setting("RATE", 30_000)
}

// The service.

/// The guard as an application has it, whose ids are streamed.
fn guard(ids: u64) -> Builder {
    BloomGuard::builder("users", PathPattern::<u64>::new("/users/{id}").expect("valid"))
        .capacity(ids, 0.001)
        .rebuild(Schedule::manual(), from_iter(move || 0..ids))
}

fn on_redis(ids: u64, redis: &str) -> Builder {
    guard(ids).redis(redis).settle(Duration::ZERO)
}

/// Prints the port once the filter is there, and how many answers were unknown when its input ends.
#[tokio::main(worker_threads = 2)]
async fn serve(name: &str) {
    let redis = std::env::var(REDIS).expect("a URL");
    let (_, guarded) = VARIANTS.iter().find(|(other, _)| *other == name).expect("a variant");
    let guard = guarded(ids(), &redis).map(|builder| builder.build().expect("valid"));
    let users = match std::env::var(DATABASE) {
        Ok(socket) => {
            let users = Users::connect(&socket).await;
            get(async move |Path(id)| users.name(id).await)
        }
        Err(_) => {
            let count = ids();
            get(
                async move |Path(id): Path<u64>| {
                    if id < count { Ok("a user") } else { Err(StatusCode::NOT_FOUND) }
                },
            )
        }
    };
    let mut app = Router::new().route("/users/{id}", users);
    if let Some(guard) = &guard {
        guard.ready().await;
        while name == "redis" && guard.state().copy.is_none() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        app = app.layer(guard.clone());
    }
    if name == "memory, behind a PING" {
        let waiting = ping_for_all(&redis).await;
        app = app.layer(from_fn(move |request: Request, next: Next| {
            let (answer, answered) = oneshot::channel();
            waiting.send(answer).expect("somebody pings");
            async move {
                answered.await.expect("a reply");
                next.run(request).await
            }
        }));
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
    println!("{}", listener.local_addr().expect("an address").port());
    let listener = listener.tap_io(|stream| stream.set_nodelay(true).expect("a socket"));
    tokio::spawn(async move { axum::serve(listener, app).await });
    let input = || std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    tokio::task::spawn_blocking(input).await.expect("no panic").expect("a pipe");
    let stats = guard.map(|guard| guard.stats()).unwrap_or_default();
    assert_eq!(stats.admitted_found, 0, "an id was found lately");
    println!("{}", stats.unknown);
}

/// Sends one PING for all that wait, and the next one when it was answered.
async fn ping_for_all(redis: &str) -> UnboundedSender<oneshot::Sender<()>> {
    let client = redis::Client::open(redis).expect("a URL");
    let mut redis = client.get_multiplexed_async_connection().await.expect("a Redis");
    let (sender, mut waiting) = unbounded_channel::<oneshot::Sender<()>>();
    tokio::spawn(async move {
        let mut batch = Vec::new();
        while waiting.recv_many(&mut batch, usize::MAX).await > 0 {
            redis::cmd("PING").exec_async(&mut redis).await.expect("a reply");
            // Who hung up has no use for it.
            for answer in batch.drain(..) {
                answer.send(()).ok();
            }
        }
    });
    sender
}

/// The table of users, in PostgreSQL.
struct Users {
    connections: Vec<(Postgres, Statement)>,
    taken: AtomicUsize,
}

impl Users {
    async fn connect(socket: &str) -> Arc<Self> {
        let mut connections = Vec::new();
        for _ in 0..DATABASE_CONNECTIONS {
            let client = postgres(socket).await;
            let statement = client.prepare(ROW).await.expect("a table");
            connections.push((client, statement));
        }
        Arc::new(Self { connections, taken: AtomicUsize::new(0) })
    }

    /// Reads a row, by the connections in turn.
    async fn name(&self, id: i64) -> String {
        let nth = self.taken.fetch_add(1, Ordering::Relaxed) % DATABASE_CONNECTIONS;
        let (client, statement) = &self.connections[nth];
        client.query_one(statement, &[&id]).await.expect("the id exists").get(0)
    }
}

async fn postgres(socket: &str) -> Postgres {
    let settings = format!("host={socket} user=postgres dbname=postgres");
    let begun = Instant::now();
    loop {
        match tokio_postgres::connect(&settings, NoTls).await {
            Ok((client, connection)) => {
                tokio::spawn(connection);
                return client;
            }
            // It may still be starting.
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(20), "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Starts PostgreSQL with a row for each id.
#[tokio::main(flavor = "current_thread")]
async fn database() -> Arc<Cluster> {
    let cluster = Cluster::shared();
    let client = postgres(&cluster.socket().display().to_string()).await;
    let schema = format!(
        "CREATE TABLE users (id bigint PRIMARY KEY, name text NOT NULL);
         INSERT INTO users SELECT id, 'user ' || id FROM generate_series(0, {}) AS id;
         VACUUM ANALYZE users",
        ids() - 1
    );
    for statement in schema.split(';') {
        client.batch_execute(statement).await.expect("a table");
    }
    cluster
}

/// The service's process. It ends when this one does, which holds its input.
struct Service {
    process: Child,
    output: BufReader<ChildStdout>,
    port: u16,
}

impl Service {
    /// Starts it; returns when its filter is there.
    fn start(name: &str, redis: &str, database: Option<&Cluster>) -> Self {
        let mut process = Command::new(std::env::current_exe().expect("this program"))
            .env(SERVE, name)
            .env(REDIS, redis)
            .envs(database.map(|cluster| (DATABASE, cluster.socket())))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program again");
        let output = BufReader::new(process.stdout.take().expect("a pipe"));
        let mut service = Self { process, output, port: 0 };
        service.port = u16::try_from(service.number()).expect("a port");
        service
    }

    /// The next number that it prints.
    fn number(&mut self) -> u64 {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a pipe");
        line.trim().parse().expect("a number")
    }

    fn proc(&self, file: &str) -> String {
        let path = format!("/proc/{}/{file}", self.process.id());
        std::fs::read_to_string(path).expect("a process of Linux")
    }

    /// Its CPU time so far, s.
    fn cpu(&self) -> f64 {
        let stat = self.proc("stat");
        let (_, fields) = stat.rsplit_once(") ").expect("behind the program's name");
        // The user's and the system's, in hundredths of a second on every Linux.
        let ticks = fields.split(' ').skip(11).take(2);
        ticks.map(|ticks| ticks.parse::<f64>().expect("a number")).sum::<f64>() / 100.0
    }

    /// The memory it has now, MB.
    fn memory(&self) -> f64 {
        let status = self.proc("status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).expect("Linux says so");
        kib.parse::<f64>().expect("a number") * 1.024e-3
    }

    /// Ends it; returns how many answers of its guard were unknown.
    fn stop(mut self) -> u64 {
        drop(self.process.stdin.take());
        let unknown = self.number();
        assert!(self.process.wait().expect("a child of ours").success(), "the service failed");
        unknown
    }
}

// The load.

/// The ids from 0 on, in an order without an order, each once, and others between them.
struct Ids {
    count: u64,
    /// How many of 100 were never created.
    absent: u64,
    taken: AtomicU64,
}

impl Ids {
    fn take(&self) -> u64 {
        /// A prime, so that a multiple of it comes back to no rest before all were there.
        const STEP: u64 = 2_654_435_761;
        let nth = self.taken.fetch_add(1, Ordering::Relaxed);
        assert!(nth < self.count && self.count < STEP, "it takes more ids: set `IDS`");
        let id = nth * STEP % self.count;
        if nth % 100 < self.absent { id + self.count } else { id }
    }
}

/// A connection with one request at a time.
struct Client {
    ids: Arc<Ids>,
    stream: TcpStream,
    request: Vec<u8>,
    response: Vec<u8>,
    load: Load,
}

/// What came of requests.
#[derive(Default)]
struct Load {
    /// How long each answer of 200 or 404 took, from when the request was due.
    times: Vec<Duration>,
    /// Answers of another status.
    others: u64,
    took: Duration,
}

impl Client {
    async fn connect(port: u16, ids: &Arc<Ids>) -> Self {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let stream = TcpStream::connect(address).await.expect("the service listens");
        stream.set_nodelay(true).expect("a socket");
        let (request, response, load) = (Vec::new(), Vec::new(), Load::default());
        Self { ids: Arc::clone(ids), stream, request, response, load }
    }

    /// Asks for the next id, which was due then.
    async fn ask(&mut self, due: Instant) {
        self.request.clear();
        let id = self.ids.take();
        write!(self.request, "GET /users/{id} HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("room");
        self.stream.write_all(&self.request).await.expect("an open connection");
        self.response.clear();
        while !is_complete(&self.response) {
            let read = self.stream.read_buf(&mut self.response).await.expect("an open connection");
            assert!(read > 0, "the service closed the connection");
        }
        let is_absent = id >= self.ids.count;
        let expected = if is_absent { b"HTTP/1.1 404 " } else { b"HTTP/1.1 200 " };
        if self.response.starts_with(expected) {
            self.load.times.push(due.elapsed());
        } else {
            self.load.others += 1;
        }
    }
}

/// Whether a response is there to its end, which its length tells.
fn is_complete(response: &[u8]) -> bool {
    const LENGTH: &[u8] = b"\r\ncontent-length: ";
    let Some(head) = response.windows(4).position(|four| four == b"\r\n\r\n") else { return false };
    let line = response[..head].windows(LENGTH.len()).position(|bytes| bytes == LENGTH);
    let digits = response[line.expect("it has a length") + LENGTH.len()..].iter();
    let digits = digits.take_while(|byte| byte.is_ascii_digit());
    let length = digits.fold(0, |length, digit| length * 10 + usize::from(digit - b'0'));
    response.len() >= head + 4 + length
}

impl Load {
    fn sum(loads: Vec<Self>, begun: Instant) -> Self {
        let mut all = Self { took: begun.elapsed(), ..Self::default() };
        for load in loads {
            all.times.extend(load.times);
            all.others += load.others;
        }
        assert_eq!(all.others, 0, "of {}, answered otherwise", all.times.len());
        all.times.sort_unstable();
        all
    }

    fn rate(&self) -> f64 {
        self.times.len() as f64 / self.took.as_secs_f64()
    }

    /// The time that this part of them, 0 to 1, does not exceed, ms.
    fn at(&self, part: f64) -> f64 {
        let nth = (part * (self.times.len() - 1) as f64).ceil();
        self.times[nth as usize].as_secs_f64() * 1e3
    }
}

/// Requests at a fixed rate, spread over the connections in turn.
async fn steadily(port: u16, ids: &Arc<Ids>, time: Duration) -> Load {
    let (mut clients, mut turns) = (JoinSet::new(), Vec::new());
    for _ in 0..CONNECTIONS {
        let mut client = Client::connect(port, ids).await;
        let (turn, mut dues) = unbounded_channel();
        turns.push(turn);
        clients.spawn(async move {
            while let Some(due) = dues.recv().await {
                client.ask(due).await;
            }
            client.load
        });
    }
    let begun = Instant::now();
    // Tokio's clock counts whole milliseconds, too few for this.
    let pace = std::thread::spawn(move || pace(&turns, begun, time));
    let load = Load::sum(clients.join_all().await, begun);
    pace.join().expect("no panic");
    load
}

/// Tells the connections in turn when a request is due.
fn pace(turns: &[UnboundedSender<Instant>], begun: Instant, time: Duration) {
    let rate = rate();
    for (nth, turn) in (0..rate * time.as_secs()).zip(turns.iter().cycle()) {
        let due = begun + Duration::from_nanos(nth * 1_000_000_000 / rate);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        turn.send(due).expect("the connection is open");
    }
}

/// Requests as fast as they are answered.
async fn fully(port: u16, ids: &Arc<Ids>, time: Duration) -> Load {
    let mut clients = JoinSet::new();
    let begun = Instant::now();
    for _ in 0..CONNECTIONS {
        let mut client = Client::connect(port, ids).await;
        clients.spawn(async move {
            while begun.elapsed() < time {
                client.ask(Instant::now()).await;
            }
            client.load
        });
    }
    Load::sum(clients.join_all().await, begun)
}

// The figures.

/// What Redis says of itself.
fn info(redis: &RedisServer, section: &str, field: &str) -> f64 {
    let info: String = redis.run(&["INFO", section]);
    let line = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.and_then(|value| value.parse().ok()).expect("redis says so")
}

/// The service's CPU time, Redis's, s, and Redis's commands, so far.
fn spent(service: &Service, redis: &RedisServer) -> [f64; 3] {
    let cpu = info(redis, "cpu", "used_cpu_sys") + info(redis, "cpu", "used_cpu_user");
    [service.cpu(), cpu, info(redis, "stats", "total_commands_processed")]
}

/// One run of one variant, on a new Redis.
#[tokio::main(flavor = "current_thread")]
async fn run(name: &str, database: Option<&Cluster>) -> Figures {
    let redis = RedisServer::start();
    let service = Service::start(name, &redis.url(), database);
    let absent = setting("ABSENT", 0);
    let ids = Arc::new(Ids { count: ids(), absent, taken: AtomicU64::new(0) });
    steadily(service.port, &ids, WARM_UP).await;
    let before = spent(&service, &redis);
    let steady = steadily(service.port, &ids, STEADY).await;
    let after = spent(&service, &redis);
    let requests = steady.times.len() as f64;
    let each = |which: usize| (after[which] - before[which]) / requests;
    let (full, memory) = (fully(service.port, &ids, FULL).await, service.memory());
    [
        each(0) * 1e6,
        0.0,
        steady.rate(),
        steady.at(0.5),
        steady.at(0.99),
        steady.at(0.999),
        full.rate(),
        each(1) * 1e6,
        each(2),
        service.stop() as f64,
        memory,
    ]
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn measure() {
    let rounds = setting("ROUNDS", 3).max(1);
    let database = (setting("POSTGRES", 0) > 0).then(database);
    let mut runs: Vec<Vec<Figures>> = vec![Vec::new(); VARIANTS.len()];
    for round in 0..rounds as usize {
        for (variant, (name, _)) in VARIANTS.iter().enumerate() {
            let mut figures = run(name, database.as_deref());
            // Beside the run of the same round: the machine changes meanwhile.
            figures[OVER_NONE] =
                figures[CPU] - runs[0].get(round).map_or(figures[CPU], |none| none[CPU]);
            eprintln!("{name}: {}", row(figures));
            runs[variant].push(figures);
        }
    }
    println!("{} ids, {} requests a second, medians of {rounds}:\n", ids(), rate());
    println!("| | {} |", COLUMNS.map(|(name, _)| name).join(" | "));
    println!("|---|{}", "---:|".repeat(COLUMNS.len()));
    for ((name, _), runs) in VARIANTS.iter().zip(&runs) {
        let figures =
            std::array::from_fn(|column| median(runs.iter().map(|run| run[column]).collect()));
        println!("| {name} | {} |", row(figures));
    }
}

fn row(figures: Figures) -> String {
    let cells = figures.iter().zip(COLUMNS);
    let cells = cells.map(|(figure, (_, decimals))| format!("{figure:.decimals$}"));
    cells.collect::<Vec<_>>().join(" | ")
}
