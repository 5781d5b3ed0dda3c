//! A batch: its questions to shards, and the answers to its checks.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use smallvec::SmallVec;
use tokio::time::timeout;

use super::answer::{self, BYTES_A_FILTER, BYTES_AN_ID, BatchReply, FEW, Head, Question, commands};
use crate::error::StoreError;
use crate::filter::Header;
use crate::id::Digest;
use crate::refusal::Refusal;
use crate::store::Lookup;
use crate::store::link::node::{Checks, refuse};
use crate::store::link::queue;
use crate::store::link::refusal::serves_no_slot;
use crate::store::link::resp::Packed;
use crate::store::link::session::Purpose;
use crate::store::redis::connection::{Connection, Identities, JoinedAll, NodeSession, RedisNode};
use crate::store::redis::shard::Shard;
use crate::store::redis::shards::Shards;
use crate::verdict::{Doubt, Verdict};

type PendingCheck = queue::PendingCheck<Identities, Digest>;

/// What a batch asks of one shard.
struct Part<'a> {
    shard: &'a Shard,
    connection: Result<Connection, Doubt>,
    /// Each id once.
    asked: SmallVec<[Digest; FEW]>,
    callers: usize,
    /// Whether an absence could be believed before the question was sent: a replay may end before the answer comes.
    believed: Result<(), Doubt>,
    question: Option<Question<'a>>,
    /// Whether it is to be asked: at first, and again where the filter was replaced.
    is_due: bool,
    /// The answer for each id, so far.
    answer: Result<SmallVec<[Lookup; FEW]>, Doubt>,
}

impl Checks for Shards {
    type Identity = Identities;
    type Asked = Digest;

    async fn answer(
        &self,
        node: &Arc<RedisNode>,
        live: &Arc<JoinedAll>,
        checks: &mut Vec<PendingCheck>,
    ) {
        let shared = Arc::new(NodeSession { node: Arc::clone(node), on: Arc::clone(live) });
        // Checks of one id share a place in the commands, and the reply. This order is that of the shards, too.
        checks.sort_unstable_by_key(|check| check.asked);
        let shard = |check: &PendingCheck| check.asked.shard(self.all.len());
        let mut parts = SmallVec::<[Part<'_>; 1]>::new();
        for checks in checks.chunk_by(|one, other| shard(one) == shard(other)) {
            if let Some(shard) = checks.first().and_then(|check| self.all.get(shard(check))) {
                parts.push(Part::new(shard, Arc::clone(&shared), checks));
            }
        }
        let deadline = node.check_deadline;
        // In a cluster the keys of shards are in different slots, and no command may name those of two.
        let at_once = if self.groups.slots.is_some() { 1 } else { self.all.len() };
        timeout(deadline, ask_twice(&mut parts, at_once, deadline)).await.ok();
        let mut checks = checks.drain(..);
        for part in &parts {
            part.tell(checks.by_ref().take(part.callers));
        }
    }
}

impl<'a> Part<'a> {
    fn new(shard: &'a Shard, shared: Arc<NodeSession>, checks: &[PendingCheck]) -> Self {
        let connection = Connection::of(shared, Purpose::Checks, shard.number)
            .map_err(|trouble| trouble.doubt());
        let mut asked: SmallVec<[Digest; FEW]> = checks.iter().map(|check| check.asked).collect();
        asked.dedup();
        let callers = checks.len();
        let mut part = Self {
            shard,
            connection,
            asked,
            callers,
            believed: Ok(()),
            question: None,
            is_due: true,
            answer: Err(Doubt::Timeout),
        };
        part.believed = part.believes();
        part
    }

    fn believes(&self) -> Result<(), Doubt> {
        let connection = self.connection.as_ref().map_err(|doubt| *doubt)?;
        self.shard.believes(connection)
    }

    /// Reads which filter is live, and prepares the question to it.
    async fn look(&mut self, deadline: Duration) {
        let Ok(connection) = &self.connection else { return };
        let view = self.shard.read_view(connection, deadline, &[]).await;
        let live = view.map_err(|error| error.doubt());
        match live.and_then(|view| self.shard.live_in(&view, connection)) {
            Ok(header) => self.prepare(self.shard.adopt(&header)),
            Err(doubt) => self.answer = Err(doubt),
        }
    }

    /// Prepares the question to a filter.
    fn prepare(&mut self, header: Arc<Header>) {
        let Ok(connection) = &self.connection else { return };
        let positions = self.asked.iter().map(|id| header.geometry.position(id)).collect();
        let known = self.shard.known.seen.last_in(&connection.identity.incarnation);
        let digests = self.asked.clone();
        let keys = &self.shard.known.keys;
        self.question = Some(Question { keys, header, digests, positions, known });
    }

    /// Notes why Redis said nothing.
    fn fail(&mut self, error: &StoreError) {
        if let (Some(_), Ok(connection)) = (&self.question, &self.connection) {
            self.shard.heed(error, connection);
            self.take(Err(error.doubt()));
        }
    }

    fn take(&mut self, said: Result<BatchReply, Doubt>) {
        let Some(Question { header, known, .. }) = self.question.take() else { return };
        self.is_due = matches!(said, Err(Doubt::Suspect));
        let connection = self.connection.as_ref().map_err(|doubt| *doubt);
        let said = connection.and_then(|connection| {
            let head = said.as_ref().map_err(|doubt| *doubt).map(|said| &said.head);
            self.shard.judge(&header, known, head, connection).and(said)
        });
        let lookup = |(verdict, scope)| Lookup::of(verdict, scope, Some(header.generation));
        self.answer = said.map(|said| said.verdicts.into_iter().map(lookup).collect());
    }

