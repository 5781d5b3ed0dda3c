//! What a poll of an open connection finds, one thing at a time.

use ::redis::RedisResult;
use parking_lot::Mutex;
use tokio::time::sleep;

use super::super::*;
use super::{Link, Purpose};
use crate::store::BoxFuture;
use crate::store::link::process::RedisProcess;
use crate::store::link::resp::tests::values;
use crate::store::link::transport::Transport;

/// What there is at the other end, and what the metadata say.
#[derive(Debug, Clone, PartialEq)]
struct Far {
    run_id: &'static str,
    history: &'static str,
    role: &'static str,
    metadata_are_ours: bool,
}

const SOUND: Far =
    Far { run_id: "0000000a", history: "1", role: "master", metadata_are_ours: true };

/// A server that is another one from some time on, behind connections that stay open.
#[derive(Debug)]
struct Server(Arc<Mutex<Far>>);

impl Transport for Server {
    fn send(&self, _: Packed) -> BoxFuture<'_, RedisResult<Vec<Value>>> {
        let Far { run_id, history, role, .. } = self.0.lock().clone();
        let bulk = |text: &str| format!("${}\r\n{text}\r\n", text.len());
        let server = bulk(&format!("redis_version:7.0.15\r\nrun_id:{run_id}\r\n"));
        let replication = bulk(&format!("role:{role}\r\nmaster_replid:{history}\r\n"));
        let time = "*2\r\n$10\r\n1700000000\r\n$1\r\n0\r\n";
        let replies = format!("{server}{replication}$0\r\n\r\n{time}");
        Box::pin(std::future::ready(Ok(values(replies.as_bytes()))))
    }
}

impl Connector for Server {
    fn connect(&self) -> BoxFuture<'_, RedisResult<Arc<dyn Transport>>> {
        let transport = Self(Arc::clone(&self.0));
        Box::pin(async move { Ok(Arc::new(transport) as Arc<dyn Transport>) })
    }
}

impl Handshake<()> for Server {
    fn join<'a>(
        &'a self,
        _: &'a dyn Transport,
        _: &'a RedisProcess,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move { Ok(()) })
    }

    fn recheck<'a>(
        &'a self,
        _: &'a dyn Transport,
        _: &'a RedisProcess,
        (): &'a (),
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let are_ours = self.0.lock().metadata_are_ours;
        let end = if are_ours { Ok(()) } else { Err(StoreError::disconnected("lost")) };
        Box::pin(std::future::ready(end))
    }
}

/// Returns a link with a connection, which is there for longer than a poll, and what then changes the other end.
async fn connected() -> (Arc<Link<()>>, Arc<Session<()>>, Arc<Mutex<Far>>) {
    let far = Arc::new(Mutex::new(SOUND));
    let server = || Arc::new(Server(Arc::clone(&far)));
    let link = Arc::new(Link::new(server(), server(), "users".to_owned()));
    tokio::spawn(Arc::clone(&link).supervise());
    let connection = link.connected(Purpose::Checks, POLL).await.unwrap();
    sleep(POLL * 5).await;
    assert!(link.uses(&connection), "nothing is wrong");
    (link, connection, far)
}

#[tokio::test(start_paused = true)]
async fn each_sign_of_another_redis_ends_an_open_connection_within_a_poll() {
    for other in [
        Far { run_id: "0000000b", ..SOUND },
        Far { history: "2", ..SOUND },
        Far { role: "slave", ..SOUND },
        Far { metadata_are_ours: false, ..SOUND },
    ] {
        let (link, connection, far) = connected().await;
        *far.lock() = other.clone();
        sleep(POLL + BACKOFF.0).await;
        assert!(!link.uses(&connection), "{other:?}");
        let process = link.current().map(|current| current.process.clone());
        match other.role {
            "slave" => assert_eq!(process, None),
            _ if other.metadata_are_ours => assert_ne!(process, Some(connection.process.clone())),
            _ => {}
        }
    }
}

/// A server in whose place another one is named.
#[derive(Debug)]
struct Replaced(Server);

impl Connector for Replaced {
    fn connect(&self) -> BoxFuture<'_, RedisResult<Arc<dyn Transport>>> {
        self.0.connect()
    }

    fn replaced(&self, _: bool) -> BoxFuture<'_, Option<String>> {
        Box::pin(std::future::ready(Some("another primary is named".to_owned())))
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_not_used_if_another_server_was_named_while_it_was_made() {
    let server = || Server(Arc::new(Mutex::new(SOUND)));
    let (connector, handshake) = (Arc::new(Replaced(server())), Arc::new(server()));
    let link = Arc::new(Link::new(connector, handshake, "users".to_owned()));
    tokio::spawn(Arc::clone(&link).supervise());
    assert!(link.connected(Purpose::Checks, POLL * 5).await.is_err());
    assert_eq!(link.session().err().unwrap().reason(), "another primary is named");
}

