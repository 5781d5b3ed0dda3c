//! What a response teaches: whether the record was found, and which 404 becomes a null.
//!
//! A null refuses other callers' requests, so it must not be learnt from an answer that was meant for one caller (RFC 9111 §3.5), nor
//! from one that must not be kept.

use std::time::Duration;

use http::header::{self, HeaderMap, HeaderName};
use http::request::Parts;
use http::{Method, Response, StatusCode};

use super::scope::Scope;

/// Which 404s are remembered, for which requests, and for how long. A remembered 404 is a *null*: the guide's page
/// [`contract`](crate::guide::contract#what-a-404-teaches) has the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "it does nothing until a builder has it"]
pub struct NegativeCaching {
    pub(crate) ttl: Duration,
    pub(crate) handler_time: Duration,
    pub(crate) shared: bool,
    /// None for the extractor's choice.
    pub(crate) marker: Option<bool>,
}

impl NegativeCaching {
    /// Returns the defaults.
    pub const fn new() -> Self {
        let half_a_minute = Duration::from_secs(30);
        Self { ttl: half_a_minute, handler_time: half_a_minute, shared: false, marker: None }
    }

    /// How long a null lasts, a tenth more or less.
    ///
    /// Defaults to 30 seconds; from 1 second to 1 hour.
    pub const fn ttl(self, ttl: Duration) -> Self {
        Self { ttl, ..self }
    }

    /// The longest a request may take for its 404 to be remembered.
    ///
    /// Defaults to 30 seconds; from 100 milliseconds to 1 hour.
    pub const fn handler_time(self, time: Duration) -> Self {
        Self { handler_time: time, ..self }
    }

    /// Whether a 404 means the same for everybody. Say so only when no handler answers 404 for a record that exists and
    /// that this caller may not see: one caller's 404 would hide it from its owner. Where only some do, mark the
    /// others' responses with [`Missing`](crate::Missing).
    ///
    /// Defaults to `false`: no 404 to a request with `Authorization` or `Cookie` is remembered for others.
    pub const fn shared_absence(self, shared: bool) -> Self {
        Self { shared, ..self }
    }

    /// Whether a 404 counts only when its response carries [`Missing`](crate::Missing). With `false` any 404 to a
    /// request with an id must mean that the record with this id is missing, and not a part of it, a page beyond its
    /// last, the route, or a record of another caller.
    ///
    /// Defaults to what the extractor [says](crate::extract::IdExtractor::is_ambiguous): `false` for a
    /// [`PathPattern`](crate::PathPattern) of one pattern with one capture, `true` for any other.
    pub const fn require_marker(self, required: bool) -> Self {
        Self { marker: Some(required), ..self }
    }
}

impl Default for NegativeCaching {
    fn default() -> Self {
        Self::new()
    }
}

/// An extension of the response (`response.extensions_mut().insert(Missing)`) by which a handler says of its 404 or 410: the record does
/// not exist, whoever asks. Without it a 410 says nothing of the record.
///
/// The 404 is then remembered although the request carried `Authorization` or `Cookie`. Whatever else
/// forbids it (`Cache-Control: no-store` or `max-age=0`, an `Expires` without `max-age`, a `Vary` on the
/// language, say) still does. Around one handler it counts in each guard that found an id in the request: mark it only where the
/// records of all of them are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missing;

/// What of a request's head matters to nulls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestKind {
    /// Whether a success shows that the record is there: a DELETE may succeed where there is nothing.
    reads: bool,
    /// For whom a null speaks that a 404 with [`Missing`] teaches; none if it teaches none.
    marked: Option<Scope>,
    /// The same for a 404 without it.
    unmarked: Option<Scope>,
}

