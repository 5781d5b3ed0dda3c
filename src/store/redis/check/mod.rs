//! The check: what is known of an id, in one round trip.
//!
//! Checks merge: what queued while two batches were under way is the next one. It leaves when it is full, with the
//! reply to one of them, or when a part of the deadline has passed, so that a Redis that is far away answers in time,
//! too. With less than two under way a check leaves at once.
//!
//! | file | what |
//! |---|---|
//! | `batch` | one batch: what is asked, and what becomes of each check |
//! | `found` | what a batch found out about one id |
//! | `answer` | what Redis says, and what it means |

mod answer;
mod batch;
pub(crate) mod found;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use self::batch::{Asked, Place};
use self::found::Found;
use super::link::connection::Connection;
use super::link::queue::{Full, UnderWay};
use super::shared::Shared;
use crate::filter::Header;
use crate::id::{Digest, Id};
use crate::nulls::scope::Scope;
use crate::store::{Answer, BoxFuture, Lookup, NullClaim};
use crate::verdict::{Doubt, Verdict};

fn unknown(doubt: Doubt) -> Lookup {
    Lookup {
        verdict: Verdict::Unknown(doubt),
        scope: Scope::Everyone,
        claim: NullClaim { asked_us: 0, generation: None },
    }
}

impl Shared {
    /// Asks, alone or from the queue, and returns the answer, which comes within the deadline, whatever Redis does.
    pub(super) fn check(self: &Arc<Self>, id: &Id, at: Instant) -> Answer<Lookup> {
        let Some(live) = self.checks.current() else {
            self.note_doubt(Doubt::Disconnected);
            return Answer::Ready(unknown(Doubt::Disconnected));
        };
        let asked_us = live.redis_us(at);
        let digest = live.identity.digester.digest(id);
        let (place, received) = Place::new(live, digest);
        // Who is alone needs no other task, which doubles what it costs.
        let alone = match self.queue.alone() {
            Some(under_way) => Some(Arc::clone(self).answer_alone(place, under_way)),
            None => match self.queue.enter(place) {
                Ok(()) => None,
                Err(Full) => return Answer::Ready(unknown(Doubt::Overloaded)),
            },
        };
        let answered = async move {
            if let Some(answering) = alone {
                answering.await;
            }
            received.await
        };
        let deadline = at + self.check_deadline;
        Answer::Pending(Box::pin(async move {
            match timeout_at(deadline, answered).await {
                Ok(Ok(Ok(Found { verdict, scope, generation }))) => {
                    let claim = NullClaim { asked_us, generation: Some(generation) };
                    Lookup { verdict, scope, claim }
                }
                Ok(Ok(Err(doubt))) => unknown(doubt),
                // The task that had it has ended.
                Ok(Err(_)) => unknown(Doubt::Disconnected),
                Err(_) => unknown(Doubt::Timeout),
            }
        }))
    }

    /// Answers one check. A future of its own: it takes a few kilobytes, which those in the queue can do without.
    fn answer_alone(self: Arc<Self>, place: Place, under_way: UnderWay) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            self.answer(&mut vec![place]).await;
            drop(under_way);
        })
    }

    /// Says what this filter says of a digest, if it is still the live one.
    pub(super) async fn look_up(
        &self,
        live: &Arc<Connection>,
        header: &Header,
        digest: &Digest,
        deadline: Duration,
    ) -> Result<Verdict, Doubt> {
        let asked = Asked { live, digests: &[*digest], callers: 1 };
        let answer = self.ask(&asked, header, deadline).await?;
        if answer.head.generation != header.generation.get() {
            return Err(Doubt::Changing);
        }
        answer.head.vouches_for(header, live)?;
        let [(verdict, _)] = answer.verdicts(header)[..] else { return Err(Doubt::Odd) };
        Ok(verdict)
    }
}
