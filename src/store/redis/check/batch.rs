//! One batch: what is asked, and what becomes of each check.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::answer::{BatchReply, commands};
use super::checked::Checked;
use crate::filter::Header;
use crate::id::Digest;
use crate::nulls::scope::Scope;
use crate::store::link::node::{Checks, Node, refuse};
use crate::store::link::queue;
use crate::store::link::refusal::doubt;
use crate::store::redis::incarnation::identity::{Connection, Identity};
use crate::store::redis::shard::Shard;
use crate::verdict::{Doubt, Verdict};

/// A connection that finds a filter of another secret key enrols again, this often at most.
const RE_ENROL: Duration = Duration::from_secs(1);

/// A check that waits in the queue, and then in a batch. Its digest was made with its connection's secret key.
type PendingCheck = queue::PendingCheck<Identity, Digest, Checked>;

/// What a batch asks for.
pub(super) struct Asked<'a> {
    pub(super) live: &'a Arc<Connection>,
    /// Each once.
    pub(super) digests: &'a [Digest],
    /// How many wait for the answers.
    pub(super) callers: usize,
}

impl Checks for Shard {
    type Identity = Identity;
    type Asked = Digest;
    type Answer = Checked;

    fn node(&self) -> &Node<Identity, Digest, Checked> {
        &self.node
    }

    async fn answer(&self, live: &Arc<Connection>, checks: &mut Vec<PendingCheck>) {
        // Checks of one id share a place in the commands, and the reply.
        checks.sort_unstable_by_key(|check| *check.asked.as_bytes());
        let mut digests: Vec<Digest> = checks.iter().map(|check| check.asked).collect();
        digests.dedup();
        let asked = Asked { live, digests: &digests, callers: checks.len() };
        // An answer from before the replay may be read after it.
        let believed = self.believes(live);
        let answered = timeout(self.check_deadline, self.ask_twice(&asked)).await;
        let answered = answered.unwrap_or(Err(Doubt::Timeout));
        let (header, answer) = match answered {
            Ok(answered) => answered,
            Err(doubt) => {
                if doubt != Doubt::Timeout {
                    self.note_doubt(doubt);
                }
                return refuse(checks.drain(..), doubt);
            }
        };
        let believes = believed.and_then(|()| self.believes(live));
        let verdicts = answer.verdicts(&header);
        let present = digests.iter().zip(&verdicts);
        let present = present.filter(|(_, (verdict, _))| *verdict == Verdict::Present);
        self.copies.hold(&header, present.map(|(digest, _)| digest));
        give(checks, &digests, &verdicts, &header, believes);
    }
}

impl Shard {
    /// Asks, and asks once more if the filter was replaced since this process last looked.
    async fn ask_twice(&self, asked: &Asked<'_>) -> Result<(Arc<Header>, BatchReply), Doubt> {
        let (live, deadline) = (asked.live, self.check_deadline);
        for _ in 0..2 {
            let header = match self.filter.load_full() {
                Some(header) => header,
                None => self.look(live, deadline).await?,
            };
            let known = self.seen.seq(&live.identity.incarnation);
            let answer = match self.ask(asked, &header, deadline).await {
                // It was replaced between the first command and the last.
                Err(Doubt::Changing) => {
                    self.forget(&header);
                    continue;
                }
                answer => answer?,
            };
            if answer.head.generation == header.generation.get() {
                let vouched = answer.head.vouches_for(&header, live);
                if let Err(Doubt::Disproved | Doubt::NotLive) = vouched {
                    // The header this process knows says otherwise: it is not to be shown any more.
                    self.forget(&header);
                }
                if vouched == Err(Doubt::OtherKey) && live.age() > RE_ENROL {
                    // The metadata may have been made anew since: join it again.
                    self.node.checks.withdraw(live);
                }
                vouched?;
                if answer.head.stamp < known {
                    // It is an older one than was seen: the next connection finds out what has happened.
                    self.node.checks.withdraw(live);
                    return Err(Doubt::Suspect);
                }
                self.seen.note(&live.identity.incarnation, answer.head.stamp);
                return Ok((header, answer));
            }
            self.forget(&header);
        }
        Err(Doubt::Changing)
    }

    /// Reads the live header and keeps it, if it is one.
    async fn look(&self, live: &Arc<Connection>, deadline: Duration) -> Result<Arc<Header>, Doubt> {
        let view = self.read_view(&self.node.checks, live, deadline).await;
        let header = self.live_in(&view.map_err(|error| doubt(&error))?)?;
        self.adopt(&header, &live.identity.incarnation)
    }

