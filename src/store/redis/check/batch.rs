//! One batch: what is asked of which shard, and what becomes of each check.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use smallvec::SmallVec;
use tokio::time::timeout;

use super::answer::{
    self, BYTES_A_FILTER, BYTES_A_PAGE, BYTES_AN_ID, BatchReply, FEW, Head, Inquiry, commands,
};
use crate::error::StoreError;
use crate::filter::{Header, Membership, Position};
use crate::id::Digest;
use crate::nulls::scope::Scope;
use crate::refusal::Refusal;
use crate::store::Lookup;
use crate::store::link::node::{Checks, refuse};
use crate::store::link::queue;
use crate::store::link::refusal::serves_no_slot;
use crate::store::link::resp::Packed;
use crate::store::link::session::Purpose;
use crate::store::redis::connection::{Asked, Connection, NodeSession, RedisNode};
use crate::store::redis::copy::FilterCopy;
use crate::store::redis::incarnation::identity::{Identities, JoinedAll};
use crate::store::redis::shard::Shard;
use crate::store::redis::shards::Shards;
use crate::verdict::{Doubt, Proof, Verdict};

/// A check that waits in the queue, and then in a batch.
type PendingCheck = queue::PendingCheck<Identities, Asked>;

/// What a batch asks of one shard.
pub(super) struct Part<'a> {
    shard: &'a Shard,
    /// The shard's connection, if it has joined it.
    connection: Result<Connection, Doubt>,
    /// Each once.
    asked: SmallVec<[Asked; FEW]>,
    /// How many wait for the answers.
    callers: usize,
    /// Whether an absence could be believed before it was asked for: an answer from before the replay may be read after it.
    pub(super) believed: Result<(), Doubt>,
    /// What is asked, while there is no answer to it.
    question: Option<Question>,
    /// Whether another filter answered than the one that was asked, or a fence proved nothing.
    is_open: bool,
    /// Whether a fence has brought a copy up to the last insert.
    pub(super) is_proven: bool,
    /// What there is to say of each id, so far, and whether a fence has said it.
    answer: Result<SmallVec<[(Lookup, bool); FEW]>, Doubt>,
}

/// What is asked of a shard's filter.
struct Question {
    header: Arc<Header>,
    /// Those that are asked for one by one, and where their bits are.
    digests: SmallVec<[Digest; FEW]>,
    positions: SmallVec<[Position; FEW]>,
    /// The copy that is brought up to the last insert, and from where on.
    fence: Option<(Arc<FilterCopy>, i64)>,
    /// The number of the last insert that was known before.
    known: i64,
}

impl Checks for Shards {
    type Identity = Identities;
    type Asked = Asked;

    fn has_copy(&self) -> bool {
        // Of one for all: each lone check asks this.
        let shard = &self.all[0];
        shard.filter.load().as_ref().is_some_and(|live| shard.copies.to_fence(live).is_some())
    }

