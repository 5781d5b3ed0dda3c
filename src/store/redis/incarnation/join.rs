//! A new connection joins the filter's metadata: it learns the secret key and the incarnation.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::redis::cmd;

use super::GRACE;
use super::recent::RecentInserts;
use crate::error::StoreError;
use crate::id::{Digester, SecretKey};
use crate::random;
use crate::store::BoxFuture;
use crate::store::redis::keys::Keys;
use crate::store::redis::link::dial::Wire;
use crate::store::redis::link::handshake::{Handshake, Identity};
use crate::store::redis::link::process::RedisProcess;
use crate::store::redis::link::wire::{HANDSHAKE, ask};
use crate::store::redis::reply::Reply;
use crate::store::redis::script::{Script, Sending, hex};

static JOIN: Script = Script::new("join.lua", include_str!("join.lua"));
/// For Redis 7 and later, which know the flag. A process that cannot join could insert nothing.
static JOIN_DESPITE_OOM: Script =
    Script::new("join.lua", concat!("#!lua flags=allow-oom\n", include_str!("join.lua")));

/// The handshake by which connections of one filter join its metadata.
pub(crate) struct JoinIncarnation {
    keys: Keys,
    name: String,
    /// The application's secret key, if it gave one.
    given: Option<SecretKey>,
    mark_ttl: Duration,
    recent: Arc<RecentInserts>,
    /// The key last used. It is offered again to a Redis that lost its metadata, so that digests already
    /// computed stay good.
    last: Mutex<Option<SecretKey>>,
}

impl JoinIncarnation {
    pub(crate) fn new(
        name: &str,
        given: Option<SecretKey>,
        mark_ttl: Duration,
        recent: Arc<RecentInserts>,
    ) -> Self {
        let (keys, name) = (Keys::new(name), name.to_owned());
        Self { keys, name, given, mark_ttl, recent, last: Mutex::new(None) }
    }

    fn offer(&self) -> Result<SecretKey, StoreError> {
        if let Some(key) = &self.given {
            return Ok(key.clone());
        }
        match &*self.last.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(key) => Ok(key.clone()),
            None => random_bytes().map(SecretKey::new),
        }
    }

    /// Returns the key that the filter's metadata names.
    fn agree(&self, offered: &SecretKey, id: &str, key: &[u8]) -> Result<SecretKey, StoreError> {
        let theirs = u32::from_str_radix(id, 16)
            .map_err(|_| StoreError::Odd { step: JOIN.name(), answer: format!("key id {id:?}") })?;
        if theirs == offered.id_for(&self.name) {
            return Ok(offered.clone());
        }
        let other_key = StoreError::OtherKey { ours: offered.id_for(&self.name), theirs };
        if self.given.is_some() {
            return Err(other_key);
        }
        let key = <[u8; 16]>::try_from(key).map(SecretKey::new).map_err(|_| other_key)?;
        if key.id_for(&self.name) == theirs {
            return Ok(key);
        }
        Err(StoreError::Foreign {
            key: self.keys.meta.clone(),
            reason: "its secret key and key id do not belong together".to_owned(),
        })
    }
}

impl Handshake for JoinIncarnation {
    fn join<'a>(
        &'a self,
        wire: &'a dyn Wire,
        process: &'a RedisProcess,
    ) -> BoxFuture<'a, Result<Arc<Identity>, StoreError>> {
        Box::pin(async move {
            let offered = self.offer()?;
            let Keys { meta, log, bits, lock, .. } = &self.keys;
            // Sent whole: joining is rare, and a new server would not know the hash.
            let join = if process.major >= 7 { &JOIN_DESPITE_OOM } else { &JOIN };
            let command = join.command(
                Sending::Whole,
                &[meta, log, bits, lock].map(String::as_str),
                &[
                    hex(offered.id_for(&self.name)).as_bytes(),
                    if self.given.is_some() { b"" } else { offered.as_bytes() },
                    &random_bytes()?,
                    self.mark_ttl.as_millis().to_string().as_bytes(),
                    hex(process.run).as_bytes(),
                    &self.recent.held_by(),
                    GRACE.as_millis().to_string().as_bytes(),
                ],
            );
            let reply = ask(wire, JOIN.name(), command, HANDSHAKE).await?;
            let [key_id, key, incarnation, age, newest] = reply.fields()?;
            let key = self.agree(&offered, &key_id.text()?, &key.bytes()?)?;
            let digester = Digester::new(&key, &self.name);
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(key);
            let (age, newest) = (Duration::from_millis(age.count()?), newest.int()?);
            Ok(Arc::new(Identity { digester, incarnation: incarnation.bytes()?, age, newest }))
        })
    }

    fn recheck<'a>(
        &'a self,
        wire: &'a dyn Wire,
        identity: &'a Identity,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let command = cmd("HGET").arg(&self.keys.meta).arg("inc").clone();
            let reply = ask(wire, "HGET", command, HANDSHAKE).await;
            match reply.and_then(Reply::optional_bytes) {
                Ok(Some(incarnation)) if incarnation == identity.incarnation => Ok(()),
                Ok(_) => Err("the filter's metadata was lost or made anew".to_owned()),
                Err(error) => Err(error.to_string()),
            }
        })
    }
}

/// Draws 16 random bytes.
pub(crate) fn random_bytes() -> Result<[u8; 16], StoreError> {
    let mut bytes = [0; 16];
    random::fill(&mut bytes).map_err(|error| StoreError::Refused {
        reason: format!("the system's random source: {error}"),
    })?;
    Ok(bytes)
}
