//! Programs that know nothing of the guard write to a filter, guards insert into it, and all that the guide says is noticed happens
//! to it: under load, no id that exists is refused, nor by a process that starts then; until trust is stated anew, nothing is.
//!
//! Each filter goes once through the table. `FOREIGN_SECONDS=60` has each go through it for a minute.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bloom_guard::BloomGuard;
use redis::Client;
use support::eventually;
use support::model::foreign_guard;
use support::redis_server::RedisServer;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::guarded::{SOON, STRANGERS, refused, refuses_strangers, untrusted};
use crate::writers::Writer;

/// What the filters are sized for, and how many ids there are at first.
const SIZED: u64 = 20_000;
const FIRST: u64 = 2_000;
/// Ids that guards insert.
const OURS: u64 = 1 << 40;

/// What happens to a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mishap {
    Deleted,
    OtherType,
    Shorter,
    Longer,
    Replaced,
    AwayAndBack,
    OtherNumbers,
    ConfigDeleted,
    StatementDeleted,
    Flushed,
    Evicted,
    Restarted,
    FailedOver,
}

use Mishap::*;

const MISHAPS: [Mishap; 13] = [
    Deleted,
    OtherType,
    Shorter,
    Longer,
    Replaced,
    AwayAndBack,
    OtherNumbers,
    ConfigDeleted,
    StatementDeleted,
    Flushed,
    Evicted,
    Restarted,
    FailedOver,
];

/// The other system, the application and its table.
struct World {
    writer: Writer,
    url: String,
    /// Records that exist: those of the writer from 0 up to here, and those of the guards.
    written: AtomicU64,
    inserted: AtomicU64,
    /// Held while records are created.
    open: tokio::sync::RwLock<()>,
    ends: AtomicBool,
    checks: AtomicU64,
    refused: Mutex<BTreeSet<(String, u64)>>,
}

impl World {
    fn goes_on(&self) -> bool {
        !self.ends.load(Ordering::SeqCst)
    }

    fn ids(&self) -> Vec<u64> {
        let (written, inserted) = (&self.written, &self.inserted);
        let ours = OURS..OURS + inserted.load(Ordering::SeqCst);
        (0..written.load(Ordering::SeqCst)).chain(ours).collect()
    }

    fn try_write(&self, id: u64) -> redis::RedisResult<()> {
        let mut connection = Client::open(&*self.url)?.get_connection()?;
        self.writer.try_write(self.writer.key, &mut connection, &[id])
    }

    /// The other system creates records: first in the filter, then in the table. Where a write fails, it gives up.
    async fn write(self: Arc<Self>) {
        while self.goes_on() {
            let _open = self.open.read().await;
            let (this, id) = (Arc::clone(&self), self.written.load(Ordering::SeqCst));
            if spawn_blocking(move || this.try_write(id)).await.unwrap().is_ok() {
                self.written.store(id + 1, Ordering::SeqCst);
            }
            sleep(Duration::from_millis(3)).await;
        }
    }

    /// The application creates records through a guard, each transaction a little later.
    async fn insert(self: Arc<Self>, guard: BloomGuard) {
        let mut open = VecDeque::new();
        while self.goes_on() {
            let _open = self.open.read().await;
            let id = OURS + self.inserted.load(Ordering::SeqCst) + open.len() as u64;
            if guard.insert(&id).await.is_ok() {
                open.push_back(Instant::now());
            }
            while open.front().is_some_and(|begun| begun.elapsed() > Duration::from_millis(50)) {
                open.pop_front();
                self.inserted.fetch_add(1, Ordering::SeqCst);
            }
            sleep(Duration::from_millis(3)).await;
        }
    }

    /// Requests for records that exist: the newest, and some of all.
    async fn check(self: Arc<Self>, name: &'static str, guard: BloomGuard) {
        while self.goes_on() {
            self.check_once(name, &guard).await;
            sleep(Duration::from_millis(5)).await;
        }
    }