impl RequestKind {
    pub(crate) fn teaching_nothing(method: &Method) -> Self {
        Self { reads: reads(method), marked: None, unmarked: None }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Found,
    Missing(Option<Lesson>),
    /// The request failed, or something else than the record may be missing.
    NotAnswered,
    SaysNothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lesson {
    pub(crate) scope: Scope,
    pub(crate) fresh: Duration,
}

impl NegativeCaching {
    pub(crate) fn kind(self, request: &Parts) -> RequestKind {
        if request.method != Method::GET || request.headers.contains_key(header::UPGRADE) {
            return RequestKind::teaching_nothing(&request.method);
        }
        let has_query = request.uri.query().is_some_and(|query| !query.is_empty());
        let needs = self.needs(request);
        let unmarked = if needs == Scope::Everyone || has_query || self.requires_marker() {
            None
        } else if self.shared {
            Some(Scope::Everyone)
        } else {
            Some(Scope::Anonymous)
        };
        RequestKind { reads: true, marked: Some(Scope::Everyone), unmarked }
    }

    /// Returns the scope of a null that may refuse a request: one with credentials needs one that speaks for all.
    pub(crate) fn needs(self, request: &Parts) -> Scope {
        let headers = &request.headers;
        let credentials = !self.shared
            && (headers.contains_key(header::AUTHORIZATION)
                || headers.contains_key(header::COOKIE));
        if credentials { Scope::Everyone } else { Scope::Anonymous }
    }

    pub(crate) fn outcome<B>(self, kind: RequestKind, response: &Response<B>) -> Outcome {
        let status = response.status();
        let is_marked = || response.extensions().get::<Missing>().is_some();
        if is_found(status) && kind.reads {
            Outcome::Found
        } else if status == StatusCode::NOT_FOUND || (status == StatusCode::GONE && is_marked()) {
            let is_marked = is_marked();
            if self.requires_marker() && !is_marked {
                return Outcome::NotAnswered;
            }
            let scope = if is_marked { kind.marked } else { kind.unmarked };
            let lesson = |scope| Some(Lesson { scope, fresh: kept_for(response.headers())? });
            Outcome::Missing(scope.and_then(lesson))
        } else if has_failed(status) {
            Outcome::NotAnswered
        } else {
            Outcome::SaysNothing
        }
    }

    fn requires_marker(self) -> bool {
        self.marker.unwrap_or(true)
    }
}

pub(crate) fn reads(method: &Method) -> bool {
    method == Method::GET || method == Method::HEAD
}

/// Whether a status shows a record. A redirect does not: it may lead to a page for signing in.
pub(crate) fn is_found(status: StatusCode) -> bool {
    status.is_success() || status == StatusCode::NOT_MODIFIED
}

/// Whether a status tells nothing but that the request failed.
pub(crate) fn has_failed(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::REQUEST_TIMEOUT
}

/// Returns for how long a shared cache may keep a response, if it may (RFC 9111): without a word about that, for ever. No dates are
/// worked out: a response with `Age`, or with `Expires` and no `max-age`, is not kept.
fn kept_for(headers: &HeaderMap) -> Option<Duration> {
    let has = |name| headers.contains_key(name);
    let varies = !listed(headers, &header::VARY)
        .all(|(name, argument)| argument.is_empty() && is_one_of(name, &HARMLESS));
    if has(header::SET_COOKIE) || has(header::AGE) || varies {
        return None;
    }
    let mut fresh = None;
    for (name, argument) in listed(headers, &header::CACHE_CONTROL) {
        if is_one_of(name, &["no-store", "no-cache", "private"]) {
            return None;
        }
        if is_one_of(name, &["max-age", "s-maxage"]) {
            let seconds =
                std::str::from_utf8(argument).ok().and_then(|text| text.trim().parse().ok());
            // What cannot be read is stale (§4.2.1).
            let seconds = seconds.unwrap_or(0);
            fresh = Some(fresh.unwrap_or(seconds).min(seconds));
        }
    }
    match fresh {
        None => (!has(header::EXPIRES)).then_some(Duration::MAX),
        Some(seconds) => (seconds > 0).then(|| Duration::from_secs(seconds)),
    }
}

/// Headers whose value changes nothing about whether a record is missing: an encoding, those of CORS. A language may.
const HARMLESS: [&str; 5] = [
    "",
    "accept-encoding",
    "origin",
    "access-control-request-method",
    "access-control-request-headers",
];

/// Returns what a header lists: the names between its commas, and what is behind the equals sign of each. Commas within quotes
/// split too, which can only find more names than there are.
fn listed<'a>(
    headers: &'a HeaderMap,
    header: &HeaderName,
) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    let parts = headers.get_all(header).iter();
    parts.flat_map(|value| value.as_bytes().split(|&b| b == b',')).map(|part| {
        let mut halves = part.splitn(2, |&b| b == b'=');
        (halves.next().unwrap_or_default().trim_ascii(), halves.next().unwrap_or_default())
    })
}

