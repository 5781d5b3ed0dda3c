//! Requests that list ids, over sockets to an axum server: the guard in front of a handler that reads many.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use bloom_guard::extract::{Extraction, IdExtractor, QueryList};
use bloom_guard::rejection::ProblemDetails;
use bloom_guard::{
    BloomGuard, Builder, FoundIds, Missing, Mode, NegativeCaching, OnInvalid, PathPattern, Proof,
    Schedule, Verdict, Verdicts, from_iter,
};
use http::request::Parts;
use http::{Method, Request, StatusCode};
use support::eventually;
use support::http::{HttpClient, HttpServer};
use support::model::{self, Table};
use support::redis_server::RedisServer;
use tokio::time::timeout;
use tower::{Layer, ServiceExt};

const IDS: u64 = 1_000;

/// How the handler answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// 200, and says what it found.
    Marked,
    /// The same, of all ids that it is asked for.
    ReadsAll,
    /// 200, and does not.
    Unmarked,
    /// 404 with everything that makes one a null.
    Missing,
    Failed,
    /// Never.
    Nothing,
}

#[derive(Clone)]
struct App {
    table: Table,
    answer: Arc<Mutex<Answer>>,
}

/// The users that are there of those that are asked for; the ids that were read are its body.
async fn show(
    State(app): State<App>,
    Query(query): Query<HashMap<String, String>>,
    verdicts: Option<Extension<Verdicts>>,
) -> Response {
    let list = query.get("ids").map(String::as_str).unwrap_or_default();
    let mut ids: Vec<u64> = list.split(',').flat_map(str::parse).collect();
    let answer = *app.answer.lock().unwrap();
    if let Some(Extension(verdicts)) = verdicts
        && answer != Answer::ReadsAll
    {
        verdicts.drop_absent(&mut ids);
    }
    let rows: Vec<u64> = ids.iter().copied().filter(|id| app.table.look_up(*id)).collect();
    match answer {
        Answer::Marked | Answer::ReadsAll => {
            (Extension(FoundIds::new(rows)), format!("{ids:?}")).into_response()
        }
        Answer::Unmarked => format!("{ids:?}").into_response(),
        Answer::Missing => (StatusCode::NOT_FOUND, Extension(Missing)).into_response(),
        Answer::Failed => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        Answer::Nothing => std::future::pending().await,
    }
}

/// Users 0 to 999 behind a guard.
struct Stage {
    guard: BloomGuard,
    app: App,
    server: HttpServer,
    client: HttpClient,
}

impl Stage {
    async fn new(builder: impl FnOnce(Builder) -> Builder) -> Self {
        let table = Table::with(0..IDS);
        let guard = BloomGuard::builder("users", QueryList::<u64>::separated("ids", ','))
            .capacity(10_000, 1e-9)
            .rebuild(Schedule::manual(), table.clone())
            .audits_per_second(0);
        let guard = builder(guard).build().unwrap();
        guard.ready().await;
        let app = App { table, answer: Arc::new(Mutex::new(Answer::Marked)) };
        let router = Router::new().route("/users", get(show));
        let layer = guard.rejecting_with(ProblemDetails);
        let server = HttpServer::start(router.layer(layer).with_state(app.clone())).await;
        let client = server.connect().await;
        Self { guard, app, server, client }
    }

    fn answers(&self, answer: Answer) {
        *self.app.answer.lock().unwrap() = answer;
    }

    /// Sends a GET; the status and the body.
    async fn ask(&mut self, list: &str) -> (u16, String) {
        let response = self.client.get(&format!("/users?ids={list}")).await;
        let body = String::from_utf8_lossy(response.body()).into_owned();
        (response.status().as_u16(), body)
    }

    async fn status(&mut self, list: &str) -> u16 {
        self.ask(list).await.0
    }
}

fn in_redis(builder: Builder, redis: &RedisServer) -> Builder {
    let builder = builder.redis(&redis.url()).settle(Duration::ZERO).copy_limit(0);
    builder.check_deadline(Duration::from_secs(1))
}

fn list(ids: impl IntoIterator<Item = u64>) -> String {
    ids.into_iter().map(|id| id.to_string()).collect::<Vec<_>>().join(",")
}

/// Without Redis, and with it.
async fn in_both_stores(test: impl AsyncFn(Stage)) {
    test(Stage::new(Builder::in_process).await).await;
    let redis = RedisServer::start();
    test(Stage::new(|guard| in_redis(guard, &redis)).await).await;
}

