//! Connections of one process that reach two servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bloom_guard::{BloomGuard, SecretKey, Verdict};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use support::eventually;
use support::model::{Table, guard_over, live};
use support::redis_server::RedisServer;

/// Which of two servers each connection reaches.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// The first one leads to the first server, the second to the second, and so on.
    ByTurns,
    /// All that are made from now on; those that are open stay where they are.
    NewTo(usize),
}

/// A way to two servers.
struct Router {
    port: u16,
    way: Arc<watch::Sender<Way>>,
}

impl Router {
    async fn start(servers: [u16; 2]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let way = Arc::new(watch::Sender::new(Way::ByTurns));
        let (watched, turns) = (Arc::clone(&way), AtomicUsize::new(0));
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let turn = turns.fetch_add(1, Ordering::SeqCst);
                let at = match *watched.borrow() {
                    Way::ByTurns => turn % 2,
                    Way::NewTo(at) => at,
                };
                tokio::spawn(async move {
                    let server = TcpStream::connect(("127.0.0.1", servers[at])).await;
                    tokio::io::copy_bidirectional(&mut client, &mut server?).await
                });
            }
        });
        Self { port, way }
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }
}

/// Two servers, each with a live filter of its own over the same records, under the same secret key.
async fn two_servers(table: &Table) -> [RedisServer; 2] {
    let servers = [RedisServer::start(), RedisServer::start()];
    for server in &servers {
        live(&guard(&server.url(), table)).await;
    }
    servers
}

fn guard(url: &str, table: &Table) -> BloomGuard {
    guard_over(url, table).secret_key(SecretKey::new([7; 16])).build().unwrap()
}

/// Inserts ids for a while; none that was acknowledged is ever absent.
async fn none_is_refused(guard: &BloomGuard, ids: &mut Vec<u64>, time: Duration) {
    let next = AtomicUsize::new(ids.len());
    let mut acknowledged = std::mem::take(ids);
    let begun = std::time::Instant::now();
    while begun.elapsed() < time {
        let id = 10_000 + next.fetch_add(1, Ordering::SeqCst) as u64;
        if guard.insert(&id).await.is_ok() {
            acknowledged.push(id);
        }
        for id in acknowledged.iter().rev().take(20).chain(acknowledged.iter().take(5)) {
            let verdict = guard.check(id).await.unwrap();
            assert!(!matches!(verdict, Verdict::Absent(_)), "{id}: {:?}", guard.state());
        }
    }
    *ids = acknowledged;
}

#[tokio::test(flavor = "multi_thread")]
async fn links_that_reach_two_servers_refuse_nothing_and_come_together() {
    let table = Table::with(0..1_000);
    let servers = two_servers(&table).await;
    let ports = [servers[0].port(), servers[1].port()];
    let router = Router::start(ports).await;
    let guard = guard(&router.url(), &table);
    let mut ids = Vec::new();
    none_is_refused(&guard, &mut ids, Duration::from_secs(2)).await;
    for to in [0, 1] {
        // No connection is cut: the guard finds out by itself that they lead to two.
        router.way.send_replace(Way::NewTo(to));
        eventually("all three lead to one server", Duration::from_secs(20), || async {
            let clients: Vec<usize> = servers.iter().map(connections).collect();
            if clients.contains(&3) { Ok(()) } else { Err(format!("{clients:?}")) }
        })
        .await;
        live(&guard).await;
        none_is_refused(&guard, &mut ids, Duration::from_secs(1)).await;
    }
    assert!(!ids.is_empty(), "inserts were acknowledged");
    for id in &ids {
        assert_eq!(guard.check(id).await.unwrap(), Verdict::Present, "{id}");
    }
}

/// The connections of guards to a server.
fn connections(server: &RedisServer) -> usize {
    let clients: String = server.run(&["CLIENT", "LIST"]);
    clients.lines().filter(|line| !line.contains("cmd=client")).count()
}
