//! What counts as a null: which 404 says that a record is missing, for everybody.
//!
//! A null is shared by all who ask for the id, so it must not be learnt from an answer that was meant
//! for one of them (RFC 9111 §3.5), nor from one that its sender does not want kept.

use std::time::{Duration, SystemTime};

use http::header::{self, HeaderMap, HeaderName};
use http::request::Parts;
use http::{Extensions, Method, Response, StatusCode};

use super::freshness::fresh_for;
use crate::decide::visitors::Manner;
use crate::nulls::scope::Scope;

/// An extension by which a handler says of its 404: the record does not exist, whoever asks.
///
/// The 404 is then remembered although the request carried `Authorization` or `Cookie`. Whatever else
/// forbids it (`Cache-Control: no-store` or `max-age=0`, an `Expires` that is over, a `Vary` on the
/// language, say) still does.
///
/// ```
/// use bloom_guard::Missing;
/// use http::{Response, StatusCode};
///
/// let mut response = Response::new("no such user");
/// *response.status_mut() = StatusCode::NOT_FOUND;
/// response.extensions_mut().insert(Missing);
/// assert!(response.extensions().get::<Missing>().is_some());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missing;

/// The application's choices in the matter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct AbsenceRules {
    /// A 410 counts as a 404 does.
    pub(crate) gone_counts: bool,
    /// An absence is the same for everybody, signed in or not.
    pub(crate) shared: bool,
    /// Only a response with [`Missing`] says that the record is missing.
    pub(crate) marker: bool,
}

/// What a request may be told from a null, and what its response may teach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asker {
    /// The scope of a null that may refuse it.
    pub(crate) needs: Scope,
    /// Whether it asks for the record and no more: a parameter may be what is missing.
    plain: bool,
    pub(crate) manner: Manner,
    teaches: Teaches,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Teaches {
    Nothing,
    WhenMarked,
    Always,
}

/// What a response says of the record that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is there.
    Found,
    /// It is missing, for all requests of this scope.
    Missing {
        scope: Scope,
        /// For how long the response may be kept.
        fresh: Duration,
        /// Whether it is surely the record that is missing, and not something else that was asked for.
        sure: bool,
    },
    /// It is missing as far as this caller is told; others may be told otherwise.
    MissingToCaller,
    /// Nothing.
    Unsaid,
}

impl AbsenceRules {
    /// Judges a request by its head.
    pub(crate) fn asker(self, request: &Parts) -> Asker {
        let personal = request.headers.contains_key(header::AUTHORIZATION)
            || request.headers.contains_key(header::COOKIE);
        let credentials = personal && !self.shared;
        let reads = reads(&request.method);
        let teaches = if !reads || request.headers.contains_key(header::UPGRADE) {
            Teaches::Nothing
        } else if credentials || self.marker {
            Teaches::WhenMarked
        } else {
            Teaches::Always
        };
        let needs = Scope { credentials, get: request.method != Method::HEAD };
        let plain = request.uri.query().is_none_or(str::is_empty);
        let manner = match request.method {
            Method::HEAD => Manner::Head,
            _ if !reads => Manner::Acting,
            _ if plain => Manner::Plain,
            _ => Manner::WithQuery,
        };
        Asker { needs, plain, manner, teaches }
    }

    /// Returns what a response says of the record that was asked for.
    pub(crate) fn outcome<B>(self, asker: Asker, response: &Response<B>) -> Outcome {
        if is_found(response.status()) {
            // A DELETE may succeed where there is nothing.
            let shown = asker.manner != Manner::Acting;
            return if shown { Outcome::Found } else { Outcome::Unsaid };
        }
        if !self.status_counts(response.status()) {
            return Outcome::Unsaid;
        }
        let marked = is_marked(response.extensions());
        if self.marker && !marked {
            // A part of it may be missing.
            return Outcome::Unsaid;
        }
        let Some(fresh) = kept_for(response.headers()) else { return Outcome::MissingToCaller };
        match asker.teaches {
            Teaches::Nothing => Outcome::MissingToCaller,
            _ if marked => Outcome::Missing { scope: Scope::ALL, fresh, sure: true },
            Teaches::WhenMarked => Outcome::MissingToCaller,
            Teaches::Always => {
                let scope = Scope { credentials: self.shared, get: asker.needs.get };
                Outcome::Missing { scope, fresh, sure: asker.plain }
            }
        }
    }