#[tokio::test]
async fn a_list_is_refused_only_when_all_its_ids_are_absent_and_each_that_exists_is_read() {
    in_both_stores(async |mut stage| {
        assert_eq!(stage.status("70000,70001").await, 404);
        assert_eq!(stage.app.table.lookups(), 0, "the handler was not called");
        assert_eq!(stage.ask("70000,7,70001").await, (200, "[7]".into()));
        assert_eq!(stage.app.table.lookups(), 1, "what is absent was not read");
        assert_eq!(stage.ask("8,7").await, (200, "[8, 7]".into()));
        assert_eq!(stage.ask("70000,8,70001,7").await, (200, "[8, 7]".into()));
        let stats = stage.guard.stats();
        assert_eq!((stats.requests, stats.admitted, stats.refused), (4, 3, 1));
        assert_eq!((stats.present, stats.absent_by_filter), (2, 2 + 2 + 2));
        // One that is listed often is asked for once.
        assert_eq!(stage.status("9,009,%39,9").await, 200);
        assert_eq!(stage.guard.stats().present, 3);
        for from in (0..IDS).step_by(50) {
            let (existing, absent) = (from..from + 50, from + 70_000..from + 70_050);
            let (status, read) = stage.ask(&list(absent.chain(existing.clone()))).await;
            assert_eq!((status, read), (200, format!("{:?}", existing.collect::<Vec<_>>())));
        }
        stage.guard.insert(&70_000).await.unwrap();
        stage.app.table.commit(70_000);
        assert_eq!(stage.ask("70000,70001").await, (200, "[70000]".into()));
    })
    .await;
}

#[tokio::test]
async fn the_ids_of_a_list_that_the_copy_holds_are_not_asked_for_unless_they_are_suspect() {
    let redis = RedisServer::start();
    let mut stage = Stage::new(|guard| in_redis(guard, &redis).copy_limit(1 << 20)).await;
    model::copied(&stage.guard).await;
    assert_eq!(stage.ask("8,7").await, (200, "[8, 7]".into()));
    assert_eq!(stage.ask("70000,10").await, (200, "[10]".into()), "one of them is absent");
    let stats = stage.guard.stats();
    assert_eq!((stats.admitted_copied, stats.present, stats.absent_by_filter), (1, 0, 1));
    stage.answers(Answer::Unmarked);
    for asked in [0, 2, 4] {
        assert_eq!(stage.status("20,21").await, 200);
        assert_eq!(stage.guard.stats().present, asked, "what says nothing makes them suspect");
    }
    assert_eq!(stage.guard.stats().admitted_copied, 2);
}

