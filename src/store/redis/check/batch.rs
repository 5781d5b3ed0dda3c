//! A batch: its questions to shards, and the answers to its checks.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use smallvec::SmallVec;
use tokio::time::timeout;

use super::answer::{
    self, BYTES_A_FILTER, BYTES_A_PAGE, BYTES_AN_ID, BatchReply, FEW, Head, Question, commands,
};
use crate::error::StoreError;
use crate::filter::{Header, Membership};
use crate::id::Digest;
use crate::nulls::scope::Scope;
use crate::refusal::Refusal;
use crate::store::Lookup;
use crate::store::link::node::{Checks, refuse};
use crate::store::link::queue;
use crate::store::link::refusal::serves_no_slot;
use crate::store::link::resp::Packed;
use crate::store::link::session::Purpose;
use crate::store::redis::connection::{
    Asked, Connection, Identities, JoinedAll, NodeSession, RedisNode,
};
use crate::store::redis::copy::FilterCopy;
use crate::store::redis::shard::Shard;
use crate::store::redis::shards::Shards;
use crate::verdict::{Doubt, Proof, Verdict};

type PendingCheck = queue::PendingCheck<Asked>;

pub(super) struct Part<'a> {
    shard: &'a Shard,
    connection: Result<Connection, Doubt>,
    /// Each id once.
    asked: SmallVec<[Asked; FEW]>,
    callers: usize,
    /// Whether an absence could be believed before the question was sent: a replay may end before the answer comes.
    pub(super) believed: Result<(), Doubt>,
    question: Option<Question<'a>>,
    /// Whether it is to be asked: at first, and again where the filter was replaced, or a fence proved nothing.
    is_due: bool,
    /// Whether a fence has brought a copy up to the last insert.
    pub(super) is_proven: bool,
    /// The answer for each id, so far, and whether a fence gave it.
    answer: Result<SmallVec<[(Lookup, bool); FEW]>, Doubt>,
}

impl Checks for Shards {
    type Identity = Identities;
    type Asked = Asked;

    fn has_copy(&self) -> bool {
        // The first shard stands for all: each lone check asks this.
        let shard = &self.all[0];
        shard.filter.load().as_ref().is_some_and(|live| shard.copies.to_fence(live).is_some())
    }

