//! The guard comes and goes with its Redis, and never takes the application along.

use std::time::{Duration, Instant};

use bloom_guard::{BloomGuard, Doubt, PathPattern, SecretKey, SettingError, StoreError, Verdict};
use http::StatusCode;
use support::eventually;
use support::far::Far;
use support::model::{Table, get, get_looked_up, guard, guard_over, live};
use support::redis_server::RedisServer;
use tokio::task::JoinSet;

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
    assert!(guard.insert(&7).await.is_err(), "an insert is not acknowledged");

    redis.restart();
    live(&guard).await;
    guard.insert(&7).await.unwrap();
    assert_eq!(guard.state().trouble, None);
}

/// A round trip takes four fifths of the deadline, and checks come all the while.
#[tokio::test]
async fn a_redis_that_is_far_away_answers_all_checks_in_time() {
    let redis = RedisServer::start();
    let far = Far::to(redis.port(), Duration::from_millis(5)).await;
    let table = Table::with(0..1_000);
    let deadline = Duration::from_millis(500);
    let guard = guard_over(&far.url(), &table).check_deadline(deadline).build().unwrap();
    live(&guard).await;
    far.take(deadline * 4 / 5);
    let mut unknown = Vec::new();
    // This machine may stand still for a moment.
    while unknown.len() < 5 && unknown.last() != Some(&0) {
        let mut checks = JoinSet::new();
        for id in 0..400_u64 {
            let guard = guard.clone();
            checks.spawn(async move { guard.check(&(id * 5)).await.unwrap() });
            if id % 2 == 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        let verdicts = checks.join_all().await.into_iter();
        unknown.push(verdicts.filter(|verdict| matches!(verdict, Verdict::Unknown(_))).count());
    }
    assert_eq!(unknown.last(), Some(&0), "{unknown:?} of 400");
    far.take(Duration::from_millis(5));
}

#[tokio::test]
async fn a_restarted_redis_is_not_trusted_until_a_rebuild() {
    let mut redis = RedisServer::with(&["--save", "3600 1000000"]);
    let table = Table::with(0..1_000);
    let builder = guard_over(&redis.url(), &table).build().unwrap();
    live(&builder).await;
    redis.run::<()>(&["SAVE"]);
    // An add that the dump has not got.
    builder.insert(&5_000).await.unwrap();
    table.commit(5_000);
    drop(builder);
    let witness = guard(&redis.url()).build().unwrap();
    live(&witness).await;

    redis.restart();
    eventually("the witness is back", Duration::from_secs(10), || async {
        match witness.check(&5_000).await.unwrap() {
            Verdict::Unknown(Doubt::Suspect) => Ok(()),
            Verdict::Absent(_) => panic!("a lost add is refused"),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    assert_eq!(get_looked_up(&witness, &table, 5_000).await, StatusCode::OK);

    let builder = guard_over(&redis.url(), &table).build().unwrap();
    live(&builder).await;
    live(&witness).await;
    assert_eq!(witness.check(&5_000).await.unwrap(), Verdict::Present);
}

#[tokio::test]
async fn a_demoted_primary_refuses_nobody() {
    let redis = RedisServer::start();
    let other = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = guard_over(&redis.url(), &table).build().unwrap();
    live(&guard).await;
    // The connection stays open; the server turns into a replica of an empty one.
    redis.run::<()>(&["REPLICAOF", "127.0.0.1", &other.port().to_string()]);
    for id in 0..100 {
        assert_eq!(get_looked_up(&guard, &table, id).await, StatusCode::OK);
    }
    assert!(matches!(guard.check(&5_000).await.unwrap(), Verdict::Unknown(_)));
    assert!(guard.insert(&5_000).await.is_err(), "a replica acknowledges nothing");
}

#[tokio::test]
async fn forgotten_scripts_are_sent_again() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = guard_over(&redis.url(), &table).build().unwrap();
    live(&guard).await;
    for id in 5_000..5_020 {
        redis.run::<()>(&["SCRIPT", "FLUSH"]);
        guard.insert(&id).await.unwrap();
        redis.run::<()>(&["SCRIPT", "FLUSH"]);
        guard.remove(&id).await.unwrap();
    }
    redis.run::<()>(&["SCRIPT", "FLUSH"]);
    guard.rebuild_now().await.unwrap();
    assert_eq!(guard.check(&5_000).await.unwrap(), Verdict::Present);
}

#[tokio::test]
async fn user_password_and_database_come_from_the_url() {
    let redis = RedisServer::start();
    redis.run::<()>(&["ACL", "SETUSER", "guard", "on", ">s3cret", "~bg:*", "+@all"]);
    redis.run::<()>(&["ACL", "SETUSER", "default", "off"]);
    let table = Table::with(0..100);
    let url = format!("redis://guard:s3cret@127.0.0.1:{}/3", redis.port());
    let right = guard_over(&url, &table).build().unwrap();
    live(&right).await;

    let client = redis::Client::open(url.as_str()).unwrap();
    let mut connection = client.get_connection().unwrap();
    let here: i64 = redis::cmd("DBSIZE").query(&mut connection).unwrap();
    assert!(here >= 2, "the filter is in database 3");

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
async fn a_guard_with_another_secret_key_refuses_nobody() {
    let redis = RedisServer::start();
    let table = Table::with(0..100);
    let ours =
        guard_over(&redis.url(), &table).secret_key(SecretKey::new([1; 16])).build().unwrap();
    live(&ours).await;
    let stored: Option<String> = redis.run(&["HGET", "bg:{users}:meta", "key"]);
    assert_eq!(stored, None, "a key that was given is not stored");

    let theirs =
        guard_over(&redis.url(), &table).secret_key(SecretKey::new([2; 16])).build().unwrap();
    for id in 0..100 {
        assert_eq!(get_looked_up(&theirs, &table, id).await, StatusCode::OK);
    }
    let error = theirs.insert(&7).await.unwrap_err();
    let bloom_guard::ChangeError::Store(StoreError::Disconnected { reason, .. }) = error else {
        panic!("{error:?}")
    };
    assert!(reason.contains("the filter uses secret key"), "{reason}");
    live(&ours).await;
}

#[tokio::test]
async fn out_of_memory_redis_acknowledges_adds_and_refuses_nobody() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = guard_over(&redis.url(), &table).build().unwrap();
    live(&guard).await;
    redis.run::<()>(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    redis.run::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
    guard.insert(&5_000).await.expect("an add passes under memory pressure");
    for id in 0..100 {
        assert_eq!(get_looked_up(&guard, &table, id).await, StatusCode::OK);
    }
    let error = guard.rebuild_now().await.unwrap_err();
    assert!(format!("{error:?}").contains("OOM"), "{error:?}");
    redis.run::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
    live(&guard).await;
    assert_eq!(guard.check(&5_000).await.unwrap(), Verdict::Present);
}

/// A create may hold a connection to the database meanwhile, which those who read wait for.
#[tokio::test]
async fn an_insert_fails_at_once_while_redis_is_known_to_be_gone() {
    let mut redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = guard_over(&redis.url(), &table).build().unwrap();
    live(&guard).await;
    redis.kill();
    // Until the first attempt to connect again has failed, an insert waits.
    guard.insert(&1).await.unwrap_err();
    let begun = Instant::now();
    for id in 0..20_u64 {
        guard.insert(&id).await.unwrap_err();
    }
    // One that waited would take a quarter of a second.
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?} for 20", begun.elapsed());
    redis.restart();
    eventually("an insert is acknowledged", Duration::from_secs(5), || async {
        guard.insert(&1).await.map_err(|error| error.to_string())
    })
    .await;
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
    eventually("the connections are closed", Duration::from_secs(5), || async {
        let clients: String = redis.run(&["CLIENT", "LIST"]);
        let ours = clients.lines().count();
        if ours == 1 { Ok(()) } else { Err(clients) }
    })
    .await;
}

#[test]
fn a_malformed_url_is_refused() {
    let builder = || BloomGuard::builder("users", PathPattern::<u64>::new("/users/{id}").unwrap());
    for url in ["", "http://localhost", "redis://", "redis://host:port", "redis://h/notanumber"] {
        let error = builder().redis(url).build().unwrap_err();
        assert!(matches!(error.problems(), [SettingError::RedisUrl { .. }]), "{url}: {error:?}");
    }
    for (url, words) in [
        ("redis+sentinel://:secret@h", "it lacks the name"),
        ("redis+sentinel://h/", "it lacks the name"),
        ("redis+sentinel:///name", "it lacks a sentinel's host"),
        ("redis+sentinel://h,,i/name", "it lacks a sentinel's host"),
        ("redis+sentinel://h:port/name", "it is no url"),
        ("redis+sentinel://a,b,a:26379/name", "it names the sentinel a:26379 twice"),
        ("redis+sentinel://h/name/first", "no number of a database"),
        ("redis+sentinel://h/name/-1", "no number of a database"),
        ("redis+sentinel://h/name?sentinel_pasword=secret", "it has a parameter other than"),
        ("redis+sentinel://h/name?sentinel_username=guard", "no sentinel_password beside it"),
        ("redis+sentinel://h/name#secret", "a fragment"),
        ("redis+sentinel://u:sec/ret@h/name", ""),
        ("redis+sentinel://u:x/y/secret@h/name", "no number of a database"),
        ("redis+sentinel://u:x/y?secret@h/name", "it has a parameter other than"),
        ("redis+sentinel://h/name?sentinel_password=x&secret", "it has a parameter other than"),
        ("valkey+sentinel://h/name", "another scheme"),
        ("redis+cluster://:secret@", "it lacks a node's host"),
        ("redis+cluster://h,h:6379", "it names the node h:6379 twice"),
        ("redis+cluster://h/3", "a cluster has one database"),
        ("redis+cluster://h?secret=1", "no parameters"),
        ("redis+cluster://h#secret", "a fragment"),
    ] {
        let error = builder().redis(url).build().unwrap_err();
        let [SettingError::RedisUrl { reason }] = error.problems() else { panic!("{error:?}") };
        assert!(reason.contains(words), "{url}: {reason}");
        assert!(!error.to_string().contains("sec"), "{url}: {error}");
    }
    for url in [
        "redis+sentinel://[::1],[::2]:7/name/3",
        "rediss+sentinel://:s%2F@h,i:1/a%20b",
        "redis+cluster://[::1],h",
    ] {
        assert!(builder().redis(url).build().is_ok(), "{url}");
    }
    assert!(builder().redis("rediss://localhost").build().is_ok(), "the feature is on");
    assert!(builder().redis("rediss://localhost/#insecure").build().is_err(), "not unchecked");
}

/// What Redis is asked to do, what a check then says, and how it is put right.
#[tokio::test]
async fn a_refusal_is_named_refuses_nobody_and_passes() {
    type Steps = &'static [&'static [&'static str]];
    let cases: [(Steps, Steps, Doubt); 3] = [
        (
            &[&["CONFIG", "SET", "min-replicas-to-write", "1"]],
            &[&["CONFIG", "SET", "min-replicas-to-write", "0"]],
            Doubt::Isolated,
        ),
        (
            &[&["CONFIG", "SET", "maxmemory", "1"]],
            &[&["CONFIG", "SET", "maxmemory", "0"]],
            Doubt::OutOfMemory,
        ),
        (
            &[&["ACL", "SETUSER", "guard", "-bitfield"]],
            &[&["ACL", "SETUSER", "guard", "+bitfield"]],
            Doubt::Denied,
        ),
    ];
    let redis = RedisServer::start();
    redis.run::<()>(&["ACL", "SETUSER", "guard", "on", ">s3cret", "~bg:*", "+@all"]);
    let table = Table::with(0..1_000);
    let url = format!("redis://guard:s3cret@127.0.0.1:{}/", redis.port());
    let guard = guard_over(&url, &table).build().unwrap();
    live(&guard).await;
    for (damage, repair, doubt) in cases {
        for step in damage {
            redis.run::<()>(step);
        }
        assert_eq!(guard.check(&7).await.unwrap(), Verdict::Unknown(doubt));
        // A connection that was refused so may have been given up by now.
        let next = guard.check(&5_000).await.unwrap();
        let doubts = [doubt, Doubt::Disconnected].map(Verdict::Unknown);
        assert!(doubts.contains(&next), "{next:?}");
        for step in repair {
            redis.run::<()>(step);
        }
        live(&guard).await;
    }
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
    doubts(Some(Doubt::Eviction)).await;
    assert_eq!(get(&careful, &table, 5_000).await, StatusCode::NOT_FOUND, "the handler's");
    assert_eq!(careful.check(&7).await.unwrap(), Verdict::Present);
    let trouble = careful.state().trouble.expect("it is said");
    assert!(trouble.contains("allkeys"), "{trouble}");
    assert!(matches!(accepting.check(&5_000).await.unwrap(), Verdict::Absent(_)));

    redis.run::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
    doubts(None).await;
    assert_eq!(careful.state().trouble, None);
    redis.run::<()>(&["CONFIG", "SET", "maxmemory", "1gb"]);
    doubts(Some(Doubt::Eviction)).await;
    redis.run::<()>(&["CONFIG", "SET", "maxmemory-policy", "volatile-lru"]);
    doubts(None).await;

    redis.run::<()>(&["CONFIG", "SET", "maxmemory-policy", "allkeys-random"]);
    let newcomer = guard(&redis.url()).build().unwrap();
    eventually("a newcomer says so at once", Duration::from_secs(3), || async {
        match newcomer.check(&5_000).await.unwrap() {
            Verdict::Unknown(Doubt::Eviction) => Ok(()),
            Verdict::Absent(_) => panic!("it refuses"),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

/// A guard whose first runtime ends.
#[test]
fn a_guard_survives_the_runtime_it_was_first_used_in() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let first = tokio::runtime::Runtime::new().unwrap();
    let guard = first.block_on(async {
        let guard = guard_over(&redis.url(), &table).build().unwrap();
        live(&guard).await;
        guard
    });
    drop(first);
    let second = tokio::runtime::Runtime::new().unwrap();
    second.block_on(async {
        eventually("an insert in the second runtime", Duration::from_secs(5), || async {
            guard.insert(&1).await.map_err(|error| error.to_string())
        })
        .await;
    });
}