#[tokio::test]
async fn without_verdicts_the_handler_reads_all() {
    in_both_stores(async |mut stage| {
        for mode in [Mode::Off, Mode::Shadow] {
            stage.guard.set_mode(mode);
            assert_eq!(stage.ask("70000,7").await, (200, "[70000, 7]".into()), "{mode:?}");
            assert_eq!(stage.ask("70000,70001").await, (200, "[70000, 70001]".into()), "{mode:?}");
        }
        assert_eq!(stage.guard.stats().shadowed, 1, "the one that would have been refused");
    })
    .await;
    let mut stage = Stage::new(|guard| guard.in_process().methods([Method::HEAD])).await;
    assert_eq!(stage.ask("7,70000").await, (200, "[7, 70000]".into()), "a GET is not guarded");
    let refused = stage.client.send(Method::HEAD, "/users?ids=70000,70001").await;
    assert_eq!(refused.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn no_answer_to_a_list_hides_an_id() {
    in_both_stores(async |mut stage| {
        for answer in [Answer::Missing, Answer::Unmarked, Answer::Failed] {
            stage.answers(answer);
            stage.status("7,8").await;
            let verdicts = stage.guard.check_many([7, 8]).await.unwrap();
            assert_eq!(verdicts, [Verdict::Present; 2], "{answer:?}");
        }
        stage.answers(Answer::Marked);
        assert_eq!(stage.ask("7,8").await, (200, "[7, 8]".into()));
        // A handler that forgets what it found.
        stage.app.table.delete(8);
        stage.status("7,8").await;
        assert_eq!(stage.guard.check(&8).await.unwrap(), Verdict::Present);
        assert_eq!(stage.guard.stats().nulls_stored, 0);
        assert_eq!(stage.ask("8").await, (200, "[8]".into()));
    })
    .await;
}

#[tokio::test]
async fn what_a_list_found_passes_without_a_look_up_also_without_redis() {
    let mut redis = RedisServer::start();
    let mut stage = Stage::new(|guard| in_redis(guard, &redis).lane(1, 1)).await;
    assert_eq!(stage.status("1,2,3").await, 200);
    let asked = stage.guard.stats().present;
    redis.kill();
    for _ in 0..20 {
        assert_eq!(stage.ask("3,2,1").await, (200, "[3, 2, 1]".into()));
    }
    let stats = stage.guard.stats();
    assert_eq!((stats.admitted_found, stats.present), (20, asked));
    // What is unknown shares the lane, and is never refused as absent.
    let mut busy = 0;
    for from in (10..40).step_by(3) {
        match stage.status(&list(from..from + 3)).await {
            200 => {}
            503 => busy += 1,
            other => panic!("{other} for ids that exist"),
        }
    }
    assert!(busy > 0 && stage.guard.stats().overloaded == busy, "{busy}");
}

#[tokio::test]
async fn a_list_that_fails_or_is_given_up_makes_its_ids_missed() {
    for answer in [Answer::Failed, Answer::Nothing] {
        let mut stage = Stage::new(|guard| guard.in_process().lane(1, 1)).await;
        assert_eq!(stage.status("9").await, 200);
        stage.answers(answer);
        let target = "/users?ids=7,8,9,70000";
        let fails = matches!(answer, Answer::Failed);
        let limit = Duration::from_millis(if fails { 10_000 } else { 300 });
        let asked = timeout(limit, stage.client.get(target)).await;
        assert_eq!(asked.is_ok(), fails);
        stage.client = stage.server.connect().await;
        stage.answers(Answer::Marked);
        eventually("the lane is asked for", Duration::from_secs(5), || {
            let guard = stage.guard.clone();
            async move { if guard.state().lane.in_use == 0 { Ok(()) } else { Err("in use".into()) } }
        })
        .await;
        assert_eq!(stage.status("7").await, 200, "by the lane");
        assert_eq!(stage.status("8").await, 503, "{answer:?}: the lane takes one a second");
        assert_eq!(stage.status("7,9,70000").await, 200, "found");
    }
}

#[tokio::test]
async fn a_list_that_is_too_long_is_never_answered_404() {
    in_both_stores(async |mut stage| {
        assert_eq!(stage.status(&list(0..100)).await, 200);
        let (status, problem) = stage.ask(&list(0..101)).await;
        assert_eq!(status, 400);
        assert!(problem.contains("list of 101 ids is longer than the limit of 100"), "{problem}");
        assert_eq!(stage.app.table.lookups(), 100, "the handler was not called");
    })
    .await;
    let mut stage = Stage::new(|guard| guard.in_process().on_invalid(OnInvalid::Pass)).await;
    assert_eq!(stage.status(&list(0..101)).await, 200);
    // Nor does it belong to the sample: one would be thousands of look-ups.
    let mut stage = Stage::new(|guard| guard.in_process().audits_per_second(100)).await;
    assert_eq!(stage.status(&list(0..101)).await, 400);
    assert_eq!(stage.app.table.lookups(), 0);
}

#[tokio::test]
async fn a_list_with_what_is_no_id_is_not_refused_as_absent() {
    in_both_stores(async |mut stage| {
        assert_eq!(stage.ask("7,seven").await, (200, "[7]".into()));
        assert_eq!(stage.ask("70000,seven").await, (200, "[]".into()));
        assert_eq!(stage.ask("70000,,").await, (200, "[]".into()));
        assert_eq!(stage.status("six,seven").await, 404);
        assert_eq!(stage.ask("").await, (200, "[]".into()));
        let stats = stage.guard.stats();
        assert_eq!((stats.admitted, stats.invalid, stats.unguarded), (3, 1, 1));
    })
    .await;
}

#[tokio::test]
async fn a_record_that_a_list_finds_although_it_is_held_absent_is_an_alarm() {
    for shown in ["sample", "shadow mode", "handler that reads what is absent"] {
        let audits = if shown == "sample" { 100 } else { 0 };
        let mut stage = Stage::new(|guard| guard.in_process().audits_per_second(audits)).await;
        match shown {
            "sample" => {}
            "shadow mode" => stage.guard.set_mode(Mode::Shadow),
            _ => stage.answers(Answer::ReadsAll),
        }
        stage.app.table.commit(70_000); // without an insert
        let guard = stage.guard.clone();
        let finding = async {
            loop {
                stage.status("7,70000").await;
                if let Ok(finding) = timeout(Duration::from_millis(20), guard.next_finding()).await
                {
                    return finding;
                }
            }
        };
        let finding = timeout(Duration::from_secs(10), finding).await.expect(shown);
        assert_eq!(
            (finding.id.as_bytes(), finding.proof),
            (&b"70000"[..], Proof::Filter),
            "{shown}"
        );
        assert_eq!(guard.stats().false_negatives, 1, "{shown}");
    }
}

#[tokio::test]
async fn a_404_that_some_callers_were_answered_refuses_no_others_list() {
    let table = Table::with(0..IDS);
    let (one, many) =
        (PathPattern::<u64>::new("/users/{id}").unwrap(), QueryList::<u64>::separated("ids", ','));
    let extract = move |parts: &Parts| match one.extract(parts) {
        Extraction::Unguarded => many.extract(parts),
        found => found,
    };
    let guard = BloomGuard::builder("users", extract)
        .in_process()
        .capacity(10_000, 1e-9)
        .rebuild(Schedule::manual(), table.clone())
        .negative_caching(NegativeCaching::new().require_marker(false))
        .audits_per_second(0)
        .build()
        .unwrap();
    guard.ready().await;
    table.delete(7);
    assert_eq!(model::get(&guard, &table, 7).await, StatusCode::NOT_FOUND);
    assert_eq!(guard.stats().nulls_stored, 1);
    let handler = tower::service_fn(|request: Request<String>| async move {
        let verdicts = request.extensions().get::<Verdicts>().expect("a list");
        let known = format!("{:?}", verdicts.get(&7).expect("it is listed"));
        Ok::<_, Infallible>(http::Response::new(known))
    });
    for (header, status) in [("accept", 404), ("cookie", 200), ("authorization", 200)] {
        let request = Request::get("/users?ids=7,70000").header(header, "x").body(String::new());
        let response = guard.layer(handler).oneshot(request.unwrap()).await.unwrap();
        assert_eq!(response.status().as_u16(), status, "{header}");
        assert_eq!(response.body() == "Present", status == 200, "{header}: {}", response.body());
    }
}

/// The database was not asked.
#[tokio::test]
async fn what_an_inner_guard_refuses_makes_no_id_of_an_outer_one_missed() {
    let guard = async |key: &str| {
        let ids = PathPattern::<u64>::capture("/users/{user}/orders/{order}", key).unwrap();
        let source = from_iter(|| [7]);
        let guard = BloomGuard::builder(key, ids).in_process().rebuild(Schedule::manual(), source);
        let guard = guard.capacity(10_000, 1e-9).lane(1, 1).audits_per_second(0).build().unwrap();
        guard.ready().await;
        guard
    };
    let (users, orders) = (guard("user").await, guard("order").await);
    let handler = tower::service_fn(async |_: Request<String>| {
        Ok::<_, Infallible>(http::Response::new(String::new()))
    });
    for order in 10..20 {
        let target = format!("/users/7/orders/{order}");
        let request = Request::get(target).body(String::new()).unwrap();
        let answered = users.layer(orders.layer(handler)).oneshot(request).await.unwrap();
        assert_eq!(answered.status(), 404, "{order}");
    }
    assert_eq!(users.stats().overloaded, 0);
}

#[tokio::test]
async fn what_a_guard_of_other_records_knows_takes_no_id_out_of_a_list() {
    let guard = async |key: &str, ids: [u64; 2]| {
        let guard = BloomGuard::builder(key, QueryList::<u64>::separated(key, ','))
            .in_process()
            .capacity(10_000, 1e-9)
            .rebuild(Schedule::manual(), from_iter(move || ids))
            .audits_per_second(0)
            .build()
            .unwrap();
        guard.ready().await;
        guard
    };
    // User 7 exists, and order 7 does not.
    let (users, orders) = (guard("users", [7, 8]).await, guard("orders", [8, 9]).await);
    let handler = tower::service_fn(|request: Request<String>| async move {
        let mut ids = vec![7, 8, 9, 10];
        request.extensions().get::<Verdicts>().expect("a list").drop_absent(&mut ids);
        Ok::<_, Infallible>(http::Response::new(format!("{ids:?}")))
    });
    let ask = async |target: &str| {
        let request = Request::get(target).body(String::new()).unwrap();
        users.layer(orders.layer(handler)).oneshot(request).await.unwrap().into_body()
    };
    assert_eq!(ask("/?users=7,9&orders=7,8,10").await, "[7, 8, 9, 10]");
    assert_eq!(ask("/?users=7,9").await, "[7, 8, 10]");
    assert_eq!(ask("/?orders=7,8,10").await, "[8, 9]");
}
