//! What counts as a null: which 404 says that a record is missing, for everybody.
//!
//! A null is shared by all who ask for the id, so it must not be learnt from an answer that was meant
//! for one of them (RFC 9111 §3.5), nor from one that its sender does not want kept.

use http::header::{self, HeaderMap, HeaderName};
use http::request::Parts;
use http::{Extensions, Method, Response, StatusCode};

/// An extension by which a handler says of its 404: the record does not exist, whoever asks.
///
/// The 404 is then remembered although the request carried `Authorization` or `Cookie`. Whatever else
/// forbids it (`Cache-Control: no-store`, say) still does.
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
}

/// For whom the answer to a request is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Audience {
    Everybody,
    TheCaller,
}

impl AbsenceRules {
    /// Returns for whom the answer will be, or `None` when it can teach nothing about the id.
    pub(crate) fn audience(self, request: &Parts) -> Option<Audience> {
        let reads = request.method == Method::GET || request.method == Method::HEAD;
        if !reads || request.headers.contains_key(header::UPGRADE) {
            return None;
        }
        let personal = request.headers.contains_key(header::AUTHORIZATION)
            || request.headers.contains_key(header::COOKIE);
        Some(if personal && !self.shared { Audience::TheCaller } else { Audience::Everybody })
    }

    /// Whether a response to that audience proves the id missing for everybody.
    pub(crate) fn is_null<B>(self, audience: Audience, response: &Response<B>) -> bool {
        self.status_counts(response.status())
            && (audience == Audience::Everybody || is_marked(response.extensions()))
            && may_be_kept(response.headers())
    }

    fn status_counts(self, status: StatusCode) -> bool {
        status == StatusCode::NOT_FOUND || (self.gone_counts && status == StatusCode::GONE)
    }
}

fn is_marked(extensions: &Extensions) -> bool {
    extensions.get::<Missing>().is_some()
}

fn may_be_kept(headers: &HeaderMap) -> bool {
    !headers.contains_key(header::SET_COOKIE)
        && !names_any(headers, header::CACHE_CONTROL, &["no-store", "no-cache", "private"])
        && !names_any(headers, header::VARY, &["*"])
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

    const STRICT: AbsenceRules = AbsenceRules { gone_counts: false, shared: false };

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
            assert!(!STRICT.is_null(Audience::Everybody, &response(status, &[])), "{status}");
        }
        assert!(STRICT.is_null(Audience::Everybody, &response(404, &[])));
    }

    #[test]
    fn a_410_is_one_by_option() {
        let rules = AbsenceRules { gone_counts: true, ..STRICT };
        assert!(rules.is_null(Audience::Everybody, &response(410, &[])));
        assert!(rules.is_null(Audience::Everybody, &response(404, &[])));
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
        ] {
            assert!(!STRICT.is_null(Audience::Everybody, &response(404, &[header])), "{header:?}");
        }
        let kept = [("cache-control", "public, max-age=5"), ("vary", "accept-encoding")];
        assert!(STRICT.is_null(Audience::Everybody, &response(404, &kept)));
    }

    #[test]
    fn a_second_header_line_is_read_too() {
        let lines = [("cache-control", "max-age=5"), ("cache-control", "no-store")];
        assert!(!STRICT.is_null(Audience::Everybody, &response(404, &lines)));
    }

    #[test]
    fn one_callers_404_is_not_everybodys() {
        for header in [("authorization", "Bearer x"), ("cookie", "session=x")] {
            let audience = STRICT.audience(&request(&[header])).unwrap();
            assert_eq!(audience, Audience::TheCaller);
            assert!(!STRICT.is_null(audience, &response(404, &[])), "{header:?}");

            let mut marked = response(404, &[]);
            marked.extensions_mut().insert(Missing);
            assert!(STRICT.is_null(audience, &marked), "{header:?}");

            let shared = AbsenceRules { shared: true, ..STRICT };
            assert_eq!(shared.audience(&request(&[header])), Some(Audience::Everybody));
        }
    }

    #[test]
    fn only_reading_without_an_upgrade_teaches_anything() {
        assert_eq!(STRICT.audience(&request(&[])), Some(Audience::Everybody));
        assert_eq!(STRICT.audience(&request(&[("upgrade", "websocket")])), None);
        let mut deletion = request(&[]);
        deletion.method = Method::DELETE;
        assert_eq!(STRICT.audience(&deletion), None);
    }
}
