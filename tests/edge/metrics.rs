//! Every metric that the guide lists is published, described, and moves.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bloom_guard::{BloomGuard, Mode, OnUnknown};
use http::{Request, Response};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use support::eventually;
use support::model::{Table, copied, get, guard_over, in_process, live};
use support::redis_server::RedisServer;
use tokio::sync::Semaphore;
use tower::{Layer, ServiceExt};

const GUIDE: &str = include_str!("../../src/guide/operating.md");
const SOON: Duration = Duration::from_secs(10);
/// The id of a request that holds the lane.
const HELD: u64 = 500;
/// Ended by a call, long before.
const SETTLE: Duration = Duration::from_secs(3600);

/// What the recorder holds: each series with its value, and the names that are described.
struct Published {
    series: BTreeMap<String, f64>,
    described: BTreeSet<String>,
}

impl Published {
    fn read(handle: &PrometheusHandle) -> Self {
        let text = handle.render();
        let lines = || text.lines().filter(|line| !line.is_empty());
        let described = lines().filter_map(|line| line.strip_prefix("# HELP ")?.split(' ').next());
        let series = lines().filter(|line| !line.starts_with('#')).map(|line| {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            (series.to_owned(), value.parse().expect("a number"))
        });
        Self { series: series.collect(), described: described.map(str::to_owned).collect() }
    }

    /// The largest value of a name with this in its labels; of a histogram, how many there were.
    fn value(&self, name: &str, label: &str) -> Option<f64> {
        let of = |series: &str| series.split('{').next().expect("a name").to_owned();
        let counted = if self.series.keys().any(|series| of(series) == format!("{name}_count")) {
            format!("{name}_count")
        } else {
            name.to_owned()
        };
        let values = self.series.iter().filter(|(series, _)| {
            of(series) == counted && series.contains(r#"filter="users""#) && series.contains(label)
        });
        values.map(|(_, value)| *value).reduce(f64::max)
    }
}

/// The names that the guide lists, each with its outcomes.
fn listed() -> Vec<(String, Vec<String>)> {
    let rows = GUIDE.lines().filter(|line| line.starts_with("| `bloom_guard_"));
    let code =
        |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<String>>();
    rows.flat_map(|row| {
        let (names, rest) = row[2..].split_once('|').expect("cells");
        code(names).into_iter().map(move |name| (name, code(rest)))
    })
    .collect()
}

#[test]
fn the_guide_lists_what_is_published_and_described() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let table = Table::with(0..10);
    let build = || in_process(&table, 1_000, 0.01).build().unwrap();
    let _guard = metrics::with_local_recorder(&recorder, build);
    let published = Published::read(&recorder.handle());
    let listed = listed();
    let names: BTreeSet<String> = listed.iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(published.described, names, "described, and listed");
    let mut series = 0;
    for (name, outcomes) in &listed {
        for outcome in outcomes {
            let label = format!(r#"outcome="{outcome}""#);
            assert!(published.value(name, &label).is_some(), "{name}: no {outcome}");
        }
        series += outcomes.len().max(1);
    }
    let is_series = |series: &&String| !series.contains("quantile=") && !series.contains("_sum{");
    assert_eq!(published.series.keys().filter(is_series).count(), series, "more than is listed");
}

/// Keeps which names have been seen above zero.
struct Watch {
    handle: PrometheusHandle,
    moved: BTreeSet<String>,
}

impl Watch {
    fn look(&mut self) -> Published {
        let published = Published::read(&self.handle);
        for (name, _) in listed() {
            if published.value(&name, "").is_some_and(|value| value > 0.0) {
                self.moved.insert(name);
            }
        }
        published
    }

    async fn until(&mut self, name: &str, is: impl Fn(f64) -> bool) {
        eventually(name, SOON, || {
            let value = self.look().value(name, "").expect("it is there");
            std::future::ready(if is(value) { Ok(()) } else { Err(value.to_string()) })
        })
        .await;
    }
}

#[tokio::test]
async fn every_metric_moves() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let mut redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let builder = guard_over(&redis.url(), &table).capacity(1_000, 0.01).lane(1, 1);
    let builder = builder.on_unknown(OnUnknown::PassLimited).audits_per_second(1_000);
    let builder = builder.settle(SETTLE).longest_transaction(Duration::from_secs(1));
    let guard = metrics::with_local_recorder(&recorder, || builder.build().unwrap());
    let mut watch = Watch { handle: recorder.handle(), moved: BTreeSet::new() };
    watch.until("bloom_guard_settling_seconds", |rest| rest > 0.0).await;
    guard.enforce_everywhere().await.unwrap();
    live(&guard).await;
    watch.until("bloom_guard_settling_seconds", |rest| rest == 0.0).await;
    watch.until("bloom_guard_filter_live", |live| live == 1.0).await;
    watch.until("bloom_guard_enforcing", |on| on == 1.0).await;
    guard.set_mode(Mode::Shadow);
    watch.until("bloom_guard_enforcing", |on| on == 0.0).await;
    guard.set_mode(Mode::Enforce);

