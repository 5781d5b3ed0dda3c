//! A guarded request that lists ids, from its decision to its answer.

use std::sync::Arc;

use http::Response;
use http::request::Parts;
use tokio::time::Instant;

use super::rejection::Rejected;
use super::request::{Pending, Sampled};
use super::shared::Shared;
use super::verdicts::{FoundIds, Verdicts};
use crate::decide::gate::list::{ListAdmission, ListRuling, Listed};
use crate::decide::gate::{Known, Why};
use crate::decide::lane::Permit;
use crate::decide::recent::IdHash;
use crate::extract::IdList;
use crate::guard::{FirstRow, Guard};
use crate::id::Id;
use crate::nulls::rules::has_failed;
use crate::store::{Answer, Lookup};
use crate::verdict::{Doubt, Proof, Verdict};

/// A guarded request that is not decided yet.
pub(super) struct PendingList {
    ids: Vec<PendingId>,
    /// When they are asked for.
    asked: Instant,
    unread: usize,
}

struct PendingId {
    id: Id,
    hash: IdHash,
    row: FirstRow,
}

impl PendingId {
    /// Returns what is known of it, by the verdict if it was asked for, or why it passes unasked.
    fn known(
        &self,
        verdict: impl FnOnce() -> Option<Verdict>,
        request: &Parts,
    ) -> Result<Known, Why> {
        match self.row {
            FirstRow::Passes(why) => Err(why),
            FirstRow::Asks { is_copied } => {
                // Each that is asked for is answered.
                let verdict = verdict().unwrap_or(Verdict::Unknown(Doubt::Odd));
                let is_sampled =
                    matches!(verdict, Verdict::Absent(_)) && Sampled::has(request, &self.id);
                Ok(Known { verdict, is_copied, is_sampled })
            }
        }
    }
}

impl PendingList {
    pub(super) fn new(list: IdList, guard: &Guard, now: Instant) -> Self {
        let pending = |id| {
            let hash = guard.gate.hash(&id);
            let row = guard.first_row(&id, hash, now);
            PendingId { id, hash, row }
        };
        let ids = list.ids.into_iter().map(pending).collect();
        Self { ids, asked: now, unread: list.unread }
    }

    /// Asks for the ids that do not pass unasked, all at once.
    pub(super) fn check(&self, guard: &Guard) -> Answer<Vec<Lookup>> {
        let asked = self.ids.iter().filter(|id| matches!(id.row, FirstRow::Asks { .. }));
        guard.check_many(asked.map(|id| &id.id), self.asked)
    }
}

impl Pending for PendingList {
    type Known = Vec<Lookup>;
    type Admitted = AdmittedList;

    fn decide(
        self,
        shared: &Arc<Shared>,
        request: &mut Parts,
        known: &Vec<Lookup>,
        now: Instant,
    ) -> Result<AdmittedList, Rejected> {
        let mut verdicts = known.iter().map(|lookup| {
            shared.guard.metrics.check(lookup.verdict, self.asked);
            // A null may have been learnt from others than this caller's like.
            lookup.verdict_for(|| shared.options.nulls.needs(request))
        });
        let listed: Vec<_> =
            self.ids.iter().map(|id| (id.hash, id.known(|| verdicts.next(), request))).collect();
        let list = Listed { ids: &listed, unread: self.unread };
        match shared.guard.rule_list(&list, now) {
            ListRuling::Admit(admission) => {
                let ids = self.ids.iter().map(|id| &id.id).zip(&listed).zip(&admission.ids);
                let told = ids.filter_map(|((id, (_, known)), why)| match why {
                    Ok(Why::Sample(_) | Why::Shadow(_)) => None,
                    _ => Some((id.clone(), known.map_or(Verdict::Present, |known| known.verdict))),
                });
                let extensions = &mut request.extensions;
                // Of another guard: it may be about records of another kind, with the same ids.
                let is_alone = extensions.get::<Verdicts>().is_none();
                let told = told.filter(|_| is_alone);
                extensions.insert(Verdicts::new(&shared.extractor, told));
                let ids = self.ids.iter().map(|id| &id.id).zip(&admission.ids);
                let sampled = ids.filter(|(_, why)| matches!(why, Ok(Why::Sample(_))));
                Sampled::note(request, sampled.map(|(id, _)| id));
                Ok(AdmittedList::new(shared, self.ids, admission))
            }
            ListRuling::Refuse(proof) => {
                let of = known.iter().find(|lookup| lookup.verdict == Verdict::Absent(proof));
                let generation = of.and_then(|lookup| lookup.claim.generation);
                Err(Rejected::absent(proof, generation, request.method.clone()))
            }
            ListRuling::Busy { verdict, retry_after } => {
                Err(Rejected::busy(verdict, retry_after, request.method.clone()))
            }
        }
    }
}

/// A request that was admitted. Dropped before it is answered, or when the service within failed, it
/// frees its place in the lane, and its ids count as not answered.
pub(super) struct AdmittedList {
    shared: Arc<Shared>,
    /// Each with why it may be read, or with the proof of its absence that the handler was told.
    ids: Vec<(PendingId, Result<Why, Proof>)>,
    permit: Option<Permit>,
    is_answered: bool,
}

impl AdmittedList {
    fn new(shared: &Arc<Shared>, ids: Vec<PendingId>, admission: ListAdmission) -> Self {
        let ids = ids.into_iter().zip(admission.ids).collect();
        Self { shared: Arc::clone(shared), ids, permit: admission.permit, is_answered: false }
    }

    /// Learns from the response. No status tells of a single id, so no null comes of it.
    pub(super) fn conclude<B>(&mut self, response: &Response<B>) {
        self.is_answered = true;
        drop(self.permit.take());
        if Rejected::is_in(response) {
            return;
        }
        if has_failed(response.status()) {
            self.not_answered();
        } else if let Some(found) = response.extensions().get::<FoundIds>() {
            let found = found.canonical(&*self.shared.extractor);
            for (listed, why) in &self.ids {
                let is_found = found.binary_search(&listed.id).is_ok();
                self.learn(listed, *why, is_found);
            }
        } else {
            self.ids_read().for_each(|(hash, why)| self.shared.guard.says_nothing(hash, why));
        }
    }

    /// Returns the ids that the handler may have read, and why it may.
    fn ids_read(&self) -> impl Iterator<Item = (IdHash, Why)> {
        self.ids.iter().filter_map(|(listed, why)| Some((listed.hash, (*why).ok()?)))
    }

    /// Learns whether the record of an id was found.
    fn learn(&self, listed: &PendingId, why: Result<Why, Proof>, is_found: bool) {
        let guard = &self.shared.guard;
        match why {
            Ok(why) if is_found => guard.found(&listed.id, listed.hash, why),
            // The handler read it all the same: as good as the sample.
            Err(proof) if is_found => guard.found(&listed.id, listed.hash, Why::Sample(proof)),
            Ok(why) => guard.missing(listed.hash, why),
            Err(_) => {}
        }
    }

    fn not_answered(&self) {
        self.ids_read().for_each(|(hash, _)| self.shared.guard.not_answered(hash));
    }
}

impl Drop for AdmittedList {
    fn drop(&mut self) {
        if !self.is_answered {
            self.not_answered();
        }
    }
}
