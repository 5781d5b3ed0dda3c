//! The part of a filter on one Redis: its connections, its checks and its inserts.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::redis::Cmd;
use tokio::time::{Instant, timeout_at};

use super::layout::Place;
use super::size::{BloomSize, rate};
use super::statement::{Evidence, Known, Part, Statement};
use crate::error::StoreError;
use crate::filter::Generation;
use crate::nulls::scope::Scope;
use crate::refusal::Refusal;
use crate::settings::Settings;
use crate::store::link::attempts::{ATTEMPT, Attempts, IDS_PER_CALL};
use crate::store::link::connection;
use crate::store::link::node::{Checks, Node, SentCheck, refuse};
use crate::store::link::queue;
use crate::store::link::refusal::doubt;
use crate::store::link::reply::Reply;
use crate::store::link::transport::pipeline;
use crate::store::map::endpoint::Endpoint;
use crate::store::{Condition, Live, Lookup, NullClaim};
use crate::verdict::{Doubt, Proof, Verdict};

const STEP: &str = "another system's filter";
/// The bits of an id in the first of two rounds: of absent ids one in sixteen has them all.
const FIRST: usize = 4;
/// With smaller batches Redis is not busy: a second round would save it little, and have ids that exist wait twice as long.
const LARGE: usize = 8;
/// An answer that takes a larger part of the deadline leaves too little for another one.
const SOON: u32 = 4;

/// A connection on which there is nothing to learn.
pub(super) type Connection = connection::Connection<()>;
type PendingCheck = queue::PendingCheck<(), Asked, Verdict>;

/// What a check asks for, and what the place was computed by.
pub(super) struct Asked {
    known: Arc<Known>,
    place: Place,
}

/// The part of a filter on one Redis.
pub(super) struct Site {
    pub(super) part: Arc<Part>,
    pub(super) node: Arc<Node<(), Asked, Verdict>>,
    check_deadline: Duration,
    /// Whether most ids of the last batch were absent, and it was answered soon.
    is_flooded: AtomicBool,
}

impl Site {
    pub(super) fn new(part: Part, endpoint: &Endpoint, settings: &Settings) -> Self {
        let part = Arc::new(part);
        let key: Arc<str> = part.keys[0].1.as_str().into();
        let connector = endpoint.connector(move || Some(Arc::clone(&key)));
        let node = Node::new(&connector, settings, |_| Arc::<Part>::clone(&part));
        let (check_deadline, is_flooded) = (settings.check_deadline, AtomicBool::default());
        Self { part, node: Arc::new(node), check_deadline, is_flooded }
    }

    /// Asks what is known of an id; the answer comes within the deadline, whatever Redis does.
    pub(super) fn send(
        self: &Arc<Self>,
        id: &[u8],
        at: Instant,
        alone: bool,
    ) -> Result<SentToSite, Doubt> {
        let live = self.node.checks.current().ok_or(Doubt::Disconnected)?;
        let known = self.part.known().ok_or(Doubt::Disconnected)?;
        let generation = match self.part.trusted(&known) {
            Err(Doubt::NoFilter) => return Err(Doubt::NoFilter),
            stated => stated.ok().map(|stated| stated.generation),
        };
        let size = *known.size.as_ref().map_err(|_| Doubt::Damaged)?;
        let claim = NullClaim { asked_us: live.redis_us(at), generation };
        let asked = Asked { place: self.part.layout.place(size, id), known };
        let sent = self.node.check(self, live, asked, at + self.check_deadline, alone)?;
        Ok(SentToSite { sent, claim })
    }

    /// Returns the commands of a round: what an absence rests on, these bits of each place, those of one key side by side, and
    /// what an absence rests on once more.
    pub(super) fn round(&self, places: &[&Place], bits: &Range<usize>) -> Vec<Cmd> {
        let of_each_key = places.chunk_by(|one, other| one.key == other.key);
        let bits = of_each_key
            .map(|places| self.part.layout.ask(self.part.key(places[0].key), places, bits));
        self.part.ask().into_iter().chain(bits).chain(self.part.ask()).collect()
    }

    /// Reads the replies to a round: which places have all the bits, between what they were read.
    pub(super) fn read_round(
        &self,
        places: &[&Place],
        bits: &Range<usize>,
        replies: Vec<::redis::Value>,
    ) -> Result<(Vec<bool>, [Evidence; 2]), StoreError> {
        let mut replies = replies.into_iter();
        let before = self.part.read(&mut replies)?;
        let mut held = Vec::with_capacity(places.len());
        for places in places.chunk_by(|one, other| one.key == other.key) {
            let reply = Reply::new(STEP, replies.next().unwrap_or(::redis::Value::Nil));
            held.extend(self.part.layout.held(reply, places, bits)?);
        }
        Ok((held, [before, self.part.read(&mut replies)?]))
    }