    /// Asks for what there is of some digests in the filter with this header.
    pub(super) async fn ask(
        &self,
        &Asked { live, digests, callers }: &Asked<'_>,
        header: &Header,
        deadline: Duration,
    ) -> Result<BatchReply, Doubt> {
        let positions: Vec<_> =
            digests.iter().map(|digest| header.geometry.position(digest)).collect();
        let commands = commands(&self.keys, header, &positions, digests);
        let replies = self.node.checks.send_for(callers, live, commands, deadline).await;
        let read = replies.and_then(|replies| {
            // Whose reply it is, is not known any more.
            BatchReply::read(&replies, &positions).inspect_err(|_| self.node.checks.withdraw(live))
        });
        read.map_err(|error| doubt(&error))?
    }
}

/// Tells each check what was found of its digest, in whose order both are. Absence is only said where it is believed.
fn give(
    checks: &mut Vec<PendingCheck>,
    digests: &[Digest],
    verdicts: &[(Verdict, Scope)],
    header: &Header,
    believes: Result<(), Doubt>,
) {
    let mut at = 0;
    for check in checks.drain(..) {
        while digests.get(at).is_some_and(|digest| *digest != check.asked) {
            at += 1;
        }
        let found = match (verdicts.get(at), believes) {
            (Some((Verdict::Absent(_), _)), Err(doubt)) => Err(doubt),
            (Some(&(verdict, scope)), _) => {
                Ok(Checked { verdict, scope, generation: header.generation })
            }
            (None, _) => Err(Doubt::Odd),
        };
        check.answer.send(found).ok();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use ::redis::RedisResult;
    use tokio::sync::oneshot;

    use super::*;
    use crate::filter::Generation;
    use crate::settings::Settings;
    use crate::store::BoxFuture;
    use crate::store::link::connector::Connector;
    use crate::store::link::node;
    use crate::store::link::resp::Packed;
    use crate::store::link::transport::Transport;
    use crate::store::map::endpoint::Endpoint;
    use crate::store::redis::RedisStore;
    use crate::store::redis::incarnation::identity::tests::joined;

    /// A Redis that takes down how long each request is, in commands, and never answers.
    #[derive(Debug, Default)]
    struct Silent(Mutex<Vec<usize>>);

    impl Transport for Silent {
        fn send(&self, packed: Packed) -> BoxFuture<'_, RedisResult<Vec<u8>>> {
            self.0.lock().unwrap().push(packed.commands);
            Box::pin(std::future::pending())
        }
    }

    #[derive(Debug)]
    struct NoConnector;

    impl Connector for NoConnector {
        fn connect(&self) -> BoxFuture<'_, RedisResult<Arc<dyn Transport>>> {
            Box::pin(std::future::pending())
        }
    }

    struct Batch {
        store: RedisStore,
        redis: Arc<Silent>,
        live: Arc<Connection>,
    }

    impl Batch {
        /// A store that knows a live filter.
        fn new() -> Self {
            let settings = Settings::new("users".into());
            let store = RedisStore::new(&settings, Endpoint::Primary(Arc::new(NoConnector)));
            let redis = Arc::new(Silent::default());
            let live = joined(Arc::clone(&redis) as Arc<dyn Transport>, 1, b"first", 0);
            store.shard.node.checks.put_into_use(&live);
            let generation = Generation::new(1).unwrap();
            let header = Header::new(generation, 1, &settings.sizing, 1);
            store.shard.filter.store(Some(Arc::new(header)));
            Self { store, redis, live }
        }

        /// Asks for these digests; returns how many commands each request had.
        async fn ask(&self, asked: &[(u8, &Arc<Connection>)]) -> Vec<usize> {
            let check = |&(byte, live): &(u8, &Arc<Connection>)| PendingCheck {
                live: Arc::clone(live),
                asked: Digest::from_bytes([byte; 16]),
                answer: oneshot::channel().0,
            };
            let mut checks = asked.iter().map(check).collect();
            node::answer(&*self.store.shard, &mut checks).await;
            assert!(checks.is_empty(), "each is answered");
            std::mem::take(&mut *self.redis.0.lock().unwrap())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn equal_ids_are_sent_once() {
        let batch = Batch::new();
        let live = &batch.live;
        // Two blocks, their nulls, and the header before and after.
        assert_eq!(batch.ask(&[(2, live), (1, live), (2, live), (1, live)]).await, [5]);
        assert_eq!(batch.ask(&[(2, live), (2, live)]).await, [2]);
    }

    #[tokio::test(start_paused = true)]
    async fn checks_of_another_connection_are_not_sent() {
        let batch = Batch::new();
        let other = joined(Arc::clone(&batch.redis) as Arc<dyn Transport>, 1, b"first", 0);
        assert_eq!(batch.ask(&[(1, &other), (2, &batch.live)]).await, [2]);
        assert_eq!(batch.ask(&[(1, &other), (2, &other)]).await, [0; 0]);
    }
}
