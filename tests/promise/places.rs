//! A filter of other records than those that are served: several processes without Redis, two services of one name.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bloom_guard::rebuild::RebuildSource;
use bloom_guard::rejection::{Explained, NotFound};
use bloom_guard::{BloomGuard, Builder, Doubt, PathPattern, RebuildError, Schedule, Verdict};
use http::{Request, Response, StatusCode};
use support::eventually;
use support::model::{
    Strangers, Table, by_default, get, guard, handler, live, ready, while_the_clock_stands,
};
use support::redis_server::RedisServer;
use tokio::time::{Instant, sleep};
use tower::{Layer, ServiceExt};

const SECOND: Duration = Duration::from_secs(1);

fn in_process(ids: u64, rate: f64) -> Builder {
    let pattern = PathPattern::<u64>::new("/users/{id}").unwrap();
    BloomGuard::builder("users", pattern).in_process().capacity(ids, rate)
}

/// A sequence that looks drawn by chance, the same each time.
fn random(last: &mut u64) -> usize {
    *last = last.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    (*last >> 33) as usize
}

/// What a thread does that fills a filter takes no time by a paused clock.
async fn while_it_is_rebuilt(guard: &BloomGuard) {
    if guard.state().live == Err(Doubt::Disproved) {
        let moment = || std::thread::sleep(Duration::from_millis(2));
        tokio::task::spawn_blocking(moment).await.unwrap();
    }
}

/// Every process asks for what the other has created. Half of what is absent from its filter exists: the rest is a flood. The
/// canary needs one finding for the first filter, and two for the second.
#[tokio::test(start_paused = true)]
async fn processes_without_redis_refuse_what_others_create_for_seconds_and_not_for_hours() {
    const IDS: u64 = 10_000;
    const A_SECOND: u64 = 100;
    let table = Table::with(0..IDS);
    let build = || in_process(100_000, 1e-6).rebuild(Schedule::manual(), table.clone()).build();
    let guards = [build().unwrap(), build().unwrap()];
    ready(&guards[0]).await;
    ready(&guards[1]).await;
    let (began, mut chance, mut strangers) = (Instant::now(), 1, Strangers(1));
    let (mut refused, mut last) = (0, Duration::ZERO);
    let created = 60 * A_SECOND;
    for id in IDS..IDS + created {
        let [creates, asks] = if id % 2 == 0 { [0, 1] } else { [1, 0] }.map(|n: usize| &guards[n]);
        creates.insert(&id).await.unwrap();
        table.commit(id);
        let stranger = strangers.next().unwrap();
        let both =
            if random(&mut chance).is_multiple_of(2) { [id, stranger] } else { [stranger, id] };
        for asked in both {
            if get(asks, &table, asked).await == StatusCode::NOT_FOUND && asked == id {
                refused += 1;
                last = began.elapsed();
            }
        }
        while_it_is_rebuilt(asks).await;
        sleep(SECOND / A_SECOND as u32).await;
    }
    println!(
        "two processes without redis: {refused} of {created} refused, the last after {last:?}"
    );
    assert!(refused <= 10 * A_SECOND, "{refused}");
    assert!(last < 30 * SECOND, "{last:?}");
    for guard in &guards {
        assert_eq!(guard.state().live.unwrap_err(), Doubt::DisprovedTwice);
        let trouble = guard.state().trouble.unwrap();
        assert!(trouble.contains("do several processes create records?"), "{trouble}");
    }
    // A rebuild by hand ends it.
    while_the_clock_stands(guards[0].rebuild_now()).await.unwrap();
    assert!(guards[0].state().is_ready());
    assert_eq!(get(&guards[0], &table, u64::MAX).await, StatusCode::NOT_FOUND);
}

