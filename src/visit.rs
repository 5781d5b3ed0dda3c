//! What has to be known of a guarded request until its response is there.

use std::sync::Arc;

use http::request::Parts;
use http::{Method, Response};

use crate::absence::Audience;
use crate::edge::{Edge, Options};
use crate::guard::{Decision, Ruling};
use crate::id::Id;
use crate::rejection::Rejected;
use crate::store::{Asked, Asking};
use crate::verdict::Verdict;

/// A guarded request that is not decided yet.
pub(crate) struct Visit {
    edge: Arc<Edge>,
    id: Id,
    method: Method,
    audience: Option<Audience>,
}

impl Visit {
    pub(crate) fn new(edge: Arc<Edge>, id: Id, parts: &Parts) -> Self {
        let audience = edge.options.absence.audience(parts);
        Self { edge, id, method: parts.method.clone(), audience }
    }

    /// Turns the visitor away, or says what to watch for in the response, if anything.
    pub(crate) fn settle(self, decision: &Decision) -> Result<Option<Watch>, Rejected> {
        let Decision { verdict, ruling, asked } = *decision;
        let Self { edge, id, method, audience } = self;
        if let Ruling::Refuse(proof) = ruling {
            return Err(Rejected::absent(proof, method));
        }
        // Only what the filter let pass can become a null: an unknown may be there after all.
        let audience = audience.filter(|_| verdict == Verdict::Present);
        let watched = audience.is_some() || edge.options.expose_verdict;
        Ok(watched.then_some(Watch { edge, id, verdict, asked, audience }))
    }
}

/// A request that was admitted and whose response matters.
pub(crate) struct Watch {
    edge: Arc<Edge>,
    id: Id,
    verdict: Verdict,
    asked: Asked,
    audience: Option<Audience>,
}

impl Watch {
    /// Looks at the response; returns what has to be waited for before it is handed on.
    pub(crate) fn conclude<B>(self, response: &mut Response<B>) -> Option<Asking<()>> {
        let Options { absence, expose_verdict, .. } = &self.edge.options;
        let missing = self.audience.is_some_and(|audience| absence.is_null(audience, response));
        if *expose_verdict {
            response.extensions_mut().insert(self.verdict);
        }
        missing.then(|| self.edge.core.remember(&self.id, self.asked))
    }
}
