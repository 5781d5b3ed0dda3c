//! What replies without end leave behind in this process: alone in its process, whose memory it measures.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bloom_guard::Verdict;
use support::eventually;
use support::model::{Table, guard_over, live};
use support::redis_server::RedisServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// How a reply begins, and what follows for as long as it is read.
type Endless = (&'static str, &'static str);

const ENDLESS: [Endless; 6] = [
    ("$536870912\r\n", "0123456789"),
    ("*2147483647\r\n", ":1\r\n"),
    ("", "*1\r\n"),
    ("", "*2\r\n$1\r\n1\r\n"),
    ("+", "0123456789"),
    ("-OOM ", "0123456789"),
];

/// Connections that have to be closed over it before the next reply is tried.
const CLOSED: usize = 12;
/// Of this process, over all of them. Without a bound one reply alone takes half a gigabyte.
const GROWTH_KIB: u64 = 32 << 10;

/// The most memory that this process has had.
fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("a line for it");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number")
}

/// Stands before a server, and answers in its place where it is told to.
#[derive(Default)]
struct Hostile {
    endless: Mutex<Option<Endless>>,
    closed: AtomicUsize,
}

impl Hostile {
    /// Returns the port that it listens on.
    async fn before(self: Arc<Self>, target: u16) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(Arc::clone(&self).serve(client, target));
            }
        });
        port
    }

    async fn serve(self: Arc<Self>, mut client: TcpStream, target: u16) {
        let Ok(mut server) = TcpStream::connect(("127.0.0.1", target)).await else { return };
        let (mut request, mut reply) = (vec![0; 64 << 10], vec![0; 64 << 10]);
        loop {
            tokio::select! {
                read = client.read(&mut request) => {
                    let Ok(read @ 1..) = read else { return };
                    let endless = *self.endless.lock().unwrap();
                    if let Some(endless) = endless {
                        pour(client, endless).await;
                        self.closed.fetch_add(1, Ordering::SeqCst);
                        return;
                    }
                    if server.write_all(&request[..read]).await.is_err() {
                        return;
                    }
                }
                read = server.read(&mut reply) => {
                    let Ok(read @ 1..) = read else { return };
                    if client.write_all(&reply[..read]).await.is_err() {
                        return;
                    }
                }
            }
        }
    }
}

/// Replies until the connection is closed.
async fn pour(mut client: TcpStream, (begins, goes_on): Endless) {
    let piece = goes_on.repeat(6_000);
    if client.write_all(begins.as_bytes()).await.is_ok() {
        while client.write_all(piece.as_bytes()).await.is_ok() {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn replies_without_end_take_a_bounded_part_of_memory_and_refuse_nobody() {
    let redis = RedisServer::start();
    let hostile = Arc::new(Hostile::default());
    let port = Arc::clone(&hostile).before(redis.port()).await;
    let url = format!("redis://127.0.0.1:{port}/");
    let table = Table::with(0..1_000);
    let guard = guard_over(&url, &table).build().unwrap();
    live(&guard).await;
    guard.insert_many(1_000..50_000_u64).await.unwrap();
    guard.rebuild_now().await.unwrap();
    let before = peak_kib();
    for endless in ENDLESS {
        hostile.closed.store(0, Ordering::SeqCst);
        *hostile.endless.lock().unwrap() = Some(endless);
        eventually("connections are closed", Duration::from_secs(30), || async {
            let asked = tokio::join!(guard.check(&7), guard.check(&8), guard.insert(&7));
            for verdict in [asked.0, asked.1] {
                assert!(!matches!(verdict.unwrap(), Verdict::Absent(_)), "{endless:?}");
            }
            assert!(peak_kib() - before < GROWTH_KIB, "{} KiB: {endless:?}", peak_kib() - before);
            let closed = hostile.closed.load(Ordering::SeqCst);
            if closed >= CLOSED { Ok(()) } else { Err(format!("{closed}: {endless:?}")) }
        })
        .await;
        *hostile.endless.lock().unwrap() = None;
        live(&guard).await;
        // The journal is read in long replies.
        guard.rebuild_now().await.unwrap();
    }
    println!("replies: {} KiB more at the most", peak_kib() - before);
}
