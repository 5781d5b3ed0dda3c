//! A shard: a filter on one Redis, and whether this process believes it. A filter that is not cut into shards is one shard.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};

use super::connection::{Connection, NodeSession, RedisNode};
use super::copy::Copies;
use super::fleet::HOLDS;
use super::incarnation::known_shard::KnownShard;
use super::keys::Keys;
use super::view::View;
use crate::error::StoreError;
use crate::filter::{Header, newer};
use crate::refusal::Refusal;
use crate::store::link::script::Script;
use crate::store::link::session::Purpose;
use crate::store::{Condition, FleetView, LiveFilter, SeenMetadata, Survey};
use crate::verdict::Doubt;

pub(super) static VIEW: Script = Script::new("view.lua", include_str!("view.lua"));

/// Within what time each process polls each of many shards (`join_all.rs`).
const ALL_POLL: Duration = Duration::from_secs(20);

/// How often shards are surveyed, and how long each may take.
pub(super) const SURVEY: Duration = Duration::from_secs(1);

pub(crate) struct Shard {
    pub(crate) number: usize,
    pub(crate) of: usize,
    pub(crate) known: Arc<KnownShard>,
    pub(super) at: ArcSwap<RedisNode>,
    /// The live header by which checks compute positions, once one was seen.
    pub(crate) filter: ArcSwapOption<Header>,
    /// Both headers as inserts last saw them.
    pub(crate) view: ArcSwapOption<View>,
    pub(crate) copies: Copies,
    /// Why the last look at the live filter found none to trust.
    doubt: Mutex<Doubt>,
    was_live: AtomicBool,
    /// The last survey, unless it failed.
    surveyed: Mutex<Option<Survey>>,
}

impl Shard {
    pub(crate) fn new(
        number: usize,
        of: usize,
        known: Arc<KnownShard>,
        node: Arc<RedisNode>,
    ) -> Self {
        Self {
            number,
            of,
            at: ArcSwap::new(node),
            filter: ArcSwapOption::empty(),
            view: ArcSwapOption::empty(),
            copies: Copies::new(known.settings().copy_limit),
            doubt: Mutex::new(Doubt::Disconnected),
            was_live: AtomicBool::new(false),
            surveyed: Mutex::default(),
            known,
        }
    }

    pub(crate) fn node(&self) -> Arc<RedisNode> {
        self.at.load_full()
    }

    pub(crate) fn move_to(&self, node: Arc<RedisNode>) {
        self.at.store(node);
        // The shard may have been joined there before.
        self.known.joins.notify_waiters();
    }

    /// Returns a connection that has joined this shard's metadata, or why there is none, if that is known.
    pub(crate) fn current(&self, purpose: Purpose) -> Result<Connection, StoreError> {
        let node = self.node();
        let on = node.link.session()?;
        Connection::of(Arc::new(NodeSession { node, on }), purpose, self.number)
    }

    /// Waits, up to a deadline, for a connection that has joined this shard's metadata. Fails with what the last attempt met.
    pub(crate) async fn connected(
        &self,
        purpose: Purpose,
        deadline: Duration,
    ) -> Result<Connection, StoreError> {
        let end = Instant::now() + deadline;
        loop {
            // First, so that no join is missed.
            let mut joins = pin!(self.known.joins.notified());
            let node = self.node();
            let on = tokio::select! {
                biased;
                on = node.link.connected(purpose, end - Instant::now()) => on?,
                // The shard may have moved to another node.
                () = &mut joins => continue,
            };
            let joined = Connection::of(Arc::new(NodeSession { node, on }), purpose, self.number);
            if joined.is_ok() || timeout_at(end, joins).await.is_err() {
                return joined;
            }
        }
    }

    /// Whether a connection's session is in use, and this shard joined on it and still on its node.
    pub(crate) fn is_on(&self, connection: &Connection) -> bool {
        connection.node.link.uses(&connection.on)
            && Arc::ptr_eq(&self.node(), &connection.node)
            && connection.is_joined()
    }