    // Found lately, deleted, absent, inserted, removed.
    table.delete(7);
    for id in [1, 1, 7].into_iter().chain(5_000..5_100) {
        get(&guard, &table, id).await;
    }
    guard.insert(&8_000).await.unwrap();
    guard.remove(&9_000).await.unwrap();
    watch.until("bloom_guard_filter_measured_rate", |rate| rate > 0.0 && rate < 1.0).await;
    watch.until("bloom_guard_inserts_succeeded_seconds", |ago| ago > 0.0).await;

    redis.kill();
    assert!(guard.insert(&8_001).await.is_err());
    let (door, held) = hold_the_lane(&guard).await;
    for name in ["checks", "inserts", "rebuilds"] {
        watch.until(&format!("bloom_guard_{name}_failing_seconds"), |since| since > 0.0).await;
    }
    watch.until("bloom_guard_filter_live", |live| live == 0.0).await;
    watch.until("bloom_guard_lane_in_use", |places| places == 1.0).await;
    door.add_permits(1);
    held.await.unwrap().unwrap();
    watch.until("bloom_guard_lane_in_use", |places| places == 0.0).await;

    redis.restart();
    live(&guard).await;
    guard.insert(&8_001).await.unwrap();
    for name in ["checks", "inserts", "rebuilds"] {
        watch.until(&format!("bloom_guard_{name}_failing_seconds"), |since| since == 0.0).await;
    }
    drop(guard);
    those_of_a_copy_move(&redis, &table, &recorder, &mut watch).await;
    let still: Vec<String> = listed()
        .into_iter()
        .map(|(name, _)| name)
        .filter(|name| !watch.moved.contains(name))
        .collect();
    assert!(still.is_empty(), "{still:?} never moved");
}

async fn those_of_a_copy_move(
    redis: &RedisServer,
    table: &Table,
    recorder: &PrometheusRecorder,
    watch: &mut Watch,
) {
    let builder = guard_over(&redis.url(), table).capacity(1_000, 0.01).copy_limit(1 << 20);
    let guard = metrics::with_local_recorder(recorder, || builder.build().unwrap());
    live(&guard).await;
    copied(&guard).await;
    watch.until("bloom_guard_copy_bytes", |bytes| bytes > 0.0).await;
    watch.until("bloom_guard_copy_age_seconds", |age| age > 0.0).await;
    // More suspects than there is room for.
    for id in 0..100_000_u64 {
        guard.remove(&id).await.unwrap();
    }
    watch.until("bloom_guard_copy_silent_share", |share| share > 0.0 && share < 1.0).await;
}

/// Has one request in the lane until the door opens, and another one rejected.
async fn hold_the_lane(
    guard: &BloomGuard,
) -> (Arc<Semaphore>, tokio::task::JoinHandle<Result<Response<String>, Infallible>>) {
    let door = Arc::new(Semaphore::new(0));
    let opened = Arc::clone(&door);
    let service = guard.layer(tower::service_fn(move |_: Request<String>| {
        let door = Arc::clone(&opened);
        async move {
            door.acquire().await.unwrap().forget();
            Ok::<_, Infallible>(Response::new(String::new()))
        }
    }));
    let send = |id: u64| {
        let request = Request::get(format!("/users/{id}")).body(String::new()).unwrap();
        tokio::spawn(service.clone().oneshot(request))
    };
    let held = send(HELD);
    eventually("the lane is taken", SOON, || async {
        let in_use = guard.state().lane.in_use;
        if in_use == 1 { Ok(()) } else { Err(in_use.to_string()) }
    })
    .await;
    assert_eq!(send(HELD + 1).await.unwrap().unwrap().status(), 503);
    (door, held)
}
