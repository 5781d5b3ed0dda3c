//! An operator can tell the guard's refusals from the application's answers.

use bloom_guard::extract::QueryList;
use bloom_guard::rejection::{Explained, NotFound, Rejected, Rejection};
use bloom_guard::{BloomGuard, OnUnknown, Schedule, from_iter};
use http::{Request, Response, StatusCode};
use support::model::{self, Table, handler};
use tower::{Layer, ServiceExt};

/// Nobody listens there.
const NOWHERE: &str = "redis://127.0.0.1:1";

/// A guard over users 0 to 999, all but free of false positives.
async fn guard(table: &Table) -> BloomGuard {
    let guard = model::in_process(table, 10_000, 1e-9).build().unwrap();
    guard.ready().await;
    guard
}

async fn ask(
    guard: &BloomGuard,
    rejection: impl Rejection<String>,
    table: &Table,
    target: &str,
) -> Response<String> {
    let request = Request::get(target).body(String::new()).unwrap();
    guard.rejecting_with(rejection).layer(handler(table)).oneshot(request).await.unwrap()
}

/// The header of the response to this request.
async fn why(guard: &BloomGuard, table: &Table, target: &str) -> Option<String> {
    said(&ask(guard, Explained(NotFound), table, target).await)
}

fn said(response: &Response<String>) -> Option<String> {
    let mut said = response.headers().get_all("x-bloom-guard").iter();
    let first = said.next().map(|said| said.to_str().unwrap().to_owned());
    assert_eq!(said.next(), None, "{response:?}");
    first
}

fn by(proof: &str, guard: &BloomGuard) -> Option<String> {
    let generation = guard.state().live.unwrap().generation.get();
    assert!(generation > 1_700_000_000_000_000, "{generation}");
    Some(format!("{proof}; generation={generation}"))
}

#[tokio::test]
async fn a_refusal_tells_what_proved_it_and_by_which_generation() {
    let table = Table::with(0..1_000);
    let guard = guard(&table).await;
    assert_eq!(why(&guard, &table, "/users/70000").await, by("filter", &guard));
    assert_eq!(why(&guard, &table, "/users/seven").await.as_deref(), Some("invalid"));
    // What the application answers is not taken for the guard's.
    guard.insert(&5_000).await.unwrap();
    for (target, status) in [("/users/7", 200), ("/users/5000", 404), ("/orders/7", 200)] {
        let response = ask(&guard, Explained(NotFound), &table, target).await;
        assert_eq!((response.status().as_u16(), said(&response)), (status, None), "{target}");
    }
    // Deleted: the handler's 404, then the null that it leaves.
    table.delete(8);
    assert_eq!(why(&guard, &table, "/users/8").await, None);
    assert_eq!(why(&guard, &table, "/users/8").await, by("null", &guard));
    guard.rebuild_now().await.unwrap();
    assert_eq!(why(&guard, &table, "/users/8").await, by("filter", &guard));
}

#[tokio::test]
async fn a_rejection_of_the_applications_own_is_explained_and_learns_the_same() {
    let table = Table::with(0..1_000);
    let guard = guard(&table).await;
    let own = |rejected: &Rejected| {
        let text = format!("{:?}", rejected.generation().map(|generation| generation.get()));
        let response = Response::builder().status(418).header("x-bloom-guard", "forged");
        response.body(text).unwrap()
    };
    let response = ask(&guard, Explained(own), &table, "/users/70000").await;
    assert_eq!((response.status().as_u16(), said(&response)), (418, by("filter", &guard)));
    let live = guard.state().live.unwrap().generation;
    assert_eq!(*response.body(), format!("{:?}", Some(live.get())));
    let rejected = response.extensions().get::<Rejected>().unwrap();
    assert_eq!(rejected.generation(), Some(live));
    assert_eq!(rejected.reason().as_str(), "filter");
}

#[tokio::test]
async fn a_list_that_is_refused_is_explained() {
    let ids = from_iter(|| 0..1_000_u64);
    let guard = BloomGuard::builder("users", QueryList::<u64>::separated("ids", ','))
        .in_process()
        .capacity(10_000, 1e-9)
        .audits_per_second(0)
        .rebuild(Schedule::manual(), ids)
        .build()
        .unwrap();
    guard.ready().await;
    let table = Table::default();
    assert_eq!(why(&guard, &table, "/users?ids=70000,80000").await, by("filter", &guard));
    assert_eq!(why(&guard, &table, "/users?ids=7,80000").await, None);
}

#[tokio::test]
async fn a_client_is_told_nothing_unless_the_application_wants_it() {
    let table = Table::with(0..1_000);
    let guard = guard(&table).await;
    for target in ["/users/70000", "/users/seven"] {
        let response = ask(&guard, NotFound, &table, target).await;
        assert!(response.extensions().get::<Rejected>().is_some());
        assert_eq!(said(&response), None);
    }
    let busy = model::guard(NOWHERE).on_unknown(OnUnknown::Shed).build().unwrap();
    let untold = ask(&busy, NotFound, &table, "/users/7").await;
    let told = ask(&busy, Explained(NotFound), &table, "/users/7").await;
    for (response, words) in [(untold, None), (told, Some("busy"))] {
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(said(&response).as_deref(), words);
    }
}
