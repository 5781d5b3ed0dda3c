//! The response to a request that is refused: empty by default, [problem details](ProblemDetails), or any closure, given to
//! [`BloomGuard::rejecting_with`](crate::BloomGuard::rejecting_with). It may [say why](Explained).

use std::fmt;

use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Method, Response, StatusCode};

use crate::filter::Generation;
use crate::id::InvalidId;
use crate::verdict::{Proof, Verdict};

/// Makes the response to a refused request.
///
/// Any `Fn(&Rejected) -> Response<B>` is one. Such a response should say `cache-control: no-store`, as
/// those of this crate do: a 404 that a cache downstream keeps would outlive the creation of the
/// record, and nobody could take it back.
///
/// ```
/// use bloom_guard::rejection::{Rejected, Rejection};
/// use http::{Response, header};
///
/// fn sorry(rejected: &Rejected) -> Response<String> {
///     let mut response = Response::new(String::from("nothing here"));
///     *response.status_mut() = rejected.status();
///     response.headers_mut().insert(header::CACHE_CONTROL, "no-store".parse().expect("is valid"));
///     response
/// }
///
/// fn takes_a_rejection(_: impl Rejection<String>) {}
/// takes_a_rejection(sorry);
/// ```
pub trait Rejection<B> {
    /// Returns the response. The guard adds the [`Rejected`] to its extensions.
    fn reject(&self, rejected: &Rejected) -> Response<B>;
}

impl<F, B> Rejection<B> for F
where
    F: Fn(&Rejected) -> Response<B>,
{
    fn reject(&self, rejected: &Rejected) -> Response<B> {
        self(rejected)
    }
}

/// A request that was refused. Also found in the extensions of the response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    reason: RejectReason,
    status: StatusCode,
    method: Method,
    generation: Option<Generation>,
}

/// Why a request was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RejectReason {
    /// The id is proven absent.
    Absent(Proof),
    /// The request names something that cannot be an id.
    Invalid(InvalidId),
    /// The record may exist, and there is no room now to let the request pass unverified: the verdict is
    /// unknown, or the id passed the filter, was lately missing, and no null could say so. Must not be
    /// answered with 404.
    Busy(Verdict),
}

impl RejectReason {
    /// Returns a short fixed name, fit for a metric's label: `filter`, `null`, `invalid` or `busy`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Absent(proof) => proof.as_str(),
            Self::Invalid(_) => "invalid",
            Self::Busy(_) => "busy",
        }
    }
}

impl Rejected {
    pub(crate) fn absent(proof: Proof, generation: Option<Generation>, method: Method) -> Self {
        let (reason, status) = (RejectReason::Absent(proof), StatusCode::NOT_FOUND);
        Self { reason, status, method, generation }
    }

    pub(crate) fn invalid(reason: InvalidId, status: StatusCode, method: Method) -> Self {
        let reason = RejectReason::Invalid(reason);
        Self { reason, status, method, generation: None }
    }

    pub(crate) fn busy(verdict: Verdict, method: Method) -> Self {
        let (reason, status) = (RejectReason::Busy(verdict), StatusCode::SERVICE_UNAVAILABLE);
        Self { reason, status, method, generation: None }
    }

    /// Returns why the request was refused.
    #[must_use]
    pub const fn reason(&self) -> RejectReason {
        self.reason
    }

    /// Returns the status the response should have.
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns the generation of the filter by which the id is absent; with a null, of the one that is live. Of a list's ids,
    /// that of one.
    #[must_use]
    pub const fn generation(&self) -> Option<Generation> {
        self.generation
    }

    /// Returns the request's method. A response to `HEAD` has the headers of one to `GET`, its `content-length` too, and no
    /// body. axum's router and hyper's HTTP/1 server leave the body out; hyper's HTTP/2 server sends what it is given.
    #[must_use]
    pub const fn method(&self) -> &Method {
        &self.method
    }
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason {
            RejectReason::Absent(_) => f.write_str("the resource does not exist"),
            RejectReason::Invalid(reason) => reason.fmt(f),
            RejectReason::Busy(_) => f.write_str("the service is busy"),
        }
    }
}

