//! A guarded request, from what it asks for to its answer.

use std::sync::Arc;

use http::request::Parts;
use http::{Method, Response};
use smallvec::SmallVec;
use tokio::time::Instant;

use super::verdicts::{FoundIds, Verdicts};
use crate::decide::gate::{Ruling, Subject, Subjects, Why};
use crate::decide::lane::Permit;
use crate::extract::{Extraction, has_id_rewritten, readable};
use crate::guard::Guard;
use crate::id::{Id, InvalidId};
use crate::mode::Mode;
use crate::nulls::rules::{Outcome, RequestKind, has_failed, reads};
use crate::rejection::Rejected;
use crate::store::{Answer, BoxFuture, Lookups, NullClaim, Sought};
use crate::verdict::Verdict;

pub(super) enum Next {
    /// Passes the request. With an [`Admitted`] its response is looked at.
    Pass(Option<Admitted>),
    Reject(Rejected),
    Wait(Pending, BoxFuture<'static, Lookups>),
}

impl Guard {
    /// Decides on a request by its head, or says what to wait for.
    #[inline]
    pub(super) fn screen(self: &Arc<Self>, parts: &mut Parts) -> Next {
        self.metrics.requests.add(1);
        let mode = self.gate.mode();
        if mode == Mode::Off || !self.settings.methods.contains(&parts.method) {
            return self.unguarded();
        }
        match self.extractor.extract(parts) {
            Extraction::Id(id) => Pending::new([id], None, self).check(self, parts),
            Extraction::Ids(listed) => match readable(listed) {
                Ok((ids, _)) if ids.is_empty() => self.unguarded(),
                Ok((ids, unread)) => Pending::new(ids, Some(unread), self).check(self, parts),
                Err(reason) => self.screen_invalid(reason, mode, &parts.method),
            },
            Extraction::Unguarded if has_id_rewritten(&*self.extractor, parts) => {
                self.metrics.unguarded_path.add(1);
                Next::Pass(None)
            }
            Extraction::Unguarded => self.unguarded(),
            Extraction::Invalid(reason) => self.screen_invalid(reason, mode, &parts.method),
        }
    }

    fn unguarded(&self) -> Next {
        self.metrics.unguarded.add(1);
        Next::Pass(None)
    }

    fn screen_invalid(self: &Arc<Self>, reason: InvalidId, mode: Mode, method: &Method) -> Next {
        self.metrics.invalid.add(1);
        // The answer to a list that is too long shows nothing about ids, and costs thousands of look-ups.
        let tells = reads(method) && !matches!(reason, InvalidId::TooMany { .. });
        match self.settings.on_invalid.status(reason) {
            None => Next::Pass(None),
            Some(_)
                if tells && (mode == Mode::Shadow || self.invalid_sample.take(Instant::now())) =>
            {
                Next::Pass(Some(Admitted::sample(self, reason)))
            }
            Some(_) if mode == Mode::Shadow => Next::Pass(None),
            Some(status) => Next::Reject(Rejected::invalid(reason, status, method.clone())),
        }
    }
}

pub(super) struct Pending {
    ids: Subjects,
    /// How many listed texts are no ids; none if the request is no list.
    unread: Option<usize>,
    asked: Instant,
}

impl Pending {
    #[inline]
    fn new(ids: impl IntoIterator<Item = Id>, unread: Option<usize>, guard: &Guard) -> Self {
        let asked = Instant::now();
        let ids = ids.into_iter().map(|id| guard.subject(id, asked)).collect();
        Self { ids, unread, asked }
    }

    /// Looks the ids up, and decides if the answer comes at once.
    #[inline]
    fn check(self, guard: &Arc<Guard>, request: &mut Parts) -> Next {
        match self.look_up(guard) {
            Answer::Ready(lookups) => {
                let now = self.asked;
                let decided = self.decide(guard, request, &lookups, now);
                decided.map_or_else(Next::Reject, |admitted| Next::Pass(Some(admitted)))
            }
            Answer::Pending(lookup) => Next::Wait(self, lookup),
        }
    }

