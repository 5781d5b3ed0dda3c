//! A trial for each row of the guide's table of changes.

use std::ops::Range;
use std::time::Duration;

use bloom_guard::rebuild::{IdSink, RebuildSource};
use bloom_guard::{
    BloomGuard, BoxError, Builder, Doubt, ForeignFilter, Mode, NegativeCaching, PathPattern,
    Refusal, Schedule, SecretKey, Verdict,
};
use support::eventually;
use support::model::{Table, brief, foreign_guard, guard, guard_over, left, live};
use support::redis_server::RedisServer;
use support::route::Route;

use super::builds::{Harm, Process, RECORDS, both_ways};
use super::page::{changes, holds};
use super::steps::Steps;
use super::{BITS, LONG, META, SOON, settles};
use crate::hostile::passes;

/// What trials create is from here on.
pub(super) const CREATED: u64 = 10_000;
macro_rules! rows {
    ($($change:literal => $test:ident, $trial:path;)*) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                holds($change, $trial).await;
            }
        )*

        #[test]
        fn every_row_of_the_page_has_its_trial() {
            assert_eq!(changes(), [$($change),*]);
        }
    };
}

rows! {
    "first deploy" => a_first_deploy_refuses_no_record, first_deploy;
    "a trial that refuses at once" => a_trial_refuses_at_once_and_no_record, trial;
    "first deploy over days, a canary" => a_canary_refuses_no_record, canary;
    "roll-back to a build without the guard" => a_roll_back_refuses_no_record, roll_back;
    "forward again" => going_forward_again_refuses_no_record, forward_again;
    "another filter name" => another_name_refuses_no_record, another_name;
    "another Redis, empty" => another_redis_refuses_no_record, another_redis;
    "another number of shards" => another_number_of_shards_refuses_no_record, more_shards;
    "away from another system's filter" => another_systems_filter_refuses_no_record, another_system;
    "another Redis, a copy" => a_copied_redis_refuses_no_record, copied_redis;
    "another Redis behind the old URL" => a_url_that_is_turned_refuses_no_record, turned_url;
    "another secret key" => another_secret_key_refuses_no_record, another_secret_key;
    "another capacity, rate or `handler_time`" => another_capacity_refuses_no_record, another_capacity;
    "longer transactions" => longer_times_refuse_no_record, longer_times;
    "shorter transactions" => shorter_times_refuse_no_record, shorter_times;
    "another source" => another_source_refuses_no_record, another_source;
    "a crate with another stored format" => another_format_refuses_no_record, another_format;
}

fn table() -> Table {
    Table::with(0..1_000)
}

/// What a trial has created.
fn created() -> Range<u64> {
    CREATED..CREATED + 2 * RECORDS
}

/// After the steps the guard refuses what does not exist, and nothing that was created.
async fn enforces(guard: &BloomGuard, table: &Table) -> Harm {
    live(guard).await;
    assert_eq!(guard.state().settling, None);
    let new_refuses = Process::guarded(guard, table).refuses(created()).await;
    Harm { new_refuses, ..Harm::default() }
}

/// Half an hour later: the filter ends settling by itself, which a process sees that knew nothing of it.
async fn later(redis: &RedisServer, name: &str, process: Builder, table: &Table) -> Harm {
    left(redis).await;
    let (now, _): (u64, u64) = redis.run(&["TIME"]);
    let meta = format!("bg:{{{name}}}:fleet");
    redis.run::<()>(&["HSET", &meta, "settles", &(now * 1_000).to_string()]);
    enforces(&process.settle(LONG).build().unwrap(), table).await
}

async fn first_deploy(steps: &mut Steps) -> Harm {
    let (redis, table) = (RedisServer::start(), table());
    let build = || brief(guard_over(&redis.url(), &table));
    steps.then("roll out within 15 minutes");
    // Without: the roll-out takes longer than the filter settles.
    let settle = if steps.are_taken { LONG } else { Duration::ZERO };
    let guard = build().settle(settle).build().unwrap();
    guard.ready().await;
    let (old, new) = (Process::bare(&table), Process::guarded(&guard, &table));
    let mut harm = both_ways(&old, &new, CREATED).await;
    drop((guard, new));
    if steps.are_taken {
        harm += later(&redis, "users", build(), &table).await;
    }
    harm
}

