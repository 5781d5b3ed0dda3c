//! A filter in shards: each is a filter of its own, and one that fails takes no other with it.

use std::collections::BTreeMap;
use std::time::Duration;

use bloom_guard::{
    BloomGuard, Builder, Doubt, FleetError, Mode, RebuildError, Schedule, SecretKey, Sizing,
    Verdict,
};
use futures_util::future::join_all;
use http::StatusCode;
use support::eventually;
use support::far::Far;
use support::model::{Strangers, Table, brief, get, guard, guard_over};
use support::redis_server::RedisServer;
use tokio::time::{sleep, timeout};

use crate::found::{commands_until, is_check, monitor};

const SHARDS: u32 = 8;
const IDS: u64 = 4_000;

fn in_shards(builder: Builder) -> Builder {
    let key = SecretKey::new([7; 16]);
    brief(builder).capacity(IDS, 0.01).secret_key(key).shards(SHARDS)
}

/// Waits until all shards of a guard answer.
async fn ready(guard: &BloomGuard) {
    let answers = timeout(Duration::from_secs(30), guard.ready()).await;
    assert!(answers.is_ok(), "{}", guard.state());
}

/// The clock of their Redis was two days ahead when tokens were drawn of some of them.
#[tokio::test]
async fn shards_are_rebuilt_by_schedule_also_where_the_clock_was_set_back() {
    for ahead in [0..SHARDS, 3..4] {
        let redis = RedisServer::start();
        let (now, _): (u64, u64) = redis.run(&["TIME"]);
        let moment = ((now + 2 * 86_400) * 1_000_000).to_string();
        for shard in ahead {
            redis.run::<i64>(&["HSET", &key(shard, "meta"), "epoch", &moment]);
        }
        let every = Schedule::every(Duration::from_secs(2));
        let table = Table::with(0..IDS);
        let builder = guard(&redis.url()).rebuild(every, table.clone());
        let guard = in_shards(builder).build().unwrap();
        ready(&guard).await;
        let before = generations(&redis);
        eventually("each is rebuilt", Duration::from_secs(30), || async {
            let now = generations(&redis);
            let same: Vec<_> = before.iter().filter(|(shard, of)| now[shard] == **of).collect();
            if same.is_empty() { Ok(()) } else { Err(format!("{same:?}")) }
        })
        .await;
    }
}

/// A guard over a table.
async fn over(redis: &RedisServer, table: &Table) -> BloomGuard {
    let guard = in_shards(guard_over(&redis.url(), table)).build().unwrap();
    ready(&guard).await;
    guard
}

/// A guard that builds no filter, beside one that has built it and is gone.
async fn reader(redis: &RedisServer, table: &Table) -> BloomGuard {
    drop(over(redis, table).await);
    let guard = in_shards(guard(&redis.url())).build().unwrap();
    ready(&guard).await;
    guard
}

fn key(shard: u32, part: &str) -> String {
    format!("bg:{{users#{shard}/{SHARDS}}}:{part}")
}

/// The generation of each shard's live filter, as its header says.
fn generations(redis: &RedisServer) -> BTreeMap<u32, Vec<u8>> {
    let of = |shard| (shard, redis.run(&["GETRANGE", &key(shard, "bits"), "16", "23"]));
    (0..SHARDS).map(of).collect()
}

/// What is unknown of these ids, which all exist.
async fn unknown(guard: &BloomGuard, ids: impl Iterator<Item = u64>) -> BTreeMap<u64, Doubt> {
    let mut unknown = BTreeMap::new();
    for id in ids {
        match guard.check(&id).await.unwrap() {
            Verdict::Present => {}
            Verdict::Unknown(doubt) => drop(unknown.insert(id, doubt)),
            refused => panic!("{id} exists: {refused:?}"),
        }
    }
    unknown
}

/// Has a shard's filter be of another type, and returns what is unknown meanwhile.
async fn without(redis: &RedisServer, guard: &BloomGuard, shard: u32) -> BTreeMap<u64, Doubt> {
    let (bits, aside) = (key(shard, "bits"), key(shard, "elsewhere"));
    redis.run::<()>(&["RENAME", &bits, &aside]);
    redis.run::<i64>(&["LPUSH", &bits, "not a filter"]);
    let unknown = unknown(guard, 0..IDS).await;
    redis.run::<i64>(&["DEL", &bits]);
    redis.run::<()>(&["RENAME", &aside, &bits]);
    unknown
}