    #[inline]
    fn look_up(&self, guard: &Guard) -> Answer<Lookups> {
        if self.ids.iter().all(|of| of.reading.is_some()) {
            return Answer::Ready(Lookups::new());
        }
        let mut asked = SmallVec::<[Sought<'_>; 1]>::with_capacity(self.ids.len());
        let unsure = self.ids.iter().filter(|of| of.reading.is_none());
        asked.extend(unsure.map(|of| (&of.id, of.digest)));
        guard.store.check(&asked, self.asked)
    }

    #[inline]
    pub(super) fn decide(
        mut self,
        guard: &Arc<Guard>,
        request: &mut Parts,
        lookups: &Lookups,
        now: Instant,
    ) -> Result<Admitted, Rejected> {
        let asked = self.ids.iter_mut().filter(|of| of.reading.is_none());
        for (of, lookup) in asked.zip(lookups) {
            of.verdict = guard.heed(lookup, self.asked, || guard.settings.nulls.needs(request));
        }
        match guard.rule(&mut self.ids, self.unread.unwrap_or(0), now) {
            Ruling::Admit { permit, .. } => Ok(self.admit(guard, request, lookups, permit)),
            Ruling::Refuse(proof) => {
                // All were asked for.
                let by = lookups.iter().find(|of| of.verdict == Verdict::Absent(proof));
                let generation = by.and_then(|lookup| lookup.claim.generation);
                Err(Rejected::absent(proof, generation, request.method.clone()))
            }
            Ruling::Busy(verdict) => Err(Rejected::busy(verdict, request.method.clone())),
        }
    }

    /// Admits the request, and tells the handler of a list the verdict on each id.
    #[inline]
    fn admit(
        self,
        guard: &Arc<Guard>,
        request: &mut Parts,
        lookups: &Lookups,
        permit: Option<Permit>,
    ) -> Admitted {
        let Self { ids, unread, asked, .. } = self;
        let (mut kind, mut claim) = (None, None);
        if unread.is_some() {
            let is_told = |of: &&Subject| !matches!(of.reading, Some(Why::Sample | Why::Shadow));
            let told = ids.iter().filter(is_told).map(|of| (of.id.clone(), of.verdict));
            // Another guard's list may be about records of another kind with the same ids.
            let is_alone = request.extensions.get::<Verdicts>().is_none();
            let ids = told.filter(|_| is_alone).collect();
            request.extensions.insert(Verdicts { extractor: Arc::clone(&guard.extractor), ids });
        } else {
            let lookup = lookups.first().filter(|_| ids[0].reading == Some(Why::Present));
            claim = lookup.map(|lookup| lookup.claim);
            kind = Some(match claim {
                Some(_) => guard.settings.nulls.kind(request),
                None => RequestKind::teaching_nothing(&request.method),
            });
        }
        let guard = Arc::clone(guard);
        Admitted { guard, ids, kind, claim, asked, permit, invalid: None, is_answered: false }
    }
}

/// An admitted request. If it is dropped before the answer, its place in the lane is free again, and its ids count as not
/// answered.
pub(super) struct Admitted {
    guard: Arc<Guard>,
    ids: Subjects,
    /// None for a list: no status tells of one of several ids.
    kind: Option<RequestKind>,
    /// What a null would rest on; none unless the look-up said that the id is present.
    claim: Option<NullClaim>,
    asked: Instant,
    permit: Option<Permit>,
    /// Why it has no id, if its response shows whether that is right.
    invalid: Option<InvalidId>,
    is_answered: bool,
}

impl Admitted {
    /// Admits a request without an id, as a sample of those refused for this reason.
    pub(super) fn sample(guard: &Arc<Guard>, reason: InvalidId) -> Self {
        Self {
            guard: Arc::clone(guard),
            ids: Subjects::new(),
            kind: None,
            claim: None,
            asked: Instant::now(),
            permit: None,
            invalid: Some(reason),
            is_answered: false,
        }
    }

    /// Learns from the response. Returns what has to be waited for before it is handed on.
    pub(super) fn conclude<B>(mut self, response: &Response<B>) -> Option<Answer<()>> {
        self.is_answered = true;
        drop(self.permit.take());
        if let Some(reason) = self.invalid {
            self.guard.judge_invalid(reason, response.status());
            return None;
        }
        // A guard inside of this one has refused the request: nobody has looked for a record.
        if response.extensions().get::<Rejected>().is_some() {
            return None;
        }
        if let Some(kind) = self.kind {
            let outcome = self.guard.settings.nulls.outcome(kind, response);
            return self.learn(|_| outcome);
        }
        if has_failed(response.status()) {
            return self.learn(|_| Outcome::NotAnswered);
        }
        let found = response.extensions().get::<FoundIds>();
        let found = found.map(|found| found.canonical(&*self.guard.extractor));
        self.learn(|id| match &found {
            None => Outcome::SaysNothing,
            Some(found) if found.binary_search(id).is_ok() => Outcome::Found,
            Some(_) => Outcome::Missing(None),
        })
    }

    fn learn(&self, outcome: impl Fn(&Id) -> Outcome) -> Option<Answer<()>> {
        let guard = &self.guard;
        let mut learning = None;
        for of in &self.ids {
            let Subject { id, hash, .. } = of;
            match (outcome(id), of.reading) {
                // An absent id of a list that the handler read all the same is as good as a sample.
                (Outcome::Found, why) => {
                    guard.found(id, *hash, why.unwrap_or(Why::Sample), self.asked);
                }
                (Outcome::Missing(lesson), Some(why)) => {
                    guard.missing(*hash, why);
                    let taught = self.claim.zip(lesson);
                    learning = taught.map(|(claim, lesson)| guard.learn(id, claim, lesson));
                }
                (Outcome::NotAnswered, Some(_)) => guard.gate.not_answered(*hash, Instant::now()),
                // A copy is not asked again about an id of which nothing was learnt.
                (Outcome::SaysNothing, Some(Why::Copied)) => {
                    guard.gate.doubted(*hash, Instant::now());
                }
                (_, None) | (Outcome::SaysNothing, Some(_)) => {}
            }
        }
        learning
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        if !self.is_answered {
            self.learn(|_| Outcome::NotAnswered);
        }
    }
}
