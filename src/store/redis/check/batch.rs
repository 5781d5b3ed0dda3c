//! One batch: what is asked of which shard, and what becomes of each check.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use smallvec::SmallVec;
use tokio::time::timeout;

use super::answer::{self, BYTES_A_FILTER, BYTES_AN_ID, BatchReply, FEW, Head, Inquiry, commands};
use crate::error::StoreError;
use crate::filter::{Header, Position};
use crate::id::Digest;
use crate::nulls::scope::Scope;
use crate::refusal::Refusal;
use crate::store::link::node::{Checks, refuse};
use crate::store::link::queue;
use crate::store::link::refusal::serves_no_slot;
use crate::store::link::resp::{Packed, Replies};
use crate::store::link::session::Purpose;
use crate::store::redis::connection::{Connection, NodeSession, RedisNode};
use crate::store::redis::incarnation::identity::{Identities, JoinedAll};
use crate::store::redis::shard::Shard;
use crate::store::redis::shards::Shards;
use crate::store::{Lookup, NullClaim};
use crate::verdict::{Doubt, Verdict};

/// A connection that finds a filter of another secret key enrols again, this often at most.
const RE_ENROL: Duration = Duration::from_secs(1);

/// A check that waits in the queue, and then in a batch. Its digest was made with its connection's secret key.
type PendingCheck = queue::PendingCheck<Identities, Digest, Lookup>;

/// What a batch asks of one shard.
struct Part<'a> {
    shard: &'a Shard,
    /// The shard's connection, if it has joined it.
    connection: Result<Connection, Doubt>,
    /// Each once.
    digests: SmallVec<[Digest; FEW]>,
    /// How many wait for the answers.
    callers: usize,
    /// What is asked, while there is no answer to it.
    question: Option<Question>,
    /// Whether another filter answered than the one that was asked.
    is_replaced: bool,
    /// What there is to say, so far.
    answer: Result<(Arc<Header>, BatchReply), Doubt>,
}

/// What is asked of a shard's filter.
struct Question {
    header: Arc<Header>,
    positions: SmallVec<[Position; FEW]>,
    /// The number of the last insert that was known before.
    known: i64,
}

impl Checks for Shards {
    type Identity = Identities;
    type Asked = Digest;
    type Answer = Lookup;

    async fn answer(
        &self,
        node: &Arc<RedisNode>,
        live: &Arc<JoinedAll>,
        checks: &mut Vec<PendingCheck>,
    ) {
        let node = Arc::clone(node);
        let on = Arc::clone(live);
        let shared = NodeSession::new(node, on);
        // Checks of one id share a place in the commands, and the reply. This order is that of the shards, too.
        checks.sort_unstable_by_key(|check| *check.asked.as_bytes());
        let shard = |check: &PendingCheck| check.asked.shard(self.all.len());
        let mut parts = SmallVec::<[Part<'_>; 1]>::new();
        for checks in checks.chunk_by(|one, other| shard(one) == shard(other)) {
            if let Some(shard) = checks.first().and_then(|check| self.all.get(shard(check))) {
                parts.push(Part::new(shard, Arc::clone(&shared), checks));
            }
        }
        // An answer from before the replay may be read after it.
        let believed: SmallVec<[_; 1]> = parts.iter().map(Part::believes).collect();
        let deadline = self.check_deadline;
        // Keys of how many shards one command may name: in a cluster they are in different slots.
        let at_once = if self.groups.slots.is_some() { 1 } else { self.all.len() };
        // What is not answered by then says so.
        timeout(deadline, ask_twice(&mut parts, at_once, deadline)).await.ok();
        let mut checks = checks.drain(..);
        for (part, believed) in parts.iter().zip(believed) {
            part.tell(checks.by_ref().take(part.callers), believed);
        }
    }
}

impl<'a> Part<'a> {
    fn new(shard: &'a Shard, shared: Arc<NodeSession>, checks: &[PendingCheck]) -> Self {
        let connection =
            Connection::of(shared, Purpose::Checks, shard.number).map_err(|trouble| trouble.doubt);
        let mut digests: SmallVec<[Digest; FEW]> = checks.iter().map(|check| check.asked).collect();
        digests.dedup();
        let callers = checks.len();
        let answer = Err(Doubt::Timeout);
        Self { shard, connection, digests, callers, is_replaced: false, question: None, answer }
    }

