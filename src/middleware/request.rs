//! A guarded request, from what it asks for to its answer.

use std::sync::Arc;

use http::request::Parts;
use http::{Method, Response};
use smallvec::SmallVec;
use tokio::time::Instant;

use super::verdicts::{FoundIds, Verdicts};
use crate::decide::flights::{Lead, Turn};
use crate::decide::gate::{Known, Ruling, Subject, Subjects, Why};
use crate::decide::lane::Permit;
use crate::extract::{Extraction, has_id_rewritten, readable};
use crate::guard::Guard;
use crate::id::{Id, InvalidId};
use crate::mode::Mode;
use crate::nulls::rules::{Outcome, RequestKind, has_failed, reads};
use crate::rejection::Rejected;
use crate::store::{Answer, BoxFuture, Lookups, NullClaim, Sought};
use crate::verdict::Verdict;

/// What becomes of a request.
pub(super) enum Next {
    /// It passes, and its response may be looked at.
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
        let extraction = if mode != Mode::Off && self.options.methods.contains(&parts.method) {
            let extraction = self.extractor.extract(parts);
            self.no_id.note(&extraction, &*self.extractor, parts, self.name());
            if extraction == Extraction::Unguarded && has_id_rewritten(&*self.extractor, parts) {
                self.metrics.unguarded_path.add(1);
                return Next::Pass(None);
            }
            extraction
        } else {
            Extraction::Unguarded
        };
        match extraction {
            Extraction::Id(id) => Pending::new([id], None, self).check(self, parts),
            Extraction::Ids(listed) => match readable(listed) {
                Ok((ids, _)) if ids.is_empty() => self.unguarded(),
                Ok((ids, unread)) => Pending::new(ids, Some(unread), self).check(self, parts),
                Err(reason) => self.screen_invalid(reason, mode, &parts.method),
            },
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
        // A list that is too long says nothing of what is an id, and one of it costs thousands of look-ups.
        let tells = reads(method) && !matches!(reason, InvalidId::TooMany { .. });
        match self.options.on_invalid.status(reason) {
            None => Next::Pass(None),
            Some(_) if tells && (mode == Mode::Shadow || self.invalid.takes()) => {
                Next::Pass(Some(Admitted::sample(self, reason)))
            }
            Some(_) if mode == Mode::Shadow => Next::Pass(None),
            Some(status) => Next::Reject(Rejected::invalid(reason, status, method.clone())),
        }
    }
}

/// A guarded request that is not decided yet.
pub(super) struct Pending {
    ids: Subjects,
    /// How many more it lists that are no ids; nothing where it is about one id, and no list.
    unread: Option<usize>,
    asked: Instant,
    flight: Flight,
}

/// Whether a request waits for the answer to another one about its id.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flight {
    Ahead,
    Waiting,
    /// It has waited, and waits no more.
    Over,
}

impl Pending {
    #[inline]
    fn new(ids: impl IntoIterator<Item = Id>, unread: Option<usize>, guard: &Guard) -> Self {
        let asked = Instant::now();
        let ids = ids.into_iter().map(|id| guard.subject(id, asked)).collect();
        Self { ids, unread, asked, flight: Flight::Ahead }
    }

    /// Asks what has to be asked, and decides if that is answered at once.
    #[inline]
    fn check(self, guard: &Arc<Guard>, request: &mut Parts) -> Next {
        match self.look_up(guard) {
            Answer::Ready(lookups) => {
                let now = self.asked;
                self.decide(guard, request, &lookups, now)
            }
            Answer::Pending(lookup) => Next::Wait(self, lookup),
        }
    }

    /// Goes on after what it waited for.
    pub(super) fn proceed(
        self,
        guard: &Arc<Guard>,
        request: &mut Parts,
        lookups: &Lookups,
    ) -> Next {
        if self.flight != Flight::Waiting {
            return self.decide(guard, request, lookups, Instant::now());
        }
        let ids = self.ids.into_iter().map(|of| of.id);
        Self { flight: Flight::Over, ..Self::new(ids, self.unread, guard) }.check(guard, request)
    }

