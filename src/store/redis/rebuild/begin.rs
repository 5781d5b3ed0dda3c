//! *Lease* and *mark*: takes the lease and the token, and notes where the journal and Redis stand.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use super::RedisBuild;
use super::build::{ShardBuild, replay_given_up};
use super::journal::Coverage;
use super::lease::{CALL, LIFE, Lease, Lock, held_by};
use crate::error::StoreError;
use crate::filter::Generation;
use crate::random;
use crate::refusal::Refusal;
use crate::store::link::reply::{self, Reply};
use crate::store::link::script::{Script, hex};
use crate::store::link::transport::CLOCKS_PART;
use crate::store::redis::connection::Connection;
use crate::store::redis::keys::Keys;
use crate::store::redis::shard::Shard;
use crate::store::redis::shards::Shards;
use crate::store::redis::view::View;
use crate::store::scan::Scan;

/// Others that poll once a second have noticed by then that the clock has jumped.
const NEW: Duration = Duration::from_secs(3);

/// A clock that is slewed may gain a twelfth (`maxslewrate` of chrony), and nobody notices: an eighth more is read.
const SLEWED: u64 = 8;

static LEASE: Script = Script::new("lease.lua", include_str!("lease.lua"));

impl RedisBuild {
    /// Begins a rebuild of the shards that are not trusted, and of those whose build began before this moment of Redis's
    /// clock, µs. Where the first of them is under way elsewhere, so is the scan. Where any is, and all are to be rebuilt,
    /// what is under way may have begun too early.
    pub(crate) async fn begin(
        shards: &Arc<Shards>,
        before_us: i64,
    ) -> Result<Option<Self>, StoreError> {
        let due = shards.due(before_us).await?;
        let [first, others @ ..] = &due[..] else { return Ok(None) };
        let first = ShardBuild::begin(first).await;
        if let Ok(None) = first {
            return Ok(None);
        }
        let mut builds = Vec::with_capacity(due.len());
        let mut failed = Vec::new();
        let others = join_all(others.iter().map(ShardBuild::begin)).await;
        for begun in std::iter::once(first).chain(others) {
            match begun {
                Ok(Some(build)) => builds.push(build),
                // Those that were begun give their leases back.
                Ok(None) if before_us == i64::MAX => return Ok(None),
                Ok(None) => {}
                Err(error) => failed.push(error),
            }
        }
        if builds.is_empty()
            && let Some(error) = failed.pop()
        {
            return Err(error);
        }
        let shards = Arc::clone(shards);
        Ok(Some(Self { shards, scan: Scan::default(), builds, failed }))
    }
}

impl ShardBuild {
    /// Begins a rebuild of a shard; nothing where another one holds the lease.
    async fn begin(shard: &Arc<Shard>) -> Result<Option<Self>, StoreError> {
        match Self::try_begin(shard).await {
            // The metadata was lost. The next connection joins it anew.
            Err(error) if error.is(Refusal::LOST) => Self::try_begin(shard).await,
            begun => begun,
        }
    }

    async fn try_begin(shard: &Arc<Shard>) -> Result<Option<Self>, StoreError> {
        let mut connection = shard.connected(|node| &node.bulk, CALL).await?;
        let view = shard.read_view(&connection, CALL).await?;
        shard.understood(&view)?;
        let nonce: [u8; 16] = random::bytes().map_err(StoreError::no_random)?;
        let [a, b, c, d, e, f, g, h, ..] = nonce;
        let lock = Lock {
            shard: Arc::clone(shard),
            nonce: held_by(nonce, &connection.node),
            build: u64::from_be_bytes([a, b, c, d, e, f, g, h]),
        };
        let reply = match lock.take(&connection, &view).await {
            // A lost reply may have been a lease: the same nonce takes it up.
            Err(StoreError::NoAnswer { .. }) => {
                connection = shard.connected(|node| &node.bulk, CALL).await?;
                lock.take(&connection, &view).await?
            }
            reply => reply?,
        };
        let fields = match <[Reply; 9]>::try_from(reply.array()?) {
            Ok(fields) => fields,
            Err(fields) if fields.len() == 1 => return Ok(None),
            Err(_) => return Err(odd("another number of fields".to_owned())),
        };
        let mut lease = Lease::new(lock);
        match Self::terms(shard, &connection, fields).await {
            Ok((terms, view)) => {
                Ok(Some(Self::leased(Arc::clone(shard), &connection, &view, lease, &terms)))
            }
            Err(error) => {
                lease.release().await;
                Err(error)
            }
        }
    }