fn is_one_of(name: &[u8], names: &[&str]) -> bool {
    names.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()))
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    const STRICT: NegativeCaching = NegativeCaching::new().require_marker(false);
    const SHARED: NegativeCaching = STRICT.shared_absence(true);
    const MARKER: NegativeCaching = STRICT.require_marker(true);

    fn request(method: Method, uri: &str, headers: &[(&str, &str)]) -> Parts {
        let request = Request::builder().method(method).uri(uri);
        let request =
            headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        request.body(()).unwrap().into_parts().0
    }

    fn response(status: u16, headers: &[(&str, &str)]) -> Response<()> {
        let response = Response::builder().status(status);
        let response =
            headers.iter().fold(response, |response, (name, value)| response.header(*name, *value));
        response.body(()).unwrap()
    }

    fn marked(mut response: Response<()>) -> Response<()> {
        response.extensions_mut().insert(Missing);
        response
    }

    fn plain() -> Parts {
        request(Method::GET, "/users/7", &[])
    }

    fn outcome(rules: NegativeCaching, request: &Parts, response: &Response<()>) -> Outcome {
        rules.outcome(rules.kind(request), response)
    }

    /// For whom a null is learnt.
    fn taught(rules: NegativeCaching, request: &Parts, response: &Response<()>) -> Option<Scope> {
        match outcome(rules, request, response) {
            Outcome::Missing(lesson) => lesson.map(|lesson| lesson.scope),
            _ => None,
        }
    }

    #[test]
    fn every_status_has_one_meaning() {
        for (statuses, expected) in [
            (&[200, 201, 204, 206, 304][..], Outcome::Found),
            (&[408, 500, 502, 503, 504], Outcome::NotAnswered),
            (&[301, 302, 303, 400, 401, 403, 405, 410, 429], Outcome::SaysNothing),
        ] {
            for status in statuses {
                assert_eq!(
                    outcome(STRICT, &plain(), &response(*status, &[])),
                    expected,
                    "{status}"
                );
            }
        }
        assert_eq!(taught(STRICT, &plain(), &response(404, &[])), Some(Scope::Anonymous));
        assert_eq!(taught(STRICT, &plain(), &marked(response(410, &[]))), Some(Scope::Everyone));
    }

    #[test]
    fn only_a_reading_shows_a_record() {
        for (method, expected) in [
            (Method::GET, Outcome::Found),
            (Method::HEAD, Outcome::Found),
            (Method::DELETE, Outcome::SaysNothing),
            (Method::PATCH, Outcome::SaysNothing),
        ] {
            let asked = request(method, "/users/7", &[]);
            assert_eq!(outcome(STRICT, &asked, &response(204, &[])), expected);
        }
    }

    #[test]
    fn a_404_to_a_query_is_no_null_unless_it_is_marked() {
        for rules in [STRICT, SHARED] {
            let asked = request(Method::GET, "/users/7?revision=99", &[]);
            assert_eq!(outcome(rules, &asked, &response(404, &[])), Outcome::Missing(None));
            assert_eq!(taught(rules, &asked, &marked(response(404, &[]))), Some(Scope::Everyone));
            let empty = request(Method::GET, "/users/7?", &[]);
            assert!(taught(rules, &empty, &response(404, &[])).is_some());
        }
    }

    #[test]
    fn only_a_get_without_an_upgrade_teaches_anything() {
        for asked in [
            request(Method::HEAD, "/users/7", &[]),
            request(Method::DELETE, "/users/7", &[]),
            request(Method::GET, "/users/7", &[("upgrade", "websocket")]),
        ] {
            for rules in [STRICT, SHARED, MARKER] {
                let answer = marked(response(404, &[]));
                assert_eq!(outcome(rules, &asked, &answer), Outcome::Missing(None));
            }
        }
    }

    #[test]
    fn one_callers_404_is_not_everybodys() {
        for header in [("authorization", "Bearer x"), ("cookie", "session=x")] {
            let asked = request(Method::GET, "/users/7", &[header]);
            assert_eq!(STRICT.needs(&asked), Scope::Everyone, "{header:?}");
            assert_eq!(outcome(STRICT, &asked, &response(404, &[])), Outcome::Missing(None));
            assert_eq!(taught(STRICT, &asked, &marked(response(404, &[]))), Some(Scope::Everyone));
            assert_eq!(SHARED.needs(&asked), Scope::Anonymous);
            assert_eq!(taught(SHARED, &asked, &response(404, &[])), Some(Scope::Everyone));
        }
    }

    #[test]
    fn where_a_marker_is_required_an_unmarked_404_says_nothing_of_the_record() {
        assert_eq!(outcome(MARKER, &plain(), &response(404, &[])), Outcome::NotAnswered);
        assert_eq!(taught(MARKER, &plain(), &marked(response(404, &[]))), Some(Scope::Everyone));
    }

    #[test]
    fn an_answer_that_must_not_be_kept_is_no_null() {
        for header in [
            ("cache-control", "no-store"),
            ("cache-control", "max-age=0, No-Cache"),
            ("cache-control", "private=\"x-name\""),
            ("cache-control", "public,private"),
            ("set-cookie", "a=b"),
            ("vary", "accept, *"),
            ("vary", "x-api-key"),
            ("vary", "accept-language"),
            ("vary", "accept-encoding, accept"),
            ("cache-control", "max-age=0, must-revalidate"),
            ("cache-control", "max-age=60, s-maxage=0"),
            ("cache-control", "max-age=soon"),
            ("age", "0"),
            ("expires", "Thu, 01 Jan 2026 12:00:00 GMT"),
        ] {
            for answer in [response(404, &[header]), marked(response(404, &[header]))] {
                assert_eq!(
                    outcome(STRICT, &plain(), &answer),
                    Outcome::Missing(None),
                    "{header:?}"
                );
            }
        }
        let kept = [("cache-control", "public, max-age=5"), ("vary", "accept-encoding, Origin")];
        assert!(taught(STRICT, &plain(), &response(404, &kept)).is_some());
    }

    #[test]
    fn a_null_lasts_no_longer_than_the_response_says() {
        for (control, seconds) in
            [("public, Max-Age=5", 5), ("max-age=7, s-maxage = 3", 3), ("max-age=7, max-age=9", 7)]
        {
            let answer = response(404, &[("cache-control", control), ("expires", "0")]);
            let outcome = outcome(STRICT, &plain(), &answer);
            let fresh = Duration::from_secs(seconds);
            assert!(
                matches!(outcome, Outcome::Missing(Some(lesson)) if lesson.fresh == fresh),
                "{control}"
            );
        }
    }

    /// A header's value as senders write it.
    fn as_written(value: &str) -> [String; 3] {
        let title = |word: &str| {
            let (first, rest) = word.split_at(word.len().min(1));
            first.to_uppercase() + rest
        };
        let title = value.split('-').map(title).collect::<Vec<_>>().join("-");
        [value.to_owned(), value.to_uppercase(), format!(" \t{title} , {value}")]
    }

    #[test]
    fn what_forbids_to_keep_an_answer_does_so_in_capitals_too() {
        for (name, value) in [
            ("cache-control", "no-store"),
            ("cache-control", "no-cache"),
            ("cache-control", "private"),
            ("cache-control", "max-age=0"),
            ("cache-control", "s-maxage=0"),
            ("vary", "accept-language"),
            ("vary", "x-api-key"),
        ] {
            for written in as_written(value) {
                let answer = marked(response(404, &[(name, &written)]));
                let learnt = outcome(STRICT, &plain(), &answer);
                assert_eq!(learnt, Outcome::Missing(None), "{name}: {written}");
            }
        }
    }

    #[test]
    fn what_changes_nothing_does_so_in_capitals_too() {
        for (name, value) in [
            ("cache-control", "public"),
            ("cache-control", "max-age=60"),
            ("vary", "accept-encoding"),
            ("vary", "origin"),
            ("vary", "access-control-request-method"),
            ("vary", "access-control-request-headers"),
        ] {
            for written in as_written(value) {
                let answer = response(404, &[(name, &written)]);
                assert!(taught(STRICT, &plain(), &answer).is_some(), "{name}: {written}");
            }
        }
    }

    #[test]
    fn a_second_header_line_is_read_too() {
        let lines = [("cache-control", "max-age=5"), ("cache-control", "no-store")];
        assert!(taught(STRICT, &plain(), &response(404, &lines)).is_none());
    }
}