/// A first attempt has begun to settle, and its next build wants to see refusals. All processes insert.
async fn trial(steps: &mut Steps) -> Harm {
    let (redis, table) = (RedisServer::start(), table());
    let build = |name, settle| {
        let new = New { redis: &redis, name, key: KEY, shards: 1 };
        new.build(&table).settle(settle).build().unwrap()
    };
    let first = build("users", LONG);
    settles(&first).await;
    first.set_fleet_mode(Mode::Enforce).await.unwrap();
    assert!(first.state().settling.is_some_and(|rest| rest > LONG / 2));
    drop(first);
    let name = steps.name();
    steps.then("`.settle(Duration::ZERO)`");
    steps.then("roll out");
    let [one, other] = [(); 2].map(|()| build(name, Duration::ZERO));
    one.ready().await;
    other.ready().await;
    one.set_fleet_mode(Mode::Enforce).await.unwrap();
    let settling = one.state().settling;
    let verdict = other.check(&CREATED).await.unwrap();
    if steps.are_taken {
        assert_eq!(settling, None);
        assert!(matches!(verdict, Verdict::Absent(_)), "{verdict:?}");
    } else {
        assert!(settling.is_some());
        assert_eq!(verdict, Verdict::Unknown(Doubt::Settling));
    }
    both_ways(&Process::guarded(&one, &table), &Process::guarded(&other, &table), CREATED).await
}

async fn canary(steps: &mut Steps) -> Harm {
    let (redis, table) = (RedisServer::start(), table());
    let build = || brief(guard_over(&redis.url(), &table));
    let canary = build().settle(steps.settle()).build().unwrap();
    if steps.are_taken {
        settles(&canary).await;
    } else {
        live(&canary).await;
    }
    let (old, new) = (Process::bare(&table), Process::guarded(&canary, &table));
    let mut harm = both_ways(&old, &new, CREATED).await;
    // A further process, with the default, settles as the first one says.
    steps.then("roll out");
    let second = build().settle(Duration::ZERO).build().unwrap();
    second.ready().await;
    harm += both_ways(&old, &Process::guarded(&second, &table), CREATED + 2 * RECORDS).await;
    steps.enforce(&canary).await;
    if steps.are_taken {
        harm += enforces(&canary, &table).await;
        harm += enforces(&second, &table).await;
    } else {
        harm.new_refuses /= 2;
    }
    harm
}

async fn roll_back(steps: &mut Steps) -> Harm {
    let (redis, table) = (RedisServer::start(), table());
    let build = || brief(guard_over(&redis.url(), &table)).build().unwrap();
    let (first, remains) = (build(), build());
    live(&first).await;
    live(&remains).await;
    steps.off(&[&first, &remains]).await;
    steps.then("roll back");
    drop(first);
    both_ways(&Process::guarded(&remains, &table), &Process::bare(&table), CREATED).await
}

/// Within a minute: later than that the filter settles anew by itself.
async fn forward_again(steps: &mut Steps) -> Harm {
    let (redis, table) = (RedisServer::start(), table());
    let first = brief(guard_over(&redis.url(), &table)).build().unwrap();
    live(&first).await;
    steps.off(&[&first]).await;
    steps.then("roll back");
    drop(first);
    steps.then("roll out");
    let again = brief(guard_over(&redis.url(), &table)).settle(LONG).build().unwrap();
    again.ready().await;
    let (old, new) = (Process::bare(&table), Process::guarded(&again, &table));
    let mut harm = both_ways(&old, &new, CREATED).await;
    steps.enforce(&again).await;
    if steps.are_taken {
        harm += enforces(&again, &table).await;
    }
    harm
}