/// Half of the first service's records were asked for lately, and bear witness as they are served. In a flood the canary would
/// take far longer: nearly every refusal that it lets through is a stranger's.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_service_of_the_same_name_has_the_firsts_records_refused_for_moments() {
    let redis = RedisServer::start();
    let articles = Table::with((0..600).map(|n| 1_000_000 + 7 * n));
    let first = by_default(&redis.url()).capacity(1_000, 0.001);
    let first = first.rebuild(Schedule::manual(), articles.clone()).build().unwrap();
    live(&first).await;
    let ids = articles.snapshot();
    for id in &ids[..300] {
        assert_eq!(get(&first, &articles, *id).await, StatusCode::OK);
    }
    let users = Table::with(0..60_002);
    let second = by_default(&redis.url()).capacity(100_000, 0.001);
    let second = second.rebuild(Schedule::manual(), users).build().unwrap();
    live(&second).await;
    second.rebuild_now().await.unwrap();

    let (began, mut chance, mut strangers) = (Instant::now(), 1, Strangers(1));
    let (mut served, mut last) = (0, Duration::ZERO);
    let mut refused: BTreeMap<String, Vec<Duration>> = BTreeMap::new();
    while began.elapsed() < 10 * SECOND {
        for stranger in strangers.by_ref().take(9) {
            get(&first, &articles, stranger).await;
        }
        let id = ids[random(&mut chance) % ids.len()];
        let request = Request::get(format!("/users/{id}")).body(String::new()).unwrap();
        let response = first
            .rejecting_with(Explained(NotFound))
            .layer(handler(&articles))
            .oneshot(request)
            .await
            .unwrap();
        served += 1;
        if response.status() == StatusCode::NOT_FOUND {
            last = began.elapsed();
            let why = response.headers()["x-bloom-guard"].to_str().unwrap().to_owned();
            refused.entry(why).or_default().push(last);
        }
        sleep(Duration::from_millis(2)).await;
    }
    let count: usize = refused.values().map(Vec::len).sum();
    println!("a second service: {count} of {served} refused, the last after {last:?}");
    for (why, times) in &refused {
        println!(
            "  {why}: {} of them, from {:?} to {:?}",
            times.len(),
            times[0],
            times[times.len() - 1]
        );
        assert!(times[times.len() - 1] - times[0] < SECOND, "{times:?}");
    }
    assert!(refused.len() <= 2, "the filter that took over, and the one that took its place");
    for guard in [&first, &second] {
        eventually("it is told", 10 * SECOND, || async {
            match guard.state().trouble {
                Some(trouble) if trouble.contains("used by two services?") => Ok(()),
                other => Err(format!("{other:?}, {:?}", guard.state().live)),
            }
        })
        .await;
    }
}

/// A cache of the application's: what was served is served for a minute, whatever becomes of it.
#[derive(Clone, Default)]
struct Cache(Arc<Mutex<BTreeMap<u64, Instant>>>);

impl Cache {
    async fn get(&self, guard: &BloomGuard, table: &Table, id: u64) -> StatusCode {
        let (cache, table) = (self.clone(), table.clone());
        let handler = tower::service_fn(move |_: Request<String>| {
            let mut cached = cache.0.lock().unwrap();
            let is_fresh = cached.get(&id).is_some_and(|at| at.elapsed() < 60 * SECOND);
            let is_found = is_fresh || table.look_up(id);
            if is_found && !is_fresh {
                cached.insert(id, Instant::now());
            }
            let status = if is_found { StatusCode::OK } else { StatusCode::NOT_FOUND };
            async move { Ok::<_, std::convert::Infallible>(answer(status)) }
        });
        let request = Request::get(format!("/users/{id}")).body(String::new()).unwrap();
        guard.layer(handler).oneshot(request).await.unwrap().status()
    }
}

fn answer(status: StatusCode) -> Response<String> {
    Response::builder().status(status).body(String::new()).unwrap()
}

