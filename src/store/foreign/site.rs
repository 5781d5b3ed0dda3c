//! A foreign filter's part on one Redis: its connections, its checks and its inserts.

use std::sync::Arc;
use std::time::Duration;

use ::redis::{Value, cmd};
use tokio::time::{Instant, sleep, timeout_at};

use super::asked::Asked;
use super::handshake::NoHandshake;
use super::known::Known;
use super::layout::Place;
use super::module;
use super::record::HANDED_OVER;
use super::rounds::Rounds;
use super::size::BloomSize;
use super::trust::Trust;
use crate::error::StoreError;
use crate::filter::Generation;
use crate::nulls::scope::Scope;
use crate::settings::Settings;
use crate::store::redis::Endpoint;
use crate::store::redis::link::connection::{Connection, Link, Purpose};
use crate::store::redis::link::handshake::Handshake;
use crate::store::redis::link::outage::Outage;
use crate::store::redis::link::queue::{self, Queue};
use crate::store::redis::link::wire::{one, pipeline};
use crate::store::redis::refusal::next_try;
use crate::store::redis::reply::Reply;
use crate::store::{Answer, BoxFuture, Condition, Lookup, NullClaim};
use crate::verdict::{Doubt, Verdict};

const STEP: &str = "an insert";
/// How long one attempt to insert may take, and how many there are.
const ATTEMPT: Duration = Duration::from_millis(250);
const ATTEMPTS: u32 = 3;
/// How long an insert that was refused waits before it is repeated.
const REFUSED_WAIT: Duration = Duration::from_millis(150);
/// Ids added by one call.
const IDS_PER_CALL: usize = 128;

/// A filter's part on one Redis.
pub(super) struct Site {
    pub(super) trust: Arc<Trust>,
    pub(super) checks: Arc<Link>,
    pub(super) adds: Arc<Link>,
    pub(super) queue: Queue<Asked, Verdict>,
    pub(super) rounds: Rounds,
    pub(super) check_deadline: Duration,
    /// Whether all of the filter is here.
    is_only: bool,
}

impl Site {
    pub(super) fn new(
        trust: Trust,
        endpoint: &Endpoint,
        settings: &Settings,
        is_only: bool,
    ) -> Self {
        let trust = Arc::new(trust);
        let outage = Arc::new(Outage::default());
        let link = |handshake, purpose| {
            let dial = Arc::clone(&endpoint.0);
            Arc::new(Link::new(dial, handshake, Arc::clone(&outage), purpose))
        };
        let joins: Arc<dyn Handshake> = Arc::<Trust>::clone(&trust);
        Self {
            checks: link(joins, Purpose::Checks),
            adds: link(Arc::new(NoHandshake), Purpose::Inserts),
            queue: Queue::new(settings.checks_in_flight as usize, settings.check_deadline),
            rounds: Rounds::default(),
            check_deadline: settings.check_deadline,
            is_only,
            trust,
        }
    }

    /// Says what is known of an id, within the deadline, whatever Redis does.
    pub(super) fn check(self: &Arc<Self>, id: &[u8], at: Instant) -> Answer<Lookup> {
        let unknown = |doubt| lookup(Verdict::Unknown(doubt), 0, None);
        let Some(live) = self.checks.current() else {
            return Answer::Ready(unknown(Doubt::Disconnected));
        };
        let asked = self.trust.known().ok_or(Doubt::Disconnected);
        let asked = asked.and_then(|known| Asked::new(&self.trust, known, id));
        let asked = match asked {
            Ok(asked) => asked,
            Err(doubt) => return Answer::Ready(unknown(doubt)),
        };
        let (asked_us, generation) = (live.redis_us(at), asked.generation());
        let (place, answer) = queue::Place::new(live, asked);
        // Who is alone needs no other task. Parts of a list are asked at once only by several.
        let alone = match self.is_only.then(|| self.queue.alone()).flatten() {
            Some(under_way) => Some(Arc::clone(self).answer_alone(place, under_way)),
            None if self.queue.enter(place).is_err() => {
                return Answer::Ready(unknown(Doubt::Overloaded));
            }
            None => None,
        };
        let answered = async move {
            if let Some(answering) = alone {
                answering.await;
            }
            answer.await
        };
        let deadline = at + self.check_deadline;
        Answer::Pending(Box::pin(async move {
            match timeout_at(deadline, answered).await {
                Ok(Ok(Ok(verdict))) => lookup(verdict, asked_us, generation),
                Ok(Ok(Err(doubt))) => unknown(doubt),
                // The task that had it has ended.
                Ok(Err(_)) => unknown(Doubt::Disconnected),
                Err(_) => unknown(Doubt::Timeout),
            }
        }))
    }