/// An empty response with the status and `cache-control: no-store`: the default.
#[derive(Debug, Clone, Copy, Default)]
pub struct NotFound;

impl<B: Default> Rejection<B> for NotFound {
    fn reject(&self, rejected: &Rejected) -> Response<B> {
        respond(rejected, B::default())
    }
}

/// An `application/problem+json` response ([RFC 9457](https://www.rfc-editor.org/rfc/rfc9457)) with
/// title, status and detail, and `cache-control: no-store`. It repeats nothing of the request.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProblemDetails;

impl<B: From<Vec<u8>>> Rejection<B> for ProblemDetails {
    fn reject(&self, rejected: &Rejected) -> Response<B> {
        let title = rejected.status.canonical_reason().unwrap_or("Refused");
        let status = rejected.status.as_u16();
        // None of the texts needs escapes.
        let problem = format!(r#"{{"title":"{title}","status":{status},"detail":"{rejected}"}}"#);
        let length = HeaderValue::from(problem.len());
        let is_head = rejected.method == Method::HEAD;
        let body = if is_head { Vec::new() } else { problem.into_bytes() };
        let mut response = respond(rejected, B::from(body));
        let media_type = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(CONTENT_TYPE, media_type);
        // For GET the server sets it, as a layer outside may change the body.
        if is_head {
            response.headers_mut().insert(CONTENT_LENGTH, length);
        }
        response
    }
}

/// Has the response of another rejection, as in `Explained(NotFound)`, say in the header `x-bloom-guard` why the request was refused:
///
/// | value | status | refused because |
/// |---|---|---|
/// | `filter; generation=1700000000000000` | 404 | this generation of the filter proves the id absent |
/// | `null; generation=1700000000000000` | 404 | a 404 or a removal is remembered, while this generation is live |
/// | `invalid` | [404 or 400](crate::Builder::on_invalid) | what the request names cannot be an id |
/// | `busy` | 503 | the record may exist, and there is no room now |
///
/// An answer of the application's has no such header. Clients read it, too: it tells the guard's 404 from the handler's, and
/// when the filter was rebuilt. A proxy in front can keep it from strangers. For a log of the application's own,
/// [`Rejected`] is in the response's extensions.
#[derive(Debug, Clone, Copy, Default)]
pub struct Explained<R>(
    /// The rejection that makes the response.
    pub R,
);

impl<R: Rejection<B>, B> Rejection<B> for Explained<R> {
    fn reject(&self, rejected: &Rejected) -> Response<B> {
        let mut response = self.0.reject(rejected);
        let reason = rejected.reason.as_str();
        let why = match rejected.generation {
            Some(generation) => HeaderValue::try_from(format!("{reason}; generation={generation}")),
            None => Ok(HeaderValue::from_static(reason)),
        };
        // A name and a number are always a valid value.
        if let Ok(why) = why {
            response.headers_mut().insert("x-bloom-guard", why);
        }
        response
    }
}

/// Makes the response, with the [`Rejected`] in its extensions.
pub(crate) fn reject<B>(
    rejection: &(impl Rejection<B> + ?Sized),
    rejected: Rejected,
) -> Response<B> {
    let mut response = rejection.reject(&rejected);
    if let RejectReason::Busy(_) | RejectReason::Invalid(InvalidId::TooMany { .. }) =
        rejected.reason
    {
        // A rejection that knows only of missing records must not say of one that may exist that it does not.
        if let StatusCode::NOT_FOUND | StatusCode::GONE = response.status() {
            *response.status_mut() = rejected.status;
        }
        if let RejectReason::Busy(_) = rejected.reason {
            // Nobody knows when the lane will have room.
            response.headers_mut().entry(RETRY_AFTER).or_insert(HeaderValue::from_static("1"));
        }
    }
    response.extensions_mut().insert(rejected);
    response
}

fn respond<B>(rejected: &Rejected, body: B) -> Response<B> {
    let mut response = Response::new(body);
    *response.status_mut() = rejected.status;
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Doubt;

    #[test]
    fn the_default_is_empty_and_kept_by_no_cache() {
        let rejected = Rejected::absent(Proof::Filter, None, Method::GET);
        let response: Response<String> = reject(&NotFound, rejected);
        assert_eq!(response.status(), StatusCode::NOT_FOUND);
        assert_eq!(response.headers()[CACHE_CONTROL], "no-store");
        assert_eq!(response.body(), "");
    }

    #[test]
    fn problem_details_say_what_and_never_which() {
        let rejected =
            Rejected::invalid(InvalidId::Malformed, StatusCode::BAD_REQUEST, Method::GET);
        let response: Response<Vec<u8>> = reject(&ProblemDetails, rejected);
        assert_eq!(response.status(), StatusCode::BAD_REQUEST);
        assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
        assert_eq!(response.headers()[CACHE_CONTROL], "no-store");
        assert_eq!(
            response.body(),
            br#"{"title":"Bad Request","status":400,"detail":"id does not parse as its type"}"#
        );
    }

    #[test]
    fn a_rejection_that_knows_only_404_cannot_deny_what_may_exist() {
        let verdict = Verdict::Unknown(Doubt::Timeout);
        let rejected = Rejected::busy(verdict, Method::GET);
        for status in [StatusCode::NOT_FOUND, StatusCode::GONE] {
            let denies = |_: &Rejected| {
                let mut response = Response::new(());
                *response.status_mut() = status;
                response
            };
            let response = reject(&denies, rejected.clone());
            assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
            assert_eq!(response.headers()[RETRY_AFTER], "1");
        }
        let response: Response<Vec<u8>> = reject(&ProblemDetails, rejected.clone());
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(response.headers()[RETRY_AFTER], "1");
        assert_eq!(
            response.body(),
            br#"{"title":"Service Unavailable","status":503,"detail":"the service is busy"}"#
        );
        let throttles = |_: &Rejected| {
            let mut response = Response::new(());
            *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("9"));
            response
        };
        let response = reject(&throttles, rejected);
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(response.headers()[RETRY_AFTER], "9");
    }

