//! What has to be known of a guarded request until its response is there.

use std::sync::Arc;

use http::request::Parts;
use http::{Method, Response};

use crate::absence::{Asker, Outcome};
use crate::edge::Edge;
use crate::id::Id;
use crate::policy::{Admission, Ruling, Why};
use crate::rejection::Rejected;
use crate::store::{Asked, Asking, Lookup};
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

    /// Turns the visitor away, or says what to watch for in the response.
    pub(crate) fn settle(self, lookup: &Lookup) -> Result<Watch, Rejected> {
        let Lookup { verdict, scope, asked } = *lookup;
        let Self { edge, id, method, asker } = self;
        let verdict = match verdict {
            // A null that was learnt from others than this caller's like.
            Verdict::Absent(Proof::Null) if !scope.covers(asker.needs) => Verdict::Present,
            other => other,
        };
        match edge.core.rule(&id, verdict) {
            Ruling::Admit(admission) => Ok(Watch { edge, id, verdict, asked, asker, admission }),
            Ruling::Refuse(proof) => Err(Rejected::absent(proof, method)),
            Ruling::Busy { retry_after } => Err(Rejected::busy(verdict, retry_after, method)),
        }
    }
}

/// A request that was admitted. Dropping it gives its place in a lane back.
pub(crate) struct Watch {
    edge: Arc<Edge>,
    id: Id,
    verdict: Verdict,
    asked: Asked,
    asker: Asker,
    admission: Admission,
}

impl Watch {
    /// Looks at the response; returns what has to be waited for before it is handed on.
    pub(crate) fn conclude<B>(self, response: &mut Response<B>) -> Option<Asking<()>> {
        let Self { edge, id, verdict, asked, asker, admission } = self;
        let Admission { trace, why, place: _given_back } = admission;
        let outcome = edge.options.absence.outcome(asker, response);
        if edge.options.expose_verdict {
            response.extensions_mut().insert(verdict);
        }
        match outcome {
            Outcome::Found => edge.core.found(id, trace, why),
            Outcome::Missing(scope) if why == Why::Present => {
                return Some(edge.core.missing(&id, trace, asked, scope));
            }
            Outcome::MissingToCaller if why == Why::Present => edge.core.missing_to_caller(trace),
            Outcome::Missing(_) | Outcome::MissingToCaller | Outcome::Unsaid => {}
        }
        None
    }
}