    /// Asks for the ids that do not pass unasked, all at once.
    #[inline]
    fn look_up(&self, guard: &Guard) -> Answer<Lookups> {
        if self.ids.iter().all(|of| matches!(of.known, Known::Unasked(_))) {
            return Answer::Ready(Lookups::new());
        }
        let mut asked = SmallVec::<[Sought<'_>; 1]>::with_capacity(self.ids.len());
        for of in &self.ids {
            if let Known::Asked { .. } = of.known {
                asked.push((&of.id, of.digest));
            }
        }
        guard.store.check(&asked, self.asked)
    }

    #[inline]
    fn decide(
        mut self,
        guard: &Arc<Guard>,
        request: &mut Parts,
        lookups: &Lookups,
        now: Instant,
    ) -> Next {
        let mut answers = lookups.iter();
        for of in &mut self.ids {
            if let Known::Asked { verdict, .. } = &mut of.known
                && let Some(lookup) = answers.next()
            {
                let needed = || guard.options.nulls.needs(request);
                *verdict = guard.heed(lookup, self.asked, needed);
            }
        }
        let lead = match self.turn(guard, now) {
            Turn::Go(lead) => lead,
            Turn::Wait(arrival) => {
                guard.metrics.waited.add(1);
                self.flight = Flight::Waiting;
                return Next::Wait(self, arrival);
            }
        };
        match guard.rule(&mut self.ids, self.unread.unwrap_or(0), now) {
            Ruling::Admit { permit, .. } => {
                Next::Pass(Some(self.admit(guard, request, lookups, permit, lead)))
            }
            Ruling::Refuse(proof) => {
                // All were asked for.
                let mut refused = self.ids.iter().zip(lookups);
                let refused = refused.find(|(_, of)| of.verdict == Verdict::Absent(proof));
                let generation = refused.and_then(|(_, lookup)| lookup.claim.generation);
                if let Some((of, _)) = refused {
                    guard.tell_of_refusal(&of.id, proof, generation, now);
                }
                Next::Reject(Rejected::absent(proof, generation, request.method.clone()))
            }
            Ruling::Busy { verdict, retry_after } => {
                Next::Reject(Rejected::busy(verdict, retry_after, request.method.clone()))
            }
        }
    }

    /// Returns whose turn it is, where one request for an id goes first.
    fn turn(&self, guard: &Guard, now: Instant) -> Turn<BoxFuture<'static, Lookups>> {
        let (Some(flights), [of], None, Flight::Ahead) =
            (&guard.flights, &self.ids[..], self.unread, self.flight)
        else {
            return Turn::Go(None);
        };
        if !guard.gate.leads(of, now) {
            return Turn::Go(None);
        }
        match flights.enter(of.hash, now) {
            Turn::Go(lead) => Turn::Go(lead),
            Turn::Wait(arrival) => Turn::Wait(Box::pin(async {
                arrival.await;
                Lookups::new()
            })),
        }
    }

    /// Admits the request, and has the handler of a list know what is known of each id.
    #[inline]
    fn admit(
        self,
        guard: &Arc<Guard>,
        request: &mut Parts,
        lookups: &Lookups,
        permit: Option<Permit>,
        lead: Option<Lead>,
    ) -> Admitted {
        let Self { ids, unread, asked, .. } = self;
        let (mut kind, mut claim) = (None, None);
        if unread.is_some() {
            let told = ids.iter().filter_map(|of| match (of.reading, of.known) {
                (Some(Why::Sample | Why::Shadow), _) => None,
                (_, Known::Unasked(_)) => Some((of.id.clone(), Verdict::Present)),
                (_, Known::Asked { verdict, .. }) => Some((of.id.clone(), verdict)),
            });
            // Of another guard: it may be about records of another kind, with the same ids.
            let is_alone = request.extensions.get::<Verdicts>().is_none();
            let ids = told.filter(|_| is_alone).collect();
            request.extensions.insert(Verdicts { extractor: Arc::clone(&guard.extractor), ids });
        } else {
            let lookup = lookups.first().filter(|_| ids[0].reading == Some(Why::Present));
            claim = lookup.map(|lookup| lookup.claim);
            kind = Some(match claim {
                Some(_) => guard.options.nulls.kind(request),
                None => RequestKind::teaching_nothing(&request.method),
            });
        }
        let guard = Arc::clone(guard);
        Admitted { guard, ids, kind, claim, asked, permit, lead, invalid: None, is_answered: false }
    }
}

/// A request that was admitted. Dropped before it is answered, or when the service within failed, it
/// frees its place in the lane, and its ids count as not answered.
pub(super) struct Admitted {
    guard: Arc<Guard>,
    ids: Subjects,
    /// What of its head matters to nulls; nothing where it lists ids, as no status tells of one of several.
    kind: Option<RequestKind>,
    /// What a null would rest on; none where the look-up did not say that the id is present.
    claim: Option<NullClaim>,
    asked: Instant,
    permit: Option<Permit>,
    /// That others wait for its answer, until what it taught is remembered.
    lead: Option<Lead>,
    /// Why it has no id, where the response shows whether that is so.
    invalid: Option<InvalidId>,
    is_answered: bool,
}

impl Admitted {
    /// Returns a request that passes although it has no id, for this reason.
    pub(super) fn sample(guard: &Arc<Guard>, reason: InvalidId) -> Self {
        Self {
            guard: Arc::clone(guard),
            ids: Subjects::new(),
            kind: None,
            claim: None,
            asked: Instant::now(),
            permit: None,
            lead: None,
            invalid: Some(reason),
            is_answered: false,
        }
    }

    /// Learns from the response; returns what has to be waited for before it is handed on.
    pub(super) fn conclude<B>(mut self, response: &Response<B>) -> Option<Answer<()>> {
        self.is_answered = true;
        drop(self.permit.take());
        if let Some(reason) = self.invalid {
            self.guard.invalid.judge(&self.guard.metrics, reason, response.status());
            return None;
        }
        if Rejected::is_in(response) {
            return None;
        }
        if let Some(kind) = self.kind {
            let outcome = self.guard.options.nulls.outcome(kind, response);
            let learning = self.learn(|_| outcome);
            let lead = self.lead.take();
            return learning.map(|learning| learning.map(move |()| drop(lead)));
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

    /// Learns what the response says of each id; returns what has to be waited for.
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
                (_, None) => {}
                (Outcome::Missing(lesson), Some(why)) => {
                    guard.missing(*hash, why);
                    let taught = self.claim.zip(lesson);
                    learning = taught.map(|(claim, lesson)| guard.learn(id, claim, lesson));
                }
                (Outcome::NotAnswered, Some(_)) => guard.gate.not_answered(*hash, Instant::now()),
                (Outcome::SaysNothing, Some(why)) => guard.says_nothing(*hash, why),
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
