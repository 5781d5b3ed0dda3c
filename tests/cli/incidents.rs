//! The incidents of the guide's page `operating`: what it says one sees, proves it and mends it.

use std::time::Duration;

use bloom_guard::rejection::{Explained, NotFound};
use bloom_guard::{BloomGuard, Builder, Mode};
use http::{Request, StatusCode};
use support::eventually;
use support::model::{Table, guard_over, handler, live};
use support::redis_server::RedisServer;
use tower::{Layer, ServiceExt};

use super::command::Ran;

/// Users 0 to 999 in a table and in a filter.
async fn stage(with: impl FnOnce(Builder) -> Builder) -> (RedisServer, Table, BloomGuard) {
    let (redis, table) = (RedisServer::start(), Table::with(0..1_000));
    let guard = with(guard_over(&redis.url(), &table)).build().unwrap();
    guard.ready().await;
    (redis, table, guard)
}

/// Who answered a request for an id: 200, or 404 with what the header says.
async fn answered(guard: &BloomGuard, table: &Table, id: u64) -> Result<(), String> {
    let request = Request::get(format!("/users/{id}")).body(String::new()).unwrap();
    let layer = guard.rejecting_with(Explained(NotFound));
    let response = layer.layer(handler(table)).oneshot(request).await.unwrap();
    if response.status() == StatusCode::OK {
        return Ok(());
    }
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
    let why =
        response.headers().get("x-bloom-guard").map_or("the handler", |why| why.to_str().unwrap());
    Err(why.split(';').next().unwrap().to_owned())
}

fn by(who: &str) -> Result<(), String> {
    Err(who.to_owned())
}

#[track_caller]
fn says(redis: &RedisServer, command: &str, more: &[&str], text: &str) {
    let ran = Ran::with(&[&[command, &redis.url(), "users"], more].concat());
    assert!(ran.out.contains(text), "{ran:?}");
}

/// Which of the table's records would be refused.
fn refused(redis: &RedisServer, table: &Table) -> u64 {
    let ids: String = table.snapshot().iter().map(|id| format!("{id}\n")).collect();
    let ran = Ran::fed(&["verify", &redis.url(), "users"], &ids, &[]);
    ran.out.lines().filter(|line| line.ends_with("refused: the filter lacks it")).count() as u64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_row_created_without_insert_is_found_by_check_and_verify() {
    let (redis, table, guard) = stage(|guard| guard).await;
    table.commit(5_000);
    assert_eq!(answered(&guard, &table, 5_000).await, by("filter"));
    says(&redis, "check", &["5000"], "not inserted since");
    assert_eq!(refused(&redis, &table), 1);
    guard.insert(&5_000).await.unwrap();
    assert_eq!(answered(&guard, &table, 5_000).await, Ok(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_second_service_of_the_name_or_a_wrong_table_is_found_by_the_filters_items() {
    let (redis, table, guard) = stage(|guard| guard).await;
    says(&redis, "status", &[], "1000 ids of");
    let orders = Table::with(5_000..9_000);
    let stranger = guard_over(&redis.url(), &orders).build().unwrap();
    stranger.rebuild_now().await.unwrap();
    eventually("the stranger's filter is live", Duration::from_secs(10), || async {
        let answer = answered(&guard, &table, 7).await;
        if answer == by("filter") { Ok(()) } else { Err(format!("{answer:?}")) }
    })
    .await;
    says(&redis, "status", &[], "4000 ids of");
    assert_eq!(refused(&redis, &table), 1_000);
    let clients: String = redis.run(&["CLIENT", "LIST"]);
    assert_eq!(clients.matches("name=bloom-guard:users:checks").count(), 2, "{clients}");
    let shrunk = guard.rebuild_now().await.unwrap_err().to_string();
    says(&redis, "mode", &["off"], "off");
    assert_eq!(answered(&guard, &table, 7).await, Ok(()), "{shrunk}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_redis_that_evicts_is_found_by_doctor_status_and_check() {
    let (redis, _table, guard) = stage(|guard| guard).await;
    live(&guard).await;
    redis.run::<()>(&["CONFIG", "SET", "maxmemory", "1gb"]);
    redis.run::<()>(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    says(&redis, "doctor", &[], "may evict any key");
    says(&redis, "status", &[], "nothing is refused: redis may evict any key");
    says(&redis, "check", &["70000"], "may evict any key");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_deploy_that_lags_is_found_and_switched_off() {
    let (redis, table, settled) = stage(|guard| guard).await;
    table.commit(5_000);
    assert_eq!(answered(&settled, &table, 5_000).await, by("filter"));
    says(&redis, "check", &["5000"], "not inserted since");
    says(&redis, "mode", &["off"], "off");
    assert_eq!(answered(&settled, &table, 5_000).await, Ok(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_applications_own_404_is_not_taken_for_the_guards() {
    let (redis, _, guard) = stage(|guard| guard).await;
    // The handler reads a replica that lags.
    let replica = Table::with(0..500);
    assert_eq!(answered(&guard, &replica, 700).await, by("the handler"));
    assert_eq!(guard.stats().refused, 0);
    says(&redis, "check", &["701"], "701: let through");
    guard.set_fleet_mode(Mode::Off).await.unwrap();
    assert_eq!(answered(&guard, &replica, 700).await, by("the handler"));
}
