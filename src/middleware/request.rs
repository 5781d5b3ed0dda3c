//! A guarded request, from its decision to its answer.

use std::sync::Arc;

use http::Response;
use http::request::Parts;
use tokio::time::Instant;

use super::rejection::Rejected;
use super::shared::Shared;
use crate::decide::gate::{Admission, Known, Ruling, Why};
use crate::decide::recent::IdHash;
use crate::id::Id;
use crate::nulls::rules::{Outcome, RequestKind};
use crate::store::{Answer, Lookup, NullClaim};
use crate::verdict::Verdict;

/// The ids that a guard lets through as its sample, in the extensions of the request. A guard inside of it lets them through,
/// too: else the handler would not be asked, and the sample would show nothing.
#[derive(Clone)]
pub(super) struct Sampled(Vec<Id>);

impl Sampled {
    /// Whether a guard outside of this one lets the id through as its sample.
    pub(super) fn has(request: &Parts, id: &Id) -> bool {
        request.extensions.get().is_some_and(|Self(ids)| ids.contains(id))
    }

    /// Notes that this guard does.
    pub(super) fn note<'a>(request: &mut Parts, ids: impl Iterator<Item = &'a Id>) {
        let ids: Vec<Id> = ids.cloned().collect();
        if !ids.is_empty() {
            request.extensions.insert(Self(ids));
        }
    }
}

/// A guarded request that is not decided yet.
pub(super) trait Pending: Sized {
    /// What a look-up says.
    type Known;
    /// What is left of it when it is admitted.
    type Admitted;

    /// Decides by what the look-up said.
    fn decide(
        self,
        shared: &Arc<Shared>,
        request: &mut Parts,
        known: &Self::Known,
        now: Instant,
    ) -> Result<Self::Admitted, Rejected>;
}

/// A guarded request for one id that is not decided yet.
pub(super) struct PendingRequest {
    pub(super) id: Id,
    pub(super) hash: IdHash,
    /// When it is asked for.
    pub(super) asked: Instant,
    /// Whether it passes by a copy if the answer is unknown.
    pub(super) is_copied: bool,
}

impl Pending for PendingRequest {
    type Known = Lookup;
    type Admitted = AdmittedRequest;

    fn decide(
        self,
        shared: &Arc<Shared>,
        request: &mut Parts,
        lookup: &Lookup,
        now: Instant,
    ) -> Result<AdmittedRequest, Rejected> {
        shared.guard.metrics.check(lookup.verdict, self.asked);
        let nulls = shared.options.nulls;
        // A null may have been learnt from others than this caller's like.
        let verdict = lookup.verdict_for(|| nulls.needs(request));
        let is_sampled = matches!(verdict, Verdict::Absent(_)) && Sampled::has(request, &self.id);
        let known = Known { verdict, is_copied: self.is_copied, is_sampled };
        match shared.guard.rule(self.hash, known, now) {
            Ruling::Admit(admission) => {
                if let Why::Sample(_) = admission.why {
                    Sampled::note(request, std::iter::once(&self.id));
                }
                let kind = nulls.kind(request);
                let claim = Some(lookup.claim).filter(|_| admission.why == Why::Present);
                Ok(AdmittedRequest::new(shared, self, kind, admission, claim))
            }
            Ruling::Refuse(proof) => {
                let generation = lookup.claim.generation;
                shared.tell_of_refusal(&self.id, proof, generation, now);
                Err(Rejected::absent(proof, generation, request.method.clone()))
            }
            Ruling::Busy { retry_after } => {
                Err(Rejected::busy(verdict, retry_after, request.method.clone()))
            }
        }
    }
}

impl PendingRequest {
    /// Admits it by the table's first row.
    pub(super) fn pass(self, why: Why, shared: &Arc<Shared>, request: &Parts) -> AdmittedRequest {
        let kind = RequestKind::teaching_nothing(&request.method);
        AdmittedRequest::new(shared, self, kind, Admission::unasked(why), None)
    }
}

/// A request that was admitted. Dropped before it is answered, or when the service within failed, it
/// frees its place in the lane and counts as not answered.
pub(super) struct AdmittedRequest {
    shared: Arc<Shared>,
    id: Id,
    hash: IdHash,
    kind: RequestKind,
    /// What a null would rest on; none where the look-up did not say that the id is present.
    claim: Option<NullClaim>,
    admission: Admission,
    is_answered: bool,
}

impl AdmittedRequest {
    fn new(
        shared: &Arc<Shared>,
        PendingRequest { id, hash, .. }: PendingRequest,
        kind: RequestKind,
        admission: Admission,
        claim: Option<NullClaim>,
    ) -> Self {
        let shared = Arc::clone(shared);
        Self { shared, id, hash, kind, claim, admission, is_answered: false }
    }

    /// Learns from the response; returns what has to be waited for before it is handed on.
    pub(super) fn conclude<B>(&mut self, response: &Response<B>) -> Option<Answer<()>> {
        self.is_answered = true;
        drop(self.admission.permit.take());
        let (guard, why) = (&self.shared.guard, self.admission.why);
        if Rejected::is_in(response) {
            return None;
        }
        match self.shared.options.nulls.outcome(self.kind, response) {
            Outcome::Found => guard.found(&self.id, self.hash, why),
            Outcome::Missing(lesson) => {
                guard.missing(self.hash, why);
                return Some(guard.learn(&self.id, self.claim?, lesson?));
            }
            Outcome::NotAnswered => guard.not_answered(self.hash),
            Outcome::SaysNothing => guard.says_nothing(self.hash, why),
        }
        None
    }
}

impl Drop for AdmittedRequest {
    fn drop(&mut self) {
        if !self.is_answered {
            self.shared.guard.not_answered(self.hash);
        }
    }
}