    /// Asks for these bits of each place; returns which have them all, and whether what an absence rests on is as stated. Ends
    /// trust if it is not.
    async fn ask(
        &self,
        live: &Arc<Connection>,
        known: &Known,
        places: &[&Place],
        bits: &Range<usize>,
    ) -> Result<(Vec<bool>, Result<(), Doubt>), Doubt> {
        let floor = known.floor();
        let (commands, deadline) = (pipeline(self.round(places, bits)), self.check_deadline);
        let replies = self.node.checks.ask_for(places.len(), live, &commands, deadline).await;
        let read = replies.and_then(|replies| self.read_round(places, bits, replies));
        let (held, whole) = match read.map_err(|error| doubt(&error)) {
            Ok((held, evidence)) => {
                let judge = |one| self.part.judge(known, floor, one);
                let whole = evidence.iter().try_for_each(judge);
                (Ok((held, whole)), whole)
            }
            Err(lost @ (Doubt::Damaged | Doubt::Gone)) => (Err(lost), Err(lost)),
            Err(doubt) => return Err(doubt),
        };
        self.part.heed(&*live.transport(), known, whole).await;
        held
    }

    /// Acknowledges ids whose bits are all on the Redis that is asked for them.
    pub(super) async fn add(&self, ids: &[&[u8]]) -> Result<(), StoreError> {
        for ids in ids.chunks(IDS_PER_CALL) {
            let mut attempts = Attempts::default();
            while let Err(error) = self.try_add(ids).await {
                attempts.next_after(error).await?;
            }
        }
        Ok(())
    }

    async fn try_add(&self, ids: &[&[u8]]) -> Result<(), StoreError> {
        let (part, layout) = (&self.part, &self.part.layout);
        let connection = self.node.inserts.connected(ATTEMPT).await?;
        let known = part.known().ok_or_else(|| part.error("not looked at yet"))?;
        let size = *known.size.as_ref().map_err(|reason| part.error(reason))?;
        let places = self.places(size, ids);
        let of_each_key = places.chunk_by(|one, other| one.key == other.key);
        let adds: Vec<Cmd> = of_each_key
            .flat_map(|places| layout.add(size, part.key(places[0].key), places))
            .collect();
        let (count, floor) = (adds.len(), known.floor());
        let commands = part.ask().into_iter().chain(adds).chain(part.ask());
        let replies = self.node.inserts.ask(&connection, &pipeline(commands), ATTEMPT).await?;
        self.node.keep_to_one_redis(&connection)?;
        let mut replies = replies.into_iter();
        let before = part.read(&mut replies)?;
        for reply in replies.by_ref().take(count) {
            layout.added(Reply::new("an insert", reply))?;
        }
        let evidence = [before, part.read(&mut replies)?];
        match evidence.iter().try_for_each(|one| part.judge(&known, floor, one)) {
            Ok(()) | Err(Doubt::Refused(Refusal::FULL)) => Ok(()),
            Err(Doubt::Suspect) => {
                // Stated since the last look, perhaps about another string than the bits went to.
                part.look(&*connection.transport(), &connection.process).await?;
                let reason = "the filter was stated to be whole meanwhile".to_owned();
                Err(StoreError::Disconnected { doubt: Doubt::Suspect, reason })
            }
            Err(why) => {
                part.lose(&known, why);
                part.revoke(&*connection.transport()).await
            }
        }
    }

    /// Returns where ids go, sorted by their keys.
    pub(super) fn places(&self, size: BloomSize, ids: &[&[u8]]) -> Vec<Place> {
        let mut places: Vec<_> = ids.iter().map(|id| self.part.layout.place(size, id)).collect();
        places.sort_by_key(|place| place.key);
        places
    }

    /// Ends trust that was stated then: an id that exists was found missing.
    pub(super) async fn distrust(&self, generation: Generation) -> Result<(), StoreError> {
        let Some(known) = self.part.known() else { return Ok(()) };
        if self.part.trusted(&known).is_ok_and(|stated| stated.generation == generation) {
            self.part.lose(&known, Doubt::Disproved);
            let connection = self.node.inserts.connected(ATTEMPT).await?;
            self.part.revoke(&*connection.transport()).await?;
        }
        Ok(())
    }