    /// Answers the checks, which are in the order of their digests. Absence is only said where it was believed before the question
    /// was sent, and is now.
    fn tell(&self, checks: impl Iterator<Item = PendingCheck>) {
        let found = match &self.answer {
            Ok(found) => found,
            Err(doubt) => {
                if *doubt != Doubt::Timeout {
                    self.shard.note_doubt(*doubt);
                }
                return refuse(checks, *doubt);
            }
        };
        let believes = self.believed.and_then(|()| self.believes());
        let mut said = self.asked.iter().zip(found).peekable();
        for check in checks {
            while said.next_if(|(asked, _)| **asked != check.asked).is_some() {}
            let answer = match (said.peek(), believes) {
                (Some((_, Lookup { verdict: Verdict::Absent(_), .. })), Err(doubt)) => {
                    Lookup::unknown(doubt)
                }
                (Some((_, lookup)), _) => **lookup,
                (None, _) => Lookup::unknown(Doubt::Refused(Refusal::ODD)),
            };
            check.answer.send(answer).ok();
        }
    }
}

impl Shard {
    /// Heeds that Redis said nothing of the filter. A shard that the node does not serve is left at once: the node may serve it again,
    /// without the inserts that came elsewhere.
    pub(super) fn heed(&self, error: &StoreError, connection: &Connection) {
        match error {
            // Replies and commands are out of step.
            StoreError::GivenUp { .. } => connection.node.link.withdraw(&connection.on),
            StoreError::Refused { reason, .. } if serves_no_slot(reason) => {
                self.withdraw(connection);
            }
            _ => {}
        }
    }

    /// Judges what metadata and header say of the filter; `known` is the last number that was known before it was asked.
    pub(super) fn judge(
        &self,
        header: &Arc<Header>,
        known: i64,
        said: Result<&Head, Doubt>,
        connection: &Connection,
    ) -> Result<(), Doubt> {
        let vouched = said.and_then(|head| head.vouches_for(header, connection));
        if let Err(
            Doubt::Suspect
            | Doubt::Disproved
            | Doubt::DisprovedTwice
            | Doubt::Damaged
            | Doubt::OtherKey,
        ) = vouched
        {
            // The header that this process knows is outdated, unless it was replaced already.
            self.filter.compare_and_swap(header, None::<Arc<Header>>);
        }
        vouched?;
        let head = said?;
        if !head.holds_all(connection) || head.last < known {
            // Metadata or bits are others, or older copies: the next join finds out what has happened.
            self.withdraw(connection);
            return Err(Doubt::Suspect);
        }
        self.known.seen.note(&connection.identity.incarnation, head.stamp);
        Ok(())
    }
}

/// Asks all shards, and once more those whose filter was replaced since this process last looked.
async fn ask_twice(parts: &mut [Part<'_>], at_once: usize, deadline: Duration) {
    for _ in 0..2 {
        // Headers are read only where none is known.
        let mut looks = Vec::new();
        for part in parts.iter_mut().filter_map(|part| mem::take(&mut part.is_due).then_some(part))
        {
            match (&part.connection, part.shard.filter.load_full()) {
                (Err(doubt), _) => part.answer = Err(*doubt),
                (Ok(_), Some(header)) => part.prepare(header),
                (Ok(_), None) => looks.push(part.look(deadline)),
            }
        }
        join_all(looks).await;
        ask(parts, at_once, deadline).await;
    }
}

/// Sends all questions at once. A command names keys of `at_once` shards at most.
async fn ask(parts: &mut [Part<'_>], at_once: usize, deadline: Duration) {
    let mut open = parts.iter().filter(|part| part.question.is_some());
    // All are of one node.
    let Some(Part { connection: Ok(connection), .. }) = open.next() else { return };
    let is_one = open.next().is_none();
    let said = send(parts, connection, at_once, deadline).await;
    match said {
        Ok(said) => {
            let open = parts.iter_mut().filter(|part| part.question.is_some());
            open.zip(said).for_each(|(part, said)| part.take(said));
        }
        // Redis may refuse one shard and serve the others.
        Err(StoreError::Refused { .. }) if !is_one => {
            let each = parts.chunks_mut(1);
            join_all(each.map(|part| Box::pin(ask(part, at_once, deadline)))).await;
        }
        Err(error) => parts.iter_mut().for_each(|part| part.fail(&error)),
    }
}

async fn send(
    parts: &[Part<'_>],
    connection: &Connection,
    at_once: usize,
    deadline: Duration,
) -> Result<SmallVec<[Result<BatchReply, Doubt>; 1]>, StoreError> {
    let questions: SmallVec<[&Question<'_>; 1]> =
        parts.iter().filter_map(|part| part.question.as_ref()).collect();
    let bytes = questions.iter().map(|of| of.digests.len() * BYTES_AN_ID + BYTES_A_FILTER);
    let mut packed = Packed::with_capacity(bytes.sum());
    questions.chunks(at_once).for_each(|questions| commands(&mut packed, questions));
    let mut replies = connection.send(packed, deadline).await?.into_iter();
    let mut said = SmallVec::new();
    for questions in questions.chunks(at_once) {
        said.extend(answer::read(&mut replies, questions)?);
    }
    Ok(said)
}

#[cfg(test)]
mod tests;
