//! The guard's id is the id whose record axum's handler gets: every request is put to a real router
//! and to the extractors, and the two must not disagree.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Query, Request, State};
use axum::http::{StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bloom_guard::{Extraction, Id, IdExtractor, InvalidId, PathPattern};
use http_body_util::BodyExt as _;
use percent_encoding::percent_decode_str;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestRunner;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::runtime::Runtime;
use tower::ServiceExt as _;
use uuid::Uuid;

trait Value: FromStr + Display + DeserializeOwned + Send + Sync + 'static {}
impl<T: FromStr + Display + DeserializeOwned + Send + Sync + 'static> Value for T {}

/// What the application made of a request.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    /// The handler looked up this value.
    Value(Vec<u8>),
    /// The handler's extractor answered 400.
    Rejected,
    /// No handler was called that looks up an id.
    Nothing,
}

async fn by_id<T: Value>(Path(id): Path<T>) -> String {
    id.to_string()
}

async fn by_tenant_and_id<T: Value>(Path((_, id)): Path<(String, T)>) -> String {
    id.to_string()
}

fn paths<T: Value>() -> Router {
    Router::new()
        .route("/users/{id}", get(by_id::<T>))
        .route("/users/{id}/posts", get(by_id::<T>))
        .route("/users/new-{id}", get(by_id::<T>))
        .route("/users/me", get(StatusCode::NO_CONTENT))
        .route("/t/{tenant}/users/{id}", get(by_tenant_and_id::<T>))
        .route("/files/{*id}", get(by_id::<T>))
}

fn pattern<T: Value>() -> PathPattern<T> {
    PathPattern::new("/users/{id}")
        .and_then(|users| users.or("/users/{id}/posts"))
        .and_then(|users| users.or("/users/new-{id}"))
        .and_then(|users| users.or("/t/{tenant}/users/{id}"))
        .and_then(|users| users.or("/files/{*id}"))
        .and_then(|users| users.except("/users/me"))
        .unwrap()
}

#[derive(Deserialize)]
struct Wanted<T> {
    id: Option<T>,
}

async fn by_query<T: Value>(Query(wanted): Query<Wanted<T>>) -> Response {
    match wanted.id {
        Some(id) => id.to_string().into_response(),
        None => StatusCode::NO_CONTENT.into_response(),
    }
}

/// Adds a layer that runs an extractor and reports what it found.
fn probed(app: Router, extractor: impl IdExtractor) -> Router {
    app.layer(middleware::from_fn_with_state(Arc::new(extractor) as Probe, probe))
}

type Probe = Arc<dyn IdExtractor>;

async fn probe(State(extractor): State<Probe>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let extraction = extractor.extract(&parts);
    let mut response = next.run(Request::from_parts(parts, body)).await;
    response.extensions_mut().insert(extraction);
    response
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

async fn ask(app: Router, target: Uri) -> (Extraction, Seen) {
    let request = Request::get(target).body(Body::empty()).unwrap();
    let response = app.oneshot(request).await.unwrap();
    let extraction = response.extensions().get::<Extraction>().unwrap().clone();
    let seen = match response.status() {
        StatusCode::OK => {
            Seen::Value(response.into_body().collect().await.unwrap().to_bytes().to_vec())
        }
        StatusCode::BAD_REQUEST => Seen::Rejected,
        StatusCode::NO_CONTENT | StatusCode::NOT_FOUND => Seen::Nothing,
        other => panic!("unexpected status {other}"),
    };
    (extraction, seen)
}

/// Returns the decoded length of the longest text in a target that can be its id.
fn longest(target: &Uri) -> usize {
    let path = target.path();
    let segments = match path.strip_prefix("/files/") {
        Some(rest) => vec![rest],
        None => path.split('/').collect(),
    };
    let pairs = target.query().unwrap_or_default().split('&');
    let values = pairs.filter_map(|pair| pair.split_once('=')).map(|(_, value)| value);
    segments
        .into_iter()
        .chain(values)
        .map(|text| percent_decode_str(text).count())
        .max()
        .unwrap_or(0)
}

/// Names how guard and handler agree about a request, or says how they do not.
fn agreement(target: &Uri, extraction: &Extraction, seen: &Seen) -> Result<&'static str, String> {
    match (extraction, seen) {
        (Extraction::Id(id), Seen::Value(value)) if id.as_bytes() == value => Ok("same id"),
        (Extraction::Invalid(InvalidId::TooLong { .. }), Seen::Value(_))
            if longest(target) > Id::MAX_LEN =>
        {
            Ok("long")
        }
        (Extraction::Invalid(_), Seen::Rejected) => Ok("both refuse"),
        (Extraction::Unguarded, Seen::Nothing) => Ok("no id"),
        // The tenant is unreadable, so the handler does not come to see the id.
        (Extraction::Id(_) | Extraction::Unguarded, Seen::Rejected)
            if target.path().starts_with("/t/%FF/") =>
        {
            Ok("other capture")
        }
        _ => Err(format!("{target}: the guard has {extraction:?}, the handler {seen:?}")),
    }
}