    /// Returns what is known without asking Redis.
    pub(super) fn condition(&self) -> Condition {
        let node = &self.node;
        let broken = [&node.checks, &node.inserts].into_iter().find_map(|link| link.trouble());
        let known = node.checks.current().and_then(|_| self.part.known());
        let stated = match &known {
            Some(known) => self.part.trusted(known),
            None => Err(broken.as_ref().map_or(Doubt::Disconnected, |trouble| trouble.doubt)),
        };
        let trouble = broken.map(|trouble| trouble.reason).or_else(|| {
            let (known, why) = (known.as_ref()?, stated.err()?);
            let unstated =
                || format!("{why}, and it is not stated that it is whole (trust_foreign)");
            let reason = known.size.as_ref().err().cloned().unwrap_or_else(unstated);
            Some(format!("{:?}: {reason}", self.part.layout))
        });
        let live = stated.map(|stated| {
            let &Statement { generation, ids, capacity, length, .. } = stated;
            let bytes = length * self.part.keys.len() as u64;
            let expected_rate = rate(bytes * 8, capacity, ids);
            let rate = rate(bytes * 8, capacity, capacity) as f32;
            Live { generation, items: ids, capacity, rate, expected_rate, bytes }
        });
        Condition { live, shards: None, copy: None, settling: None, journal: None, trouble }
    }
}

/// A check that a part of the filter was sent.
pub(super) struct SentToSite {
    sent: SentCheck<Verdict>,
    claim: NullClaim,
}

impl SentToSite {
    pub(super) async fn answer(self) -> Lookup {
        let Self { sent, claim } = self;
        match sent.answer().await {
            Ok(verdict) => Lookup { verdict, scope: Scope::Everyone, claim },
            Err(doubt) => Lookup::unknown(doubt),
        }
    }
}

impl Checks for Site {
    type Identity = ();
    type Asked = Asked;
    type Answer = Verdict;

    async fn answer(
        &self,
        node: &Arc<Node<(), Asked, Verdict>>,
        live: &Arc<Connection>,
        waiting: &mut Vec<PendingCheck>,
    ) {
        let Some(known) = self.part.known() else {
            return refuse(waiting.drain(..), Doubt::Disconnected);
        };
        // Other numbers lead to other bits.
        let strangers = waiting.extract_if(.., |one| !Arc::ptr_eq(&one.asked.known, &known));
        refuse(strangers, Doubt::Suspect);
        waiting.sort_by_key(|one| one.asked.place.key);
        let begun = Instant::now();
        let in_two = waiting.len() >= LARGE && self.is_flooded.load(Ordering::Relaxed);
        let mut bits = 0..if in_two { FIRST } else { usize::MAX };
        while !waiting.is_empty() {
            let places: Vec<_> = waiting.iter().map(|one| &one.asked.place).collect();
            let asking = self.ask(live, &known, &places, &bits);
            let asked = timeout_at(begun + self.check_deadline, asking).await;
            let (held, whole) = match asked.unwrap_or(Err(Doubt::Timeout)) {
                Ok(answer) => answer,
                Err(doubt) => return refuse(waiting.drain(..), doubt),
            };
            // Looked at again: another batch may have found the filter lost meanwhile.
            let is_live = known.run == live.process.run && node.checks.uses(live);
            let trusted = self.part.trusted(&known).map(drop);
            let trusted = if is_live { trusted.and(whole) } else { Err(Doubt::Suspect) };
            if bits.start == 0 {
                let absent = held.iter().filter(|held| !**held).count();
                let is_soon = begun.elapsed() <= self.check_deadline / SOON;
                self.is_flooded.store(absent * 2 > held.len() && is_soon, Ordering::Relaxed);
            }
            give(waiting, &held, trusted, bits.end);
            bits = bits.end..usize::MAX;
        }
    }
}

/// Answers the checks that are decided, and keeps those of ids that have more bits than were asked for up to here.
fn give(waiting: &mut Vec<PendingCheck>, held: &[bool], trusted: Result<(), Doubt>, asked: usize) {
    let mut undecided = Vec::new();
    for (one, held) in waiting.drain(..).zip(held) {
        let answer = match (held, trusted) {
            (true, _) if one.asked.place.bits.len() > asked => {
                undecided.push(one);
                continue;
            }
            (true, _) => Ok(Verdict::Present),
            (false, Ok(())) => Ok(Verdict::Absent(Proof::Filter)),
            (false, Err(doubt)) => Err(doubt),
        };
        one.answer.send(answer).ok();
    }
    undecided.retain(|one| !one.answer.is_closed());
    waiting.append(&mut undecided);
}