/// A filter that takes the place of another one.
pub(super) struct New<'a> {
    pub(super) redis: &'a RedisServer,
    pub(super) name: &'a str,
    pub(super) key: [u8; 16],
    pub(super) shards: u32,
}

impl New<'_> {
    pub(super) fn build(&self, table: &Table) -> Builder {
        let pattern = PathPattern::<u64>::new("/users/{id}").unwrap();
        let builder = BloomGuard::builder(self.name, pattern).redis(&self.redis.url());
        let builder = builder.rebuild(Schedule::manual(), table.clone()).shards(self.shards);
        let builder = builder.secret_key(SecretKey::new(self.key));
        brief(builder).check_deadline(Duration::from_secs(1)).audits_per_second(0)
    }
}

/// The filter that a fleet moves away from.
enum Old<'a> {
    /// The fleet's own, "users".
    Own(&'a RedisServer),
    /// A bitmap of go-zero's.
    GoZero(&'a RedisServer),
}

impl Old<'_> {
    /// Starts a process that enforces by it.
    async fn start(&self, table: &Table) -> BloomGuard {
        let guard = match self {
            Self::Own(redis) => fleet(redis, table),
            Self::GoZero(redis) => {
                let filter = ForeignFilter::go_zero("bloom:users", 1_000_000);
                let guard = foreign_guard(&redis.url()).foreign(filter).build().unwrap();
                guard.insert_many(table.snapshot()).await.unwrap();
                guard.trust_foreign(table.snapshot()).await.unwrap();
                guard
            }
        };
        live(&guard).await;
        guard
    }

    /// Has it stand aside in all processes, of which there is one.
    async fn turn_off(&self, process: &BloomGuard) {
        match self {
            Self::Own(_) => {
                process.set_fleet_mode(Mode::Off).await.unwrap();
            }
            Self::GoZero(_) => process.set_mode(Mode::Off),
        }
    }
}

/// A fleet that enforces by its filter, and the builds that move it to another one.
async fn moves(steps: &mut Steps, old: Old<'_>, new: New<'_>, table: &Table) -> Harm {
    let first = old.start(table).await;
    let before = Process::guarded(&first, table);
    steps.then("[two guards](#moving-to-another-filter)");
    steps.then("roll out");
    let guard = new.build(table).settle(LONG).build().unwrap();
    settles(&guard).await;
    if !steps.are_taken {
        return both_ways(&before, &Process::guarded(&guard, table), CREATED).await;
    }
    let outer = old.start(table).await;
    let moving = Process::two_guards(&outer, &guard, table);
    let mut harm = both_ways(&before, &moving, CREATED).await;
    moving.is_shielded().await;
    drop((first, before));
    steps.then("`new.enforce_everywhere()`");
    guard.enforce_everywhere().await.unwrap();
    moving.is_shielded().await;
    harm += enforces(&guard, table).await;
    steps.then("turn the old off");
    old.turn_off(&outer).await;
    moving.is_shielded().await;
    steps.then("roll out without it");
    let next = new.build(table).build().unwrap();
    live(&next).await;
    let after = Process::guarded(&next, table);
    harm += both_ways(&moving, &after, CREATED + 2 * RECORDS).await;
    after.is_shielded().await;
    harm += enforces(&next, table).await;
    harm
}

/// The key of the fleet that is there.
pub(super) const KEY: [u8; 16] = [1; 16];

/// That fleet.
pub(super) fn fleet(redis: &RedisServer, table: &Table) -> BloomGuard {
    let fleet = New { redis, name: "users", key: KEY, shards: 1 };
    fleet.build(table).settle(Duration::ZERO).build().unwrap()
}

async fn another_name(steps: &mut Steps) -> Harm {
    let (redis, table) = (RedisServer::start(), table());
    let new = New { redis: &redis, name: "users-2", key: KEY, shards: 1 };
    moves(steps, Old::Own(&redis), new, &table).await
}

async fn another_redis(steps: &mut Steps) -> Harm {
    let (redis, other, table) = (RedisServer::start(), RedisServer::start(), table());
    let new = New { redis: &other, name: "users-2", key: KEY, shards: 1 };
    moves(steps, Old::Own(&redis), new, &table).await
}