    async fn check_once(&self, name: &str, guard: &BloomGuard) {
        let ids = self.ids();
        let newest = ids.iter().rev().take(50).chain(ids.iter().step_by(53)).copied();
        let found = refused(guard, newest).await;
        self.refused.lock().unwrap().extend(found.into_iter().map(|id| (name.to_owned(), id)));
        self.checks.fetch_add(1, Ordering::SeqCst);
    }

    /// What a good operator does after a mishap: lets transactions end, has the writer write all anew, states trust.
    async fn repair(self: &Arc<Self>, server: &RedisServer, guards: &[BloomGuard; 2]) {
        {
            let _closed = self.open.write().await;
            let ids = self.ids();
            // Transactions of the application are open yet.
            let open = OURS..OURS + self.inserted.load(Ordering::SeqCst) + 50;
            server.run::<()>(&["DEL", self.writer.key]);
            self.writer.write(server, ids.into_iter().chain(open));
        }
        eventually("trust is stated", SOON, || async {
            let ids = self.ids();
            let known = ids[..100].iter().chain(&ids[ids.len() - 100..]);
            guards[0].trust_foreign(known).await.map_err(|error| error.to_string())
        })
        .await;
        for guard in guards {
            refuses_strangers(guard, "it is trusted").await;
        }
    }
}

/// Returns whether it can happen to a writer's filter.
fn can(mishap: Mishap, writer: &Writer) -> bool {
    match mishap {
        Shorter | Longer => writer.bits > 0,
        OtherNumbers | ConfigDeleted => writer.config.is_some(),
        _ => true,
    }
}

async fn happens(mishap: Mishap, server: &mut RedisServer, world: &World) {
    let writer = &world.writer;
    let (key, statement) = (writer.key, writer.statement());
    let config = writer.config.as_ref().map_or("none", |(key, _)| key);
    let while_requests_go_on = || sleep(Duration::from_millis(200));
    match mishap {
        Deleted => server.run::<()>(&["DEL", key]),
        OtherType => {
            let other = "redis.call('DEL', KEYS[1]) redis.call('LPUSH', KEYS[1], 'x')";
            server.run::<()>(&["EVAL", other, "1", key]);
        }
        Shorter => {
            let cut = "redis.call('SET', KEYS[1], string.sub(redis.call('GET', KEYS[1]), 1, -2))";
            server.run::<()>(&["EVAL", cut, "1", key]);
        }
        Longer => server.run::<()>(&["SETRANGE", key, "100000", "x"]),
        Replaced => {
            writer.write_to("next", server, (0..FIRST).step_by(2));
            server.run::<()>(&["RENAME", "next", key]);
        }
        AwayAndBack => {
            server.run::<()>(&["RENAME", key, "away"]);
            while_requests_go_on().await;
            server.run::<()>(&["RENAME", "away", key]);
        }
        OtherNumbers => {
            server.run::<()>(&["HSET", config, "size", &(writer.bits - 1).to_string()]);
            while_requests_go_on().await;
            server.run::<()>(&["HSET", config, "size", &writer.bits.to_string()]);
        }
        ConfigDeleted => server.run::<()>(&["DEL", config]),
        StatementDeleted => server.run::<()>(&["DEL", &statement]),
        Flushed => server.run::<()>(&["FLUSHALL"]),
        Evicted => {
            server.run::<()>(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
            server.run::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
            eventually("all keys are evicted", SOON, || async {
                server.try_run::<()>(&["SET", "one", "more"]).ok();
                let left: u64 = server.run(&["DBSIZE"]);
                if left == 0 { Ok(()) } else { Err(left.to_string()) }
            })
            .await;
            server.run::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
        }
        Restarted => {
            server.run::<()>(&["SAVE"]);
            while_requests_go_on().await;
            server.restart();
        }
        FailedOver => {
            let replica = writer.server();
            follow(&replica, server).await;
            replica.run::<()>(&["REPLICAOF", "NO", "ONE"]);
            while_requests_go_on().await;
            follow(server, &replica).await;
            // What is other for less than a second while no request comes is not noticed.
            while_requests_go_on().await;
            server.run::<()>(&["REPLICAOF", "NO", "ONE"]);
        }
    }
}

/// Makes a server what another one is, which it lags behind from then on.
async fn follow(replica: &RedisServer, primary: &RedisServer) {
    primary.run::<()>(&["CONFIG", "SET", "repl-diskless-sync-delay", "0"]);
    replica.run::<()>(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()]);
    eventually("the replica has it all", SOON, || async {
        let info: String = replica.try_run(&["INFO", "replication"]).unwrap_or_default();
        if info.contains("master_link_status:up") { Ok(()) } else { Err(info) }
    })
    .await;
}