/// All that is served of them from the cache is missing from the filter.
#[tokio::test(start_paused = true)]
async fn a_tenth_deleted_before_a_rebuild_and_served_from_caches_disproves_nothing() {
    const IDS: u64 = 1_000;
    let mut stale = 0;
    for fleet in 0..20 {
        let (table, cache) = (Table::with(0..IDS), Cache::default());
        let guard = in_process(10_000, 1e-6).rebuild(Schedule::manual(), table.clone());
        let guard = guard.build().unwrap();
        ready(&guard).await;
        for id in 0..IDS {
            assert_eq!(cache.get(&guard, &table, id).await, StatusCode::OK);
            sleep(SECOND / 20).await;
        }
        let mut chance = fleet;
        for _ in 0..IDS / 10 {
            table.delete(random(&mut chance) as u64 % IDS);
        }
        let rebuilt = while_the_clock_stands(guard.rebuild_accepting_loss()).await.unwrap();
        for _ in 0..20 * 150 {
            let id = random(&mut chance) as u64 % IDS;
            let status = cache.get(&guard, &table, id).await;
            stale += u64::from(status == StatusCode::OK && table.born(id).is_none());
            sleep(SECOND / 20).await;
        }
        assert_eq!(guard.stats().false_negatives, 0, "fleet {fleet}");
        assert_eq!(guard.state().live.unwrap().generation, rebuilt.generation);
    }
    println!("deleted records served from caches: {stale}");
    assert!(stale > 1_000);
}

/// The filter refuses nothing any more, and what it lacks is in the lane.
#[tokio::test(start_paused = true)]
async fn a_handler_that_serves_what_does_not_exist_costs_the_database_no_more_than_the_lane() {
    const A_SECOND: u64 = 2_000;
    let table = Table::with(0..10_000);
    let guard = in_process(20_000, 0.001).rebuild(Schedule::every(3_600 * SECOND), table.clone());
    let guard = guard.build().unwrap();
    ready(&guard).await;
    let lookups = Arc::new(AtomicU64::new(0));
    let database = Arc::clone(&lookups);
    let handler = tower::service_fn(move |_: Request<String>| {
        database.fetch_add(1, Ordering::SeqCst);
        async { Ok::<_, std::convert::Infallible>(answer(StatusCode::OK)) }
    });
    let service = guard.layer(handler);
    let seconds = 60;
    for (n, stranger) in (0..seconds * A_SECOND).zip(Strangers(9)) {
        let request = Request::get(format!("/users/{stranger}")).body(String::new()).unwrap();
        service.clone().oneshot(request).await.unwrap();
        while_it_is_rebuilt(&guard).await;
        if n % (A_SECOND / 1_000) == 0 {
            sleep(Duration::from_millis(1)).await;
        }
    }
    let lookups = lookups.load(Ordering::SeqCst);
    let bound = A_SECOND as f64 * 0.001 * (1.0 + 3_600.0 / 30.0);
    println!(
        "a handler that answers 2xx for all, {A_SECOND} absent ids a second: {:.0} look-ups a second; the bound is {bound:.0} and \
         the lane, which takes 500",
        lookups as f64 / seconds as f64
    );
    assert_eq!(guard.state().live.unwrap_err(), Doubt::DisprovedTwice);
    assert!(lookups <= 64 + seconds * 501, "{lookups}");
    assert!(lookups > seconds * 400, "protection is what it pays with: {lookups}");
    assert_eq!(guard.stats().rebuilds, 2, "one at once");
}

#[tokio::test]
async fn a_source_that_names_what_it_reads_takes_no_other_ones_filter_over() {
    let redis = RedisServer::start();
    let table = Table::with(0..100);
    let over = |identity: &str| {
        let source = table.clone().with_identity(identity);
        guard(&redis.url()).rebuild(Schedule::manual(), source).build().unwrap()
    };
    let shop = over("shop.articles");
    live(&shop).await;
    let generation = shop.state().live.unwrap().generation;
    let crm = over("crm.users");
    live(&crm).await;
    let error = crm.rebuild_now().await.unwrap_err();
    let RebuildError::OtherSource { own, filters, .. } = &*error else { panic!("{error:?}") };
    assert_eq!((own.as_str(), filters.as_str()), ("crm.users", "shop.articles"));
    for name in ["crm.users", "shop.articles"] {
        assert!(error.to_string().contains(name), "{error}");
    }
    assert_eq!(crm.state().live.unwrap().generation, generation);
    // Services may share a filter on purpose, and a source may move.
    let unnamed = guard(&redis.url()).rebuild(Schedule::manual(), table.clone()).build().unwrap();
    live(&unnamed).await;
    unnamed.rebuild_now().await.unwrap();
    crm.rebuild_accepting_loss().await.unwrap();
    assert!(shop.rebuild_now().await.is_err());
    assert_eq!(shop.check(&7).await.unwrap(), Verdict::Present);
}