    /// Answers one check. A future of its own: it takes a few kilobytes, which those in the queue can do without.
    fn answer_alone(
        self: Arc<Self>,
        place: queue::Place<Asked, Verdict>,
        under_way: queue::UnderWay,
    ) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            self.answer(&mut vec![place]).await;
            drop(under_way);
        })
    }

    /// Acknowledges ids whose bits are all on this Redis.
    pub(super) async fn add(&self, ids: &[&[u8]]) -> Result<(), StoreError> {
        for ids in ids.chunks(IDS_PER_CALL) {
            repeated(|| self.try_add(ids)).await?;
        }
        Ok(())
    }

    async fn try_add(&self, ids: &[&[u8]]) -> Result<(), StoreError> {
        let connection = self.adds.connected(ATTEMPT).await?;
        let known = self.known().await?;
        let size = known.size.as_ref().map_err(|reason| self.foreign(reason))?;
        let places = self.places(*size, ids);
        let (mut commands, mut keys) = (Vec::with_capacity(places.len() + 3), Vec::new());
        for places in places.chunk_by(|one, other| one.key == other.key) {
            let key = self.trust.key_of(places[0].key);
            commands.extend(self.trust.layout.add(*size, key, places));
            keys.push(key);
        }
        let adds = commands.len();
        // Behind them: what another filter took, that was there for a moment, is missing in this one.
        commands.extend(self.trust.ask_seals(&known, &keys));
        let mut replies = self.adds.ask(&connection, &pipeline(commands), ATTEMPT).await?;
        self.keep_to_one_redis(&connection)?;
        self.trust.read_seals(connection.wire(), &known, replies.split_off(adds)).await?;
        self.note_newest(&known, &places, replies)
    }

    /// Notes the newest insert of this process that was new to the filter.
    fn note_newest(
        &self,
        known: &Known,
        places: &[Place],
        replies: Vec<Value>,
    ) -> Result<(), StoreError> {
        let newest = if self.trust.layout.is_module() {
            let reply = replies.into_iter().next().unwrap_or(Value::Nil);
            module::newest(places, Reply::new(STEP, reply))?
        } else {
            newest(places, &replies)
        };
        if let Ok(believed) = known.believed()
            && let Some(newest) = newest
        {
            believed.newest.store(Some(Arc::new(newest)));
        }
        Ok(())
    }

    /// Returns where ids go, sorted by their keys.
    pub(super) fn places(&self, size: BloomSize, ids: &[&[u8]]) -> Vec<Place> {
        let mut places: Vec<Place> =
            ids.iter().map(|id| self.trust.layout.place(size, id)).collect();
        places.sort_unstable();
        places
    }

    /// Returns what was found at the last look, or waits for a first one.
    pub(super) async fn known(&self) -> Result<Arc<Known>, StoreError> {
        if let Some(known) = self.trust.known() {
            return Ok(known);
        }
        self.checks.connected(ATTEMPT).await?;
        let reason = "not looked at yet".to_owned();
        self.trust.known().ok_or(StoreError::Disconnected { doubt: Doubt::Disconnected, reason })
    }

    /// Inserts must reach the process that checks ask: gives up connections that lead to different ones, as after a
    /// failover by name.
    fn keep_to_one_redis(&self, adds: &Arc<Connection>) -> Result<(), StoreError> {
        let checks = self.checks.current().filter(|checks| checks.process != adds.process);
        if let Some(checks) = &checks {
            self.checks.withdraw(checks);
            self.adds.withdraw(adds);
        }
        if checks.is_some() || !self.adds.uses(adds) {
            let reason = "the connection was given up".to_owned();
            return Err(StoreError::Disconnected { doubt: Doubt::Disconnected, reason });
        }
        Ok(())
    }

    /// Has no process rely on the filter any more, for good: the guard's own has taken its place.
    pub(super) async fn hand_over(&self) -> Result<(), StoreError> {
        repeated(|| self.try_hand_over()).await
    }

    async fn try_hand_over(&self) -> Result<(), StoreError> {
        let connection = self.adds.connected(ATTEMPT).await?;
        let word = [HANDED_OVER, self.trust.moves_to.as_deref().unwrap_or_default()].concat();
        let word = cmd("HSET").arg(&self.trust.record).arg("on").arg(word).clone();
        self.adds.ask(&connection, &one(word), ATTEMPT).await?;
        self.keep_to_one_redis(&connection)?;
        let checks = self.checks.connected(ATTEMPT).await?;
        self.trust.look(checks.wire(), &checks.process).await
    }

    pub(super) fn foreign(&self, reason: &str) -> StoreError {
        StoreError::Foreign { key: self.trust.keys[0].1.clone(), reason: reason.to_owned() }
    }

    /// Ends trust that was stated at a time, unless trust has ended so before: the handler answers for ids that do not exist.
    pub(super) fn distrust(&self, generation: Generation) {
        if let Some(known) = self.trust.known()
            && let Ok(believed) = known.believed()
            && believed.record.generation == generation
            && !believed.stays
        {
            self.trust.lose(believed, Doubt::Disproved);
        }
    }

    /// Returns what is known without asking Redis.
    pub(super) fn condition(&self) -> Condition {
        let broken = [&self.checks, &self.adds].into_iter().find_map(|link| link.trouble());
        let trouble = broken.as_ref().map(|trouble| trouble.reason.clone());
        let Some(known) = self.checks.current().and_then(|_| self.trust.known()) else {
            let doubt = broken.map_or(Doubt::Disconnected, |trouble| trouble.doubt);
            return Condition { live: Err(doubt), settling: None, trouble };
        };
        let live = known.live(&*self.trust.layout);
        let trouble = trouble.or_else(|| Some(self.trust.explain(&known, live.as_ref().err()?)));
        Condition { live, settling: None, trouble }
    }
}