    /// Reads what the lease says, and what there is to be replaced: the process may have stood still since it looked.
    async fn terms(
        shard: &Shard,
        connection: &Connection,
        fields: [Reply; 9],
    ) -> Result<(Terms, View), StoreError> {
        let terms = Terms::read(shard, connection, fields)?;
        let view = shard.read_view(connection, CALL).await?;
        // It may have been left meanwhile. No rebuild may take what says so for damaged bytes.
        shard.understood(&view)?;
        Ok((terms, view))
    }

    fn leased(
        shard: Arc<Shard>,
        connection: &Connection,
        view: &View,
        lease: Lease,
        terms: &Terms,
    ) -> Self {
        Self {
            shard,
            run: connection.on.process.run,
            began_ms: terms.began_ms,
            lease,
            token: terms.token,
            incarnation: connection.identity.incarnation.clone(),
            digester: connection.identity.digester.clone(),
            previous: view.live.items(),
            damaged_live: view.live.damaged().to_vec(),
            damaged_next: view.next.damaged().to_vec(),
            cursor: format!("{}-0", terms.read_from_ms),
            coverage: Coverage::since(terms.start_ms),
            live_len: view.live.len,
            header: None,
            caught_up_at: (0, 0),
            replayed: Vec::new(),
        }
    }
}

impl Lock {
    async fn take(&self, connection: &Connection, view: &View) -> Result<Reply, StoreError> {
        let Keys { lock, meta, marks, next, log, .. } = &self.shard.known.keys;
        let keys = [lock, meta, marks, next, log].map(String::as_str);
        let least = view.live.filter.as_ref().map_or(0, |header| header.generation.get() + 1);
        let least = least.to_string();
        let life = LIFE.as_millis().to_string();
        let span = self.shard.known.settings.longest_rebuild.as_millis().to_string();
        let args = [&self.nonce, &life, &least, &span].map(|arg| arg.as_bytes());
        connection.script(&LEASE, &keys, &args, CALL).await
    }
}

struct Terms {
    token: Generation,
    began_ms: u64,
    /// From when on the journal has to be whole, and from when on it is read.
    start_ms: u64,
    read_from_ms: u64,
}

impl Terms {
    fn read(
        shard: &Shard,
        connection: &Connection,
        fields: [Reply; 9],
    ) -> Result<Self, StoreError> {
        let [_ok, token, reach, incarnation, key_id, seconds, micros, not_before, entries] = fields;
        shard.journal_room.note(entries.count()?);
        if incarnation.bytes()? != connection.identity.incarnation
            || key_id.text()? != hex(connection.identity.digester.key_id())
        {
            // The metadata was lost since this connection joined it.
            shard.withdraw(connection);
            return Err(StoreError::lost("the lease"));
        }
        let token = token.int()?;
        let token = Generation::new(token).ok_or_else(|| odd(format!("the token {token}")))?;
        let began_ms = seconds.count()?.saturating_mul(1000).saturating_add(micros.count()? / 1000);
        if !connection.on.shows(i64::try_from(began_ms).unwrap_or(i64::MAX).saturating_mul(1000)) {
            // The journal is read by that clock.
            connection.link().withdraw(&connection.on);
            return Err(StoreError::lost("the lease"));
        }
        let not_before = not_before.count()?;
        if not_before >= began_ms {
            return Err(replay_given_up(Duration::from_millis(not_before - began_ms)));
        }
        // Another process may allow its transactions more time than this one.
        let overlap =
            u64::try_from(shard.known.settings.longest_transaction.as_millis()).unwrap_or(u64::MAX);
        let overlap = overlap.max(reach.count()?);
        let start_ms = began_ms.saturating_sub(overlap);
        // Where Redis's clock jumps, an incarnation begins. Inserts of before may look older by the new clock than a transaction
        // may be, until all of their transactions are over.
        let known_for = shard.known.seen.known_for(&connection.identity.incarnation);
        let is_new = known_for < NEW.max(Duration::from_millis(overlap));
        let unnoticed = overlap / SLEWED + 2 * CLOCKS_PART.as_millis() as u64;
        let read_from_ms = if is_new { 0 } else { start_ms.saturating_sub(unnoticed) };
        Ok(Self { token, began_ms, start_ms, read_from_ms })
    }
}

fn odd(answer: String) -> StoreError {
    reply::odd(LEASE.name(), answer)
}
