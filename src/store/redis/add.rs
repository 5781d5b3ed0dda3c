//! Adds ids: acknowledged when every filter that needs the bits has them.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::connection::Connection;
use super::shard::{Shard, trusted};
use super::view::View;
use crate::error::StoreError;
use crate::filter::{Header, State};
use crate::id::{Digest, Id};
use crate::settings::INSERT;
use crate::store::Inserted;
use crate::store::link::attempts::{ATTEMPT, IDS_PER_CALL, attempts};
use crate::store::link::reply::{Reply, odd};
use crate::store::link::script::{Script, masks};
use crate::store::link::session::Purpose;

/// An add needs next to no memory, and one that a full memory refuses would fail the application's write.
static ADD: Script = Script::despite_oom("add.lua", include_str!("add.lua"));

/// How often the filters may change under one add before it gives up.
const CHANGES: u32 = 8;

impl Shard {
    pub(crate) async fn add(&self, mut ids: Vec<Id>) -> Result<Inserted, StoreError> {
        if ids.len() > IDS_PER_CALL {
            self.sort_by_block(&mut ids);
        }
        let mut inserted = Inserted::Perhaps;
        for part in ids.chunks(IDS_PER_CALL) {
            inserted = attempts(|| self.try_add(part)).await?;
        }
        Ok(if ids.len() == 1 { inserted } else { Inserted::Perhaps })
    }

    /// Brings ids together that share a block of the live filter, so that the block is written once for them.
    fn sort_by_block(&self, ids: &mut [Id]) {
        let (view, connection) = (self.view.load(), self.current(Purpose::Inserts));
        if let (Some(view), Ok(connection)) = (&*view, connection)
            && let Some(header) = view.live.in_state(State::Live)
        {
            let digester = &connection.identity.digester;
            ids.sort_by_cached_key(|id| header.geometry.position(&digester.digest(id)).block);
        }
    }

    async fn try_add(&self, ids: &[Id]) -> Result<Inserted, StoreError> {
        let connection = self.connected(Purpose::Inserts, ATTEMPT).await?;
        let digester = &connection.identity.digester;
        let digests: Vec<Digest> = ids.iter().map(|id| digester.digest(id)).collect();
        let (view, mut inserted) = self.add_digests(&connection, &digests, None, ATTEMPT).await?;
        // That an id is new is an absence, and counts only if absences are believed.
        let live = view.live.in_state(State::Live).map(|live| trusted(*live, &connection));
        if !matches!(live, Some(Ok(_))) || self.believes(&connection).is_err() {
            inserted = Inserted::Perhaps;
        }
        self.known.recent.acknowledged(&digests, digester.key_id());
        self.copies.hold(&digests, digester.key_id());
        // A replay in a later session may have begun without them.
        if !self.is_on(&connection) {
            return Err(StoreError::not_yet());
        }
        Ok(inserted)
    }

    /// Adds digests on this connection, and has scans wait for `hold` if it is a replay. Returns also the headers of the filters that
    /// took them.
    pub(crate) async fn add_digests(
        &self,
        connection: &Connection,
        digests: &[Digest],
        hold: Option<Duration>,
        deadline: Duration,
    ) -> Result<(Arc<View>, Inserted), StoreError> {
        for _ in 0..=CHANGES {
            let view = self.known_view(connection, deadline).await?;
            let sent = Instant::now();
            let reply = self.send_add(connection, &view, digests, hold, deadline).await?;
            // This process may have stood still since the reply came, and the transaction's time counts from the sending.
            if sent.elapsed() > INSERT {
                return Err(StoreError::late(INSERT));
            }
            let (outcome, fields) = reply.outcome()?;
            match (outcome.as_str(), &fields[..]) {
                ("OK", [last, lacked]) => {
                    self.known.seen.note(&connection.identity.incarnation, last.int()?);
                    let is_new = lacked.int()? == 1;
                    return Ok((view, if is_new { Inserted::New } else { Inserted::Perhaps }));
                }
                ("STALE", _) => self.view.store(None),
                ("OTHER", _) => {
                    // The metadata were lost or made anew: the next connection joins them.
                    self.view.store(None);
                    connection.withdraw();
                    return Err(StoreError::not_yet());
                }
                _ => return Err(odd(ADD.name(), outcome)),
            }
        }
        Err(StoreError::changing())
    }

    /// Returns both headers as they were last seen, if this crate can set their bits.
    async fn known_view(
        &self,
        connection: &Connection,
        deadline: Duration,
    ) -> Result<Arc<View>, StoreError> {
        if let Some(view) = self.view.load_full() {
            return Ok(view);
        }
        let view = Arc::new(self.read_view(connection, deadline, &[]).await?);
        self.understood(&view)?;
        self.view.store(Some(Arc::clone(&view)));
        Ok(view)
    }

    async fn send_add(
        &self,
        connection: &Connection,
        view: &View,
        digests: &[Digest],
        hold: Option<Duration>,
        deadline: Duration,
    ) -> Result<Reply, StoreError> {
        let keys = self.known.keys.of_add(digests);
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let packed: Vec<u8> = digests.iter().flat_map(|digest| *digest.as_bytes()).collect();
        // Under another secret key these digests say nothing.
        let masks = |filter: Option<&Header>| {
            let ours = filter.filter(|of| of.key_id == connection.identity.digester.key_id());
            ours.map(|header| masks(header, digests)).unwrap_or_default()
        };
        let known = self.known.seen.last_in(&connection.identity.incarnation);
        let hold = hold.map_or_else(String::new, |hold| hold.as_millis().to_string());
        connection
            .script(
                &ADD,
                &keys,
                &[
                    &connection.identity.incarnation,
                    self.known.settings().record_life().as_millis().to_string().as_bytes(),
                    (self.known.settings().recent_ids + 1).to_string().as_bytes(),
                    &packed,
                    &view.live.head,
                    view.live.len.to_string().as_bytes(),
                    &masks(view.live.in_state(State::Live)),
                    &view.next.head,
                    view.next.len.to_string().as_bytes(),
                    &masks(view.next.in_state(State::Building)),
                    known.to_string().as_bytes(),
                    hold.as_bytes(),
                ],
                deadline,
            )
            .await
    }
}