/// A name behind which there are two servers by turns.
#[derive(Debug)]
struct ByTurns(Mutex<usize>);

impl Connector for ByTurns {
    fn connect(&self) -> BoxFuture<'_, RedisResult<Arc<dyn Transport>>> {
        let mut turn = self.0.lock();
        *turn += 1;
        let run_id = ["0000000a", "0000000b"][*turn % 2];
        let server = Server(Arc::new(Mutex::new(Far { run_id, ..SOUND })));
        Box::pin(async move { Ok(Arc::new(server) as Arc<dyn Transport>) })
    }
}

#[tokio::test(start_paused = true)]
async fn connections_to_two_redises_are_no_session() {
    let handshake = Arc::new(Server(Arc::new(Mutex::new(SOUND))));
    let link = Link::new(Arc::new(ByTurns(Mutex::default())), handshake, "users".to_owned());
    let link = Arc::new(link);
    tokio::spawn(Arc::clone(&link).supervise());
    assert!(link.connected(Purpose::Rebuilds, POLL * 5).await.is_err());
    assert!(link.session().err().unwrap().reason().contains("different redis processes"));
}

/// Behind one connection of three another server may be put.
#[tokio::test(start_paused = true)]
async fn another_redis_behind_one_connection_ends_the_session_within_a_poll() {
    for strays in 0..3 {
        let far = [(); 3].map(|()| Arc::new(Mutex::new(SOUND)));
        let servers = far.each_ref().map(|far| Server(Arc::clone(far)));
        let handshake = Arc::new(Server(Arc::clone(&far[0])));
        let connector = Arc::new(InOrder(servers, Mutex::new(0)));
        let link = Arc::new(Link::new(connector, handshake, "users".to_owned()));
        tokio::spawn(Arc::clone(&link).supervise());
        let session = link.connected(Purpose::Checks, POLL).await.unwrap();
        far[strays].lock().run_id = "0000000b";
        sleep(POLL + BACKOFF.0).await;
        assert!(!link.uses(&session), "{strays}");
    }
}

/// A server for each connection, in the order in which they are made.
#[derive(Debug)]
struct InOrder([Server; 3], Mutex<usize>);

impl Connector for InOrder {
    fn connect(&self) -> BoxFuture<'_, RedisResult<Arc<dyn Transport>>> {
        let mut made = self.1.lock();
        let far = Arc::clone(&self.0[*made % 3].0);
        *made += 1;
        Box::pin(async move { Ok(Arc::new(Server(far)) as Arc<dyn Transport>) })
    }
}

/// Where nothing is, and when it was looked for.
#[derive(Debug, Default)]
struct Nowhere(Mutex<Vec<Instant>>);

impl Connector for Nowhere {
    fn connect(&self) -> BoxFuture<'_, RedisResult<Arc<dyn Transport>>> {
        self.0.lock().push(Instant::now());
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        Box::pin(std::future::ready(Err(refused.into())))
    }
}

#[tokio::test(start_paused = true)]
async fn links_that_lost_a_node_together_do_not_look_for_it_together() {
    let tried = [(); 2].map(|()| {
        let nowhere = Arc::new(Nowhere::default());
        let server = Arc::new(Server(Arc::new(Mutex::new(SOUND))));
        let connector = Arc::clone(&nowhere) as Arc<dyn Connector>;
        let link = Link::<()>::new(connector, server, "users".to_owned());
        tokio::spawn(Arc::new(link).supervise());
        nowhere
    });
    sleep(Duration::from_secs(10)).await;
    let waits = tried.map(|nowhere| {
        let tried = nowhere.0.lock();
        tried.windows(2).map(|two| two[1] - two[0]).collect::<Vec<_>>()
    });
    assert_ne!(waits[0], waits[1]);
    // Time is counted in whole milliseconds.
    let longest = BACKOFF.1 + Duration::from_millis(1);
    for waits in waits {
        assert!(waits.len() > 20, "{waits:?}");
        assert!(waits.iter().all(|wait| (BACKOFF.0 / 2..=longest).contains(wait)), "{waits:?}");
    }
}
