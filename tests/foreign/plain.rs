//! Programs that know nothing of the guard write to a filter, and all that can happen to a key happens to it: nothing that
//! exists is refused, neither by guards with the writer's numbers nor by any with others that state trust all the while.
//!
//! Where guards have a source, they refuse again by themselves: they refill the filter while the writer goes on.
//!
//! Each writer takes a few seconds here. `FOREIGN_SECONDS=60` has it take a minute.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bloom_guard::{BloomGuard, ForeignFilter, Schedule, from_iter};
use redis::{Client, Pipeline};
use support::eventually;
use support::model::foreign_guard;
use support::redis_server::RedisServer;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::copies;
use crate::guarded::{STRANGERS, refused, refuses};
use crate::numbers::wrong;
use crate::redisbloom;
use crate::writers::Writer;

/// What the filters are sized for, and how many ids there are at first.
const SIZED: u64 = 20_000;
const FIRST: u64 = 2_000;
/// The longest that an operator takes to bring a filter back, on a busy machine.
const LONG: Duration = Duration::from_secs(60);
/// The longest transaction that refills wait for, and how long the writer's take where they do.
const LONGEST_TRANSACTION: Duration = Duration::from_secs(3);
const TRANSACTION: Duration = Duration::from_millis(2_700);

/// Who brings a filter back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Repair {
    /// An operator, who has the writer write all again and states trust.
    Operator,
    /// The guards, from the table.
    Refill,
}

/// A program that writes to a filter.
enum System {
    Bits(Writer),
    Module,
}

impl System {
    fn name(&self) -> &'static str {
        match self {
            Self::Bits(writer) => writer.name,
            Self::Module => "RedisBloom",
        }
    }

    fn key(&self) -> &'static str {
        match self {
            Self::Bits(writer) => writer.key,
            Self::Module => "users",
        }
    }

    fn filter(&self) -> ForeignFilter {
        match self {
            Self::Bits(writer) => writer.filter(),
            Self::Module => ForeignFilter::redisbloom(self.key()),
        }
    }

    fn wrong(&self) -> Vec<(String, ForeignFilter)> {
        match self {
            Self::Bits(writer) => wrong(writer, SIZED),
            Self::Module => Vec::new(),
        }
    }

    fn server(&self) -> RedisServer {
        match self {
            Self::Bits(_) => RedisServer::start(),
            Self::Module => redisbloom::server(),
        }
    }

    /// What writes these ids to these keys.
    fn commands(&self, keys: &[&str], ids: &[u64]) -> Pipeline {
        let mut pipeline = Pipeline::new();
        for key in keys {
            match self {
                Self::Bits(writer) => {
                    for bit in ids.iter().flat_map(|id| writer.bits_of(*id)) {
                        pipeline.cmd("SETBIT").arg(*key).arg(bit).arg(1).ignore();
                    }
                }
                Self::Module => {
                    pipeline.cmd("BF.MADD").arg(*key).arg(ids).ignore();
                }
            }
        }
        pipeline
    }
}

/// The other system and its table.
struct World {
    system: System,
    repair: Repair,
    url: String,
    /// Where records are written beside the live key, while a job builds the next night's filter.
    beside: Mutex<bool>,
    /// Records from 0 up to here exist.
    committed: AtomicU64,
    ends: AtomicBool,
    checked: AtomicU64,
    refused: Mutex<BTreeSet<(String, u64)>>,
    strangers: AtomicU64,
    attempts: AtomicU64,
}

impl World {
    fn goes_on(&self) -> bool {
        !self.ends.load(Ordering::SeqCst)
    }

    fn ids(&self) -> u64 {
        self.committed.load(Ordering::SeqCst)
    }