async fn more_shards(steps: &mut Steps) -> Harm {
    let (redis, table) = (RedisServer::start(), table());
    let new = New { redis: &redis, name: "users-2", key: KEY, shards: 4 };
    moves(steps, Old::Own(&redis), new, &table).await
}

async fn another_system(steps: &mut Steps) -> Harm {
    let (redis, table) = (RedisServer::start(), table());
    let new = New { redis: &redis, name: "users-2", key: KEY, shards: 1 };
    moves(steps, Old::GoZero(&redis), new, &table).await
}

/// A replica that is made a primary, say, or a dump that is read: its metadata were looked at a moment ago.
async fn copied_redis(steps: &mut Steps) -> Harm {
    let (redis, other, table) = (RedisServer::start(), RedisServer::start(), table());
    let old = fleet(&redis, &table);
    live(&old).await;
    steps.off(&[&old]).await;
    steps.then("copy");
    for key in redis.keys() {
        let dump: Vec<u8> = redis.run(&["DUMP", &key]);
        let mut there = other.connection();
        redis::cmd("RESTORE").arg(key).arg(0).arg(dump).exec(&mut there).unwrap();
    }
    steps.then("roll out");
    let new = New { redis: &other, name: "users", key: KEY, shards: 1 };
    let new = new.build(&table).settle(LONG).build().unwrap();
    new.ready().await;
    let (before, after) = (Process::guarded(&old, &table), Process::guarded(&new, &table));
    let mut harm = both_ways(&before, &after, CREATED).await;
    drop((old, before));
    steps.enforce(&new).await;
    if steps.are_taken {
        harm += enforces(&new, &table).await;
    }
    harm
}

/// A name is turned to an empty Redis. For a while some processes are connected to the old one.
async fn turned_url(steps: &mut Steps) -> Harm {
    let (redis, other, table) = (RedisServer::start(), RedisServer::start(), table());
    let (slow, quick) = (Route::to(redis.port()).await, Route::to(redis.port()).await);
    let build = |url: &Route| brief(guard_over(&url.url(), &table)).build().unwrap();
    let (old, new) = (build(&slow), build(&quick));
    live(&old).await;
    live(&new).await;
    steps.off(&[&old, &new]).await;
    steps.then("turn");
    quick.lead_to(other.port());
    eventually("one is over there", SOON, || async {
        let (keys, state) = (other.keys(), new.state());
        let is_there = keys.iter().any(|key| key == BITS) && state.live.is_ok();
        if is_there { Ok(()) } else { Err(format!("{keys:?} {state:?}")) }
    })
    .await;
    let (before, after) = (Process::guarded(&old, &table), Process::guarded(&new, &table));
    let mut harm = both_ways(&before, &after, CREATED).await;
    slow.lead_to(other.port());
    steps.enforce(&new).await;
    if steps.are_taken {
        harm += enforces(&new, &table).await;
        live(&old).await;
        harm.old_refuses += before.refuses(created()).await;
    }
    harm
}