const NASTY: &[&str] = &[
    "7",
    "0",
    "007",
    "+7",
    "-7",
    "-0",
    "+",
    "-",
    "%37",
    "%30",
    "%2B7",
    "%2b7",
    "%2F",
    "%2f",
    "%00",
    "%zz",
    "%",
    "%3",
    "%C0%AF",
    "%FF",
    "%ff",
    "%ED%A0%80",
    "%C3%A4",
    "%2537",
    "%25",
    "%2500",
    "ä",
    "a%CC%88",
    "٧",
    ";a=b",
    "..",
    ".",
    "%2e%2e",
    "/",
    "//",
    "me",
    "%6De",
    "new-",
    "posts",
    "7.0",
    "1e3",
    "0x7",
    "7_0",
    "a",
    "A",
    "%20",
    "+7+",
    "%0A",
    "~",
    "%u0037",
    "\\",
    "{",
    "}",
    "{id}",
    "*",
    ":id",
    "@",
    "18446744073709551615",
    "18446744073709551616",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "-9223372036854775809",
    "67e55044-10b1-426f-9247-bb680e5fe0c8",
    "67E55044-10B1-426F-9247-BB680E5FE0C8",
    "67e5504410b1426f9247bb680e5fe0c8",
    "{67e55044-10b1-426f-9247-bb680e5fe0c8}",
    "%7B67e55044-10b1-426f-9247-bb680e5fe0c8%7D",
    "{67e5504410b1426f9247bb680e5fe0c8}",
    "urn:uuid:67e55044-10b1-426f-9247-bb680e5fe0c8",
    "URN:UUID:67e55044-10b1-426f-9247-bb680e5fe0c8",
    "urn:uuid:67e5504410b1426f9247bb680e5fe0c8",
    "67e55044-10b1-426f-9247-bb680e5fe0c",
    "67e55044-10b1-426f-9247-bb680e5fe0c8-",
];

/// Parts that go wrong by their length: around the limit, decoded and not, and far beyond.
fn long() -> Vec<String> {
    let mut long = Vec::new();
    for len in [254, 255, 256, 257, 767, 20_000] {
        long.extend(["0", "x", "%30", "%78", "ä"].map(|letter| letter.repeat(len)));
    }
    long
}

const PREFIXES: &[&str] = &[
    "/users/",
    "/users/",
    "/users/",
    "/users",
    "/users/new-",
    "/users//",
    "//users/",
    "/Users/",
    "/%75sers/",
    "/t/acme/users/",
    "/t/%FF/users/",
    "/t//users/",
    "/files/",
    "/files/a/",
    "/",
    "http://h/users/",
    "http://h:80/files/",
    "http://h",
    "/users/../users/",
];

const SUFFIXES: &[&str] =
    &["", "", "", "", "/", "/posts", "/posts/", "//posts", "?id=8", "?/users/8"];

/// One nasty part mostly, so that it is often a whole segment; several, to combine them.
fn nasty() -> impl Strategy<Value = String> {
    prop_oneof![
        10 => select(NASTY).prop_map(str::to_owned),
        1 => select(long()),
        5 => proptest::collection::vec(select(NASTY), 0..5).prop_map(|parts| parts.concat()),
        2 => any::<i64>().prop_map(|number| number.to_string()),
        2 => any::<u128>().prop_map(|bits| Uuid::from_u128(bits).to_string()),
        2 => proptest::collection::vec(any::<u8>(), 0..12).prop_map(|bytes| {
            bytes.iter().map(|byte| format!("%{byte:02X}")).collect()
        }),
    ]
}

fn targets() -> impl Strategy<Value = String> {
    (select(PREFIXES), nasty(), select(SUFFIXES))
        .prop_map(|(prefix, nasty, suffix)| format!("{prefix}{nasty}{suffix}"))
}

