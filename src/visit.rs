//! What has to be known of a guarded request until its response is there.

use std::sync::Arc;

use http::request::Parts;
use http::{Method, Response};

use crate::absence::Asker;
use crate::edge::{Edge, Options};
use crate::guard::{Decision, Ruling};
use crate::id::Id;
use crate::rejection::Rejected;
use crate::store::{Asked, Asking};
use crate::verdict::{Proof, Verdict};

/// A guarded request that is not decided yet.
pub(crate) struct Visit {
    edge: Arc<Edge>,
    id: Id,
    method: Method,
    asker: Asker,
}

impl Visit {
    pub(crate) fn new(edge: Arc<Edge>, id: Id, parts: &Parts) -> Self {
        let asker = edge.options.absence.asker(parts);
        Self { edge, id, method: parts.method.clone(), asker }
    }

    /// Turns the visitor away, or says what to watch for in the response, if anything.
    pub(crate) fn settle(self, decision: &Decision) -> Result<Option<Watch>, Rejected> {
        let Decision { verdict, ruling, scope, asked } = *decision;
        let Self { edge, id, method, asker } = self;
        let verdict = match ruling {
            Ruling::Refuse(proof) if proof != Proof::Null || scope.covers(asker.needs) => {
                return Err(Rejected::absent(proof, method));
            }
            // A null that was learnt from others than this caller's like.
            Ruling::Refuse(_) => Verdict::Present,
            Ruling::Admit => verdict,
        };
        // Only what the filter let pass can become a null: an unknown may be there after all.
        let learns = verdict == Verdict::Present;
        let watched = learns || edge.options.expose_verdict;
        let asker = learns.then_some(asker);
        Ok(watched.then_some(Watch { edge, id, verdict, asked, asker }))
    }
}

/// A request that was admitted and whose response matters.
pub(crate) struct Watch {
    edge: Arc<Edge>,
    id: Id,
    verdict: Verdict,
    asked: Asked,
    asker: Option<Asker>,
}

impl Watch {
    /// Looks at the response; returns what has to be waited for before it is handed on.
    pub(crate) fn conclude<B>(self, response: &mut Response<B>) -> Option<Asking<()>> {
        let Options { absence, expose_verdict, .. } = &self.edge.options;
        let lesson = self.asker.and_then(|asker| absence.lesson(asker, response));
        if *expose_verdict {
            response.extensions_mut().insert(self.verdict);
        }
        lesson.map(|scope| self.edge.core.remember(&self.id, self.asked, scope))
    }
}
