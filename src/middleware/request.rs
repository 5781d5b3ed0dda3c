//! A guarded request, from its decision to its answer.

use std::sync::Arc;

use http::request::Parts;
use http::{Method, Response};
use tokio::time::Instant;

use super::invalid::InvalidSample;
use super::rejection::Rejected;
use super::shared::Shared;
use crate::decide::gate::{Admission, Ruling, Why};
use crate::decide::recent::IdHash;
use crate::id::Id;
use crate::nulls::rules::{Outcome, RequestKind};
use crate::store::{Answer, Lookup, NullClaim};

/// A guarded request that is not decided yet.
pub(super) struct PendingRequest {
    shared: Arc<Shared>,
    id: Id,
    hash: IdHash,
    method: Method,
    kind: RequestKind,
}

impl PendingRequest {
    pub(super) fn new(shared: Arc<Shared>, id: Id, parts: &Parts) -> Self {
        let hash = shared.guard.gate().hash(&id);
        let kind = shared.options.nulls.kind(parts);
        Self { shared, id, hash, method: parts.method.clone(), kind }
    }

    /// Admits it if its record was found lately.
    pub(super) fn admit_found(self, now: Instant) -> Result<AdmittedRequest, Self> {
        match self.shared.guard.admit_found(self.hash, now) {
            Some(admission) => Ok(self.admit(admission, None)),
            None => Err(self),
        }
    }

    pub(super) fn look_up(&self, now: Instant) -> Answer<Lookup> {
        self.shared.guard.check(&self.id, now)
    }

    /// Decides by what the look-up said.
    pub(super) fn decide(self, lookup: &Lookup, now: Instant) -> Result<AdmittedRequest, Rejected> {
        // A null may have been learnt from others than this caller's like.
        let verdict = lookup.verdict_for(self.kind.needs);
        match self.shared.guard.rule(self.hash, verdict, now) {
            Ruling::Admit(admission) => Ok(self.admit(admission, Some(lookup.claim))),
            Ruling::Refuse(proof) => Err(Rejected::absent(proof, self.method)),
            Ruling::Busy { retry_after } => Err(Rejected::busy(verdict, retry_after, self.method)),
        }
    }

    fn admit(self, admission: Admission, claim: Option<NullClaim>) -> AdmittedRequest {
        let Self { shared, id, hash, method: _, kind } = self;
        let claim = claim.filter(|_| admission.why == Why::Present);
        AdmittedRequest { shared, hash, kind, claim, open: Some(Open { id, admission }) }
    }
}

/// A request that was admitted. Dropped before it is answered, or when the service within failed, it
/// frees its place in the lane and counts as not answered.
pub(super) struct AdmittedRequest {
    shared: Arc<Shared>,
    hash: IdHash,
    kind: RequestKind,
    /// What a null would rest on; none where the look-up did not say that the id is present.
    claim: Option<NullClaim>,
    open: Option<Open>,
}

/// What is needed until the answer is there.
struct Open {
    id: Id,
    admission: Admission,
}

impl AdmittedRequest {
    /// Learns from the response; returns what has to be waited for before it is handed on.
    fn conclude<B>(mut self, response: &Response<B>) -> Option<Answer<()>> {
        let Open { id, admission: Admission { why, place } } = self.open.take()?;
        // A request of an id that is missed already went through the lane.
        let first = place.is_none();
        drop(place);
        let guard = &self.shared.guard;
        match self.shared.options.nulls.outcome(self.kind, response) {
            Outcome::Found => guard.found(id, self.hash, why),
            Outcome::Missing(lesson) => {
                if why == Why::Present && first {
                    guard.metrics().present_missing.add(1);
                }
                guard.missing(self.hash);
                return Some(guard.learn(&id, self.claim?, lesson?));
            }
            Outcome::NotAnswered => guard.not_answered(self.hash),
            Outcome::SaysNothing => {}
        }
        None
    }
}

impl Drop for AdmittedRequest {
    fn drop(&mut self) {
        if self.open.take().is_some() {
            self.shared.guard.not_answered(self.hash);
        }
    }
}

/// What a response is looked at for.
pub(super) enum Watch {
    /// What it says of a record.
    Record(AdmittedRequest),
    /// Whether an id is invalid indeed.
    Invalid(InvalidSample),
}

impl Watch {
    /// Learns from the response; returns what has to be waited for before it is handed on.
    pub(super) fn conclude<B>(self, response: &Response<B>) -> Option<Answer<()>> {
        match self {
            Self::Record(request) => request.conclude(response),
            Self::Invalid(sample) => {
                sample.conclude(response);
                None
            }
        }
    }
}
