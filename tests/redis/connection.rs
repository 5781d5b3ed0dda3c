//! The guard comes and goes with its Redis, and never takes the application along.

use std::time::{Duration, Instant};

use bloom_guard::{Doubt, Refusal, Verdict};
use http::StatusCode;
use support::eventually;
use support::model::{Table, get, get_looked_up, guard, guard_over, left, live, told};
use support::redis_server::RedisServer;

#[tokio::test]
async fn redis_away_at_start_stops_nothing_and_is_found_later() {
    let mut redis = RedisServer::start();
    redis.kill();
    let table = Table::with(0..100);
    let guard = guard_over(&redis.url(), &table).build().unwrap();
    for id in [1, 99, 5_000] {
        let expected = if id < 100 { StatusCode::OK } else { StatusCode::NOT_FOUND };
        assert_eq!(get(&guard, &table, id).await, expected);
    }
    assert_eq!(guard.check(&1).await.unwrap(), Verdict::Unknown(Doubt::Disconnected));
    eventually("the state says why", Duration::from_secs(5), || async {
        let state = guard.state();
        let trouble = state.trouble.clone().unwrap_or_default();
        if trouble.contains("refused") { Ok(()) } else { Err(format!("{state:?}")) }
    })
    .await;
    // A create may hold a connection to the database meanwhile: one that waited would take a quarter of a second.
    let begun = Instant::now();
    for id in 0..20_u64 {
        guard.insert(&id).await.expect_err("an insert is not acknowledged");
    }
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?} for 20", begun.elapsed());

    redis.restart();
    live(&guard).await;
    guard.insert(&7).await.unwrap();
    assert_eq!(guard.state().trouble, None);
}

#[tokio::test]
async fn user_password_and_database_come_from_the_url() {
    let redis = RedisServer::with(&["--unixsocket", "redis.sock"]);
    redis.run::<()>(&["ACL", "SETUSER", "guard", "on", ">s3cret", "~bg:*", "+@all"]);
    let (_, directory): (String, String) = redis.run(&["CONFIG", "GET", "dir"]);
    redis.run::<()>(&["ACL", "SETUSER", "default", "off"]);
    let table = Table::with(0..100);
    let address = format!("redis://guard:s3cret@127.0.0.1:{}", redis.port());
    let socket = format!("redis+unix://{directory}/redis.sock?user=guard&pass=s3cret&db=5");
    for (url, database) in
        [(format!("{address}/3"), 3), (format!("{address}?db=4"), 4), (socket, 5)]
    {
        live(&guard_over(&url, &table).build().unwrap()).await;
        let client = redis::Client::open(format!("{address}/{database}")).unwrap();
        let mut connection = client.get_connection().unwrap();
        let here: i64 = redis::cmd("DBSIZE").query(&mut connection).unwrap();
        assert!(here >= 2, "the filter of {url} is in database {database}");
    }

    let url = format!("{address}/3");
    let wrong =
        guard(&format!("redis://guard:wr0ng@127.0.0.1:{}/3", redis.port())).build().unwrap();
    assert_eq!(get_looked_up(&wrong, &table, 7).await, StatusCode::OK);
    let trouble = eventually("the state says why", Duration::from_secs(5), || async {
        wrong.state().trouble.ok_or_else(|| "nothing".to_owned())
    })
    .await;
    assert!(!trouble.contains("wr0ng"), "{trouble}");
    assert!(!format!("{wrong:?} {:?}", guard(&url)).contains("s3cret"));
}

#[tokio::test]
async fn the_tasks_end_with_the_last_clone() {
    let redis = RedisServer::start();
    let table = Table::with(0..100);
    let guard = guard_over(&redis.url(), &table).build().unwrap();
    live(&guard).await;
    let clone = guard.clone();
    drop(guard);
    live(&clone).await;
    drop(clone);
    left(&redis).await;
}

#[tokio::test]
async fn nothing_is_refused_while_redis_may_evict_any_key() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let careful = guard_over(&redis.url(), &table).build().unwrap();
    let accepting = guard_over(&redis.url(), &table).accept_eviction(true).build().unwrap();
    live(&careful).await;
    live(&accepting).await;
    let doubts = |doubt: Option<Doubt>| {
        let careful = &careful;
        eventually("the poll notices", Duration::from_secs(3), move || async move {
            let verdict = careful.check(&5_000).await.unwrap();
            let found = if let Verdict::Unknown(doubt) = verdict { Some(doubt) } else { None };
            if found == doubt { Ok(()) } else { Err(format!("{verdict:?}")) }
        })
    };
    redis.run::<()>(&["CONFIG", "SET", "maxmemory", "1gb"]);
    redis.run::<()>(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    doubts(Some(Doubt::Refused(Refusal::EVICTION))).await;
    assert_eq!(get(&careful, &table, 5_000).await, StatusCode::NOT_FOUND, "the handler's");
    assert_eq!(careful.check(&7).await.unwrap(), Verdict::Present);
    let trouble = careful.state().trouble.expect("it is said");
    assert!(trouble.contains("allkeys"), "{trouble}");
    assert!(matches!(accepting.check(&5_000).await.unwrap(), Verdict::Absent(_)));

    redis.run::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
    doubts(None).await;
    assert_eq!(careful.state().trouble, None);
    redis.run::<()>(&["CONFIG", "SET", "maxmemory", "1gb"]);
    doubts(Some(Doubt::Refused(Refusal::EVICTION))).await;
    redis.run::<()>(&["CONFIG", "SET", "maxmemory-policy", "volatile-lru"]);
    doubts(None).await;

    redis.run::<()>(&["CONFIG", "SET", "maxmemory-policy", "allkeys-random"]);
    let newcomer = guard(&redis.url()).build().unwrap();
    told(&newcomer, Doubt::Refused(Refusal::EVICTION), "allkeys").await;
}
