//! The extractors: whatever the request, they do not panic, and they find the id that axum's handler
//! gets, which is the one that an insert of it acknowledges.

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::http::{HeaderValue, Request, Uri};
use bloom_guard::extract::{AsId, Extraction, Header, IdExtractor, Query};
use bloom_guard::{Id, InvalidId};
use percent_encoding::percent_decode_str;
use tokio::runtime::Runtime;
use uuid::Uuid;

use crate::application::{
    Probe, Seen, Value, agreement, ask, by_query, paths, pattern, probed, runtime,
};
use crate::patterns;

/// Reads the first byte as an extractor and an id's type, the rest as a request's target, as a header's
/// value or as patterns.
pub fn run(data: &[u8]) {
    let Some((choice, rest)) = data.split_first() else { return };
    let choice = usize::from(*choice) % 17;
    let Some(case) = CASES.get(choice / 4).and_then(|cases| cases.get(choice % 4)) else {
        patterns::run(rest);
        return;
    };
    match &case.app {
        Some(app) => target(case, app, rest),
        None => header(case, rest),
    }
}

struct Case {
    extractor: Probe,
    /// The application whose handlers read the id; none for a header.
    app: Option<Router>,
    reads_paths: bool,
    /// What an insert makes of the value that a text spells.
    inserted: fn(&str, &dyn IdExtractor) -> Option<Result<Id, InvalidId>>,
}

impl Case {
    fn new<T: Value>(extractor: impl IdExtractor, app: Option<Router>, reads_paths: bool) -> Self {
        let extractor: Probe = Arc::new(extractor);
        let app = app.map(|app| probed(app, Arc::clone(&extractor)));
        let inserted = |text: &str, extractor: &dyn IdExtractor| {
            text.parse::<T>().ok().map(|value| value.as_id(extractor))
        };
        Self { extractor, app, reads_paths, inserted }
    }

    /// In the order of the choices.
    fn all<T: Value>() -> [Self; 4] {
        // The path is nothing to the extractor.
        let query = Router::new().fallback(by_query::<T>);
        [
            Self::new::<T>(pattern::<T>(), Some(paths::<T>()), true),
            Self::new::<T>(
                bloom_guard::extract::Captures::<T>::new("id"),
                Some(paths::<T>()),
                true,
            ),
            Self::new::<T>(Query::<T>::new("id"), Some(query), false),
            Self::new::<T>(Header::<T>::new("x-id").expect("a name"), None, false),
        ]
    }
}

static CASES: LazyLock<[[Case; 4]; 4]> = LazyLock::new(|| {
    [Case::all::<u64>(), Case::all::<i64>(), Case::all::<String>(), Case::all::<Uuid>()]
});

thread_local! {
    static RUNTIME: Runtime = runtime();
}

/// Puts a target to the extractor and to axum.
fn target(case: &Case, app: &Router, bytes: &[u8]) {
    let Ok(uri) = Uri::try_from(bytes) else { return };
    let (extraction, seen) =
        RUNTIME.with(|runtime| runtime.block_on(ask(app.clone(), uri.clone())));
    if let Err(difference) = agreement(&uri, &extraction, &seen) {
        panic!("{difference}");
    }
    sound(case, &extraction);
    if let (Extraction::Id(id), Seen::Value(value)) = (&extraction, seen) {
        let text = String::from_utf8(value).expect("text");
        assert_eq!(case.extractor.canonical(&text).as_ref(), Ok(id), "the handler inserts it");
    }
    if let Some(segment) = case.reads_paths.then(|| segment(&uri)).flatten() {
        spelt(case, percent_decode_str(segment).collect(), &extraction);
    }
}

/// Returns the capture of the one route for which it is easily found by other means.
fn segment(uri: &Uri) -> Option<&str> {
    let segment = uri.path().strip_prefix("/users/")?;
    let is_other = segment.contains('/') || segment.starts_with("new-") || segment == "me";
    (!segment.is_empty() && !is_other).then_some(segment)
}

fn header(case: &Case, bytes: &[u8]) {
    let Ok(value) = HeaderValue::from_bytes(bytes) else { return };
    let extraction = extract(case, Uri::from_static("/"), Some(value));
    sound(case, &extraction);
    spelt(case, bytes.to_vec(), &extraction);
}

fn extract(case: &Case, uri: Uri, value: Option<HeaderValue>) -> Extraction {
    let (mut parts, ()) = Request::new(()).into_parts();
    parts.uri = uri;
    parts.headers.extend(value.map(|value| (http::HeaderName::from_static("x-id"), value)));
    case.extractor.extract(&parts)
}

/// A text in a request is the id that an insert makes of the same text.
fn spelt(case: &Case, decoded: Vec<u8>, extraction: &Extraction) {
    match (String::from_utf8(decoded).map(|text| case.extractor.canonical(&text)), extraction) {
        (Ok(Ok(id)), Extraction::Id(found)) => assert_eq!(id.as_bytes(), found.as_bytes()),
        (Ok(Err(refused)), Extraction::Invalid(found)) if refused == *found => {}
        // What is too long is not decoded, and so longer than it is as a text.
        (Ok(Err(InvalidId::TooLong { .. })), Extraction::Invalid(InvalidId::TooLong { .. }))
        | (Err(_), Extraction::Invalid(InvalidId::NotText | InvalidId::TooLong { .. })) => {}
        (inserted, found) => panic!("inserted as {inserted:?}, requested as {found:?}"),
    }
}

/// An id is canonical, short enough, and what an insert of its value acknowledges.
fn sound(case: &Case, extraction: &Extraction) {
    let Extraction::Id(id) = extraction else { return };
    assert!(id.as_bytes().len() <= Id::MAX_LEN);
    let text = std::str::from_utf8(id.as_bytes()).expect("text");
    assert_eq!(case.extractor.canonical(text).as_ref(), Ok(id));
    assert_eq!((case.inserted)(text, &*case.extractor), Some(Ok(id.clone())));
    assert_eq!(id.as_id(&*case.extractor).as_ref(), Ok(id));
}