    /// Whether an absence may be believed at this moment.
    fn believes(&self) -> Result<(), Doubt> {
        let connection = self.connection.as_ref().map_err(|doubt| *doubt)?;
        self.shard.believes(connection)
    }

    /// Looks at Redis which filter is live, and puts the question to it.
    async fn look(&mut self, deadline: Duration) {
        let Ok(connection) = &self.connection else { return };
        match self.shard.look(connection, deadline).await {
            Ok(header) => self.put(header),
            Err(doubt) => self.answer = Err(doubt),
        }
    }

    /// Puts the question to a filter.
    fn put(&mut self, header: Arc<Header>) {
        let Ok(connection) = &self.connection else { return };
        let positions =
            self.digests.iter().map(|digest| header.geometry.position(digest)).collect();
        let known = self.shard.known.seen.last_in(&connection.identity.incarnation);
        self.question = Some(Question { header, positions, known });
    }

    /// Returns what is asked, while there is no answer to it.
    fn inquiry(&self) -> Option<Inquiry<'_>> {
        let Question { header, positions, .. } = self.question.as_ref()?;
        let incarnation = &self.connection.as_ref().ok()?.identity.incarnation;
        let (keys, digests) = (&self.shard.known.keys, &self.digests);
        Some(Inquiry { keys, header, incarnation, digests, positions })
    }

    /// Takes in why Redis said nothing. What it does not serve is left at once: it may serve it again, without what it took
    /// elsewhere.
    fn fail(&mut self, error: &StoreError) {
        if self.question.is_none() {
            return;
        }
        if let (StoreError::Refused { reason, .. }, Ok(connection)) = (error, &self.connection)
            && self.shard.is_of_many
            && serves_no_slot(reason)
        {
            self.shard.withdraw(connection);
        }
        self.take(Err(error.doubt()));
    }

    /// Takes in what Redis said.
    fn take(&mut self, said: Result<BatchReply, Doubt>) {
        let Some(question) = self.question.take() else { return };
        self.is_replaced = matches!(said, Err(Doubt::Suspect));
        self.answer = self.judge(&question, said).map(|reply| (question.header, reply));
    }

    fn judge(
        &self,
        question: &Question,
        said: Result<BatchReply, Doubt>,
    ) -> Result<BatchReply, Doubt> {
        let Question { header, known, .. } = question;
        let connection = self.connection.as_ref().map_err(|doubt| *doubt)?;
        let vouched = said.as_ref().map_err(|doubt| *doubt).map(|reply| reply.head);
        self.shard.judge(header, *known, vouched, connection)?;
        said
    }

    /// Tells each check what was found of its digest. Absence is only said where it was believed before, and is now.
    fn tell(&self, checks: impl Iterator<Item = PendingCheck>, believed: Result<(), Doubt>) {
        let (header, reply) = match &self.answer {
            Ok(answer) => answer,
            Err(doubt) => {
                if *doubt != Doubt::Timeout {
                    self.shard.note_doubt(*doubt);
                }
                return refuse(checks, *doubt);
            }
        };
        let believes = believed.and_then(|()| self.believes());
        let verdicts = reply.verdicts(header);
        let present = self.digests.iter().zip(&verdicts);
        let present = present.filter(|(_, (verdict, _))| *verdict == Verdict::Present);
        let is_of = |copy: &Header| copy.is_same_build(header);
        self.shard.copies.hold(is_of, present.map(|(digest, _)| digest));
        give(checks, &self.digests, &verdicts, header, believes);
    }
}

impl Shard {
    /// Takes in what was said of the filter with this header, on a connection which knew of this number before it asked.
    pub(super) fn judge(
        &self,
        header: &Arc<Header>,
        known: i64,
        said: Result<Head, Doubt>,
        connection: &Connection,
    ) -> Result<(), Doubt> {
        let vouched = said.and_then(|head| head.vouches_for(header, connection));
        if let Err(Doubt::Suspect | Doubt::Disproved | Doubt::DisprovedTwice | Doubt::Damaged) =
            vouched
        {
            // The header this process knows says otherwise: it is not to be shown any more.
            self.forget(header);
        }
        if vouched == Err(Doubt::OtherKey) && connection.on.age() > RE_ENROL {
            // The metadata may have been made anew since: join it again.
            self.withdraw(connection);
        }
        vouched?;
        let head = said?;
        if !head.is_joined || head.last < known || head.stamp < head.last {
            // One of them is another, or an older one: the next connection finds out what has happened.
            self.withdraw(connection);
            return Err(Doubt::Suspect);
        }
        self.known.seen.note(&connection.identity.incarnation, head.stamp);
        Ok(())
    }

