//! Adds ids: acknowledged when every filter that needs the bits has them.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::connection::Connection;
use super::incarnation::GRACE;
use super::shard::{Shard, trusted};
use super::view::View;
use crate::error::StoreError;
use crate::filter::{Header, State};
use crate::id::{Digest, Id};
use crate::settings::INSERT;
use crate::store::Inserted;
use crate::store::link::attempts::{ATTEMPT, Attempts, IDS_PER_CALL};
use crate::store::link::reply::odd;
use crate::store::link::script::{Script, masks};
use crate::store::link::session::Purpose;
use crate::store::link::supervised::LinkTrouble;

/// An add needs next to no memory, and one that a full memory refuses would fail the application's write.
static ADD: Script = Script::despite_oom("add.lua", include_str!("add.lua"));

/// How long one call of a replay may take: less than scans wait for the next one. No caller waits for it, and it has to pass a slow
/// connection, too.
const REPLAY: Duration = Duration::from_secs(1);
/// How often the filters may change under one add before it gives up.
const CHANGES: u32 = 8;

impl Shard {
    pub(crate) async fn add(&self, mut ids: Vec<Id>) -> Result<Inserted, StoreError> {
        if ids.len() > IDS_PER_CALL {
            self.sort_by_block(&mut ids);
        }
        let mut inserted = Inserted::Perhaps;
        for part in ids.chunks(IDS_PER_CALL) {
            inserted = self.add_some(part).await?;
        }
        Ok(if ids.len() == 1 { inserted } else { Inserted::Perhaps })
    }

    /// Brings ids together that share a block of the live filter, so that the block is written once for them.
    fn sort_by_block(&self, ids: &mut [Id]) {
        let (view, connection) = (self.view.load(), self.current(Purpose::Inserts));
        if let (Some(view), Some(connection)) = (&*view, connection)
            && let Some(header) = view.live.in_state(State::Live)
        {
            let digester = &connection.identity.digester;
            ids.sort_by_cached_key(|id| header.geometry.position(&digester.digest(id)).block);
        }
    }

    async fn add_some(&self, ids: &[Id]) -> Result<Inserted, StoreError> {
        let mut attempts = Attempts::default();
        let mut changes = 0;
        loop {
            match self.try_add(ids).await {
                Ok(Some(inserted)) => return Ok(inserted),
                Ok(None) if changes < CHANGES => changes += 1,
                Ok(None) => return Err(StoreError::changing()),
                Err(error) => attempts.next_after(error).await?,
            }
        }
    }

    /// Adds ids; returns nothing where the filters or the metadata have changed.
    async fn try_add(&self, ids: &[Id]) -> Result<Option<Inserted>, StoreError> {
        let connection = self.connected(Purpose::Inserts, ATTEMPT).await?;
        let view = self.known_view(&connection, ATTEMPT).await?;
        let digester = &connection.identity.digester;
        let digests: Vec<Digest> = ids.iter().map(|id| digester.digest(id)).collect();
        let sent = Instant::now();
        let added = self.send_add(&connection, &view, &digests, None, ATTEMPT).await?;
        // This process may have stood still since the reply came, and the transaction's time counts from the sending.
        if sent.elapsed() > INSERT {
            return Err(StoreError::late(INSERT));
        }
        let Some(mut inserted) = added else { return Ok(None) };
        // That an id is new is an absence, and counts only if absences are believed.
        let live = view.live.in_state(State::Live).map(|live| trusted(*live, &connection));
        if !matches!(live, Some(Ok(_))) || self.believes(&connection).is_err() {
            inserted = Inserted::Perhaps;
        }
        self.known.recent.acknowledged(&digests, digester.key_id());
        self.copies.hold(&digests, digester.key_id());
        // A replay in a later session may have begun without them.
        if !self.is_on(&connection) {
            return Err(LinkTrouble::not_yet().into());
        }
        Ok(Some(inserted))
    }

    /// Adds digests again, on this connection and no other.
    pub(crate) async fn add_again(
        &self,
        connection: &Connection,
        digests: &[Digest],
    ) -> Result<(), StoreError> {
        for part in digests.chunks(IDS_PER_CALL) {
            let mut changes = 0;
            loop {
                let view = self.known_view(connection, REPLAY).await?;
                let _turn = connection.node.repeats.acquire().await;
                if self.send_add(connection, &view, part, Some(GRACE), REPLAY).await?.is_some() {
                    break;
                }
                changes += 1;
                if changes > CHANGES {
                    return Err(StoreError::changing());
                }
            }
        }
        Ok(())
    }

    /// Returns both headers as they were last seen, if this crate can set their bits.
    async fn known_view(
        &self,
        connection: &Connection,
        deadline: Duration,
    ) -> Result<Arc<View>, StoreError> {
        let view = match self.view.load_full() {
            Some(view) => view,
            None => {
                let view = Arc::new(self.read_view(connection, deadline).await?);
                self.view.store(Some(Arc::clone(&view)));
                view
            }
        };
        self.understood(&view).inspect_err(|_| self.view.store(None))?;
        Ok(view)
    }

    /// Sends an add, of a replay if scans have to hold for its next call. Returns nothing where the filters or the metadata are others
    /// than this process knew.
    async fn send_add(
        &self,
        connection: &Connection,
        view: &View,
        digests: &[Digest],
        hold: Option<Duration>,
        deadline: Duration,
    ) -> Result<Option<Inserted>, StoreError> {
        let keys = self.known.keys.of_add(digests);
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let packed: Vec<u8> = digests.iter().flat_map(|digest| *digest.as_bytes()).collect();
        // Under another secret key these digests say nothing.
        let masks = |filter: Option<&Header>| {
            let ours = filter.filter(|of| of.key_id == connection.identity.digester.key_id());
            ours.map(|header| masks(header, digests)).unwrap_or_default()
        };
        let hold = hold.map_or_else(String::new, |hold| hold.as_millis().to_string());
        let reply = connection
            .script(
                &ADD,
                &keys,
                &[
                    &connection.identity.incarnation,
                    self.known.settings.record_life().as_millis().to_string().as_bytes(),
                    (self.known.settings.recent_ids + 1).to_string().as_bytes(),
                    &packed,
                    &view.live.head,
                    view.live.len.to_string().as_bytes(),
                    &masks(view.live.in_state(State::Live)),
                    &view.next.head,
                    view.next.len.to_string().as_bytes(),
                    &masks(view.next.in_state(State::Building)),
                    hold.as_bytes(),
                ],
                deadline,
            )
            .await?;
        let (outcome, fields) = reply.outcome()?;
        let odd = || odd(ADD.name(), "an unknown outcome");
        match outcome.as_str() {
            "OK" => {
                let [last, lacked] = fields.try_into().map_err(|_| odd())?;
                self.known.seen.note(&connection.identity.incarnation, last.int()?);
                Ok(Some(if lacked.int()? == 1 { Inserted::New } else { Inserted::Perhaps }))
            }
            "STALE" => {
                let fields = fields.try_into().map_err(|_| odd())?;
                self.view.store(Some(Arc::new(View::read(fields)?)));
                Ok(None)
            }
            "OTHER" => {
                // The metadata were lost or made anew: the next connection joins them.
                self.view.store(None);
                self.withdraw(connection);
                Ok(None)
            }
            _ => Err(odd()),
        }
    }
}