async fn run(writer: Writer) {
    let mut server = writer.server();
    writer.write(&server, 0..FIRST);
    let world = Arc::new(World {
        url: server.url(),
        writer,
        written: AtomicU64::new(FIRST),
        inserted: AtomicU64::default(),
        open: tokio::sync::RwLock::default(),
        ends: AtomicBool::default(),
        checks: AtomicU64::default(),
        refused: Mutex::default(),
    });
    let build = || foreign_guard(&world.url).foreign(world.writer.filter()).build().unwrap();
    let guards = [build(), build()];
    world.repair(&server, &guards).await;
    let mut tasks = vec![
        tokio::spawn(Arc::clone(&world).write()),
        tokio::spawn(Arc::clone(&world).insert(guards[0].clone())),
        tokio::spawn(Arc::clone(&world).check("one guard", guards[0].clone())),
    ];
    tasks.push(tokio::spawn(Arc::clone(&world).check("another guard", guards[1].clone())));
    let (name, first) = (world.writer.name, Instant::now());
    let mishaps = MISHAPS.into_iter().filter(|mishap| can(*mishap, &world.writer));
    for (number, mishap) in mishaps.clone().cycle().enumerate() {
        if number >= mishaps.clone().count() && first.elapsed() >= seconds() {
            break;
        }
        let begun = Instant::now();
        happens(mishap, &mut server, &world).await;
        for guard in &guards {
            untrusted(guard).await;
        }
        let noticed = begun.elapsed();
        let newcomer = build();
        for _ in 0..20 {
            world.check_once("a newcomer", &newcomer).await;
            assert_eq!(refused(&newcomer, STRANGERS).await, [0; 0], "{name}, {mishap:?}");
            sleep(Duration::from_millis(5)).await;
        }
        for guard in &guards {
            assert_eq!(
                refused(guard, STRANGERS).await,
                [0; 0],
                "{name}, {mishap:?}: still trusted"
            );
        }
        assert_eq!(*world.refused.lock().unwrap(), BTreeSet::new(), "{name}, {mishap:?}");
        world.repair(&server, &guards).await;
        println!(
            "{name}, {mishap:?}: noticed within {noticed:?}, trusted again {:?}",
            begun.elapsed()
        );
    }
    world.ends.store(true, Ordering::SeqCst);
    for task in tasks {
        task.await.unwrap();
    }
    let (checks, refused) = (world.checks.load(Ordering::SeqCst), world.refused.lock().unwrap());
    println!(
        "{}: {} records, {checks} lists of them asked for, {} refused",
        world.writer.name,
        world.ids().len(),
        refused.len()
    );
    assert_eq!(*refused, BTreeSet::new(), "{}", world.writer.name);
}

/// For how long each filter is under load: once through the table at least.
fn seconds() -> Duration {
    let seconds = std::env::var("FOREIGN_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_happens_to_a_filter_of_go_zero_refuses_no_record() {
    run(Writer::go_zero(SIZED)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_happens_to_a_filter_of_redisson_refuses_no_record() {
    run(Writer::redisson(SIZED)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_happens_to_a_filter_of_redisbloom_refuses_no_record() {
    run(Writer::redisbloom()).await;
}