    async fn answer(
        &self,
        node: &Arc<RedisNode>,
        live: &Arc<JoinedAll>,
        checks: &mut Vec<PendingCheck>,
    ) {
        let shared = NodeSession::new(Arc::clone(node), Arc::clone(live));
        // Checks of one id share a place in the commands, and the reply. This order is that of the shards, too.
        checks.sort_unstable_by_key(|check| *check.asked.digest.as_bytes());
        let shard = |check: &PendingCheck| check.asked.digest.shard(self.all.len());
        let mut parts = SmallVec::<[Part<'_>; 1]>::new();
        for checks in checks.chunk_by(|one, other| shard(one) == shard(other)) {
            if let Some(shard) = checks.first().and_then(|check| self.all.get(shard(check))) {
                parts.push(Part::new(shard, Arc::clone(&shared), checks));
            }
        }
        let deadline = node.check_deadline;
        // Keys of how many shards one command may name: in a cluster they are in different slots.
        let at_once = if self.groups.slots.is_some() { 1 } else { self.all.len() };
        // What is not answered by then says so.
        timeout(deadline, ask_twice(&mut parts, at_once, deadline)).await.ok();
        let mut checks = checks.drain(..);
        for part in &parts {
            part.tell(checks.by_ref().take(part.callers));
        }
    }
}

impl<'a> Part<'a> {
    pub(super) fn new(shard: &'a Shard, shared: Arc<NodeSession>, checks: &[PendingCheck]) -> Self {
        let connection =
            Connection::of(shared, Purpose::Checks, shard.number).map_err(|trouble| trouble.doubt);
        let mut asked: SmallVec<[Asked; FEW]> = checks.iter().map(|check| check.asked).collect();
        asked.dedup_by(|one, kept| {
            let is_one = one.digest == kept.digest;
            kept.by_copy &= one.by_copy || !is_one;
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
            is_open: false,
            is_proven: false,
            answer: Err(Doubt::Timeout),
        };
        part.believed = part.believes();
        part
    }

    /// Whether an absence may be believed at this moment.
    fn believes(&self) -> Result<(), Doubt> {
        let connection = self.connection.as_ref().map_err(|doubt| *doubt)?;
        self.shard.believes(connection)
    }

    /// Looks at Redis which filter is live, and puts the question to it.
    async fn look(&mut self, deadline: Duration) {
        let Ok(connection) = &self.connection else { return };
        let view = self.shard.read_view(connection, deadline).await;
        let live = view.map_err(|error| error.doubt());
        match live.and_then(|view| self.shard.live_in(&view, connection)) {
            Ok(header) => self.put(self.shard.adopt(&header), None),
            Err(doubt) => self.answer = Err(doubt),
        }
    }

    /// Puts the question to a filter; a fence answers for what a copy of it lacks.
    pub(super) fn put(&mut self, header: Arc<Header>, copy: Option<Arc<FilterCopy>>) {
        let Ok(connection) = &self.connection else { return };
        let fence = copy.and_then(|copy| copy.position().map(|since| (copy, since)));
        let lacks = |asked: &Asked| {
            let copy = fence.as_ref().filter(|_| asked.by_copy);
            copy.is_some_and(|(copy, _)| copy.lookup(&asked.digest) == Membership::Never)
        };
        let by_id = self.asked.iter().filter(|asked| !lacks(asked)).map(|asked| asked.digest);
        let digests: SmallVec<[Digest; FEW]> = by_id.collect();
        let positions = digests.iter().map(|digest| header.geometry.position(digest)).collect();
        // A copy is also brought up where nobody asks.
        let fence = fence.filter(|_| self.asked.is_empty() || digests.len() < self.asked.len());
        let known = self.shard.known.seen.last_in(&connection.identity.incarnation);
        self.question = Some(Question { header, digests, positions, fence, known });
    }

    /// Returns the copy by which a fence may answer, where somebody asks for what it may answer.
    fn copy(&self, live: &Header) -> Option<Arc<FilterCopy>> {
        let may = self.believed.is_ok() && self.asked.iter().any(|asked| asked.by_copy);
        may.then(|| self.shard.copies.to_fence(live)).flatten()
    }

    /// Returns what is asked, while there is no answer to it.
    fn inquiry(&self) -> Option<Inquiry<'_>> {
        let Question { header, digests, positions, fence, .. } = self.question.as_ref()?;
        let incarnation = &self.connection.as_ref().ok()?.identity.incarnation;
        let keys = &self.shard.known.keys;
        let since = fence.as_ref().map(|(_, since)| *since);
        Some(Inquiry { keys, header, incarnation, digests, positions, since })
    }

    /// Takes in why Redis said nothing. What it does not serve is left at once: it may serve it again, without what it took
    /// elsewhere.
    fn fail(&mut self, error: &StoreError) {
        if self.question.is_none() {
            return;
        }
        if let (StoreError::Refused { reason, .. }, Ok(connection)) = (error, &self.connection)
            && self.shard.of > 1
            && serves_no_slot(reason)
        {
            self.shard.withdraw(connection);
        }
        self.take(Err(error.doubt()));
    }

    /// Takes in what Redis said.
    fn take(&mut self, said: Result<BatchReply, Doubt>) {
        let Some(question) = self.question.take() else { return };
        let Question { header, digests, fence, known, .. } = question;
        let is_replaced = matches!(said, Err(Doubt::Suspect));
        let connection = self.connection.as_ref().map_err(|doubt| *doubt);
        let said = connection.and_then(|connection| {
            let head = said.as_ref().map_err(|doubt| *doubt).map(|said| said.head);
            self.shard.judge(&header, known, head, connection).and(said)
        });
        let proven = fence.and_then(|(copy, since)| {
            let takes = |said: &BatchReply| {
                self.believes().is_ok() && copy.takes(&said.page, said.head, since)
            };
            let is_proven = said.as_ref().is_ok_and(takes);
            copy.falls_behind(!is_proven);
            is_proven.then_some(copy)
        });
        self.is_proven = proven.is_some();
        let is_unproven = proven.is_none() && digests.len() < self.asked.len();
        self.is_open = is_replaced || is_unproven && said.is_ok();
        self.answer =
            said.map(|said| self.found(&header, &digests, &said.verdicts, proven.as_deref()));
    }