    async fn answer(
        &self,
        node: &Arc<RedisNode>,
        live: &Arc<JoinedAll>,
        checks: &mut Vec<PendingCheck>,
    ) {
        let shared = Arc::new(NodeSession { node: Arc::clone(node), on: Arc::clone(live) });
        // Checks of one id share a place in the commands, and the reply. This order is that of the shards, too.
        checks.sort_unstable_by_key(|check| *check.asked.digest.as_bytes());
        let shard = |check: &PendingCheck| check.asked.digest.shard(self.all.len());
        let mut parts = SmallVec::<[Part<'_>; 1]>::new();
        for checks in checks.chunk_by(|one, other| shard(one) == shard(other)) {
            let shard = &self.all[shard(&checks[0])];
            parts.push(Part::new(shard, Arc::clone(&shared), checks));
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
    pub(super) fn new(shard: &'a Shard, shared: Arc<NodeSession>, checks: &[PendingCheck]) -> Self {
        let connection = Connection::of(shared, Purpose::Checks, shard.number)
            .map_err(|trouble| trouble.doubt());
        let mut asked: SmallVec<[Asked; FEW]> = checks.iter().map(|check| check.asked).collect();
        asked.dedup_by(|one, kept| {
            let is_one = one.digest == kept.digest;
            kept.may_fence &= one.may_fence || !is_one;
            is_one
        });
        let callers = checks.len();
        let mut part = Self {
            shard,
            connection,
            asked,
            callers,
            believed: Ok(()),
            question: None,
            is_due: true,
            is_proven: false,
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
            Ok(header) => self.prepare(self.shard.adopt(&header), None),
            Err(doubt) => self.answer = Err(doubt),
        }
    }

    /// Prepares the question to a filter; a fence answers for what a copy of it lacks.
    pub(super) fn prepare(&mut self, header: Arc<Header>, copy: Option<Arc<FilterCopy>>) {
        let Ok(connection) = &self.connection else { return };
        let fence = copy.and_then(|copy| copy.position().map(|since| (copy, since)));
        let lacks = |asked: &Asked| {
            let copy = fence.as_ref().filter(|_| asked.may_fence);
            copy.is_some_and(|(copy, _)| copy.lookup(&asked.digest) == Membership::Never)
        };
        let by_id = self.asked.iter().filter(|asked| !lacks(asked)).map(|asked| asked.digest);
        let digests: SmallVec<[Digest; FEW]> = by_id.collect();
        let positions = digests.iter().map(|digest| header.geometry.position(digest)).collect();
        // A copy is also brought up where nobody asks.
        let fence = fence.filter(|_| self.asked.is_empty() || digests.len() < self.asked.len());
        let known = self.shard.known.seen.last_in(&connection.identity.incarnation);
        let keys = &self.shard.known.keys;
        self.question = Some(Question { keys, header, digests, positions, fence, known });
    }

    fn take(&mut self, said: Result<BatchReply, Doubt>) {
        let Some(question) = self.question.take() else { return };
        let Question { header, digests, fence, known, .. } = question;
        let is_replaced = matches!(said, Err(Doubt::Suspect));
        let connection = self.connection.as_ref().map_err(|doubt| *doubt);
        let said = connection.and_then(|connection| {
            let head = said.as_ref().map_err(|doubt| *doubt).map(|said| &said.head);
            self.shard.judge(&header, known, head, connection).and(said)
        });
        if let (Ok(said), Ok(connection), Ok(())) = (&said, connection, self.believed)
            && self.shard.is_behind(&said.head, connection)
        {
            connection.node.link.look_now();
            self.believed = Err(Doubt::Refused(Refusal::OTHER));
        }
        self.is_proven = fence.is_some_and(|(copy, since)| {
            let takes = |said: &BatchReply| {
                self.believes().is_ok() && copy.take_page(&said.page, &said.head, since)
            };
            let is_proven = said.as_ref().is_ok_and(takes);
            copy.note_behind(!is_proven);
            is_proven
        });
        let is_unproven = !self.is_proven && digests.len() < self.asked.len();
        self.is_due = is_replaced || is_unproven && said.is_ok();
        self.answer = said.map(|said| self.found(&header, &digests, &said));
    }

    /// Returns the answer for each id: by its own bits, or by a fence. The copy lacked it up to where the fence's page begins.
    fn found(
        &self,
        header: &Header,
        digests: &[Digest],
        said: &BatchReply,
    ) -> SmallVec<[(Lookup, bool); FEW]> {
        let mut by_id = digests.iter().zip(&said.verdicts).peekable();
        let generation = Some(header.generation);
        let of = |asked: &Asked| {
            if let Some((_, (verdict, scope))) = by_id.next_if(|(of, _)| **of == asked.digest) {
                return (Lookup::of(*verdict, *scope, generation), false);
            }
            let by_fence = if !self.is_proven {
                Lookup::unknown(Doubt::Timeout)
            } else if said.page.digests.binary_search(&asked.digest).is_ok() {
                // It teaches no null.
                Lookup::of(Verdict::Present, Scope::Everyone, None)
            } else {
                Lookup::of(Verdict::Absent(Proof::Filter), Scope::Everyone, generation)
            };
            (by_fence, self.is_proven)
        };
        self.asked.iter().map(of).collect()
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
        // How many ids a fence has answered for, and the last one.
        let mut fenced = None;
        for check in checks {
            while said.next_if(|(asked, _)| asked.digest != check.asked.digest).is_some() {}
            let answer = match (said.peek(), believes) {
                (Some((_, (Lookup { verdict: Verdict::Absent(_), .. }, _))), Err(doubt)) => {
                    Lookup::unknown(doubt)
                }
                (Some((asked, (lookup, by_fence))), _) => {
                    if *by_fence {
                        fenced = Some((fenced.map_or(0, |(ids, _)| ids) + 1, asked.digest));
                    }
                    *lookup
                }
                (None, _) => Lookup::unknown(Doubt::Refused(Refusal::ODD)),
            };
            check.answer.send(answer).ok();
        }
        if let (Some((ids, sample)), Ok(connection)) = (fenced, &self.connection) {
            self.shard.copies.answered(ids, connection.identity.digester.keyed(sample));
        }
    }
}

impl Shard {
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
            connection.withdraw();
            return Err(Doubt::Suspect);
        }
        self.known.seen.note(&connection.identity.incarnation, head.stamp);
        Ok(())
    }

    /// Whether the fleet's mode is newer than the one that is known, or the filter settles again: a machine that was suspended has not
    /// been told yet, as its clock stood still.
    fn is_behind(&self, head: &Head, connection: &Connection) -> bool {
        let (_, known) = self.known.common.mode.numbered();
        let has_settled = connection.identity.fleet.load().settles_ms.is_none();
        head.mode_number > known || head.settles_ms > 0 && has_settled
    }
}

/// Asks all shards, and once more those whose filter was replaced since this process last looked, or whose fence proved nothing.
async fn ask_twice(parts: &mut [Part<'_>], at_once: usize, deadline: Duration) {
    // A lone id is cheaper by itself.
    let is_lone = matches!(&*parts, [part] if part.asked.len() == 1);
    for may_fence in [!is_lone, false] {
        // Headers are read only where none is known.
        let mut looks = Vec::new();
        for part in parts.iter_mut().filter_map(|part| mem::take(&mut part.is_due).then_some(part))
        {
            match (&part.connection, part.shard.filter.load_full()) {
                (Err(doubt), _) => part.answer = Err(*doubt),
                (Ok(_), Some(header)) => {
                    let may = may_fence && part.believed.is_ok();
                    let may = may && part.asked.iter().any(|asked| asked.may_fence);
                    let copy = may.then(|| part.shard.copies.to_fence(&header)).flatten();
                    part.prepare(header, copy);
                }
                (Ok(_), None) => looks.push(part.look(deadline)),
            }
        }
        join_all(looks).await;
        ask(parts, at_once, deadline).await;
    }
}

/// Sends all questions at once. A command names keys of `at_once` shards at most.
pub(super) async fn ask(parts: &mut [Part<'_>], at_once: usize, deadline: Duration) {
    let mut open = parts.iter().filter(|part| part.question.is_some());
    // All are of one node.
    let Some(Part { connection: Ok(connection), .. }) = open.next() else { return };
    let is_one = open.next().is_none();
    let said = send(parts, connection, at_once, deadline).await;
    if let Err(StoreError::GivenUp { .. }) = said {
        // Replies and commands are out of step.
        connection.node.link.withdraw(&connection.on);
    }
    match said {
        Ok(said) => {
            let open = parts.iter_mut().filter(|part| part.question.is_some());
            open.zip(said).for_each(|(part, said)| part.take(said));
        }
        // Redis may refuse one shard and serve the others.
        Err(ref error @ StoreError::Refused { .. }) if !is_one => {
            let each = parts.chunks_mut(1);
            join_all(each.map(|part| Box::pin(ask(part, at_once, deadline)))).await;
            let mut asked = parts.iter().filter_map(|part| part.connection.as_ref().ok());
            // The slot is back, perhaps without the inserts that came elsewhere.
            if serves_no_slot(error)
                && let Some(first) = asked.next()
                && first.is_joined()
                && asked.all(Connection::is_joined)
            {
                first.node.link.withdraw(&first.on);
            }
        }
        Err(error) => parts.iter_mut().for_each(|part| part.take(Err(error.doubt()))),
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
    let fences = questions.iter().filter(|of| of.fence.is_some()).count();
    let packed = packed.for_long_replies(fences * BYTES_A_PAGE);
    let replies = match questions.len() {
        1 => connection.send(packed, deadline).await?,
        // Which of several an error is about shows when each is asked.
        _ => connection.node.link.ask(Purpose::Checks, &connection.on, packed, deadline).await?,
    };
    let mut replies = replies.into_iter();
    let mut said = SmallVec::new();
    for questions in questions.chunks(at_once) {
        said.extend(answer::read(&mut replies, questions)?);
    }
    Ok(said)
}

#[cfg(test)]
mod tests;