    fn status_counts(self, status: StatusCode) -> bool {
        status == StatusCode::NOT_FOUND || (self.gone_counts && status == StatusCode::GONE)
    }
}

/// Whether requests of this method ask for a record, and no more.
pub(crate) fn reads(method: &Method) -> bool {
    method == Method::GET || method == Method::HEAD
}

/// Whether a status shows a record. A redirect does not: it may lead to a page for signing in.
pub(crate) fn is_found(status: StatusCode) -> bool {
    status.is_success() || status == StatusCode::NOT_MODIFIED
}

fn is_marked(extensions: &Extensions) -> bool {
    extensions.get::<Missing>().is_some()
}

/// Returns for how long a response may be kept, if it may be.
fn kept_for(headers: &HeaderMap) -> Option<Duration> {
    let kept = !headers.contains_key(header::SET_COOKIE)
        && !names_any(headers, header::CACHE_CONTROL, &["no-store", "no-cache", "private"])
        && varies_harmlessly(headers);
    Some(fresh_for(headers, SystemTime::now())).filter(|fresh| kept && !fresh.is_zero())
}

/// Whether the record is missing whatever the headers that the answer depends on: an encoding or those
/// of CORS change nothing, a language may.
fn varies_harmlessly(headers: &HeaderMap) -> bool {
    let harmless = [
        "accept-encoding",
        "origin",
        "access-control-request-method",
        "access-control-request-headers",
    ];
    let named = |part: &[u8]| {
        let name = part.trim_ascii();
        name.is_empty() || harmless.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()))
    };
    headers
        .get_all(header::VARY)
        .iter()
        .all(|value| value.as_bytes().split(|&b| b == b',').all(named))
}

