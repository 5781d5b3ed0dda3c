//! Adds ids: acknowledged when every filter that needs the bits has them.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::connection::Connection;
use super::incarnation::GRACE;
use super::shard::{Shard, trusted};
use super::view::{Seen, View};
use crate::error::StoreError;
use crate::filter::{Header, State};
use crate::id::{Digest, Id};
use crate::settings::INSERT;
use crate::store::Inserted;
use crate::store::link::attempts::{ATTEMPT, Attempts, IDS_PER_CALL};
use crate::store::link::reply::{Reply, odd};
use crate::store::link::script::{Script, masks};
use crate::store::link::session::Purpose;
use crate::store::link::supervised::LinkTrouble;

/// An add needs next to no memory, and one that a full memory refuses would fail the application's write.
static ADD: Script = Script::despite_oom("add.lua", include_str!("add.lua"));

/// How long one call of a replay may take: less than scans wait for its next one.
const REPLAY: Duration = Duration::from_secs(1);
/// How often the filters may change under one add before it gives up.
const CHANGES: u32 = 8;
/// Whether an add is the first of its ids, or repeats it on an incarnation that may lack them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AddKind {
    Insert,
    Replay,
}

impl AddKind {
    /// How long one call may take. No caller waits for a replay, and connections that are slower than an
    /// insert may be have replays, too.
    const fn deadline(self) -> Duration {
        match self {
            Self::Insert => ATTEMPT,
            Self::Replay => REPLAY,
        }
    }

    /// Returns how long scans wait for its next call, ms; nothing if they do not.
    fn hold(self) -> String {
        match self {
            Self::Insert => String::new(),
            Self::Replay => GRACE.as_millis().to_string(),
        }
    }
}

impl Shard {
    /// Acknowledges ids, a script's worth at a time.
    pub(crate) async fn add(&self, mut ids: Vec<Id>) -> Result<Inserted, StoreError> {
        if ids.len() > IDS_PER_CALL {
            self.sort_by_block(&mut ids);
        }
        let (mut rest, mut inserted) = (ids.as_slice(), Inserted::Perhaps);
        while !rest.is_empty() {
            let taken;
            (taken, inserted) = self.add_some(rest).await?;
            rest = rest.get(taken..).unwrap_or_default();
        }
        Ok(if ids.len() == 1 { inserted } else { Inserted::Perhaps })
    }

    /// Brings ids together that share a block of the live filter, so that the block is written once for them.
    fn sort_by_block(&self, ids: &mut [Id]) {
        let (view, connection) = (self.view.load(), self.current(Purpose::Inserts));
        if let (Some(view), Some(connection)) = (&*view, connection)
            && let Some(header) = view.adds_to_live()
        {
            let digester = &connection.identity.digester;
            ids.sort_by_cached_key(|id| header.geometry.position(&digester.digest(id)).block);
        }
    }

    /// Adds the first ids of a slice; returns how many, and what was found of them.
    async fn add_some(&self, ids: &[Id]) -> Result<(usize, Inserted), StoreError> {
        let (mut attempts, mut changes) = (Attempts::default(), 0);
        loop {
            match self.try_add(ids).await {
                Ok(Added::Done(taken, inserted)) => return Ok((taken, inserted)),
                Ok(Added::Stale) if changes < CHANGES => changes += 1,
                Ok(Added::Stale) => return Err(StoreError::changing()),
                Err(error) => attempts.next_after(error).await?,
            }
        }
    }

    async fn try_add(&self, ids: &[Id]) -> Result<Added, StoreError> {
        let connection = self.connected(Purpose::Inserts, ATTEMPT).await?;
        let view = self.known_view(&connection, AddKind::Insert).await?;
        let digester = &connection.identity.digester;
        let digests: Vec<Digest> =
            ids.iter().take(IDS_PER_CALL).map(|id| digester.digest(id)).collect();
        let sent = Instant::now();
        let reply = self.send_add(&connection, &view, &digests, AddKind::Insert).await?;
        let mut added = self.read_added(&connection, reply, digests.len())?;
        // This process may have stood still since it came, and the transaction's time counts from the sending.
        if sent.elapsed() > INSERT {
            return Err(StoreError::late(INSERT));
        }
        if let Added::Done(_, inserted) = &mut added {
            // As an absence that a check finds, it counts by a filter that is to be believed.
            let live = view.adds_to_live().map(|live| trusted(*live, &connection));
            if !matches!(live, Some(Ok(_))) || self.believes(&connection).is_err() {
                *inserted = Inserted::Perhaps;
            }
            self.known.recent.acknowledged(&digests, digester.key_id());
            // Also into that of a filter that is live no more: what is there passes, and is never wrong.
            let is_ours = |copy: &Header| copy.key_id == digester.key_id();
            self.copies.hold(is_ours, digests.iter());
            // A replay in a later session may have begun without them.
            if !self.is_on(&connection) {
                return Err(LinkTrouble::not_yet().into());
            }
        }
        Ok(added)
    }

