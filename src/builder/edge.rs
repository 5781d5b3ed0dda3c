//! Settings for requests and responses.

use http::Method;

use super::Builder;
use crate::middleware::shared::OnInvalid;

/// Which requests are guarded, and what their responses look like.
impl<R> Builder<R> {
    /// The methods whose requests are checked. Methods that create records must not be among them;
    /// `OPTIONS`, `CONNECT` and `TRACE` ask for no record at all.
    ///
    /// Defaults to `GET` and `HEAD`.
    pub fn methods(mut self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.options.methods = methods.into_iter().collect();
        self
    }

    /// What to do with a request that names something that cannot be an id.
    ///
    /// Defaults to [`OnInvalid::NotFound`].
    pub fn on_invalid(mut self, on_invalid: OnInvalid) -> Self {
        self.options.on_invalid = on_invalid;
        self
    }

    /// Whether a 410 is remembered as a 404 is.
    ///
    /// Defaults to `false`.
    pub fn gone_counts(mut self, counts: bool) -> Self {
        self.options.absence.gone_counts = counts;
        self
    }

    /// Whether a 404 means the same for everybody. Say so only when no handler answers 404 for a record
    /// that exists and that this caller may not see; otherwise one caller's 404 would hide the record
    /// from its owner. Where only some do, mark the others' responses with
    /// [`Missing`](crate::Missing).
    ///
    /// Defaults to `false`: nothing is learnt from requests with `Authorization` or `Cookie`.
    pub fn shared_absence(mut self, shared: bool) -> Self {
        self.options.absence.shared = shared;
        self
    }

    /// Whether a 404 is remembered only when its response carries [`Missing`](crate::Missing). With
    /// `false` any 404 to a request with an id must mean that the record with this id is missing, and
    /// not a part of it, a page beyond its last, or the route.
    ///
    /// Defaults to what the extractor [says](crate::IdExtractor::is_ambiguous): `false` for a
    /// [`PathPattern`](crate::PathPattern) of one pattern with one capture, `true` for any other.
    pub fn require_marker(mut self, required: bool) -> Self {
        self.options.absence.marker = required;
        self
    }

    /// Whether the responses to admitted requests carry their [`Verdict`](crate::Verdict) as an
    /// extension. That costs an allocation for each. Those to refused requests carry a
    /// [`Rejected`](crate::Rejected) in any case.
    ///
    /// Defaults to `false`.
    pub fn expose_verdict(mut self, expose: bool) -> Self {
        self.options.expose_verdict = expose;
        self
    }
}