/// Whether a comma-separated header names one of these, with or without an argument. Commas within
/// quotes split too, which can only find more names than there are.
fn names_any(headers: &HeaderMap, header: HeaderName, names: &[&str]) -> bool {
    headers.get_all(header).iter().flat_map(|value| value.as_bytes().split(|&b| b == b',')).any(
        |part| {
            let name = part.split(|&b| b == b'=').next().unwrap_or_default().trim_ascii();
            names.iter().any(|wanted| name.eq_ignore_ascii_case(wanted.as_bytes()))
        },
    )
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    const STRICT: AbsenceRules = AbsenceRules { gone_counts: false, shared: false, marker: false };
    const PUBLIC_GET: Option<Scope> = Some(Scope { credentials: false, get: true });

    fn lesson(rules: AbsenceRules, response: &Response<()>) -> Option<Scope> {
        taught(rules, rules.asker(&request(&[])), response)
    }

    fn taught(rules: AbsenceRules, asker: Asker, response: &Response<()>) -> Option<Scope> {
        match rules.outcome(asker, response) {
            Outcome::Missing { scope, .. } => Some(scope),
            _ => None,
        }
    }

    #[test]
    fn only_a_reading_shows_a_record() {
        let done = Response::builder().status(204).body(()).unwrap();
        for (method, outcome) in [
            (Method::GET, Outcome::Found),
            (Method::HEAD, Outcome::Found),
            (Method::DELETE, Outcome::Unsaid),
            (Method::PATCH, Outcome::Unsaid),
        ] {
            let mut parts = request(&[]);
            parts.method = method;
            assert_eq!(STRICT.outcome(STRICT.asker(&parts), &done), outcome);
        }
    }

    fn request(headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder();
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn response(status: u16, headers: &[(&str, &str)]) -> Response<()> {
        let mut response = Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        response.body(()).unwrap()
    }

    #[test]
    fn only_a_404_is_a_null() {
        for status in [200, 204, 301, 304, 400, 401, 403, 405, 410, 429, 500, 503] {
            assert!(lesson(STRICT, &response(status, &[])).is_none(), "{status}");
        }
        assert_eq!(lesson(STRICT, &response(404, &[])), PUBLIC_GET);
    }

    #[test]
    fn a_record_is_found_by_a_success_and_by_nothing_else() {
        let asker = STRICT.asker(&request(&[]));
        for status in [200, 201, 204, 206, 304] {
            assert_eq!(STRICT.outcome(asker, &response(status, &[])), Outcome::Found, "{status}");
        }
        for status in [301, 302, 303, 400, 401, 403, 405, 410, 429, 500, 503] {
            assert_eq!(STRICT.outcome(asker, &response(status, &[])), Outcome::Unsaid, "{status}");
        }
    }

    #[test]
    fn a_404_that_may_not_be_shared_is_the_callers_own() {
        for headers in [("authorization", "x"), ("cookie", "a=b"), ("upgrade", "websocket")] {
            let asker = STRICT.asker(&request(&[headers]));
            let outcome = STRICT.outcome(asker, &response(404, &[]));
            assert_eq!(outcome, Outcome::MissingToCaller, "{headers:?}");
        }
        let asker = STRICT.asker(&request(&[]));
        let unkept = response(404, &[("cache-control", "no-store")]);
        assert_eq!(STRICT.outcome(asker, &unkept), Outcome::MissingToCaller);
        let ambiguous = AbsenceRules { marker: true, ..STRICT };
        assert_eq!(ambiguous.outcome(asker, &response(404, &[])), Outcome::Unsaid);
    }

    #[test]
    fn a_410_is_one_by_option() {
        let rules = AbsenceRules { gone_counts: true, ..STRICT };
        assert_eq!(lesson(rules, &response(410, &[])), PUBLIC_GET);
        assert_eq!(lesson(rules, &response(404, &[])), PUBLIC_GET);
    }

    #[test]
    fn an_answer_that_must_not_be_kept_is_none() {
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
        ] {
            assert!(lesson(STRICT, &response(404, &[header])).is_none(), "{header:?}");
        }
        let kept = [("cache-control", "public, max-age=5"), ("vary", "accept-encoding, Origin")];
        assert_eq!(lesson(STRICT, &response(404, &kept)), PUBLIC_GET);
    }

    #[test]
    fn a_second_header_line_is_read_too() {
        let lines = [("cache-control", "max-age=5"), ("cache-control", "no-store")];
        assert!(lesson(STRICT, &response(404, &lines)).is_none());
    }

    #[test]
    fn one_callers_404_is_not_everybodys() {
        for header in [("authorization", "Bearer x"), ("cookie", "session=x")] {
            let asker = STRICT.asker(&request(&[header]));
            assert_eq!(asker.needs, Scope::ALL, "{header:?}");
            assert_eq!(taught(STRICT, asker, &response(404, &[])), None, "{header:?}");

            let mut marked = response(404, &[]);
            marked.extensions_mut().insert(Missing);
            assert_eq!(taught(STRICT, asker, &marked), Some(Scope::ALL), "{header:?}");

            let shared = AbsenceRules { shared: true, ..STRICT };
            let asker = shared.asker(&request(&[header]));
            assert_eq!(taught(shared, asker, &response(404, &[])), Some(Scope::ALL));
        }
    }

    #[test]
    fn a_404_to_nobody_in_particular_is_not_the_owners() {
        let owner = STRICT.asker(&request(&[("authorization", "Bearer x")]));
        let public = lesson(STRICT, &response(404, &[])).unwrap();
        assert!(!public.covers(owner.needs));
    }

    #[test]
    fn a_404_to_a_head_is_not_a_gets() {
        let mut head = request(&[]);
        head.method = Method::HEAD;
        let head = STRICT.asker(&head);
        let get = STRICT.asker(&request(&[]));
        let learnt_by_head = taught(STRICT, head, &response(404, &[])).unwrap();
        assert!(learnt_by_head.covers(head.needs) && !learnt_by_head.covers(get.needs));
        assert!(lesson(STRICT, &response(404, &[])).unwrap().covers(head.needs));
    }

    #[test]
    fn where_a_marker_is_required_nothing_else_teaches() {
        let rules = AbsenceRules { marker: true, ..STRICT };
        assert_eq!(lesson(rules, &response(404, &[])), None);
        let mut marked = response(404, &[]);
        marked.extensions_mut().insert(Missing);
        assert_eq!(lesson(rules, &marked), Some(Scope::ALL));
    }

    #[test]
    fn only_reading_without_an_upgrade_teaches_anything() {
        let upgrade = STRICT.asker(&request(&[("upgrade", "websocket")]));
        let mut deletion = request(&[]);
        deletion.method = Method::DELETE;
        for asker in [upgrade, STRICT.asker(&deletion)] {
            let mut marked = response(404, &[]);
            marked.extensions_mut().insert(Missing);
            assert_eq!(taught(STRICT, asker, &marked), None);
        }
    }
}
