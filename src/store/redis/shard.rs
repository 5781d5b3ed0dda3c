//! A shard: a filter on one Redis, and which one this process believes in. A filter that is not cut into shards is one.

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

/// How long a survey may take.
const SURVEY: Duration = Duration::from_secs(1);

/// What the metadata say of rebuilds.
pub(crate) struct Rebuilds {
    /// When one was asked for last, µs.
    pub(crate) asked_us: i64,
    /// The last token.
    pub(crate) token: i64,
    /// Whether one is under way.
    pub(crate) is_leased: bool,
}

/// A shard of the guard's own filter: its keys, its node, and what this process knows of them.
pub(crate) struct Shard {
    pub(crate) number: usize,
    /// How many the filter has.
    pub(crate) of: usize,
    pub(crate) known: Arc<KnownShard>,
    /// What [`node`](Self::node) returns.
    pub(super) at: ArcSwap<RedisNode>,
    /// The live header that checks compute with. Absent until one was seen.
    pub(crate) filter: ArcSwapOption<Header>,
    /// Both headers, as adds know them.
    pub(crate) view: ArcSwapOption<View>,
    /// This process's copy of the filter's bits.
    pub(crate) copies: Copies,
    /// Why the last look at the live filter found none to trust.
    doubt: Mutex<Doubt>,
    /// Whether a filter was ever seen live.
    was_live: AtomicBool,
    /// What was last said of a live filter: to work out its rate of false positives takes up to 60 µs, of each of many shards.
    said: Mutex<Option<(Header, LiveFilter)>>,
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
            copies: Copies::new(known.settings.copy_limit),
            doubt: Mutex::new(Doubt::Disconnected),
            was_live: AtomicBool::new(false),
            said: Mutex::default(),
            known,
        }
    }

    pub(crate) fn node(&self) -> Arc<RedisNode> {
        self.at.load_full()
    }

    pub(crate) fn move_to(&self, node: Arc<RedisNode>) {
        self.at.store(node);
        // It may have been joined there before.
        self.known.joins.notify_waiters();
    }

    /// Returns a connection, if there is one that has joined this shard's metadata.
    pub(crate) fn current(&self, purpose: Purpose) -> Option<Connection> {
        let node = self.node();
        let on = node.link.current()?;
        Connection::of(NodeSession::new(node, on), purpose, self.number).ok()
    }

    /// Waits, up to a deadline, for a connection that has joined this shard's metadata, on whichever node the shard is.
    /// Fails with [`StoreError::NoAnswer`] with what the last attempt met.
    pub(crate) async fn connected(
        &self,
        purpose: Purpose,
        deadline: Duration,
    ) -> Result<Connection, StoreError> {
        let end = Instant::now() + deadline;
        loop {
            // Listening comes first.
            let mut joins = pin!(self.known.joins.notified());
            let node = self.node();
            let on = tokio::select! {
                biased;
                on = node.link.connected(purpose, end - Instant::now()) => on?,
                // It may be on another node by now.
                () = &mut joins => continue,
            };
            let trouble = match Connection::of(NodeSession::new(node, on), purpose, self.number) {
                Ok(connection) => return Ok(connection),
                Err(trouble) => trouble,
            };
            if self.of == 1 || timeout_at(end, joins).await.is_err() {
                return Err(trouble.into());
            }
        }
    }

    /// Gives up what a connection has learnt: of this shard, where it has learnt of others, too.
    pub(crate) fn withdraw(&self, connection: &Connection) {
        if self.of > 1 {
            connection.leave();
            connection.node.link.look_now();
        } else {
            connection.node.link.withdraw(&connection.on);
        }
    }

    /// Whether a connection's session is still in use, and this shard still joined on it, on the node that it is on now.
    pub(crate) fn is_on(&self, connection: &Connection) -> bool {
        connection.node.link.uses(&connection.on)
            && Arc::ptr_eq(&self.node(), &connection.node)
            && connection.is_joined()
    }

    pub(crate) fn note_doubt(&self, doubt: Doubt) {
        *self.doubt.lock() = doubt;
    }

    /// Forgets a live header that turned out to be outdated, unless it was replaced already.
    pub(crate) fn forget(&self, outdated: &Arc<Header>) {
        self.filter.compare_and_swap(outdated, None::<Arc<Header>>);
    }

    pub(crate) async fn read_view(
        &self,
        connection: &Connection,
        deadline: Duration,
    ) -> Result<View, StoreError> {
        self.read_view_and_fleet(connection, deadline, &[]).await.map(|(view, ..)| view)
    }

    /// Reads that, how the fleet stands, and what rebuilds have been. The arguments are the script's.
    pub(crate) async fn read_view_and_fleet(
        &self,
        connection: &Connection,
        deadline: Duration,
        args: &[&[u8]],
    ) -> Result<(View, FleetView, Rebuilds), StoreError> {
        let Keys { bits, next, meta, lock, .. } = &self.known.keys;
        let keys = [bits, next, meta, lock].map(String::as_str);
        let reply = connection.script(&VIEW, &keys, args, deadline).await?;
        let [view @ .., incarnation, number, reach, asked, token, leased] = reply.fields::<14>()?;
        let view = View::read(view)?;
        let rebuilds = Rebuilds {
            asked_us: asked.int()?,
            token: token.int()?,
            is_leased: leased.count()? > 0,
        };
        // The record reaches back for twice the longest transaction, and farther.
        let longest = Duration::from_millis(reach.count()? / 2);
        let polled = if self.of > 1 { ALL_POLL } else { HOLDS };
        let fleet = FleetView {
            metadata: vec![SeenMetadata {
                incarnation: incarnation.bytes()?,
                mode_number: number.int()?,
                now_us: view.now_us,
            }],
            longest_transaction: longest.max(self.known.settings.longest_transaction).max(polled),
        };
        Ok((view, fleet, rebuilds))
    }

    /// Fails if a key holds a filter that only a newer version of this crate can change.
    pub(crate) fn understood(&self, view: &View) -> Result<(), StoreError> {
        let Some(newer) = newer(&view.live.head).or_else(|| newer(&view.next.head)) else {
            return Ok(());
        };
        let reason = format!("holds a filter of {newer}, newer than this crate");
        Err(StoreError::unfit(&self.known.keys.bits, &reason))
    }

    /// Asks how the fleet stands, before a change. What processes ask for from now on counts when it is made.
    pub(crate) async fn view_fleet(&self) -> Result<FleetView, StoreError> {
        let connection = self.connected(Purpose::Rebuilds, SURVEY).await?;
        self.read_view_and_fleet(&connection, SURVEY, &[b"1"]).await.map(|(_, fleet, _)| fleet)
    }

    /// Asks how the filter stands, and lets checks know what was found.
    pub(crate) async fn survey(&self) -> Result<Survey, StoreError> {
        let connection = self.connected(Purpose::Rebuilds, SURVEY).await?;
        let (view, _, Rebuilds { asked_us, .. }) =
            self.read_view_and_fleet(&connection, SURVEY, &[]).await?;
        let live = self.live_in(&view, &connection).and_then(|header| trusted(header, &connection));
        match &live {
            Ok(header) => drop(self.adopt(header)),
            Err(doubt) => {
                self.note_doubt(*doubt);
                self.filter.store(None);
            }
        }
        // It answers nothing, and is as due as one that does.
        let live = match live {
            Err(Doubt::DisprovedTwice) => {
                view.live.filter.and_then(|header| trusted(header, &connection))
            }
            live => live,
        };
        let settles_us = self.known.fleet.settles_ms().map(|until| until.saturating_mul(1000));
        let settled_us = settles_us.filter(|until| *until < view.now_us);
        // A generation ahead of the clock says that it was set back: the filter may be older than that moment.
        let built_us = live.as_ref().map(|live| live.generation.get());
        let future_us = built_us.ok().filter(|built| *built > view.now_us);
        let due_us = settled_us.map(|until| future_us.unwrap_or(until)).max(Some(asked_us));
        let live = live.map(|header| {
            let live = self.figures(header);
            let rate = self.copies.rate_beyond(&header);
            let live = LiveFilter { expected_rate: rate.unwrap_or(live.expected_rate), ..live };
            self.said.lock().insert((header, live)).1
        });
        Ok(Survey::new(live, view.now_us, due_us))
    }

    /// Has checks compute with a header.
    pub(crate) fn adopt(&self, header: &Header) -> Arc<Header> {
        self.was_live.store(true, Ordering::Relaxed);
        self.known.mismatches.compare_sizing(header);
        let header = Arc::new(*header);
        self.filter.store(Some(Arc::clone(&header)));
        header
    }

    /// Returns the live filter that a view shows on a connection, or why there is none.
    pub(crate) fn live_in(&self, view: &View, on: &Connection) -> Result<Header, Doubt> {
        view.live().map_err(|doubt| match doubt {
            // A process that starts after the filter was lost has the metadata's word that there was one.
            Doubt::NoFilter if self.was_live.load(Ordering::Relaxed) || on.identity.newest > 0 => {
                Doubt::Gone
            }
            doubt => doubt,
        })
    }

    fn figures(&self, header: Header) -> LiveFilter {
        let mut said = self.said.lock();
        match *said {
            Some((of, live)) if of == header => live,
            _ => said.insert((header, LiveFilter::from(header))).1,
        }
    }

    pub(crate) fn condition(&self) -> Condition {
        let copy = self.copies.condition();
        let node = self.node();
        let broken = node.link.trouble();
        let joined = |on| {
            Connection::of(NodeSession::new(Arc::clone(&node), on), Purpose::Checks, self.number)
        };
        let connection = match node.link.current().map(joined) {
            Some(Ok(connection)) => connection,
            unjoined => {
                let trouble = unjoined.and_then(Result::err).or(broken);
                let doubt = trouble.as_ref().map_or(Doubt::Disconnected, |trouble| trouble.doubt);
                let trouble = trouble.map(|trouble| trouble.reason);
                return Condition { copy, ..Condition::of(Err(doubt), trouble) };
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
        let trouble = broken.map(|trouble| trouble.reason);
        let trouble = trouble.or_else(|| live.as_ref().err().map(describe));
        let settling = fleet.settling.map(|settling| settling.rest());
        let record = fleet.record.filter(|_| fleet.holds());
        let live = live.map(|header| self.figures(header));
        Condition { copy, settling, record, ..Condition::of(live, trouble) }
    }

    /// Whether an absence that a connection reports may be believed. It may not if Redis may evict the
    /// record of recent inserts or the metadata, if filters there may lack own inserts, or those of processes that do not
    /// insert here. Nor may it where no poll of this connection has said lately how the fleet acts.
    pub(crate) fn believes(&self, connection: &Connection) -> Result<(), Doubt> {
        if !connection.is_joined() {
            // It may have missed what is there by now.
            return Err(Doubt::Disconnected);
        }
        if connection.on.may_evict() && !self.known.settings.accept_eviction {
            return Err(Doubt::Refused(Refusal::EVICTION));
        }
        let complete = self.known.recent.are_in(&connection.identity.incarnation);
        if !complete {
            return Err(Doubt::Suspect);
        }
        let fleet = connection.identity.fleet.load();
        if fleet.settling.is_some() {
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

/// Returns the header if the filter was verified on this connection's Redis process, with our secret key.
pub(crate) fn trusted(header: Header, connection: &Connection) -> Result<Header, Doubt> {
    let identity = &connection.identity;
    if header.key_id != identity.digester.key_id() {
        return Err(Doubt::OtherKey);
    }
    // A filter older than the one that was live when the connection joined has been put back by hand.
    if header.run != connection.on.process.run || header.generation.get() < identity.newest {
        return Err(Doubt::Suspect);
    }
    Ok(header)
}

#[cfg(test)]
mod tests;