#[tokio::test(flavor = "multi_thread")]
async fn what_exists_passes_and_what_does_not_is_refused_in_every_shard() {
    let redis = RedisServer::start();
    let table = Table::with(0..IDS);
    let guards = [over(&redis, &table).await, over(&redis, &table).await];
    let shards = guards[0].state().shards.unwrap();
    assert_eq!((shards.live, shards.all), (8, 8));
    let created = 1_000_000..1_000_500;
    guards[0].insert_many(created.clone()).await.unwrap();
    for guard in &guards {
        assert!(unknown(guard, (0..IDS).chain(created.clone())).await.is_empty());
        for id in Strangers(1).take(500) {
            assert_eq!(get(guard, &table, id).await, StatusCode::NOT_FOUND);
        }
        let stats = guard.stats();
        assert!(stats.refused > 450, "{stats:?}");
    }
    let bytes = |shard| redis.run::<u64>(&["STRLEN", &key(shard, "bits")]);
    let sizing = Sizing::sharded(IDS, 0.01, SHARDS).unwrap();
    assert_eq!((0..SHARDS).map(bytes).sum::<u64>(), sizing.bytes());
    let clients: String = redis.run(&["CLIENT", "LIST"]);
    assert_eq!(clients.lines().count(), 7, "three for each guard, and this one: {clients}");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_shards_of_a_far_redis_answer_and_do_so_again_after_a_restart() {
    let mut redis = RedisServer::start();
    let far = Far::to(redis.port(), Duration::from_millis(10)).await;
    let table = Table::with(0..IDS);
    let guard = in_shards(guard_over(&far.url(), &table)).shards(32).build().unwrap();
    ready(&guard).await;
    let absent: Vec<u64> = Strangers(7).take(500).collect();
    for round in 1..=2 {
        let created = round * 1_000_000..round * 1_000_000 + 100;
        guard.insert_many(created.clone()).await.unwrap();
        created.for_each(|id| table.commit(id));
        redis.restart();
        eventually("absent ids are refused again", Duration::from_secs(60), || async {
            let exist =
                (0..IDS).chain((1..=round).flat_map(|at| at * 1_000_000..at * 1_000_000 + 100));
            for verdict in guard.check_many(exist).await.unwrap() {
                assert!(!matches!(verdict, Verdict::Absent(_)), "{verdict:?}");
            }
            let refused = refused(&guard, &absent).await;
            if refused > 450 { Ok(()) } else { Err(format!("{refused}: {}", guard.state())) }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_id_is_in_one_shard_and_one_that_is_damaged_makes_only_its_own_ids_unknown() {
    let redis = RedisServer::start();
    let table = Table::with(0..IDS);
    let guard = reader(&redis, &table).await;
    let mut all = Vec::new();
    for shard in 0..SHARDS {
        let unknown = without(&redis, &guard, shard).await;
        let share = unknown.len() as u64 * u64::from(SHARDS);
        assert!((IDS / 2..IDS * 2).contains(&share), "{} ids in shard {shard}", unknown.len());
        all.extend(unknown.into_keys());
    }
    all.sort_unstable();
    assert_eq!(all, Vec::from_iter(0..IDS));
}

/// How many of these ids are refused, asked for at once.
async fn refused(guard: &BloomGuard, ids: &[u64]) -> usize {
    let answers = join_all(ids.iter().map(|id| guard.check(id))).await;
    answers.into_iter().filter(|answer| matches!(answer, Ok(Verdict::Absent(_)))).count()
}

/// A guard whose filter has just vouched for itself, so that batches read the fronts of its shards by GETRANGE.
async fn reader_of_fronts(redis: &RedisServer, strangers: &[u64]) -> BloomGuard {
    let guard = reader(redis, &Table::with(0..IDS)).await;
    let blocks = || -> usize {
        let stats: String = redis.run(&["INFO", "commandstats"]);
        let calls = |line: &str| {
            line.strip_prefix("cmdstat_getrange:calls=")?.split_once(',')?.0.parse().ok()
        };
        stats.lines().find_map(calls).unwrap_or(0)
    };
    eventually("more is read by GETRANGE than blocks", Duration::from_secs(20), || async {
        let before = blocks();
        let refused = refused(&guard, strangers).await;
        let read = blocks() - before;
        if refused > strangers.len() * 9 / 10 && read > strangers.len() {
            Ok(())
        } else {
            Err(format!("{refused} are refused, and {read} read"))
        }
    })
    .await;
    guard
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_demoted_primary_shows_of_shards_refuses_nobody() {
    let (redis, other) = (RedisServer::start(), RedisServer::start());
    let strangers: Vec<u64> = Strangers(2).take(500).collect();
    let guard = reader_of_fronts(&redis, &strangers).await;
    // The connection stays open. Whether it leads to a primary is asked once a second.
    redis.run::<()>(&["REPLICAOF", "127.0.0.1", &other.port().to_string()]);
    assert_eq!(refused(&guard, &strangers).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_that_is_out_of_use_refuses_nobody_from_then_on() {
    const DISTRUST: &str = include_str!("../../src/store/redis/distrust.lua");
    let redis = RedisServer::start();
    let strangers: Vec<u64> = Strangers(3).take(500).collect();
    let guard = reader_of_fronts(&redis, &strangers).await;
    for (shard, generation) in generations(&redis) {
        let mut command = redis::cmd("EVAL");
        command.arg(DISTRUST).arg(2).arg(key(shard, "bits")).arg(key(shard, "meta"));
        command.arg(generation).arg(16).arg(b"\x66").arg(11).arg("");
        let done: i64 = command.query(&mut redis.connection()).unwrap();
        assert_eq!(done, 1);
    }
    assert_eq!(refused(&guard, &strangers).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_that_is_lost_is_rebuilt_and_no_other() {
    let redis = RedisServer::start();
    let table = Table::with(0..IDS);
    let guard = over(&redis, &table).await;
    let before = generations(&redis);
    redis.run::<i64>(&["DEL", &key(3, "bits")]);
    eventually("the shard is rebuilt", Duration::from_secs(20), || async {
        let after = generations(&redis);
        if after[&3].len() == 8 && after[&3] != before[&3] {
            Ok(())
        } else {
            Err(format!("{after:?}"))
        }
    })
    .await;
    ready(&guard).await;
    let others = |all: &BTreeMap<u32, Vec<u8>>| {
        let mut others = all.clone();
        others.remove(&3);
        others
    };
    assert_eq!(others(&generations(&redis)), others(&before));
    assert!(unknown(&guard, 0..IDS).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_that_cannot_be_built_keeps_no_other_from_it_and_its_failure_is_told() {
    let redis = RedisServer::start();
    let table = Table::with(0..IDS);
    let guard = over(&redis, &table).await;
    let before = generations(&redis);
    // A filter of a later version of this crate.
    let mut later: Vec<u8> = redis.run(&["GETRANGE", &key(5, "bits"), "0", "-1"]);
    later[9] = 2;
    redis::cmd("SET").arg(key(5, "next")).arg(later).exec(&mut redis.connection()).unwrap();
    let error = guard.rebuild_now().await.unwrap_err();
    let RebuildError::Shards { failures: 1, all: 8, .. } = *error else { panic!("{error:?}") };
    let after = generations(&redis);
    for shard in 0..SHARDS {
        assert_eq!(after[&shard] == before[&shard], shard == 5, "shard {shard}");
    }
    assert!(unknown(&guard, 0..IDS).await.is_empty());
    redis.run::<i64>(&["DEL", &key(5, "next")]);
    guard.rebuild_now().await.unwrap();
}

/// As after an import: a rebuild that began before it lacks what was imported.
#[tokio::test(flavor = "multi_thread")]
async fn a_rebuild_by_hand_has_not_succeeded_while_another_process_rebuilds_one_of_the_shards() {
    let redis = RedisServer::start();
    let guard = over(&redis, &Table::with(0..IDS)).await;
    let before = generations(&redis);
    redis.run::<()>(&["SET", &key(3, "lock"), "another's", "PX", "60000"]);
    let error = guard.rebuild_now().await.unwrap_err();
    assert!(matches!(*error, RebuildError::Busy), "{error:?}");
    assert_eq!(generations(&redis), before);
    redis.run::<i64>(&["DEL", &key(3, "lock")]);
    eventually("it is rebuilt", Duration::from_secs(10), || async {
        guard.rebuild_now().await.map_err(|error| error.to_string())
    })
    .await;
    assert!(generations(&redis).iter().all(|(shard, after)| *after != before[shard]));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_inserted_before_a_redis_lost_all_its_data_is_never_refused() {
    let redis = RedisServer::start();
    let table = Table::with(0..IDS);
    let builder = in_shards(guard_over(&redis.url(), &table));
    let guard = builder.longest_transaction(Duration::from_secs(20)).build().unwrap();
    ready(&guard).await;
    let created = 1_000_000..1_000_300;
    guard.insert_many(created.clone()).await.unwrap();
    // Their transactions are open: no scan gives them yet.
    redis.run::<()>(&["FLUSHALL"]);
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    while tokio::time::Instant::now() < deadline {
        unknown(&guard, created.clone().chain(0..100)).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    ready(&guard).await;
    assert!(unknown(&guard, (0..IDS).chain(created)).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_build_lets_pass_what_is_in_shards_that_are_not_live_yet() {
    let redis = RedisServer::start();
    let table = Table::with(0..IDS);
    let guard = reader(&redis, &table).await;
    redis.run::<i64>(&["DEL", &key(2, "bits"), &key(2, "meta"), &key(2, "log")]);
    drop(guard);
    let new = in_shards(guard_without_lane(&redis)).build().unwrap();
    eventually("seven shards answer", Duration::from_secs(20), || async {
        let shards = new.state().shards.ok_or("none")?;
        if shards.live == 7 { Ok(()) } else { Err(format!("{shards:?}")) }
    })
    .await;
    let unknown = unknown(&new, 0..IDS).await;
    assert!(!unknown.is_empty());
    for (id, doubt) in unknown {
        assert_eq!(doubt, Doubt::ShardNotBuilt);
        assert_eq!(get(&new, &table, id).await, StatusCode::OK, "{id}");
    }
}

/// A guard whose lane takes one request a second.
fn guard_without_lane(redis: &RedisServer) -> Builder {
    guard(&redis.url()).on_unknown(bloom_guard::OnUnknown::PassLimited).lane(1, 1)
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_for_ids_that_exist_send_no_command_once_every_shard_is_copied() {
    let redis = RedisServer::start();
    let table = Table::with(0..IDS);
    let guard = in_shards(guard_over(&redis.url(), &table)).copy_limit(64 << 20).build().unwrap();
    ready(&guard).await;
    let bytes = Sizing::sharded(IDS, 0.01, SHARDS).unwrap().bytes();
    eventually("all are copied", Duration::from_secs(30), || async {
        let copied = guard.state().copy.ok_or("none")?.bytes;
        if copied == bytes { Ok(()) } else { Err(format!("{copied} of {bytes}")) }
    })
    .await;
    let monitor = monitor(&redis);
    for id in 0..IDS {
        assert_eq!(get(&guard, &table, id).await, StatusCode::OK, "{id}");
    }
    redis.run::<String>(&["ECHO", "the end"]);
    let asked = commands_until(monitor, "the end").iter().filter(|line| is_check(line)).count();
    assert!(asked < 100, "{asked} of {IDS} asked");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mode_for_all_processes_is_in_the_metadata_of_every_shard() {
    let redis = RedisServer::start();
    let table = Table::with(0..IDS);
    let guards = [over(&redis, &table).await, over(&redis, &table).await];
    guards[0].set_fleet_mode(Mode::Off).await.unwrap();
    assert!(guards.iter().all(|guard| guard.state().fleet_mode == Mode::Off));
    for shard in 0..SHARDS {
        assert_eq!(redis.run::<String>(&["HGET", &key(shard, "meta"), "mode"]), "o", "{shard}");
    }
    guards[1].enforce_everywhere().await.unwrap();
    assert!(guards.iter().all(|guard| guard.state().fleet_mode == Mode::Enforce));
}

/// What was created meanwhile by programs that do not insert may be missing from a shard that is not what it was.
#[tokio::test(flavor = "multi_thread")]
async fn no_process_enforces_until_every_shard_is_rebuilt_and_none_where_one_has_been_made_anew() {
    let redis = RedisServer::start();
    let table = Table::with(0..IDS);
    let guards = [over(&redis, &table).await, over(&redis, &table).await];
    guards[0].set_fleet_mode(Mode::Off).await.unwrap();
    let enforce = || {
        let guard = guards[1].clone();
        tokio::spawn(async move { guard.enforce_everywhere().await })
    };
    let lost = enforce();
    sleep(Duration::from_millis(300)).await;
    redis.run::<()>(&["DEL", &key(2, "meta")]);
    let error = lost.await.unwrap().unwrap_err();
    assert!(matches!(error, FleetError::Overtaken), "{error:?}");
    // For as long as it takes all to follow.
    sleep(Duration::from_secs(4)).await;
    assert!(guards.iter().all(|guard| guard.state().fleet_mode == Mode::Off));
    for shard in 0..SHARDS {
        assert_eq!(redis.run::<String>(&["HGET", &key(shard, "meta"), "mode"]), "o", "{shard}");
    }
    let lock = key(2, "lock");
    redis.run::<()>(&["SET", &lock, "of another process", "PX", "60000"]);
    let waits = enforce();
    sleep(Duration::from_secs(5)).await;
    assert!(!waits.is_finished());
    assert!(guards.iter().all(|guard| guard.state().fleet_mode == Mode::Off));
    redis.run::<()>(&["DEL", &lock]);
    waits.await.unwrap().unwrap();
    assert!(guards.iter().all(|guard| guard.state().fleet_mode == Mode::Enforce));
}

/// The look at a shard that has not its turn is a light one. It tells of data that have gone back, too.
#[tokio::test(flavor = "multi_thread")]
async fn an_old_copy_of_one_of_many_shards_is_noticed_within_a_poll() {
    const MANY: u32 = 64;
    let redis = RedisServer::start();
    let table = Table::with(0..IDS);
    let build = || in_shards(guard_over(&redis.url(), &table)).shards(MANY).build().unwrap();
    let (asks, inserts) = (build(), build());
    ready(&asks).await;
    ready(&inserts).await;
    let bits: Vec<_> = (0..MANY).map(|shard| format!("bg:{{users#{shard}/{MANY}}}:bits")).collect();
    let read = |key: &String| -> Vec<u8> { redis.run(&["DUMP", key]) };
    // No more entries than there are turns: some shards are not in full looked at meanwhile.
    for id in IDS..IDS + 8 {
        let before: Vec<_> = bits.iter().map(read).collect();
        inserts.insert(&id).await.unwrap();
        table.commit(id);
        sleep(Duration::from_millis(1_500)).await;
        let changed = bits.iter().zip(before).find(|(key, before)| read(key) != *before);
        let (key, before) = changed.expect("it is in a shard");
        let mut restore = redis::cmd("RESTORE");
        restore.arg(key).arg(0).arg(before).arg("REPLACE");
        restore.exec(&mut redis.connection()).unwrap();
        eventually("it is noticed", Duration::from_secs(3), || async {
            let verdict = asks.check(&id).await.unwrap();
            if let Verdict::Absent(_) = verdict {
                Err(format!("{id}: {verdict:?}"))
            } else {
                Ok(())
            }
        })
        .await;
    }
}

/// The connection is older than the shard's new metadata, in which nothing is missing that it has forgotten.
#[tokio::test(flavor = "multi_thread")]
async fn a_shard_that_is_made_anew_on_an_old_connection_has_all_inserts_repeated() {
    let redis = RedisServer::start();
    let table = Table::with(0..IDS);
    let guard = in_shards(guard_over(&redis.url(), &table)).journal_entries(1_000).build().unwrap();
    ready(&guard).await;
    // More than it remembers; their transactions end soon.
    guard.insert_many(IDS..IDS + 20_000).await.unwrap();
    sleep(Duration::from_secs(3)).await;
    redis.run::<i64>(&["DEL", &key(0, "meta"), &key(0, "bits")]);
    eventually("the metadata are made anew", Duration::from_secs(5), || async {
        let incarnation: Option<Vec<u8>> = redis.run(&["HGET", &key(0, "meta"), "inc"]);
        incarnation.map(drop).ok_or_else(|| "there are none".to_owned())
    })
    .await;
    sleep(Duration::from_secs(1)).await;
    let given_up: Option<String> = redis.run(&["HGET", &key(0, "meta"), "unvouched"]);
    assert_eq!(given_up, None);
}
