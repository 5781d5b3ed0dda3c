//! What has to be known of a guarded request until its response is there.

use std::sync::Arc;

use http::header::{self, HeaderMap, HeaderValue};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use tokio::time::Instant;

use crate::decide::gate::{Admission, Ruling, Why};
use crate::decide::visitors::{Manner, Visitor};
use crate::id::Id;
use crate::middleware::oversight::Look;
use crate::middleware::rejection::Rejected;
use crate::middleware::shared::Edge;
use crate::nulls::rules::{Asker, Outcome, is_found};
use crate::store::{Asked, Asking, Lookup};
use crate::verdict::Verdict;

/// A guarded request that is not decided yet.
pub(crate) struct Visit {
    edge: Arc<Edge>,
    id: Id,
    visitor: Visitor,
    method: Method,
    asker: Asker,
}

impl Visit {
    pub(crate) fn new(edge: Arc<Edge>, id: Id, parts: &Parts) -> Self {
        let asker = edge.options.absence.asker(parts);
        let (manner, credentials) = (asker.manner, credentials(&parts.headers));
        let visitors = edge.core.gate().visitors();
        let visitor = visitors.recognise(&id, manner, credentials);
        Self { edge, id, visitor, method: parts.method.clone(), asker }
    }

    /// Turns the visitor away, or says what to watch for in the response.
    pub(crate) fn settle(self, lookup: &Lookup) -> Result<Watching, Rejected> {
        let asked = lookup.asked;
        let Self { edge, id, visitor, method, asker } = self;
        // A null may have been learnt from others than this caller's like.
        let verdict = lookup.verdict_for(asker.needs);
        match edge.core.rule(&visitor, verdict, lookup.hearsay) {
            Ruling::Admit(admission) => {
                let open = Some(Open { id, admission });
                Ok(Watching::Record(Watch { edge, visitor, verdict, asked, asker, open }))
            }
            Ruling::Refuse(proof) => Err(Rejected::absent(proof, method)),
            Ruling::Busy { retry_after } => Err(Rejected::busy(verdict, retry_after, method)),
        }
    }
}

/// A request that was admitted. Dropped before it is answered, or when the service within failed, it
/// gives its place in a lane back, and tells that nobody will learn what became of it.
pub(crate) struct Watch {
    edge: Arc<Edge>,
    visitor: Visitor,
    verdict: Verdict,
    asked: Asked,
    asker: Asker,
    open: Option<Open>,
}

/// What is needed until the answer is there.
struct Open {
    id: Id,
    admission: Admission,
}

impl Watch {
    /// Looks at the response; returns what has to be waited for before it is handed on.
    fn conclude<B>(mut self, response: &mut Response<B>) -> Option<Asking<()>> {
        let Open { id, admission } = self.open.take()?;
        let Admission { why, place } = admission;
        let Self { edge, visitor, verdict, asked, asker, .. } = &self;
        let gate = edge.core.gate();
        let visitors = gate.visitors();
        let believed = matches!(why, Why::Present | Why::Hearsay);
        let known = visitors.know_of(visitor.id());
        let outcome = edge.options.absence.outcome(*asker, response);
        if edge.options.expose_verdict {
            response.extensions_mut().insert(*verdict);
        }
        if let Outcome::Missing { scope, fresh, sure } = outcome
            && believed
            && (sure || !edge.core.is_about_a_part(visitor))
        {
            return Some(edge.core.missing(&id, *visitor, *asked, scope, fresh));
        }
        if place.is_some() {
            visitors.answered(visitor, Instant::now());
        }
        match outcome {
            Outcome::Found => edge.core.found(id, visitor, why),
            // The next one who asks like this keeps to a lane, and nobody else.
            Outcome::Missing { .. } if believed => gate.missing_part(visitor),
            Outcome::MissingToCaller if believed && known && asker.manner == Manner::WithQuery => {
                gate.missing_part(visitor);
            }
            // Who may not change a record that is there is mostly told that there is none.
            Outcome::MissingToCaller if known && asker.manner == Manner::Acting => {}
            Outcome::MissingToCaller if believed => edge.core.missing_to_caller(visitor),
            // It is not as it was seen to be: the next one keeps to the lane.
            Outcome::Missing { .. } | Outcome::MissingToCaller if why == Why::Seen => {
                edge.core.missing_to_caller(visitor);
            }
            Outcome::Unsaid if asker.manner == Manner::Acting && is_found(response.status()) => {
                visitors.regained(visitor);
            }
            Outcome::Unsaid if believed && has_failed(response.status()) => {
                visitors.abandoned(visitor, Instant::now());
            }
            Outcome::Missing { .. } | Outcome::MissingToCaller | Outcome::Unsaid => {}
        }
        None
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let believed = |open: Open| matches!(open.admission.why, Why::Present | Why::Hearsay);
        if self.open.take().is_some_and(believed) {
            self.edge.core.gate().visitors().abandoned(&self.visitor, Instant::now());
        }
    }
}

/// What is watched for in a response.
pub(crate) enum Watching {
    /// What becomes of a record.
    Record(Watch),
    /// Whether an id is invalid indeed.
    Invalid(Look),
}

impl Watching {
    /// Looks at the response; returns what has to be waited for before it is handed on.
    pub(crate) fn conclude<B>(self, response: &mut Response<B>) -> Option<Asking<()>> {
        match self {
            Self::Record(watch) => watch.conclude(response),
            Self::Invalid(look) => {
                look.conclude(response);
                None
            }
        }
    }
}

/// Whether nobody learnt anything of the record: layers within answer 408 where they give up waiting.
fn has_failed(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::REQUEST_TIMEOUT
}

/// By what a caller is told from others.
fn credentials(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let values = |name| headers.get_all(name).iter().map(HeaderValue::as_bytes);
    values(header::AUTHORIZATION).chain(values(header::COOKIE))
}