async fn another_secret_key(steps: &mut Steps) -> Harm {
    let (redis, table) = (RedisServer::start(), table());
    let new = New { redis: &redis, name: steps.name(), key: [2; 16], shards: 1 };
    if steps.are_taken {
        return moves(steps, Old::Own(&redis), new, &table).await;
    }
    let old = fleet(&redis, &table);
    live(&old).await;
    let new = new.build(&table).build().unwrap();
    eventually("its inserts fail by name", SOON, || async {
        match new.insert(&CREATED).await {
            Err(error) if error.to_string().contains("secret key") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    both_ways(&Process::guarded(&old, &table), &Process::guarded(&new, &table), CREATED).await
}

async fn another_capacity(steps: &mut Steps) -> Harm {
    let (redis, table) = (RedisServer::start(), table());
    let build = |ids, rate, handler_ms| {
        let builder = brief(guard_over(&redis.url(), &table)).capacity(ids, rate);
        let caching = NegativeCaching::new().handler_time(Duration::from_millis(handler_ms));
        builder.negative_caching(caching).build().unwrap()
    };
    let old = build(2_000, 0.001, 100);
    live(&old).await;
    steps.then("roll out");
    let new = build(50_000, 0.0001, 900);
    live(&new).await;
    // Each rebuild takes the size of its process.
    let rebuilds = async {
        for process in [&new, &old, &new] {
            process.rebuild_now().await.unwrap();
        }
    };
    let (before, after) = (Process::guarded(&old, &table), Process::guarded(&new, &table));
    let (mut harm, ()) = tokio::join!(both_ways(&before, &after, CREATED), rebuilds);
    harm += enforces(&new, &table).await;
    harm
}

/// How long the long transactions are, where a second is stated: a rebuild reads the record four seconds further back, as clocks
/// may move.
const LENGTH: Duration = Duration::from_secs(8);

/// Has each process insert records whose transaction takes long; a rebuild of the first falls into it.
async fn long_transactions(guards: &[&BloomGuard], redis: &RedisServer, table: &Table) {
    for (n, guard) in (0..).zip(guards) {
        let first = CREATED + n * RECORDS;
        guard.insert_many(first..first + RECORDS).await.unwrap();
    }
    passes(redis, LENGTH).await;
    // An insert has the record drop what is old.
    guards[0].insert(&(CREATED + 1_000_000)).await.unwrap();
    guards[0].rebuild_now().await.unwrap();
    (0..guards.len() as u64 * RECORDS).for_each(|n| table.commit(CREATED + n));
}

async fn longer_times(steps: &mut Steps) -> Harm {
    let (redis, table) = (RedisServer::start(), table());
    let build = || brief(guard_over(&redis.url(), &table));
    let old = build().build().unwrap();
    live(&old).await;
    steps.then("roll out");
    let new = || async {
        let new = build().longest_transaction(LENGTH + Duration::from_secs(1)).build().unwrap();
        live(&new).await;
        new
    };
    let early = if steps.are_taken { Some(new().await) } else { None };
    steps.then("raise the database's limit");
    // Those of the old build take longer, too: the limit is the database's.
    let guards: Vec<&BloomGuard> = [Some(&old), early.as_ref()].into_iter().flatten().collect();
    long_transactions(&guards, &redis, &table).await;
    let new = match &early {
        Some(new) => new.clone(),
        None => new().await,
    };
    let ids = || CREATED..CREATED + guards.len() as u64 * RECORDS;
    Harm {
        old_refuses: Process::guarded(&old, &table).refuses(ids()).await,
        new_refuses: Process::guarded(&new, &table).refuses(ids()).await,
        ..Harm::default()
    }
}

async fn shorter_times(steps: &mut Steps) -> Harm {
    let (redis, table) = (RedisServer::start(), table());
    let build = || brief(guard_over(&redis.url(), &table));
    let old = build().longest_transaction(Duration::from_secs(3)).build().unwrap();
    live(&old).await;
    steps.then("lower the database's limit");
    steps.then("roll out");
    let new = build().build().unwrap();
    live(&new).await;
    let mut harm = Harm::default();
    if steps.are_taken {
        let rebuilds = async {
            for process in [&new, &old, &new] {
                process.rebuild_now().await.unwrap();
            }
        };
        let (before, after) = (Process::guarded(&old, &table), Process::guarded(&new, &table));
        (harm, ()) = tokio::join!(both_ways(&before, &after, CREATED), rebuilds);
    }
    drop(old);
    steps.then("`enforce_everywhere()`");
    new.enforce_everywhere().await.unwrap();
    let reach: u64 = redis.run(&["HGET", META, "reach"]);
    assert_eq!(reach, 4_200, "the longer time is forgotten");
    if steps.are_taken {
        harm += enforces(&new, &table).await;
        return harm;
    }
    long_transactions(&[&new], &redis, &table).await;
    let new_refuses = Process::guarded(&new, &table).refuses(CREATED..CREATED + RECORDS).await;
    Harm { new_refuses, ..Harm::default() }
}

/// A build's source: the table but for these.
struct AllBut(Table, Range<u64>);

impl RebuildSource for AllBut {
    async fn scan(&self, ids: &mut IdSink<'_>) -> Result<(), BoxError> {
        for id in self.0.snapshot() {
            if !self.1.contains(&id) {
                ids.push(&id).await?;
            }
        }
        Ok(())
    }
}

/// Each build answers for records that the other's source does not give.
async fn another_source(steps: &mut Steps) -> Harm {
    let redis = RedisServer::start();
    let (of_old, of_new) = (5_000..5_000 + RECORDS, 6_000..6_000 + RECORDS);
    let table = Table::with((0..1_000).chain(of_old.clone()).chain(of_new.clone()));
    let build = |lacks: &Range<u64>| {
        let source = AllBut(table.clone(), lacks.clone());
        brief(guard(&redis.url())).rebuild(Schedule::manual(), source).build().unwrap()
    };
    let old = build(&of_new);
    live(&old).await;
    steps.off(&[&old]).await;
    steps.then("roll out");
    let new = build(&of_old);
    new.ready().await;
    let (before, after) = (Process::guarded(&old, &table), Process::guarded(&new, &table));
    let mut harm = both_ways(&before, &after, CREATED).await;
    harm.new_refuses += after.denies(of_new.clone()).await;
    new.rebuild_now().await.unwrap();
    harm.old_refuses += before.denies(of_old).await;
    drop((old, before));
    steps.enforce(&new).await;
    if steps.are_taken {
        harm += enforces(&new, &table).await;
        harm.new_refuses += after.refuses(of_new).await;
    }
    harm
}

/// There is no other format yet. Under another name a crate that has one works as this one does.
async fn another_format(steps: &mut Steps) -> Harm {
    let (redis, table) = (RedisServer::start(), table());
    let old = fleet(&redis, &table);
    let name = steps.name();
    if steps.are_taken {
        return another_filter_of_another_format(steps, old, &redis, name, &table).await;
    }
    live(&old).await;
    let newer = newer_format(&redis);
    eventually("its inserts fail by name", SOON, || async {
        match old.insert(&CREATED).await {
            Err(error) if error.advice() == Refusal::UNFIT.advice() => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    assert!(old.rebuild_now().await.is_err(), "it replaces no newer filter");
    // What the new build creates is in the filter that only it can read.
    let harm = both_ways(&Process::guarded(&old, &table), &Process::bare(&table), CREATED).await;
    assert_eq!(redis.run::<Vec<u8>>(&["GET", BITS]), newer, "nothing of the newer filter is lost");
    harm
}

/// The new build cannot read the old filter, and the new one settles by itself.
async fn another_filter_of_another_format(
    steps: &mut Steps,
    old: BloomGuard,
    redis: &RedisServer,
    name: &str,
    table: &Table,
) -> Harm {
    live(&old).await;
    steps.off(&[&old]).await;
    steps.then("roll out");
    let new = New { redis, name, key: KEY, shards: 1 };
    let guard = new.build(table).settle(LONG).build().unwrap();
    settles(&guard).await;
    let (before, after) = (Process::guarded(&old, table), Process::guarded(&guard, table));
    let mut harm = both_ways(&before, &after, CREATED).await;
    drop((old, before, guard, after));
    harm += later(redis, name, new.build(table), table).await;
    harm
}

/// Puts a filter of a newer format, and of a later rebuild, in the place of the live one, and returns it.
fn newer_format(redis: &RedisServer) -> Vec<u8> {
    let mut filter: Vec<u8> = redis.run(&["GET", BITS]);
    filter[8..10].copy_from_slice(&9_u16.to_be_bytes());
    let generation = u64::from_be_bytes(filter[16..24].try_into().unwrap());
    filter[16..24].copy_from_slice(&(generation + 1).to_be_bytes());
    redis::cmd("SET").arg(BITS).arg(&filter).exec(&mut redis.connection()).unwrap();
    filter
}
