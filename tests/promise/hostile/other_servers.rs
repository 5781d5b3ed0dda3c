//! The name leads to another server: by a failover and back, or for some connections only.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};

use super::BITS;
use support::model::{Table, get_looked_up, guard, guard_over, live};
use support::redis_server::RedisServer;
use support::{eventually, throughout};

/// Failover A -> B -> A: A comes back with its old `run_id` and without what only it had acknowledged.
#[tokio::test]
async fn a_primary_that_was_a_replica_meanwhile_is_suspect() {
    let a = RedisServer::start();
    let b = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = guard_over(&a.url(), &table).build().unwrap();
    live(&guard).await;
    let (pa, pb) = (a.port().to_string(), b.port().to_string());
    b.run::<()>(&["REPLICAOF", "127.0.0.1", &pa]);
    synced(&b).await;
    eventually("b has the filter", Duration::from_secs(10), || async {
        let keys: i64 = b.run(&["EXISTS", BITS]);
        if keys == 1 { Ok(()) } else { Err("no".to_owned()) }
    })
    .await;
    // The partition: b is promoted, a goes on acknowledging.
    b.run::<()>(&["REPLICAOF", "NO", "ONE"]);
    guard.insert(&4_711).await.unwrap();
    table.commit(4_711);
    assert_eq!(get_looked_up(&guard, &table, 4_711).await, 200);
    // It heals: a follows b. Then b fails, and a is promoted again.
    a.run::<()>(&["REPLICAOF", "127.0.0.1", &pb]);
    synced(&a).await;
    a.run::<()>(&["REPLICAOF", "NO", "ONE"]);
    throughout(Duration::from_secs(2), || async {
        assert_eq!(get_looked_up(&guard, &table, 4_711).await, 200, "{:?}", guard.state());
    })
    .await;
}

async fn synced(redis: &RedisServer) {
    eventually("synced", Duration::from_secs(20), || async {
        let info: String = redis.run(&["INFO", "replication"]);
        if info.contains("master_link_status:up") { Ok(()) } else { Err(info) }
    })
    .await;
}

/// A name that resolves to another server from now on: open connections stay where they are.
async fn moving_name(target: Arc<AtomicU16>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            let port = target.load(Ordering::SeqCst);
            tokio::spawn(async move {
                let mut server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    port
}

#[tokio::test]
async fn adds_and_checks_of_one_process_never_go_to_different_redises() {
    let a = RedisServer::start();
    let b = RedisServer::start();
    let target = Arc::new(AtomicU16::new(a.port()));
    let port = moving_name(Arc::clone(&target)).await;
    let table = Table::with(0..1_000);
    let guard = guard_over(&format!("redis://127.0.0.1:{port}/"), &table).build().unwrap();
    live(&guard).await;

    // The name moves to b. The connections for checks and bulk break, the one for adds does not.
    let adds = loop {
        guard.insert(&1).await.unwrap();
        let clients: String = a.run(&["CLIENT", "LIST"]);
        let evalsha: Vec<String> = clients
            .lines()
            .filter(|line| line.contains("cmd=evalsha"))
            .map(|line| line.split(' ').next().unwrap()[3..].to_owned())
            .collect();
        if let [id] = evalsha.as_slice() {
            break id.clone();
        }
        tokio::task::yield_now().await;
    };
    target.store(b.port(), Ordering::SeqCst);
    let clients: String = a.run(&["CLIENT", "LIST"]);
    for line in clients.lines().filter(|line| !line.contains("cmd=client")) {
        let id = &line.split(' ').next().unwrap()[3..];
        if id != adds {
            a.run::<i64>(&["CLIENT", "KILL", "ID", id]);
        }
    }
    eventually("b has a filter", Duration::from_secs(15), || async {
        let there: i64 = b.run(&["EXISTS", "bg:{users}:bits"]);
        if there == 1 { Ok(()) } else { Err(format!("{:?}", guard.state())) }
    })
    .await;
    live(&guard).await;
    guard.insert(&4_711).await.unwrap();
    table.commit(4_711);
    throughout(Duration::from_secs(2), || async {
        assert_eq!(get_looked_up(&guard, &table, 4_711).await, 200, "acknowledged, and refused");
    })
    .await;
}

/// Copies all keys of one server to another, in the place of what is there, but for the lease.
fn carry(from: &RedisServer, to: &RedisServer) {
    let (mut source, mut target) = (from.connection(), to.connection());
    redis::cmd("FLUSHALL").exec(&mut target).unwrap();
    for key in from.keys().into_iter().filter(|key| !key.ends_with(":lock")) {
        let dump: Vec<u8> = redis::cmd("DUMP").arg(&key).query(&mut source).unwrap();
        let mut restore = redis::cmd("RESTORE");
        restore.arg(&key).arg(0).arg(dump).exec(&mut target).unwrap();
    }
}

/// The name leads to a copy on another server and back, where the data never left: what was acknowledged at the copy is not
/// in them.
#[tokio::test]
async fn a_filter_is_not_trusted_once_inserts_went_to_another_server_meanwhile() {
    let (a, b) = (RedisServer::start(), RedisServer::start());
    let target = Arc::new(AtomicU16::new(a.port()));
    let port = moving_name(Arc::clone(&target)).await;
    let table = Table::with(0..1_000);
    let guard = guard_over(&format!("redis://127.0.0.1:{port}/"), &table).build().unwrap();
    live(&guard).await;
    carry(&a, &b);
    lead(&target, &a, &b);
    live(&guard).await;
    // By a process that is gone when the name leads back: nobody repeats it.
    let another = guard_over(&b.url(), &table).build().unwrap();
    another.insert(&4_711).await.unwrap();
    table.commit(4_711);
    drop(another);
    lead(&target, &b, &a);
    throughout(Duration::from_secs(4), || async {
        assert_eq!(get_looked_up(&guard, &table, 4_711).await, 200, "{:?}", guard.state());
    })
    .await;
    live(&guard).await;
}

/// The data themselves go to another server and come back, as a slot of a cluster does, without the last insert there.
#[tokio::test]
async fn a_filter_is_not_trusted_once_its_metadata_lived_on_another_server_meanwhile() {
    let (a, b) = (RedisServer::start(), RedisServer::start());
    let table = Table::with(0..1_000);
    let first = guard_over(&a.url(), &table).build().unwrap();
    live(&first).await;
    drop(first);
    carry(&a, &b);
    // A process that has no source joins the filter there, inserts, and is gone when the data are back.
    let there = guard(&b.url()).build().unwrap();
    eventually("it has joined", Duration::from_secs(10), || async {
        there.insert(&7).await.map_err(|error| error.to_string())
    })
    .await;
    carry(&b, &a);
    there.insert(&4_711).await.unwrap();
    table.commit(4_711);
    drop(there);
    let again = guard(&a.url()).build().unwrap();
    throughout(Duration::from_secs(4), || async {
        assert_eq!(get_looked_up(&again, &table, 4_711).await, 200, "{:?}", again.state());
    })
    .await;
}

/// Has the name lead from one server to another, for connections that are open, too.
fn lead(name: &AtomicU16, from: &RedisServer, to: &RedisServer) {
    name.store(to.port(), Ordering::SeqCst);
    from.run::<i64>(&["CLIENT", "KILL", "TYPE", "normal"]);
}
