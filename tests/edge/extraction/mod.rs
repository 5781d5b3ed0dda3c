//! The guard's id is the id whose record axum's handler gets: every request is put to a real router
//! and to the extractors, and the two must not disagree.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]
#![expect(unreachable_pub, reason = "a part of this is shared")]

mod application;
mod kept;
mod targets;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode, Uri};
use axum::middleware;
use axum::routing::get;
use bloom_guard::extract::{Extraction, IdExtractor};
use bloom_guard::{Id, InvalidId, PathPattern};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tower::ServiceExt as _;
use uuid::Uuid;

use self::application::{
    Probe, Seen, Value, agreement, ask, by_id, by_query, paths, pattern, probe, probed, runtime,
};
use self::targets::{PREFIXES, long, nasty_parts, queries, raw, targets};

/// Puts `cases` generated targets, the `fixed` ones and those that are kept to an application; at least one generated target
/// must have ended in each of the `wanted` ways.
fn never_disagree(
    app: Router,
    extractor: impl IdExtractor,
    fixed: &[String],
    generated: impl Strategy<Value = Vec<u8>>,
    cases: u32,
    wanted: &[&str],
) {
    let runtime = runtime();
    let extractor: Probe = Arc::new(extractor);
    let app = probed(app, Arc::clone(&extractor));
    let check = |target: &[u8]| -> Result<&'static str, String> {
        // A server would not get this far with what is no URI.
        let Ok(uri) = Uri::try_from(target) else { return Ok("no URI") };
        let (found, seen) = runtime.block_on(ask(app.clone(), uri.clone()));
        // An insert of what the handler has read is an insert of the same id.
        if let Extraction::Id(id) = &found {
            let text = std::str::from_utf8(id.as_bytes()).unwrap();
            assert_eq!(extractor.canonical(text).as_ref(), Ok(id), "{uri}");
        }
        agreement(&uri, &found, &seen)
    };
    for target in fixed.iter().map(|target| target.clone().into_bytes()).chain(kept::targets()) {
        check(&target).unwrap();
    }
    let counts = std::cell::RefCell::new(BTreeMap::<_, u32>::new());
    TestRunner::new(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(cases)
    })
    .run(&generated, |target| {
        let how = check(&target).map_err(TestCaseError::fail)?;
        *counts.borrow_mut().entry(how).or_default() += 1;
        Ok(())
    })
    .unwrap();
    let counts = counts.into_inner();
    for how in wanted {
        assert!(counts.contains_key(how), "no case of {how:?} among {counts:?}");
    }
}

fn paths_never_disagree<T: Value>(extractor: impl IdExtractor, wanted: &[&str]) {
    let parts = nasty_parts().into_iter().map(str::to_owned).chain(long());
    let fixed: Vec<_> = parts
        .flat_map(|part| PREFIXES.iter().map(move |prefix| format!("{prefix}{part}")))
        .chain(["*", "h:443", "/", "http://h"].map(str::to_owned))
        .collect();
    never_disagree(paths::<T>(), extractor, &fixed, raw(targets()), 3_000, wanted);
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
        // The path is nothing to this extractor.
        let app = Router::new().fallback(by_query::<T>);
        let fixed = ["/posts", "/posts?", "/posts?id", "/posts?id=7&id=7", "/posts?id=7;id=8"];
        let fixed = fixed.map(str::to_owned);
        let extractor = bloom_guard::extract::Query::<T>::new("id");
        never_disagree(app, extractor, &fixed, raw(queries()), 3_000, ALL_WAYS);
    }
    check::<u64>();
    check::<i64>();
    check::<String>();
    check::<Uuid>();
}

#[test]
fn a_shared_extractor_keeps_its_canonical_form() {
    let shared: Arc<dyn IdExtractor> = Arc::new(pattern::<u64>());
    assert_eq!(shared.canonical("007"), Id::new("7"));
    assert_eq!(IdExtractor::canonical(&shared, "abc"), Err(InvalidId::Malformed));
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

mod captures {
    use bloom_guard::extract::Captures;

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
    fn a_capture_that_is_twice_or_further_within_or_around_the_router_is_unguarded() {
        let inner = Router::new().route("/users/{id}", get(by_id::<u64>));
        let outer = Router::new().nest_service("/api", inner);
        let app = probed(outer, Captures::<u64>::new("id"));
        assert_eq!(extracted(app, "/api/users/7"), Extraction::Unguarded);
        let inner = Router::new().route("/{id}", get(StatusCode::NO_CONTENT));
        let inner = probed(inner, Captures::<u64>::new("id"));
        let app = Router::new().nest_service("/{id}", inner);
        assert_eq!(extracted(app, "/7/7"), Extraction::Unguarded);
        let (parts, ()) = Request::get("/users/7").body(()).unwrap().into_parts();
        assert_eq!(Captures::<u64>::new("id").extract(&parts), Extraction::Unguarded);
    }
}
