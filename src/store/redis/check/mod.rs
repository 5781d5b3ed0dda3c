//! The check: what is known of an id, in one round trip.
//!
//! Checks merge: what queued while two batches were under way is the next one. It leaves when it is full, with the
//! reply to one of them, or when a sixteenth of the deadline has passed, so that a Redis that is far away answers in time,
//! too. With less than two under way a check leaves at once.
//!
//! | file | what |
//! |---|---|
//! | `batch` | one batch: what is asked, and what becomes of each check |
//! | `checked` | what a batch found out about one id |
//! | `answer` | what Redis says, and what it means |

mod answer;
mod batch;
pub(crate) mod checked;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use self::batch::Asked;
use self::checked::Checked;
use super::shard::Shard;
use crate::filter::Header;
use crate::id::{Digest, Id};
use crate::nulls::scope::Scope;
use crate::store::link::node::Node;
use crate::store::redis::incarnation::identity::Connection;
use crate::store::{Answer, Lookup, NullClaim};
use crate::verdict::{Doubt, Verdict};

fn unknown(doubt: Doubt) -> Lookup {
    Lookup {
        verdict: Verdict::Unknown(doubt),
        scope: Scope::Everyone,
        claim: NullClaim { asked_us: 0, generation: None },
    }
}

impl Shard {
    /// Asks, alone or from the queue, and returns the answer, which comes within the deadline, whatever Redis does.
    pub(super) fn check(self: &Arc<Self>, id: &Id, at: Instant) -> Answer<Lookup> {
        let Some(live) = self.node.checks.current() else {
            self.note_doubt(Doubt::Disconnected);
            return Answer::Ready(unknown(Doubt::Disconnected));
        };
        let asked_us = live.redis_us(at);
        let digest = live.identity.digester.digest(id);
        let deadline = at + self.check_deadline;
        let answered = match Node::check(self, live, digest, deadline, true) {
            Ok(answered) => answered,
            Err(doubt) => return Answer::Ready(unknown(doubt)),
        };
        Answer::Pending(Box::pin(async move {
            match answered.await {
                Ok(Checked { verdict, scope, generation }) => {
                    let claim = NullClaim { asked_us, generation: Some(generation) };
                    Lookup { verdict, scope, claim }
                }
                Err(doubt) => unknown(doubt),
            }
        }))
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