    pub(crate) fn note_doubt(&self, doubt: Doubt) {
        *self.doubt.lock() = doubt;
    }

    /// Reads both headers and the metadata; `args` are those of the script.
    pub(crate) async fn read_view(
        &self,
        connection: &Connection,
        deadline: Duration,
        args: &[&[u8]],
    ) -> Result<View, StoreError> {
        let Keys { bits, next, meta, lock, .. } = &self.known.keys;
        let keys = [bits, next, meta, lock].map(String::as_str);
        View::read(connection.script(&VIEW, &keys, args, deadline).await?)
    }

    /// Fails if a key holds a filter that only a newer version of this crate can change.
    pub(crate) fn understood(&self, view: &View) -> Result<(), StoreError> {
        let Some(newer) = newer(&view.live.head).or_else(|| newer(&view.next.head)) else {
            return Ok(());
        };
        let reason = format!("holds a filter of {newer}, newer than this crate");
        Err(StoreError::unfit(&self.known.keys.bits, &reason))
    }

    /// Asks how the fleet stands, before a change. The longest transaction that processes state from now on counts for it.
    pub(crate) async fn view_fleet(&self) -> Result<FleetView, StoreError> {
        let connection = self.connected(Purpose::Rebuilds, SURVEY).await?;
        let view = self.read_view(&connection, SURVEY, &[b"1"]).await?;
        let View { incarnation, mode_number, longest, now_us, .. } = view;
        let polled = if self.of > 1 { ALL_POLL } else { HOLDS };
        Ok(FleetView {
            metadata: vec![SeenMetadata { incarnation, mode_number, now_us }],
            longest_transaction: longest.max(self.known.settings().longest_transaction).max(polled),
        })
    }

    pub(crate) fn last_survey(&self) -> Option<Survey> {
        *self.surveyed.lock()
    }

    /// Reads how the filter stands, and adopts it if it is to be trusted.
    pub(crate) async fn look(&self, deadline: Duration) -> Result<(Survey, View), StoreError> {
        self.surveyed.lock().take();
        let connection = self.connected(Purpose::Rebuilds, deadline).await?;
        let view = self.read_view(&connection, deadline, &[]).await?;
        let live = self.live_in(&view, &connection).and_then(|header| trusted(header, &connection));
        match &live {
            Ok(header) => drop(self.adopt(header)),
            Err(doubt) => {
                self.note_doubt(*doubt);
                self.filter.store(None);
            }
        }
        // A filter that is disproved twice answers nothing, and is rebuilt by schedule, as a live one.
        let live = match live {
            Err(Doubt::DisprovedTwice) => {
                view.live.filter.and_then(|header| trusted(header, &connection))
            }
            live => live,
        };
        let settles_us = self.known.settles_ms().map(|until| until.saturating_mul(1000));
        let settled_us = settles_us.filter(|until| *until < view.now_us);
        // A generation ahead of the clock says that it was set back: the filter may be older than that moment.
        let built_us = live.as_ref().map(|live| live.generation.get());
        let future_us = built_us.ok().filter(|built| *built > view.now_us);
        let due_us = settled_us.map(|until| future_us.unwrap_or(until)).max(Some(view.asked_us));
        let live = live.map(|header| {
            let live = LiveFilter::from(header);
            let rate = self.copies.rate_beyond(&header);
            LiveFilter { expected_rate: rate.unwrap_or(live.expected_rate), ..live }
        });
        let survey = Survey::new(live, view.now_us, due_us);
        *self.surveyed.lock() = Some(survey);
        Ok((survey, view))
    }

    pub(super) fn is_as(&self, survey: &Survey) -> bool {
        let live = self.filter.load().as_ref().map(|header| header.generation);
        live.is_some() && live == survey.live.ok().map(|live| live.generation)
    }

