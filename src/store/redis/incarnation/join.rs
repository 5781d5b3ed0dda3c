//! Which secret key a filter uses, and which life of its metadata a connection belongs to.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::redis::{Pipeline, cmd};

use super::recent::OwnAdds;
use crate::error::StoreError;
use crate::id::{Digester, SecretKey};
use crate::store::redis::keys::Keys;
use crate::store::redis::link::dial::Wire;
use crate::store::redis::link::process::Server;
use crate::store::redis::link::wire::exchange;
use crate::store::redis::rebuild::swap::GRACE;
use crate::store::redis::reply::Reply;
use crate::store::redis::script::{JOIN, Sending};

/// How long enrolment may take.
const DEADLINE: Duration = Duration::from_millis(500);

/// What a connection learnt when it enrolled.
pub(crate) struct Identity {
    pub(crate) digester: Digester,
    /// Random and new whenever the metadata had to be created or lives on another Redis process: what
    /// was acknowledged in an earlier one may be lost.
    pub(crate) incarnation: Vec<u8>,
    /// How old the incarnation was.
    pub(crate) age: Duration,
    /// The last generation that had gone live; 0 if none had.
    pub(crate) newest: i64,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("digester", &self.digester).finish_non_exhaustive()
    }
}

/// How connections of one filter enrol.
pub(crate) struct Enrolment {
    keys: Keys,
    name: String,
    given: Option<SecretKey>,
    mark_ttl: Duration,
    own: Arc<OwnAdds>,
    /// The key last used. A Redis that lost its metadata is offered the same one again, so that
    /// digests already computed stay good.
    last: Mutex<Option<SecretKey>>,
}

impl Enrolment {
    pub(crate) fn new(
        name: &str,
        given: Option<SecretKey>,
        mark_ttl: Duration,
        own: Arc<OwnAdds>,
    ) -> Self {
        let (keys, name) = (Keys::new(name), name.to_owned());
        Self { keys, name, given, mark_ttl, own, last: Mutex::new(None) }
    }

    /// Joins the filter's metadata on a connection, or creates it.
    ///
    /// # Errors
    ///
    /// [`StoreError::OtherKey`] when the filter belongs to another secret key; otherwise what the
    /// server or the random source reported.
    pub(crate) async fn enrol(
        &self,
        wire: &dyn Wire,
        server: &Server,
    ) -> Result<Arc<Identity>, StoreError> {
        let offered = self.offer()?;
        let key_id = format!("{:08x}", offered.id_for(&self.name));
        let stored: &[u8] = if self.given.is_some() { b"" } else { offered.as_bytes() };
        let incarnation = random()?;
        let mark_ttl = self.mark_ttl.as_millis().to_string();
        let run = format!("{:08x}", server.run);
        let vouched = self.own.vouched();
        let hold = GRACE.as_millis().to_string();
        let args: [&[u8]; 7] = [
            key_id.as_bytes(),
            stored,
            incarnation.as_bytes(),
            mark_ttl.as_bytes(),
            run.as_bytes(),
            &vouched,
            hold.as_bytes(),
        ];
        let Keys { meta, log, bits, lock, .. } = &self.keys;
        let keys = [meta, log, bits, lock].map(String::as_str);
        let mut command = Pipeline::with_capacity(1);
        // Sent whole: enrolment is rare, and a new server would not know the hash.
        command.add_command(JOIN.command(Sending::Whole, server.major, &keys, &args));
        let replies = exchange(wire, &command, DEADLINE).await.map_err(|trouble| trouble.error)?;
        let [reply] = Reply::new(JOIN.name(), ::redis::Value::Array(replies)).fields()?;
        let [key_id, key, incarnation, age, newest] = reply.fields()?;
        let key = self.agree(&offered, &key_id.text()?, &key.bytes()?)?;
        let digester = Digester::new(&key, &self.name);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(key);
        let (age, newest) = (Duration::from_millis(age.count()?), newest.int()?);
        Ok(Arc::new(Identity { digester, incarnation: incarnation.bytes()?, age, newest }))
    }

    /// Returns whether the metadata is still what a connection enrolled in.
    pub(crate) async fn holds(
        &self,
        wire: &dyn Wire,
        identity: &Identity,
    ) -> Result<bool, StoreError> {
        let mut command = Pipeline::with_capacity(1);
        command.add_command(cmd("HGET").arg(&self.keys.meta).arg("inc").clone());
        let replies = exchange(wire, &command, DEADLINE).await.map_err(|trouble| trouble.error)?;
        let [incarnation] = Reply::new("HGET", ::redis::Value::Array(replies)).fields()?;
        Ok(incarnation.optional_bytes()?.as_ref() == Some(&identity.incarnation))
    }

    fn offer(&self) -> Result<SecretKey, StoreError> {
        if let Some(key) = &self.given {
            return Ok(key.clone());
        }
        match &*self.last.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(key) => Ok(key.clone()),
            None => random(),
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

/// Draws 16 random bytes.
pub(crate) fn random() -> Result<SecretKey, StoreError> {
    SecretKey::random().map_err(|error| StoreError::Refused {
        reason: format!("the system's random source: {error}"),
    })
}

impl fmt::Debug for Enrolment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Enrolment").field("name", &self.name).finish_non_exhaustive()
    }
}