    /// Reads the live header and keeps it, if it is one.
    async fn look(&self, live: &Connection, deadline: Duration) -> Result<Arc<Header>, Doubt> {
        let view = self.read_view(live, deadline).await;
        let header = self.live_in(&view.map_err(|error| error.doubt())?, live)?;
        self.adopt(&header, &live.identity.incarnation)
    }
}

/// Asks, and asks those once more whose filter was replaced since this process last looked.
async fn ask_twice(parts: &mut [Part<'_>], at_once: usize, deadline: Duration) {
    put(parts, |_| true, deadline).await;
    ask(parts, at_once, deadline).await;
    put(parts, |part| part.is_replaced, deadline).await;
    ask(parts, at_once, deadline).await;
}

/// Puts questions, most of them without a look at Redis.
async fn put(parts: &mut [Part<'_>], to: impl Fn(&Part<'_>) -> bool, deadline: Duration) {
    let mut looks = Vec::new();
    for part in parts.iter_mut().filter(|part| to(part)) {
        match (&part.connection, part.shard.filter.load_full()) {
            (Err(doubt), _) => part.answer = Err(*doubt),
            (Ok(_), Some(header)) => part.put(header),
            (Ok(_), None) => looks.push(part.look(deadline)),
        }
    }
    join_all(looks).await;
}

/// Asks what was put to any shard, in one go. A command names keys of `at_once` shards at most.
async fn ask(parts: &mut [Part<'_>], at_once: usize, deadline: Duration) {
    let mut open = parts.iter().filter(|part| part.question.is_some());
    // All are of one node.
    let Some(Part { connection: Ok(connection), .. }) = open.next() else { return };
    let is_one = open.next().is_none();
    let said = send(parts, connection, at_once, deadline).await;
    if let Err(StoreError::GivenUp { .. }) = said {
        // Whose reply it is, is not known any more.
        connection.node.link.withdraw(&connection.on);
    }
    match said {
        Ok(said) => {
            let open = parts.iter_mut().filter(|part| part.question.is_some());
            open.zip(said).for_each(|(part, said)| part.take(said));
        }
        // What one shard refuses says nothing of the others.
        Err(StoreError::Refused { .. }) if !is_one => {
            let each = parts.chunks_mut(1);
            join_all(each.map(|part| Box::pin(ask(part, at_once, deadline)))).await;
        }
        Err(error) => parts.iter_mut().for_each(|part| part.fail(&error)),
    }
}

/// What Redis said to each part that asks.
type Said = SmallVec<[Result<BatchReply, Doubt>; 1]>;

/// Sends what was put, and reads the replies.
async fn send(
    parts: &[Part<'_>],
    connection: &Connection,
    at_once: usize,
    deadline: Duration,
) -> Result<Said, StoreError> {
    let inquiries: SmallVec<[Inquiry<'_>; 1]> = parts.iter().filter_map(Part::inquiry).collect();
    let callers = parts.iter().filter(|part| part.question.is_some()).map(|part| part.callers);
    let bytes = inquiries.iter().map(|of| of.digests.len() * BYTES_AN_ID + BYTES_A_FILTER);
    let mut packed = Packed::with_capacity(bytes.sum());
    inquiries.chunks(at_once).for_each(|inquiries| commands(&mut packed, inquiries));
    let callers = callers.sum();
    let replies = connection.send(callers, packed, deadline).await?;
    let mut replies = Replies::new("a check", &replies);
    let mut said = Said::new();
    for inquiries in inquiries.chunks(at_once) {
        said.extend(answer::read(&mut replies, inquiries)?);
    }
    replies.end()?;
    Ok(said)
}

/// Tells each check what was found of its digest, in whose order both are. Absence is only said where it is believed.
fn give(
    checks: impl Iterator<Item = PendingCheck>,
    digests: &[Digest],
    verdicts: &[(Verdict, Scope)],
    header: &Header,
    believes: Result<(), Doubt>,
) {
    // The asker adds when.
    let claim = NullClaim { asked_us: 0, generation: Some(header.generation) };
    let mut at = 0;
    for check in checks {
        while digests.get(at).is_some_and(|digest| *digest != check.asked) {
            at += 1;
        }
        let found = match (verdicts.get(at), believes) {
            (Some((Verdict::Absent(_), _)), Err(doubt)) => Err(doubt),
            (Some(&(verdict, scope)), _) => Ok(Lookup { verdict, scope, claim }),
            (None, _) => Err(Doubt::Refused(Refusal::ODD)),
        };
        check.answer.send(found).ok();
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use ::redis::RedisResult;
    use tokio::sync::oneshot;
    use tokio::time::Instant;

    use super::*;
    use crate::filter::Generation;
    use crate::id::Id;
    use crate::settings::Settings;
    use crate::store::BoxFuture;
    use crate::store::link::connector::Connector;
    use crate::store::link::node;
    use crate::store::link::resp::Packed;
    use crate::store::link::transport::Transport;
    use crate::store::map::endpoint::Endpoint;
    use crate::store::redis::connection::tests::joined;
    use crate::store::redis::copy::tests::copy_of;

    /// A Redis that takes down how long each request is, in commands, and never answers.
    #[derive(Debug, Default)]
    struct Silent(Mutex<Vec<usize>>);

    impl Transport for Silent {
        fn send(&self, packed: Packed) -> BoxFuture<'_, RedisResult<Vec<u8>>> {
            self.0.lock().push(packed.commands);
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
        shards: Shards,
        redis: Arc<Silent>,
        live: Connection,
    }

    impl Batch {
        /// A store that knows a live filter.
        fn new() -> Self {
            let settings = Settings::new("users".into());
            let shards = Shards::new(&settings, &Endpoint::Primary(Arc::new(NoConnector)));
            let redis = Arc::new(Silent::default());
            let live = joined(Arc::clone(&redis) as Arc<dyn Transport>, 1, b"first", 0);
            shards.groups.first.node.link.put_into_use(&live.on);
            let generation = Generation::new(1).unwrap();
            let header = Header::new(generation, 1, &settings.sizing, 1);
            shards.all[0].filter.store(Some(Arc::new(header)));
            Self { shards, redis, live }
        }

        /// Asks for these digests; returns how many commands each request had.
        async fn ask(&self, asked: &[(u8, &Connection)]) -> Vec<usize> {
            let check = |&(byte, live): &(u8, &Connection)| PendingCheck {
                live: Arc::clone(&live.on),
                asked: Digest::from_bytes([byte; 16]),
                answer: oneshot::channel().0,
            };
            let mut checks = asked.iter().map(check).collect();
            let shards = &self.shards;
            node::answer(shards, &shards.groups.first.node, &mut checks).await;
            assert!(checks.is_empty(), "each is answered");
            std::mem::take(&mut *self.redis.0.lock())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn equal_ids_are_sent_once() {
        let batch = Batch::new();
        let live = &batch.live;
        // Two blocks, their nulls, the metadata and the header.
        assert_eq!(batch.ask(&[(2, live), (1, live), (2, live), (1, live)]).await, [5]);
        assert_eq!(batch.ask(&[(2, live), (2, live)]).await, [4]);
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_a_fence_that_nobody_sends_is_told_in_time() {
        let Batch { shards, live, .. } = Batch::new();
        let header = *shards.all[0].filter.load_full().unwrap();
        shards.all[0].copies.put(copy_of(header, &live.identity.digester, 10));
        let ids = [1, 2].map(|n| Id::display(&n).unwrap());
        let (shards, begun) = (Arc::new(shards), Instant::now());
        let lookups = shards.check(&ids.each_ref().map(|id| (id, None)), begun).answer().await;
        let late = |lookup: &Lookup| lookup.verdict == Verdict::Unknown(Doubt::Timeout);
        assert!(lookups.len() == 2 && lookups.iter().all(late), "{lookups:?}");
        assert!(begun.elapsed() <= shards.check_deadline + Duration::from_millis(1));
    }

    #[tokio::test(start_paused = true)]
    async fn checks_of_another_connection_are_not_sent() {
        let batch = Batch::new();
        let other = joined(Arc::clone(&batch.redis) as Arc<dyn Transport>, 1, b"first", 0);
        assert_eq!(batch.ask(&[(1, &other), (2, &batch.live)]).await, [4]);
        assert_eq!(batch.ask(&[(1, &other), (2, &other)]).await, [0; 0]);
    }
}
