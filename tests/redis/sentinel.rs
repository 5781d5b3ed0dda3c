//! `redis+sentinel://`: what a majority of the Sentinels names is where a guard goes.

use std::time::Duration;

use bloom_guard::{BloomGuard, Doubt, Refusal, Verdict};
use support::model::{Table, guard_over, live};
use support::redis_server::RedisServer;
use support::sentinel::Sentinel;
use support::{eventually, throughout};

use super::words::named;

const NAME: &str = "mymaster";
/// They are to name what the test says, whether it answers or not.
const NEVER: Duration = Duration::from_secs(3_600);
const PATIENCE: Duration = Duration::from_secs(20);

fn three(primary: &RedisServer, more: &[&str]) -> Vec<Sentinel> {
    (0..3).map(|_| Sentinel::start(NAME, primary.port(), NEVER, more)).collect()
}

fn url(sentinels: &[Sentinel], query: &str) -> String {
    let hosts: Vec<_> =
        sentinels.iter().map(|sentinel| format!("127.0.0.1:{}", sentinel.port())).collect();
    format!("redis+sentinel://{}/my%6Daster{query}", hosts.join(","))
}

/// Whether a server has a filter of the guard's.
fn is_used(redis: &RedisServer) -> bool {
    redis.keys().iter().any(|key| key == "bg:{users}:bits")
}

async fn trouble_names(guard: &BloomGuard, words: &[&str]) {
    eventually("the state says why", PATIENCE, || async {
        assert_eq!(guard.check(&1).await.unwrap(), Verdict::Unknown(Doubt::Disconnected));
        let trouble = guard.state().trouble.unwrap_or_default();
        if words.iter().all(|words| trouble.contains(words)) { Ok(()) } else { Err(trouble) }
    })
    .await;
}

/// One of two that answer would be a majority of those, and may be alone in its part of the network.
#[tokio::test]
async fn one_of_three_sentinels_is_not_enough_to_connect_and_two_are() {
    let primary = RedisServer::start();
    let mut sentinels = three(&primary, &[]);
    let url = url(&sentinels, "");
    let gone = sentinels.split_off(1);
    let ports: Vec<_> = gone.iter().map(Sentinel::port).collect();
    drop(gone);
    let guard = guard_over(&url, &Table::with(0..100)).build().unwrap();
    let one = format!("127.0.0.1:{} names 127.0.0.1:{}", sentinels[0].port(), primary.port());
    let lost = format!("127.0.0.1:{}: ", ports[0]);
    trouble_names(&guard, &["2 of 3 sentinels have to name the same primary", &one, &lost]).await;
    assert!(!is_used(&primary));
}

#[tokio::test]
async fn a_connection_stays_while_sentinels_are_away_and_is_left_when_a_majority_names_another() {
    let (primary, next) = (RedisServer::start(), RedisServer::start());
    let mut sentinels = three(&primary, &[]);
    let guard = guard_over(&url(&sentinels, ""), &Table::with(0..100)).build().unwrap();
    live(&guard).await;
    sentinels[0].name(NAME, next.port());
    sentinels.remove(2);
    // Longer than two polls.
    throughout(Duration::from_millis(2_500), || async {
        assert!(matches!(guard.check(&5_000).await.unwrap(), Verdict::Absent(_)));
    })
    .await;
    assert!(!is_used(&next));
    sentinels[1].name(NAME, next.port());
    eventually("the guard is with the next primary", PATIENCE, || async {
        let verdict = guard.check(&5_000).await.unwrap();
        let is_there = is_used(&next) && matches!(verdict, Verdict::Absent(_));
        if is_there { Ok(()) } else { Err(format!("{verdict:?}, {:?}", guard.state())) }
    })
    .await;
    // What is created now is looked for where it is created.
    guard.insert(&5_000).await.unwrap();
    assert_eq!(guard.check(&5_000).await.unwrap(), Verdict::Present);
}

#[tokio::test]
async fn what_sentinels_do_not_know_and_whom_they_refuse_is_said() {
    let primary = RedisServer::start();
    let sentinels = three(&primary, &["requirepass let/me@in"]);
    let at = |query| guard_over(&url(&sentinels, query), &Table::with(0..100)).build().unwrap();
    let open = at("?sentinel_password=let/me@in");
    live(&open).await;
    let denied = Doubt::Refused(Refusal::DENIED);
    named(&at(""), denied, "NOAUTH").await;
    named(&at("?sentinel_password=wrong"), denied, "WRONGPASS").await;
    assert!(denied.advice().contains("sentinel_password"));
    let unknown = url(&sentinels, "?sentinel_password=let%2Fme%40in").replace("my%6D", "yourm");
    let unknown = guard_over(&unknown, &Table::with(0..100)).build().unwrap();
    trouble_names(&unknown, &["it knows no primary \"yourmaster\""]).await;
}

#[tokio::test]
async fn user_password_and_database_are_those_of_the_primary() {
    let primary = RedisServer::start();
    primary.run::<()>(&["ACL", "SETUSER", "guard", "on", ">p@ss", "~*", "+@all"]);
    primary.run::<()>(&["ACL", "SETUSER", "default", "on", ">other", "~*", "+@all"]);
    let sentinels = three(&primary, &[]);
    let whole = url(&sentinels, "").replace("://", "://guard:p%40ss@") + "/3";
    let guard = guard_over(&whole, &Table::with(0..100)).build().unwrap();
    live(&guard).await;
    let client =
        redis::Client::open(format!("redis://guard:p%40ss@127.0.0.1:{}/3", primary.port()));
    let mut database = client.unwrap().get_connection().unwrap();
    let there: bool = redis::cmd("EXISTS").arg("bg:{users}:bits").query(&mut database).unwrap();
    assert!(there);
    trouble_names(
        &guard_over(&url(&sentinels, ""), &Table::with(0..1)).build().unwrap(),
        &["NOAUTH"],
    )
    .await;
}