    /// Writes ids as the system does; again where Redis is away.
    fn write(&self, keys: &[&str], ids: std::ops::Range<u64>) {
        let ids: Vec<u64> = ids.collect();
        for ids in ids.chunks(500) {
            let pipeline = self.system.commands(keys, ids);
            let written = || {
                let mut connection = Client::open(&*self.url)?.get_connection()?;
                pipeline.exec(&mut connection)
            };
            while written().is_err() {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    /// Creates records, one after the other: first in the filter, then in the table.
    fn create(&self) {
        let (mut next, mut open) = (self.ids(), VecDeque::new());
        let transaction = if self.repair == Repair::Refill { TRANSACTION } else { Duration::ZERO };
        while self.goes_on() {
            {
                let beside = self.beside.lock().unwrap();
                let live = self.system.key();
                let keys: &[&str] = if *beside { &[live, "next"] } else { &[live] };
                self.write(keys, next..next + 1);
                next += 1;
                open.push_back((Instant::now() + transaction, next));
                while let Some((ends, id)) = open.front().copied()
                    && ends <= Instant::now()
                {
                    self.committed.store(id, Ordering::SeqCst);
                    open.pop_front();
                }
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Asks for records that exist: the newest, and some of all.
    async fn check(&self, name: &str, guard: &BloomGuard) {
        while self.goes_on() {
            let ids = self.ids();
            let asked: Vec<u64> =
                (ids.saturating_sub(100)..ids).chain((0..ids).step_by(97)).collect();
            self.checked.fetch_add(asked.len() as u64, Ordering::SeqCst);
            let found = refused(guard, asked).await;
            self.refused.lock().unwrap().extend(found.into_iter().map(|id| (name.to_owned(), id)));
            let strangers = refused(guard, STRANGERS).await.len() as u64;
            self.strangers.fetch_add(strangers, Ordering::SeqCst);
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Ids of the table, the oldest and the newest.
    fn known(&self) -> Vec<u64> {
        let ids = self.ids();
        (0..200).chain(ids - 100..ids).collect()
    }

    /// States again and again that a filter of other numbers is whole.
    async fn state_wrongly(&self, what: &str, guard: &BloomGuard) {
        let foreign = guard.foreign().unwrap();
        while self.goes_on() {
            if let Ok(inspected) = foreign.inspect().await {
                let stated = foreign.trust_after(&inspected, self.known()).await;
                assert!(stated.is_err(), "{what} is trusted");
                self.attempts.fetch_add(1, Ordering::SeqCst);
            }
            sleep(Duration::from_millis(150)).await;
        }
    }
}

/// What happens to the key, one after the other.
#[derive(Debug, Clone, Copy)]
enum Mishap {
    Delete,
    Restart,
    OldCopy,
    Nightly,
}

const MISHAPS: [Mishap; 4] = [Mishap::OldCopy, Mishap::Delete, Mishap::Nightly, Mishap::Restart];

async fn happens(mishap: Mishap, server: &mut RedisServer, world: &Arc<World>) {
    let key = world.system.key();
    match mishap {
        Mishap::Delete => server.run::<()>(&["DEL", key]),
        Mishap::Restart => {
            server.run::<()>(&["SAVE"]);
            sleep(Duration::from_millis(100)).await;
            server.restart();
        }
        Mishap::OldCopy => {
            let copy: Vec<u8> = server.run(&["DUMP", key]);
            if let System::Bits(writer) = &world.system {
                let seals = || -> Vec<Vec<u8>> {
                    server.run(&["HMGET", &copies::statement(writer), "seal", "before"])
                };
                let copied = seals()[0].clone();
                eventually("the copy is two seconds old", LONG, || async {
                    if seals().contains(&copied) { Err("not yet".to_owned()) } else { Ok(()) }
                })
                .await;
            }
            let mut restore = redis::cmd("RESTORE");
            restore.arg(key).arg(0).arg(copy).arg("REPLACE");
            restore.exec(&mut server.connection()).unwrap();
        }
        Mishap::Nightly => {
            // Where the guards bring back what is missing, the job need not care.
            *world.beside.lock().unwrap() = world.repair == Repair::Operator;
            let (job, ids) = (Arc::clone(world), world.ids());
            spawn_blocking(move || job.write(&["next"], 0..ids)).await.unwrap();
            let mut beside = world.beside.lock().unwrap();
            server.run::<()>(&["RENAME", "next", key]);
            *beside = false;
        }
    }
}

/// What a good operator does after it: has the writer write all again, then states trust.
async fn repaired(world: &Arc<World>, guard: &BloomGuard) {
    let (writer, ids) = (Arc::clone(world), {
        let _written = world.beside.lock().unwrap();
        world.ids()
    });
    spawn_blocking(move || writer.write(&[writer.system.key()], 0..ids)).await.unwrap();
    eventually("trust is stated", LONG, || async {
        let foreign = guard.foreign().unwrap();
        let inspected = foreign.inspect().await.map_err(|error| error.to_string())?;
        foreign.trust_after(&inspected, world.known()).await.map_err(|error| error.to_string())
    })
    .await;
}

/// Waits until the guards refuse again; returns how long that took.
async fn refilled(guards: &[BloomGuard]) -> Duration {
    let begun = Instant::now();
    for guard in guards {
        eventually("it refuses again", LONG, || async {
            if refuses(guard).await {
                return Ok(());
            }
            let last =
                guard.rebuild_status().last.map(|last| last.map_err(|error| error.to_string()));
            Err(format!("{:?} {last:?}", guard.state()))
        })
        .await;
    }
    begun.elapsed()
}

async fn run(system: System, repair: Repair) {
    let mut server = system.server();
    let (name, url, seconds) = (system.name(), server.url(), seconds());
    if let System::Module = system {
        server.run::<()>(&["BF.RESERVE", system.key(), "0.01", &SIZED.to_string()]);
    }
    system
        .commands(&[system.key()], &(0..FIRST).collect::<Vec<_>>())
        .exec(&mut server.connection())
        .unwrap();
    let wrong = system.wrong();
    let world = Arc::new(World {
        system,
        repair,
        url: url.clone(),
        beside: Mutex::default(),
        committed: AtomicU64::new(FIRST),
        ends: AtomicBool::default(),
        checked: AtomicU64::default(),
        refused: Mutex::default(),
        strangers: AtomicU64::default(),
        attempts: AtomicU64::default(),
    });
    let build = |filter| {
        let guard = foreign_guard(&url).foreign(filter).longest_transaction(LONGEST_TRANSACTION);
        let table = Arc::clone(&world);
        match repair {
            Repair::Operator => guard.build().unwrap(),
            Repair::Refill => guard
                .rebuild(Schedule::manual(), from_iter(move || 0..table.ids()))
                .build()
                .unwrap(),
        }
    };
    let right = [(); 2].map(|()| build(world.system.filter()));
    let kinds = wrong.len();
    let mut tasks = Vec::new();
    for (what, filter) in wrong {
        let (world, guard) = (Arc::clone(&world), build(filter));
        tasks.push(tokio::spawn(async move {
            tokio::join!(world.state_wrongly(&what, &guard), world.check(&what, &guard));
        }));
    }
    for guard in &right {
        let (world, guard) = (Arc::clone(&world), guard.clone());
        tasks.push(tokio::spawn(async move { world.check("right", &guard).await }));
    }
    let creating = Arc::clone(&world);
    let creates = spawn_blocking(move || creating.create());
    let (begun, mut happened, mut longest) = (Instant::now(), 0, Duration::ZERO);
    repaired(&world, &right[0]).await;
    refilled(&right).await;
    while begun.elapsed() < Duration::from_secs(seconds) || happened < MISHAPS.len() {
        happens(MISHAPS[happened % MISHAPS.len()], &mut server, &world).await;
        // Requests meet it as it is.
        sleep(Duration::from_millis(300)).await;
        match repair {
            Repair::Operator => repaired(&world, &right[happened % 2]).await,
            Repair::Refill => longest = longest.max(refilled(&right).await),
        }
        sleep(Duration::from_millis(700)).await;
        happened += 1;
    }
    world.ends.store(true, Ordering::SeqCst);
    creates.await.unwrap();
    for task in tasks {
        task.await.unwrap();
    }
    let count = |of: &AtomicU64| of.load(Ordering::SeqCst);
    println!(
        "{name}, {repair:?}: {:.0} s, {happened} mishaps, {} records created, {} requests for existing ones, {kinds} kinds of \
         wrong numbers that were stated {} times: {} refused; {} requests for strangers refused; refusing again after {longest:?} \
         at the most",
        begun.elapsed().as_secs_f64(),
        world.ids() - FIRST,
        count(&world.checked),
        count(&world.attempts),
        world.refused.lock().unwrap().len(),
        count(&world.strangers),
    );
    assert_eq!(*world.refused.lock().unwrap(), BTreeSet::new(), "{name}");
    assert!(count(&world.strangers) > 0, "{name}: the guards refuse nothing at all");
}

fn seconds() -> u64 {
    std::env::var("FOREIGN_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(5)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_plain_writer_of_go_zero_writes_is_never_refused() {
    run(System::Bits(Writer::go_zero(SIZED)), Repair::Operator).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_plain_writer_of_jedis_writes_is_never_refused() {
    run(System::Bits(Writer::jedis(SIZED)), Repair::Operator).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_plain_writer_of_php_writes_is_never_refused() {
    run(System::Bits(Writer::php_bkdr(SIZED)), Repair::Operator).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_of_go_zero_is_refilled_while_it_is_written_to() {
    run(System::Bits(Writer::go_zero(SIZED)), Repair::Refill).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_of_jedis_is_refilled_while_it_is_written_to() {
    run(System::Bits(Writer::jedis(SIZED)), Repair::Refill).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_of_php_is_refilled_while_it_is_written_to() {
    run(System::Bits(Writer::php_bkdr(SIZED)), Repair::Refill).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_of_redisbloom_is_refilled_while_it_is_written_to() {
    run(System::Module, Repair::Refill).await;
}
