//! A filter in shards: each is a filter of its own, and one that fails takes no other with it.

use std::collections::BTreeMap;
use std::time::Duration;

use bloom_guard::rebuild::{RebuildSource, from_iter};
use bloom_guard::{
    BloomGuard, Builder, Doubt, Mode, OnUnknown, RebuildError, Schedule, SecretKey, Sizing, Verdict,
};
use http::StatusCode;
use support::eventually;
use support::model::{Strangers, Table, brief, get, guard, guard_over, inserted};
use support::redis_server::RedisServer;
use support::route::{Route, Traffic};
use tokio::time::timeout;

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
    inserted(&guards[0], created.clone()).await;
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
    later[9] = 3;
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
async fn a_first_build_lets_pass_what_is_in_shards_that_are_not_live_yet() {
    let redis = RedisServer::start();
    let table = Table::with(0..IDS);
    drop(reader(&redis, &table).await);
    redis.run::<i64>(&["DEL", &key(2, "bits"), &key(2, "fleet"), &key(2, "recent")]);
    // Its lane takes one request a second.
    let builder = guard(&redis.url()).on_unknown(OnUnknown::PassLimited).lane(1, 1);
    let new = in_shards(builder).build().unwrap();
    eventually("seven shards answer", Duration::from_secs(20), || async {
        let shards = new.state().shards.ok_or("none")?;
        if shards.live == 7 { Ok(()) } else { Err(format!("{shards:?}")) }
    })
    .await;
    let unknown = unknown(&new, 0..IDS).await;
    assert!(!unknown.is_empty());
    for (id, doubt) in unknown {
        assert_eq!(doubt, Doubt::NoFilter);
        assert_eq!(get(&new, &table, id).await, StatusCode::OK, "{id}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mode_for_all_processes_is_in_the_metadata_of_every_shard() {
    let redis = RedisServer::start();
    let table = Table::with(0..IDS);
    let guards = [over(&redis, &table).await, over(&redis, &table).await];
    guards[0].set_fleet_mode(Mode::Off).await.unwrap();
    assert!(guards.iter().all(|guard| guard.state().fleet_mode == Mode::Off));
    for shard in 0..SHARDS {
        assert_eq!(redis.run::<String>(&["HGET", &key(shard, "fleet"), "mode"]), "o", "{shard}");
    }
    guards[1].enforce_everywhere().await.unwrap();
    assert!(guards.iter().all(|guard| guard.state().fleet_mode == Mode::Enforce));
}

/// A process joins its shards a few at a time, and repeats an insert in the last one only after the round trips for all.
#[tokio::test(flavor = "multi_thread")]
async fn a_scan_waits_until_a_far_process_has_joined_many_shards() {
    let mut redis = RedisServer::start();
    let many =
        |url: &str| guard(url).capacity(IDS, 0.01).secret_key(SecretKey::new([7; 16])).shards(256);
    let one = many(&redis.url()).build().unwrap();
    let in_the_last = || redis.run::<u64>(&["ZCARD", "bg:{users#255/256}:recent"]);
    // An insert of before, so that the metadata are there.
    inserted(&one, [0]).await;
    let before = in_the_last();
    let mut ids = IDS..2 * IDS;
    let id = loop {
        let id = ids.next().expect("one of so many ids is in the last shard");
        inserted(&one, [id]).await;
        if in_the_last() > before {
            break id;
        }
    };
    drop(one);
    let route = Route::to(redis.port()).await;
    route.turn(Traffic::Late(Duration::from_millis(80)));
    let far = many(&route.url()).build().unwrap();
    inserted(&far, [id]).await;
    redis.restart();
    let near = many(&redis.url());
    let near = near.rebuild(Schedule::manual(), from_iter(|| 0..IDS)).build().unwrap();
    ready(&near).await;
    // The source has no such row yet.
    assert_eq!(near.check(&id).await.unwrap(), Verdict::Present);
}

/// How many shards a server has the filters of.
fn built(redis: &RedisServer) -> usize {
    redis.keys().iter().filter(|key| key.ends_with(":bits")).count()
}

/// Over three servers, one of which is killed.
#[tokio::test(flavor = "multi_thread")]
async fn of_several_servers_one_that_is_lost_makes_only_its_own_ids_unknown() {
    let mut servers = [(); 3].map(|()| RedisServer::start());
    let urls = servers.each_ref().map(RedisServer::url);
    let table = Table::with(0..IDS);
    let over = |order: [usize; 3]| {
        let urls = order.map(|n| urls[n].as_str());
        in_shards(guard_over(urls[0], &table)).redis_each(urls).build().unwrap()
    };
    // Processes that name them in another order have the same filter.
    let guards = [over([0, 1, 2]), over([2, 0, 1])];
    for guard in &guards {
        ready(guard).await;
    }
    let mut spread = servers.each_ref().map(built);
    spread.sort_unstable();
    assert_eq!(spread, [2, 3, 3]);
    let created = 1_000_000..1_000_500;
    inserted(&guards[0], created.clone()).await;
    assert!(unknown(&guards[1], (0..IDS).chain(created.clone())).await.is_empty());

    let lost = built(&servers[1]);
    servers[1].kill();
    let is_lost = |state: &bloom_guard::observe::GuardState| {
        state.shards.is_some_and(|shards| shards.live == u64::from(SHARDS) - lost as u64)
    };
    eventually("its shards are lost", Duration::from_secs(10), || async {
        let state = guards[1].state();
        if is_lost(&state) { Ok(()) } else { Err(format!("{state:?}")) }
    })
    .await;
    let unknown = unknown(&guards[1], 0..IDS).await;
    let share = IDS as f64 * lost as f64 / f64::from(SHARDS);
    assert!((0.8..1.2).contains(&(unknown.len() as f64 / share)), "{}", unknown.len());
    let verdicts = guards[1].check_many(Strangers(2).take(400)).await.unwrap();
    let refused = verdicts.iter().filter(|verdict| matches!(verdict, Verdict::Absent(_))).count();
    assert!(refused > 200, "{refused} of 400");
}

/// The source has an identity, and any of the servers may be the one that is lost.
#[tokio::test(flavor = "multi_thread")]
async fn whichever_of_several_servers_is_lost_the_others_shards_are_rebuilt() {
    let mut servers = [(); 2].map(|()| RedisServer::start());
    let urls = servers.each_ref().map(RedisServer::url);
    let table = Table::with(0..IDS);
    let source = table.clone().with_identity("users");
    let guard = guard(&urls[0]).rebuild(Schedule::manual(), source);
    let guard = in_shards(guard).redis_each(&urls).build().unwrap();
    ready(&guard).await;
    for lost in 0..2 {
        let stays = 1 - lost;
        servers[lost].kill();
        servers[stays].run::<()>(&["FLUSHALL"]);
        eventually("the shards that can be are rebuilt", Duration::from_secs(30), || async {
            let is_built = 2 * built(&servers[stays]) == SHARDS as usize;
            if is_built { Ok(()) } else { Err(format!("{:?}", guard.state())) }
        })
        .await;
        servers[lost].restart();
        ready(&guard).await;
    }
}
