//! Rebuilds of another system's filter, where only guards write, lose no id that exists.

use std::sync::Arc;
use std::time::Duration;

use bloom_guard::{
    BloomGuard, BoxError, Builder, ForeignFilter, Id, IdSink, PathPattern, RebuildError,
    RebuildSource, Schedule, StoreError,
};
use support::eventually;
use support::far::Far;
use support::model::{Table, guard};
use support::redis_server::RedisServer;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::guarded::{SOON, STRANGERS, insert, refused, refuses_strangers};
use crate::redisbloom;
use crate::traffic::{LONGEST_TRANSACTION, Traffic};
use crate::writers::Writer;

const IDS: u64 = 2_000;

/// A guard whose filter only guards write to.
pub(crate) fn rebuilt(url: &str, filter: ForeignFilter) -> Builder {
    guard(url).foreign(filter.sole_writer()).longest_transaction(LONGEST_TRANSACTION)
}

pub(crate) fn rebuilt_from(
    url: &str,
    filter: ForeignFilter,
    source: impl RebuildSource,
) -> BloomGuard {
    rebuilt(url, filter).rebuild(Schedule::manual(), source).build().unwrap()
}

/// The keys that there are, but for the filter's own and the statement.
pub(crate) fn left_over(server: &RedisServer, writer: &Writer) -> Vec<String> {
    let config = writer.config.as_ref().map(|(key, _)| *key);
    let own = [writer.key, "{users}:c", "bg:{users}:trust"];
    let is_own = |key: &String| own.contains(&&**key) || config == Some(&**key);
    server.keys().into_iter().filter(|key| !is_own(key)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_of_each_system_is_rebuilt_from_the_database() {
    let server = RedisServer::start();
    for writer in Writer::all(2 * IDS) {
        println!("{}", writer.name);
        server.run::<()>(&["FLUSHALL"]);
        // What was deleted since, and what was lost.
        writer.write(&server, IDS / 2..IDS);
        let table = Table::with(0..IDS / 2);
        let guard = rebuilt_from(&server.url(), writer.filter(), table.clone());
        guard.ready().await;
        refuses_strangers(&guard, writer.name).await;
        assert_eq!(refused(&guard, 0..IDS / 2).await, [0; 0], "{}", writer.name);
        assert!((0..IDS / 2).all(|id| writer.reads(&server, id)), "{}", writer.name);
        let stale = (IDS / 2..IDS).filter(|id| writer.reads(&server, *id)).count();
        assert!(stale < 100, "{}: {stale} of 1,000 deleted ids are still there", writer.name);
        assert_eq!(left_over(&server, &writer), [""; 0], "{}", writer.name);
        assert_eq!(server.run::<i64>(&["TTL", writer.key]), -1, "{}", writer.name);
        if writer.name == "rueidisprob" {
            assert_eq!(server.run::<u64>(&["GET", "{users}:c"]), IDS / 2);
        }
        if let Some((config, fields)) = &writer.config {
            for (field, value) in fields {
                assert_eq!(&server.run::<String>(&["HGET", config, field]), value);
            }
        }
        // Another process believes it, too, and so does one that starts later.
        let other = rebuilt(&server.url(), writer.filter()).build().unwrap();
        refuses_strangers(&other, writer.name).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_of_a_module_is_made_anew_and_filled() {
    let server = redisbloom::server();
    for id in IDS / 2..IDS {
        server.run::<()>(&["BF.ADD", "users", &id.to_string()]);
    }
    let filter = || ForeignFilter::redisbloom_reserved("users", 2 * IDS, 0.01);
    let guard = rebuilt_from(&server.url(), filter(), Table::with(0..IDS / 2));
    guard.ready().await;
    refuses_strangers(&guard, "the filter is believed").await;
    assert_eq!(refused(&guard, 0..IDS / 2).await, [0; 0]);
    let has = |id: u64| server.run::<u8>(&["BF.EXISTS", "users", &id.to_string()]) == 1;
    assert!((0..IDS / 2).all(has));
    assert!((IDS / 2..IDS).filter(|id| has(*id)).count() < 100);
    let report = guard.rebuild_now().await.unwrap();
    assert!(report.capacity >= 2 * IDS && report.bytes > 2 * IDS, "{report:?}");
    assert_eq!(server.keys().len(), 2, "{:?}", server.keys());
    let traffic = Traffic::new(&Table::with(0..IDS / 2), IDS);
    let other = rebuilt(&server.url(), filter()).build().unwrap();
    refuses_strangers(&other, "another process believes it, too").await;
    let tasks =
        [&guard, &other].map(|guard| tokio::spawn(Arc::clone(&traffic).create(guard.clone())));
    guard.rebuild_now().await.unwrap();
    traffic.end(tasks.into()).await;
    assert_eq!(refused(&other, IDS..traffic.done().0).await, [0; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_module_whose_filter_would_have_no_known_size_is_not_rebuilt() {
    let server = redisbloom::server();
    server.run::<()>(&["BF.ADD", "users", "1"]);
    let filter = ForeignFilter::redisbloom("users");
    let guard = rebuilt_from(&server.url(), filter, Table::with(0..IDS));
    eventually("the reason", SOON, || async {
        match guard.rebuild_now().await.as_ref().map_err(|error| &**error) {
            Err(RebuildError::Store(StoreError::Foreign { reason, .. }))
                if reason.contains("redisbloom_reserved") =>
            {
                Ok(())
            }
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    assert_eq!(server.keys(), ["users"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_over_two_instances_is_rebuilt_on_both() {
    let (one, other) = (RedisServer::start(), RedisServer::start());
    let url = other.url();
    let filter = || ForeignFilter::php_bkdr_sharded("php", 200_000, 4, &[&url]);
    let table = Table::with(0..IDS);
    let guard = rebuilt_from(&one.url(), filter(), table.clone());
    guard.ready().await;
    for _ in 0..2 {
        refuses_strangers(&guard, "the filter is believed").await;
        assert_eq!(refused(&guard, 0..IDS).await, [0; 0]);
        guard.rebuild_now().await.unwrap();
    }
    for server in [&one, &other] {
        assert_eq!(server.keys().len(), 2, "{:?}", server.keys());
    }
    // A part that is lost is unknown, and rebuilt.
    other.run::<()>(&["FLUSHALL"]);
    assert_eq!(refused(&guard, 0..IDS).await, [0; 0]);
    eventually("all is refused again", SOON, || async {
        let refused = refused(&guard, STRANGERS).await.len();
        if refused > 45 { Ok(()) } else { Err(refused.to_string()) }
    })
    .await;
    assert_eq!(refused(&guard, 0..IDS).await, [0; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expiry_begins_anew() {
    let server = RedisServer::start();
    let filter = ForeignFilter::jedis("users", IDS, 0.01, Some(Duration::from_secs(500)));
    let guard = rebuilt_from(&server.url(), filter, Table::with(0..IDS));
    guard.ready().await;
    let life: u64 = server.run(&["TTL", "bf:users"]);
    assert!((400..=500).contains(&life), "{life}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_insert_is_lost_by_rebuilds_under_load() {
    let writer = Writer::go_zero(50 * IDS);
    let server = RedisServer::start();
    let table = Table::with(0..IDS);
    // Between an insert's two steps there is time for a swap.
    let far = Far::to(server.port(), Duration::from_millis(60)).await;
    let near = rebuilt_from(&server.url(), writer.filter(), table.clone());
    let away = rebuilt(&far.url(), writer.filter()).build().unwrap();
    near.ready().await;
    let traffic = Traffic::new(&table, IDS);
    let mut tasks = vec![tokio::spawn(Arc::clone(&traffic).check(near.clone()))];
    tasks.push(tokio::spawn(Arc::clone(&traffic).create(near.clone())));
    for _ in 0..8 {
        tasks.push(tokio::spawn(Arc::clone(&traffic).create(away.clone())));
    }
    for _ in 0..6 {
        let report = near.rebuild_now().await.unwrap();
        assert!(report.ids >= IDS, "{report:?}");
    }
    let (created, checked) = traffic.done();
    assert!(created > IDS + 1_000 && checked > 100, "{created} created, checked {checked} times");
    refuses_strangers(&near, "the filter is believed").await;
    traffic.end(tasks).await;
    tokio::time::sleep(LONGEST_TRANSACTION).await;
    assert_eq!(refused(&near, table.snapshot()).await, [0; 0]);
    assert_eq!(refused(&away, table.snapshot()).await, [0; 0]);
    assert_eq!(left_over(&server, &writer), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_insert_by_a_guard_of_another_name_is_not_lost() {
    let writer = Writer::go_zero(10 * IDS);
    let server = RedisServer::start();
    let (guard, source, rebuild) = halfway(&server, &writer).await;
    let pattern = PathPattern::<u64>::new("/people/{id}").unwrap();
    let other = BloomGuard::builder("people", pattern).redis(&server.url()).settle(Duration::ZERO);
    let other = other.foreign(writer.filter().sole_writer()).build().unwrap();
    insert(&other, &Id::display(&77_777_u64).unwrap()).await;
    source.goes_on.notify_one();
    rebuild.await.unwrap().unwrap();
    assert!(writer.reads(&server, 77_777));
    assert_eq!(refused(&guard, [77_777]).await, [0; 0]);
}

/// A source that waits before its last id, until told to go on.
#[derive(Clone, Default)]
pub(crate) struct Held {
    table: Table,
    reached: Arc<Notify>,
    pub(crate) goes_on: Arc<Notify>,
    holds: Arc<std::sync::atomic::AtomicBool>,
}

impl RebuildSource for Held {
    async fn scan(&self, ids: &mut IdSink<'_>) -> Result<(), BoxError> {
        self.table.scan(ids).await?;
        if self.holds.load(std::sync::atomic::Ordering::SeqCst) {
            self.reached.notify_one();
            self.goes_on.notified().await;
        }
        Ok(())
    }
}

pub(crate) type Rebuild = JoinHandle<Result<(), Arc<RebuildError>>>;

/// A live filter, and a rebuild that has nearly ended its scan.
pub(crate) async fn halfway(server: &RedisServer, writer: &Writer) -> (BloomGuard, Held, Rebuild) {
    writer.write(server, []);
    let source = Held { table: Table::with(0..IDS), ..Held::default() };
    let guard = rebuilt_from(&server.url(), writer.filter(), source.clone());
    guard.ready().await;
    source.holds.store(true, std::sync::atomic::Ordering::SeqCst);
    let rebuild = tokio::spawn({
        let guard = guard.clone();
        async move { guard.rebuild_now().await.map(drop) }
    });
    source.reached.notified().await;
    (guard, source, rebuild)
}

/// The key that is being filled.
pub(crate) fn new_key(server: &RedisServer) -> String {
    let keys = server.keys();
    keys.into_iter().find(|key| key.ends_with(":bg:new")).expect("a rebuild is under way")
}

/// A rebuild to whose filter this happens does not put it live.
async fn never_goes_live(writer: &Writer, spoil: impl AsyncFn(&RedisServer, &BloomGuard)) {
    let server = RedisServer::start();
    let (guard, source, rebuild) = halfway(&server, writer).await;
    spoil(&server, &guard).await;
    source.goes_on.notify_one();
    let error = rebuild.await.unwrap().unwrap_err();
    println!("{error:?}");
    // The live filter stays.
    refuses_strangers(&guard, writer.name).await;
    assert_eq!(refused(&guard, 0..IDS).await, [0; 0], "{}", writer.name);
    // And the next rebuild is as good as any.
    source.holds.store(false, std::sync::atomic::Ordering::SeqCst);
    eventually("the next rebuild", SOON, || async {
        guard.rebuild_now().await.map_err(|error| format!("{error:?}"))
    })
    .await;
    assert_eq!(refused(&guard, 0..IDS).await, [0; 0], "{}", writer.name);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_filter_that_was_lost_is_not_put_live() {
    for writer in [Writer::go_zero(10 * IDS), Writer::redisson(10 * IDS)] {
        never_goes_live(&writer, async |server, _| {
            server.run::<()>(&["DEL", &new_key(server)]);
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_filter_that_was_lost_and_made_again_by_an_insert_is_not_put_live() {
    let writer = Writer::go_zero(10 * IDS);
    never_goes_live(&writer, async |server, guard| {
        let key = new_key(server);
        server.run::<()>(&["DEL", &key]);
        guard.insert(&77_777_u64).await.unwrap();
        assert_eq!(new_key(server), key);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rebuild_whose_token_was_lost_is_not_put_live() {
    let writer = Writer::go_zero(10 * IDS);
    never_goes_live(&writer, async |server, guard| {
        server.run::<()>(&["DEL", "{bloom:users}:bg:refill"]);
        // An insert that goes to the live filter only.
        guard.insert(&77_777_u64).await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rebuild_whose_token_another_has_taken_is_not_put_live() {
    let writer = Writer::go_zero(10 * IDS);
    never_goes_live(&writer, async |server, _| {
        server.run::<()>(&["SET", "{bloom:users}:bg:refill", "another", "PX", "1000"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_rebuilds_at_once_one_is_busy() {
    let writer = Writer::go_zero(10 * IDS);
    let server = RedisServer::start();
    let (guard, source, rebuild) = halfway(&server, &writer).await;
    let other = rebuilt_from(&server.url(), writer.filter(), Table::with(0..IDS));
    other.ready().await;
    let error = other.rebuild_now().await.unwrap_err();
    assert!(matches!(&*error, RebuildError::Busy), "{error:?}");
    source.goes_on.notify_one();
    rebuild.await.unwrap().unwrap();
    assert_eq!(refused(&guard, 0..IDS).await, [0; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rebuild_ends_with_the_redis_that_it_began_on() {
    let writer = Writer::go_zero(10 * IDS);
    let mut server = RedisServer::start();
    let (guard, source, rebuild) = halfway(&server, &writer).await;
    eventually("all but the last ids are written", SOON, || async {
        let bits: u64 = server.run(&["BITCOUNT", &new_key(&server)]);
        if bits > 14 * IDS * 8 / 10 { Ok(()) } else { Err(bits.to_string()) }
    })
    .await;
    server.run::<()>(&["SAVE"]);
    server.restart();
    insert(&guard, &Id::display(&77_777_u64).unwrap()).await;
    source.holds.store(false, std::sync::atomic::Ordering::SeqCst);
    source.goes_on.notify_one();
    let error = rebuild.await.unwrap().unwrap_err();
    assert!(matches!(&*error, RebuildError::Store(StoreError::OtherRedis)), "{error:?}");
    assert_eq!(refused(&guard, 0..IDS).await, [0; 0]);
    // Trust comes back with the next rebuild, by itself.
    guard.ready().await;
    refuses_strangers(&guard, "a rebuild brings trust back").await;
    assert_eq!(refused(&guard, 0..IDS).await, [0; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_that_change_meanwhile_refuse_nothing() {
    let writer = Writer::redisson(10 * IDS);
    let server = RedisServer::start();
    let (guard, source, rebuild) = halfway(&server, &writer).await;
    server.run::<()>(&["HSET", "{users}:config", "size", "123457"]);
    source.goes_on.notify_one();
    rebuild.await.unwrap().unwrap_err();
    assert_eq!(refused(&guard, (0..IDS).chain(STRANGERS)).await, [0; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_abandoned_rebuild_has_made_expires() {
    let writer = Writer::go_zero(10 * IDS);
    let server = RedisServer::start();
    let (guard, _, rebuild) = halfway(&server, &writer).await;
    rebuild.abort();
    eventually("the rest is gone", SOON, || async {
        let rest = left_over(&server, &writer);
        if rest.is_empty() { Ok(()) } else { Err(format!("{rest:?}")) }
    })
    .await;
    assert_eq!(refused(&guard, 0..IDS).await, [0; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_without_room_for_a_seal_is_not_rebuilt() {
    let server = RedisServer::start();
    let filter = ForeignFilter::go_zero("BF", 1 << 32);
    let guard = rebuilt_from(&server.url(), filter, Table::with(0..IDS));
    let error = eventually("a connection", SOON, || async {
        match guard.rebuild_now().await.map_err(|error| (*error).to_string()) {
            Err(error) if error.contains("store") => Ok(error),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    println!("{error}");
    assert_eq!(refused(&guard, (0..IDS).chain(STRANGERS)).await, [0; 0]);
    assert_eq!(server.keys(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_config_is_named() {
    let server = RedisServer::start();
    let guard = rebuilt_from(&server.url(), ForeignFilter::redisson("users"), Table::with(0..IDS));
    eventually("the reason", SOON, || async {
        match guard.rebuild_now().await.as_ref().map_err(|error| &**error) {
            Err(RebuildError::Store(StoreError::Foreign { key, reason }))
                if key == "users" && reason.contains("config") =>
            {
                Ok(())
            }
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}
