//! B0 and B1: take the lease and the token, and note where the journal and Redis stand.

use std::sync::Arc;
use std::time::Duration;

use super::build::{CALL, RedisBuild};
use super::journal::Coverage;
use super::lease::{Lease, Lock};
use super::swap;
use crate::error::StoreError;
use crate::filter::Generation;
use crate::id::{Digest, SecretKey};
use crate::store::Begun;
use crate::store::redis::Shared;
use crate::store::redis::incarnation::join::random;
use crate::store::redis::link::connection::Live;
use crate::store::redis::reply::Reply;
use crate::store::redis::script::LEASE;
use crate::store::redis::view::View;

impl RedisBuild {
    /// Begins a rebuild, unless another holds the lease.
    pub(crate) async fn begin(shared: Arc<Shared>, lease: Duration) -> Result<Begun, StoreError> {
        match Self::try_begin(Arc::clone(&shared), lease).await {
            // The metadata was lost: enrolled anew, it can begin after all.
            Err(StoreError::Lost { .. }) => Self::try_begin(shared, lease).await,
            begun => begun,
        }
    }

    async fn try_begin(shared: Arc<Shared>, lease: Duration) -> Result<Begun, StoreError> {
        let mut live = shared.bulk.connected(CALL).await?;
        let view = shared.survey_view(&shared.bulk, &live, CALL).await?;
        if let Some(newer) = view.live.newer.as_ref().or(view.next.newer.as_ref()) {
            let reason = format!("holds a filter of {newer}, newer than this crate");
            return Err(StoreError::Foreign { key: shared.keys.bits.clone(), reason });
        }
        let nonce = random()?;
        let lock = Lock { shared: Arc::clone(&shared), nonce: hex(&nonce), lease };
        let least = view.live.filter.as_ref().map_or(0, |header| header.generation.get() + 1);
        let keys = [&shared.keys.lock, &shared.keys.meta, &shared.keys.marks].map(String::as_str);
        let (lease_ms, least) = (lease.as_millis().to_string(), least.to_string());
        let span = shared.retention.span().as_millis().to_string();
        let args = [lock.nonce.as_str(), &lease_ms, &least, &span].map(str::as_bytes);
        let reply = match shared.bulk.script(&live, &LEASE, &keys, &args, CALL).await {
            // A lost reply may have been a lease: the same nonce takes it up.
            Err(StoreError::Disconnected { .. } | StoreError::Timeout { .. }) => {
                live = shared.bulk.connected(CALL).await?;
                shared.bulk.script(&live, &LEASE, &keys, &args, CALL).await?
            }
            reply => reply?,
        };
        let mut fields = reply.array()?;
        if fields.len() == 1 {
            return Ok(Begun::Busy);
        }
        let mut lease = Lease::new(lock);
        fields.remove(0);
        let fields: [Reply; 7] = fields.try_into().map_err(|_| StoreError::Odd {
            step: LEASE.name(),
            answer: "another number of fields".to_owned(),
        })?;
        let terms = match Terms::read(&shared, &live, fields) {
            Ok(terms) => terms,
            Err(error) => {
                lease.release().await;
                return Err(error);
            }
        };
        Ok(Begun::Leased(Box::new(Self::leased(shared, &live, &view, lease, &nonce, terms))))
    }

    fn leased(
        shared: Arc<Shared>,
        live: &Arc<Live>,
        view: &View,
        lease: Lease,
        nonce: &SecretKey,
        terms: Terms,
    ) -> Self {
        let [a, b, c, d, e, f, g, h, ..] = *nonce.as_bytes();
        let Terms { token, began_ms, start_ms, incarnation } = terms;
        Self {
            run: live.server.run,
            began_ms,
            lease,
            token,
            nonce: u64::from_be_bytes([a, b, c, d, e, f, g, h]),
            incarnation,
            digester: live.identity.digester.clone(),
            previous: view.live(),
            condemned: (view.live.condemned().to_vec(), view.next.condemned().to_vec()),
            cursor: format!("{start_ms}-0"),
            coverage: Coverage::since(start_ms),
            header: None,
            stand: (0, 0),
            replayed: Vec::new(),
            shared,
        }
    }
}

/// What a rebuild begins with.
struct Terms {
    token: Generation,
    began_ms: u64,
    /// From when on the journal is read.
    start_ms: u64,
    incarnation: Vec<u8>,
}

impl Terms {
    fn read(shared: &Shared, live: &Arc<Live>, fields: [Reply; 7]) -> Result<Self, StoreError> {
        let [token, reach, incarnation, key_id, seconds, micros, unvouched] = fields;
        let incarnation = incarnation.bytes()?;
        if incarnation != live.identity.incarnation
            || key_id.text()? != format!("{:08x}", live.identity.digester.key_id())
        {
            // The metadata was lost since this connection enrolled: enrol again, then rebuild.
            shared.bulk.withdraw(live);
            return Err(StoreError::Lost { step: "the lease" });
        }
        let token = token.int()?;
        let token = Generation::new(token).ok_or_else(|| StoreError::Odd {
            step: LEASE.name(),
            answer: format!("the token {token}"),
        })?;
        let began_ms = seconds.count()?.saturating_mul(1000).saturating_add(micros.count()? / 1000);
        let unvouched = unvouched.count()?;
        if unvouched >= began_ms {
            return Err(swap::unvouched(unvouched - began_ms));
        }
        // Another process may allow its transactions more time than this one.
        let overlap = u64::try_from(shared.retention.overlap.as_millis()).unwrap_or(u64::MAX);
        let start_ms = began_ms.saturating_sub(overlap.max(reach.count()?));
        Ok(Self { token, began_ms, start_ms, incarnation })
    }
}

fn hex(nonce: &SecretKey) -> String {
    Digest::from_bytes(*nonce.as_bytes()).to_string()
}