/// Does what may be repeated, so that an unknown outcome is no harm, until it succeeds or is in vain.
async fn repeated<F: Future<Output = Result<(), StoreError>>>(
    attempt: impl Fn() -> F,
) -> Result<(), StoreError> {
    let mut failures = 0;
    while let Err(error) = attempt().await {
        failures += 1;
        match next_try(&error, REFUSED_WAIT) {
            Some(wait) if failures < ATTEMPTS => sleep(wait).await,
            _ => return Err(error),
        }
    }
    Ok(())
}

/// Returns the last of these places where a bit was clear before, by the replies to their commands.
fn newest(places: &[Place], replies: &[Value]) -> Option<Place> {
    let mut before = replies.iter().flat_map(|reply| match reply {
        Value::Array(bits) => bits.as_slice(),
        other => std::slice::from_ref(other),
    });
    let was_clear = |place: &Place| {
        let bits: Vec<_> = before.by_ref().take(place.bits.len()).collect();
        bits.contains(&&Value::Int(0))
    };
    let clear: Vec<bool> = places.iter().map(was_clear).collect();
    places.iter().zip(clear).rev().find(|(_, clear)| *clear).map(|(place, _)| place.clone())
}

fn lookup(verdict: Verdict, asked_us: i64, generation: Option<Generation>) -> Lookup {
    Lookup { verdict, scope: Scope::Everyone, claim: NullClaim { asked_us, generation } }
}
