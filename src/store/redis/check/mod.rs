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

pub(super) mod answer;
mod batch;
pub(crate) mod checked;

use std::sync::Arc;

use tokio::time::Instant;

use self::checked::Checked;
use super::shards::Shards;
use crate::id::Id;
use crate::store::{Answer, Lookup, NullClaim};
use crate::verdict::Doubt;

impl Shards {
    /// Asks, alone or from the queue, and returns the answer, which comes within the deadline, whatever Redis does.
    pub(super) fn check(self: &Arc<Self>, id: &Id, at: Instant) -> Answer<Lookup> {
        let (shard, digest) = self.place(id);
        let node = shard.node();
        let Some(live) = shard.current(&node.checks) else {
            shard.note_doubt(Doubt::Disconnected);
            return Answer::Ready(Lookup::unknown(Doubt::Disconnected));
        };
        let asked_us = live.on.redis_us(at);
        let digest = digest.unwrap_or_else(|| live.identity.digester.digest(id));
        let deadline = at + self.check_deadline;
        let answered = match node.check(self, live.on, digest, deadline, true) {
            Ok(answered) => answered,
            Err(doubt) => return Answer::Ready(Lookup::unknown(doubt)),
        };
        Answer::Pending(Box::pin(async move {
            match answered.await {
                Ok(Checked { verdict, scope, generation }) => {
                    let claim = NullClaim { asked_us, generation: Some(generation) };
                    Lookup { verdict, scope, claim }
                }
                Err(doubt) => Lookup::unknown(doubt),
            }
        }))
    }
}