    pub(crate) fn adopt(&self, header: &Header) -> Arc<Header> {
        self.was_live.store(true, Ordering::Relaxed);
        self.known.common.compare_sizing(header);
        let header = Arc::new(*header);
        self.filter.store(Some(Arc::clone(&header)));
        header
    }

    pub(crate) fn live_in(&self, view: &View, on: &Connection) -> Result<Header, Doubt> {
        view.live().map_err(|doubt| match doubt {
            // A process that started after the loss knows by the metadata that there was a filter.
            Doubt::NoFilter if self.was_live.load(Ordering::Relaxed) || on.identity.newest > 0 => {
                Doubt::Gone
            }
            doubt => doubt,
        })
    }

    /// Returns the figures of the live filter. Its rate of false positives takes up to 60 µs to compute, for each of many shards.
    fn figures(&self, header: Header) -> LiveFilter {
        let surveyed = self.last_survey().and_then(|survey| survey.live.ok());
        let surveyed = surveyed.filter(|live| live.generation == header.generation);
        surveyed.unwrap_or_else(|| header.into())
    }

    pub(crate) fn condition(&self) -> Condition {
        let copy = self.copies.condition();
        let connection = match self.current(Purpose::Checks) {
            Ok(connection) => connection,
            Err(trouble) => {
                let none = Condition::of(Err(trouble.doubt()), Some(trouble.reason()));
                return Condition { copy, ..none };
            }
        };
        let doubt = *self.doubt.lock();
        let live = self.filter.load_full().ok_or(doubt);
        let live = live.and_then(|header| trusted(*header, &connection));
        let live = live.and_then(|header| match self.believes(&connection) {
            Ok(()) | Err(Doubt::Settling) => Ok(header),
            Err(doubt) => Err(doubt),
        });
        let fleet = connection.identity.fleet.load();
        let describe = |doubt| format!("key {:?}: {doubt}", self.known.keys.bits);
        let trouble = live.as_ref().err().map(describe);
        let settling = fleet.settles_for();
        let record = fleet.record.filter(|_| fleet.holds());
        let live = live.map(|header| self.figures(header));
        Condition { copy, settling, record, ..Condition::of(live, trouble) }
    }

    /// Whether an absence that a connection reports may be believed: its session is in use, Redis evicts none of the keys, the filter has
    /// this process's inserts and has settled, and a poll has lately said so.
    pub(crate) fn believes(&self, connection: &Connection) -> Result<(), Doubt> {
        // A node that has said MOVED may be given the slot back, without the inserts that came elsewhere.
        if !self.is_on(connection) {
            return Err(Doubt::Disconnected);
        }
        if connection.on.look.load().may_evict && !self.known.settings().accept_eviction {
            return Err(Doubt::Refused(Refusal::EVICTION));
        }
        let complete = self.known.recent.are_in(&connection.identity.incarnation);
        if !complete {
            return Err(Doubt::Suspect);
        }
        let fleet = connection.identity.fleet.load();
        if fleet.settles_ms.is_some() {
            return Err(Doubt::Settling);
        }
        if fleet.holds() { Ok(()) } else { Err(Doubt::Refused(Refusal::OTHER)) }
    }
}

impl From<Header> for LiveFilter {
    fn from(header: Header) -> Self {
        let ids = (header.items.into(), header.capacity.into());
        let rates = (header.rate, header.expected_rate());
        Self::new(header.generation, ids, rates, header.string_len())
    }
}

/// Returns the header if the filter was built on this connection's Redis process, with our secret key.
pub(crate) fn trusted(header: Header, connection: &Connection) -> Result<Header, Doubt> {
    let identity = &connection.identity;
    if header.key_id != identity.digester.key_id() {
        return Err(Doubt::OtherKey);
    }
    // A filter older than the one that was live at the join was put back by hand.
    if header.run != connection.on.process.run || header.generation.get() < identity.newest {
        return Err(Doubt::Suspect);
    }
    Ok(header)
}

#[cfg(test)]
mod tests;