    /// Returns what there is to say of each id: by itself, or by what a copy lacks or holds that a fence has brought up.
    fn found(
        &self,
        header: &Header,
        digests: &[Digest],
        verdicts: &[(Verdict, Scope)],
        proven: Option<&FilterCopy>,
    ) -> SmallVec<[(Lookup, bool); FEW]> {
        let mut by_id = digests.iter().zip(verdicts).peekable();
        let present = by_id.clone().filter(|(_, (verdict, _))| *verdict == Verdict::Present);
        let is_of = |copy: &Header| copy.is_same_build(header);
        self.shard.copies.hold(is_of, present.map(|(digest, _)| digest));
        let generation = Some(header.generation);
        let of = |asked: &Asked| {
            if let Some((_, (verdict, scope))) = by_id.next_if(|(of, _)| **of == asked.digest) {
                return (Lookup::of(*verdict, *scope, generation), false);
            }
            let by_fence = match proven.map(|copy| copy.lookup(&asked.digest)) {
                Some(Membership::Never) => {
                    Lookup::of(Verdict::Absent(Proof::Filter), Scope::Everyone, generation)
                }
                // It teaches no null.
                Some(Membership::Possible) => Lookup::of(Verdict::Present, Scope::Everyone, None),
                None => Lookup::unknown(Doubt::Timeout),
            };
            (by_fence, true)
        };
        self.asked.iter().map(of).collect()
    }

    /// Tells each check what was found of its digest, in whose order both are. Absence is only said where it was believed before,
    /// and is now.
    fn tell(&self, checks: impl Iterator<Item = PendingCheck>) {
        let found = match &self.answer {
            Ok(_) if self.is_open => return refuse(checks, Doubt::Timeout),
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
        // How many a fence has answered, and an id of theirs.
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
    /// Takes in what was said of the filter with this header, on a connection which knew of this number before it asked.
    pub(super) fn judge(
        &self,
        header: &Arc<Header>,
        known: i64,
        said: Result<Head, Doubt>,
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
            // The header this process knows says otherwise: it is not to be shown any more.
            self.forget(header);
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
}

/// Asks, and asks those once more whose filter was replaced since this process last looked, or whose fence proved nothing.
async fn ask_twice(parts: &mut [Part<'_>], at_once: usize, deadline: Duration) {
    put(parts, |_| true, deadline).await;
    ask(parts, at_once, deadline).await;
    put(parts, |part| part.is_open, deadline).await;
    ask(parts, at_once, deadline).await;
}

/// Puts questions, most of them without a look at Redis.
async fn put(parts: &mut [Part<'_>], to: impl Fn(&Part<'_>) -> bool, deadline: Duration) {
    let mut looks = Vec::new();
    // A lone id is cheaper by itself.
    let is_lone = matches!(&*parts, [part] if part.asked.len() == 1);
    for part in parts.iter_mut().filter(|part| to(part)) {
        match (&part.connection, part.shard.filter.load_full()) {
            (Err(doubt), _) => part.answer = Err(*doubt),
            (Ok(_), Some(header)) => {
                let copy = if part.is_open || is_lone { None } else { part.copy(&header) };
                part.put(header, copy);
            }
            (Ok(_), None) => looks.push(part.look(deadline)),
        }
    }
    join_all(looks).await;
}

/// Asks what was put to any shard, in one go. A command names keys of `at_once` shards at most.
pub(super) async fn ask(parts: &mut [Part<'_>], at_once: usize, deadline: Duration) {
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

/// Sends what was put, and reads what Redis says to each part that asks.
async fn send(
    parts: &[Part<'_>],
    connection: &Connection,
    at_once: usize,
    deadline: Duration,
) -> Result<SmallVec<[Result<BatchReply, Doubt>; 1]>, StoreError> {
    let inquiries: SmallVec<[Inquiry<'_>; 1]> = parts.iter().filter_map(Part::inquiry).collect();
    let callers = parts.iter().filter(|part| part.question.is_some()).map(|part| part.callers);
    let bytes = inquiries.iter().map(|of| of.digests.len() * BYTES_AN_ID + BYTES_A_FILTER);
    let mut packed = Packed::with_capacity(bytes.sum());
    inquiries.chunks(at_once).for_each(|inquiries| commands(&mut packed, inquiries));
    let fences = inquiries.iter().filter(|of| of.since.is_some()).count();
    let packed = packed.for_long_replies(fences * BYTES_A_PAGE);
    let callers = callers.sum::<usize>().max(1);
    let mut replies = connection.send(callers, packed, deadline).await?.into_iter();
    let mut said = SmallVec::new();
    for inquiries in inquiries.chunks(at_once) {
        said.extend(answer::read(&mut replies, inquiries)?);
    }
    Ok(said)
}

#[cfg(test)]
mod tests;