    #[test]
    fn a_list_that_is_too_long_is_not_denied_either() {
        let reason = InvalidId::TooMany { len: 101 };
        let rejected = Rejected::invalid(reason, StatusCode::BAD_REQUEST, Method::GET);
        let denies = |_: &Rejected| {
            let mut response = Response::new(());
            *response.status_mut() = StatusCode::NOT_FOUND;
            response
        };
        assert_eq!(reject(&denies, rejected).status(), StatusCode::BAD_REQUEST);
    }

    #[test]
    fn a_response_to_head_is_that_to_get_without_its_body() {
        let rejected = |method| Rejected::absent(Proof::Null, None, method);
        let [get, mut head]: [Response<Vec<u8>>; 2] =
            [Method::GET, Method::HEAD].map(|method| reject(&ProblemDetails, rejected(method)));
        let length = head.headers_mut().remove(CONTENT_LENGTH).unwrap();
        assert_eq!(length, get.body().len().to_string());
        assert_eq!(head.headers(), get.headers());
        assert!(head.body().is_empty());
    }

    #[test]
    fn the_bodies_of_axum_and_hyper_will_do() {
        fn takes<B>(_: &impl Rejection<B>) {}
        takes::<axum::body::Body>(&ProblemDetails);
        takes::<http_body_util::Full<bytes::Bytes>>(&ProblemDetails);
        takes::<axum::body::Body>(&NotFound);
        takes::<http_body_util::Empty<bytes::Bytes>>(&NotFound);
    }
}