    /// Adds digests again, on this connection and no other.
    pub(crate) async fn add_again(
        &self,
        connection: &Connection,
        digests: &[Digest],
    ) -> Result<(), StoreError> {
        let (mut rest, mut changes) = (digests, 0);
        while !rest.is_empty() {
            let view = self.known_view(connection, AddKind::Replay).await?;
            let digests = &rest[..rest.len().min(IDS_PER_CALL)];
            let _turn = connection.node.repeats.acquire().await;
            let reply = self.send_add(connection, &view, digests, AddKind::Replay).await?;
            match self.read_added(connection, reply, digests.len())? {
                Added::Done(taken, _) => {
                    rest = rest.get(taken..).unwrap_or_default();
                    changes = 0;
                }
                Added::Stale if changes < CHANGES => changes += 1,
                Added::Stale => return Err(StoreError::changing()),
            }
        }
        Ok(())
    }

    /// Returns both headers as they were last seen, if this crate can set their bits.
    async fn known_view(
        &self,
        connection: &Connection,
        kind: AddKind,
    ) -> Result<Arc<View>, StoreError> {
        let view = match self.view.load_full() {
            Some(view) => view,
            None => {
                let view = Arc::new(self.read_view(connection, kind.deadline()).await?);
                self.view.store(Some(Arc::clone(&view)));
                view
            }
        };
        self.understood(&view).inspect_err(|_| self.view.store(None))?;
        Ok(view)
    }

    async fn send_add(
        &self,
        connection: &Connection,
        view: &View,
        digests: &[Digest],
        kind: AddKind,
    ) -> Result<Reply, StoreError> {
        let keys = self.known.keys.of_add(digests);
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let packed: Vec<u8> = digests.iter().flat_map(|digest| *digest.as_bytes()).collect();
        // Under another secret key these digests say nothing.
        let ours = |header: &&Header| header.key_id == connection.identity.digester.key_id();
        let live = FilterArgs::new(&view.live, view.adds_to_live().filter(ours), digests);
        let next = FilterArgs::new(&view.next, view.adds_to_next().filter(ours), digests);
        connection
            .script(
                &ADD,
                &keys,
                &[
                    &connection.identity.incarnation,
                    self.known.settings.record_life().as_millis().to_string().as_bytes(),
                    (self.known.settings.recent_ids + 1).to_string().as_bytes(),
                    &packed,
                    live.head,
                    live.len.as_bytes(),
                    &live.masks,
                    next.head,
                    next.len.as_bytes(),
                    &next.masks,
                    kind.hold().as_bytes(),
                ],
                kind.deadline(),
            )
            .await
    }

    fn read_added(
        &self,
        connection: &Connection,
        reply: Reply,
        taken: usize,
    ) -> Result<Added, StoreError> {
        let (outcome, fields) = reply.outcome()?;
        let odd = || odd(ADD.name(), "an unknown outcome");
        match outcome.as_str() {
            "OK" => {
                let [last, lacked] = fields.try_into().map_err(|_| odd())?;
                let last = last.int()?;
                let inserted = if lacked.int()? == 1 { Inserted::New } else { Inserted::Perhaps };
                self.known.seen.note(&connection.identity.incarnation, last);
                Ok(Added::Done(taken, inserted))
            }
            "STALE" => {
                let fields = fields.try_into().map_err(|_| odd())?;
                self.view.store(Some(Arc::new(View::read(fields)?)));
                Ok(Added::Stale)
            }
            "OTHER" => {
                // The metadata was lost or made anew: join it again.
                self.view.store(None);
                self.withdraw(connection);
                Ok(Added::Stale)
            }
            _ => Err(odd()),
        }
    }
}

impl View {
    fn adds_to_live(&self) -> Option<&Header> {
        self.live.in_state(State::Live)
    }

    fn adds_to_next(&self) -> Option<&Header> {
        self.next.in_state(State::Building)
    }
}

/// What became of one attempt to add.
enum Added {
    /// This number of ids, the first ones, are acknowledged; new if the live filter lacked any of them.
    Done(usize, Inserted),
    /// The filters, or the metadata, are others than this process knew.
    Stale,
}

/// What the script is told of one filter.
struct FilterArgs<'a> {
    head: &'a [u8],
    len: String,
    masks: Vec<u8>,
}

impl<'a> FilterArgs<'a> {
    fn new(seen: &'a Seen, filter: Option<&Header>, digests: &[Digest]) -> Self {
        let masks = filter.map(|header| masks(header, digests)).unwrap_or_default();
        Self { head: &seen.head, len: seen.len.to_string(), masks }
    }
}