fn queries() -> impl Strategy<Value = String> {
    const KEYS: &[&str] =
        &["id", "id", "id", "id", "%69d", "i%64", "ID", "idx", "", "x", "+id", "id%00", "i", "%FF"];
    let pair = (select(KEYS), select(&["=", "=", "=", "=", "", "==", "%3D"]), nasty());
    let pair = pair.prop_map(|(key, equals, value)| format!("{key}{equals}{value}"));
    proptest::collection::vec(pair, 0..4).prop_map(|pairs| format!("/posts?{}", pairs.join("&")))
}

/// Puts `cases` generated targets and the `fixed` ones to `apps`; at least one generated target
/// must have ended in each of the `wanted` ways.
fn never_disagree(
    apps: &[Router],
    fixed: &[String],
    generated: impl Strategy<Value = String>,
    cases: u32,
    wanted: &[&str],
) {
    let runtime = runtime();
    let check = |target: &str| -> Result<Vec<&'static str>, String> {
        // A server would not get this far with what is no URI.
        let Ok(uri) = target.parse::<Uri>() else { return Ok(vec!["no URI"]) };
        let ask = |app: &Router| runtime.block_on(ask(app.clone(), uri.clone()));
        apps.iter().map(ask).map(|(found, seen)| agreement(&uri, &found, &seen)).collect()
    };
    for target in fixed {
        check(target).unwrap();
    }
    let counts = std::cell::RefCell::new(BTreeMap::<_, u32>::new());
    TestRunner::new(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(cases)
    })
    .run(&generated, |target| {
        for how in check(&target).map_err(TestCaseError::fail)? {
            *counts.borrow_mut().entry(how).or_default() += 1;
        }
        Ok(())
    })
    .unwrap();
    let counts = counts.into_inner();
    for how in wanted {
        assert!(counts.contains_key(how), "no case of {how:?} among {counts:?}");
    }
    assert!(counts.get("no URI").is_none_or(|&none| none < cases / 2), "{counts:?}");
}

fn paths_never_disagree<T: Value>(extractor: impl IdExtractor, wanted: &[&str]) {
    let app = probed(paths::<T>(), extractor);
    let parts = NASTY.iter().map(|&part| part.to_owned()).chain(long());
    let fixed: Vec<_> = parts
        .flat_map(|part| PREFIXES.iter().map(move |prefix| format!("{prefix}{part}")))
        .chain(["*", "h:443", "/", "http://h"].map(str::to_owned))
        .collect();
    never_disagree(&[app], &fixed, targets(), 3_000, wanted);
}

const ALL_WAYS: &[&str] = &["same id", "both refuse", "no id"];

#[test]
fn a_path_pattern_sees_the_id_that_the_handler_sees() {
    paths_never_disagree::<u64>(pattern::<u64>(), ALL_WAYS);
    paths_never_disagree::<i64>(pattern::<i64>(), ALL_WAYS);
    paths_never_disagree::<u128>(pattern::<u128>(), ALL_WAYS);
    paths_never_disagree::<String>(pattern::<String>(), ALL_WAYS);
    paths_never_disagree::<Uuid>(pattern::<Uuid>(), ALL_WAYS);
}

#[test]
fn a_query_parameter_is_the_one_that_the_handler_sees() {
    fn check<T: Value>() {
        let app = Router::new().route("/posts", get(by_query::<T>));
        let app = probed(app, bloom_guard::Query::<T>::new("id"));
        let fixed = ["/posts", "/posts?", "/posts?id", "/posts?id=7&id=7", "/posts?id=7;id=8"];
        let fixed = fixed.map(str::to_owned);
        never_disagree(&[app], &fixed, queries(), 3_000, ALL_WAYS);
    }
    check::<u64>();
    check::<i64>();
    check::<String>();
    check::<Uuid>();
}

#[test]
fn a_shared_or_boxed_extractor_keeps_its_canonical_form() {
    let shared: Arc<dyn IdExtractor> = Arc::new(pattern::<u64>());
    let boxed: Box<dyn IdExtractor> = Box::new(shared.clone());
    assert_eq!(shared.canonical("007"), Id::new("7"));
    assert_eq!(boxed.canonical("007"), Id::new("7"));
    assert_eq!(IdExtractor::canonical(&boxed, "abc"), Err(InvalidId::Malformed));
}

#[test]
fn a_nested_guard_sees_the_path_without_its_prefix() {
    let inner = || Router::new().route("/users/{id}", get(by_id::<u64>));
    let short = || PathPattern::<u64>::new("/users/{id}").unwrap();
    let full = || PathPattern::<u64>::new("/api/users/{id}").unwrap();
    let uri = Uri::from_static("/api/users/07");
    let seven = Extraction::Id(Id::new("7").unwrap());
    for (app, expected) in [
        (Router::new().nest("/api", probed(inner(), short())), &seven),
        (Router::new().nest("/api", probed(inner(), full())), &Extraction::Unguarded),
        (probed(Router::new().nest("/api", inner()), full()), &seven),
        (probed(Router::new().nest("/api", inner()), short()), &Extraction::Unguarded),
    ] {
        let (extraction, seen) = runtime().block_on(ask(app, uri.clone()));
        assert_eq!((&extraction, seen), (expected, Seen::Value(b"7".to_vec())));
    }
}

#[cfg(feature = "axum")]
mod captures {
    use bloom_guard::Captures;

    use super::*;

    fn extracted(app: Router, target: &'static str) -> Extraction {
        runtime().block_on(ask(app, Uri::from_static(target))).0
    }

    fn seven() -> Extraction {
        Extraction::Id(Id::new("7").unwrap())
    }

    #[test]
    fn the_routers_capture_is_the_id_that_the_handler_sees() {
        let wanted = &["same id", "both refuse", "no id", "other capture"];
        paths_never_disagree::<u64>(Captures::<u64>::new("id"), wanted);
        paths_never_disagree::<i64>(Captures::<i64>::new("id"), wanted);
        paths_never_disagree::<String>(Captures::<String>::new("id"), wanted);
        paths_never_disagree::<Uuid>(Captures::<Uuid>::new("id"), wanted);
    }

    #[test]
    fn captures_are_there_in_every_layer_of_the_router() {
        let layer =
            || middleware::from_fn_with_state(Arc::new(Captures::<u64>::new("id")) as Probe, probe);
        let routed = || Router::new().route("/users/{id}", get(by_id::<u64>));
        let one_route = Router::new().route("/users/{id}", get(by_id::<u64>).layer(layer()));
        for app in [
            routed().layer(layer()),
            routed().route_layer(layer()),
            one_route,
            Router::new().nest("/api", routed().layer(layer())),
            Router::new().nest("/api", routed()).layer(layer()),
            Router::new().nest_service("/api", routed().layer(layer())),
            Router::new().nest("/{tenant}", routed()).route_layer(layer()),
            Router::new().merge(routed().layer(layer())),
        ] {
            let mut found = Vec::new();
            for target in ["/users/%37", "/api/users/07"] {
                let request = Request::get(target).body(Body::empty()).unwrap();
                let response = runtime().block_on(app.clone().oneshot(request)).unwrap();
                found.extend(response.extensions().get::<Extraction>().cloned());
            }
            // One of the two targets is a route; the other goes to a fallback, guarded or not.
            found.retain(|extraction| *extraction != Extraction::Unguarded);
            assert_eq!(found, [seven()]);
        }
    }

    #[test]
    fn a_route_without_the_capture_is_unguarded() {
        let app = probed(paths::<u64>(), Captures::<u64>::new("user"));
        assert_eq!(extracted(app, "/users/7"), Extraction::Unguarded);

        let app = Router::new()
            .route("/names/{name}", get(StatusCode::NO_CONTENT))
            .fallback(|| async { StatusCode::NOT_FOUND });
        let app = probed(app, Captures::<u64>::new("id"));
        for target in ["/names/x", "/names/%FF", "/", "/nowhere", "/nowhere/%FF", "*"] {
            assert_eq!(extracted(app.clone(), target), Extraction::Unguarded, "{target}");
        }
    }

    #[test]
    fn a_nested_service_captures_only_inside() {
        let inner = Router::new().route("/users/{id}", get(by_id::<u64>));
        let outer = Router::new().nest_service("/api", inner);
        let app = probed(outer, Captures::<u64>::new("id"));
        assert_eq!(extracted(app, "/api/users/7"), Extraction::Unguarded);
    }

    #[test]
    fn a_capture_that_is_there_twice_is_ambiguous() {
        let inner = Router::new().route("/{id}", get(StatusCode::NO_CONTENT));
        let inner = probed(inner, Captures::<u64>::new("id"));
        let app = Router::new().nest_service("/{id}", inner);
        assert_eq!(extracted(app, "/7/7"), Extraction::Invalid(InvalidId::Ambiguous));
    }

    #[test]
    fn around_the_router_nothing_is_captured() {
        let (parts, ()) = Request::get("/users/7").body(()).unwrap().into_parts();
        assert_eq!(Captures::<u64>::new("id").extract(&parts), Extraction::Unguarded);
    }
}
