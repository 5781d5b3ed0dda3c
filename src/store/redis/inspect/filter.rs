//! A filter: its shards, and what it says of ids.

use std::sync::Arc;

use super::error::InspectError;
use super::looked::Looked;
use super::server::{Said, Server};
use super::shard::Shard;
use crate::error::StoreError;
use crate::id::{Digest, Digester, Id, SecretKey};
use crate::settings;
use crate::store::link::refusal::doubt;
use crate::store::redis::keys::Keys;
use crate::verdict::Doubt;

/// The most shards that there can be.
const MOST_SHARDS: u32 = 1_024;

/// A filter in Redis, as it was read without joining it.
#[derive(Debug)]
pub struct Filter {
    /// Its shards: one, if it is not cut.
    pub shards: Vec<Shard>,
    digester: Option<Digester>,
}

/// Returns in how many shards filters of this name are: none, if there is no such filter.
///
/// # Errors
///
/// Redis did not answer, or URL or name cannot be used.
pub async fn shards_of(url: &str, name: &str) -> Result<Vec<u32>, InspectError> {
    settings::name(name)?;
    let (mut found, mut servers, mut denied) = (Vec::new(), Vec::new(), None);
    let mut shards = 1;
    while shards <= MOST_SHARDS {
        let key = Keys::of_shard(name, 0, shards).meta;
        match ask_where(url, &mut servers, &["EXISTS", &key], &key).await {
            Ok((_, said)) => found.extend((said == Said::Int(1)).then_some(shards)),
            // A user may have the rights for one filter, and so for one number of shards.
            Err(InspectError::Store(error)) if doubt(&error) == Doubt::Denied => {
                denied = denied.or((shards == 1).then_some(error));
            }
            Err(error) => return Err(error),
        }
        shards *= 2;
    }
    match denied.filter(|_| found.is_empty()) {
        Some(error) => Err(error.into()),
        None => Ok(found),
    }
}

/// Asks the server that has a key, of those that are there or a new one.
async fn ask_where(
    url: &str,
    servers: &mut Vec<Arc<Server>>,
    words: &[&str],
    key: &str,
) -> Result<(Arc<Server>, Said), InspectError> {
    for server in &*servers {
        match server.ask(words).await {
            Err(StoreError::Refused { reason, .. }) if reason.starts_with("MOVED") => {}
            said => return Ok((Arc::clone(server), said?)),
        }
    }
    let server = Arc::new(Server::open(url, key).await?);
    let said = server.ask(words).await?;
    servers.push(Arc::clone(&server));
    Ok((server, said))
}

impl Filter {
    /// Reads the filter of this name in so many shards. Without a secret key the one is taken that is kept in Redis.
    ///
    /// # Errors
    ///
    /// Redis did not answer or cannot serve a guard, or the filter uses another secret key.
    pub async fn read(
        url: &str,
        name: &str,
        shards: u32,
        given: Option<&SecretKey>,
    ) -> Result<Self, InspectError> {
        settings::name(name)?;
        let (mut read, mut servers) = (Vec::new(), Vec::new());
        for number in 0..shards {
            let keys = Keys::of_shard(name, number, shards);
            let words = ["EXISTS", &keys.meta];
            let (server, _) = ask_where(url, &mut servers, &words, &keys.meta).await?;
            read.push(Shard::read(keys, server).await?);
        }
        let digester = digester(name, &read, given)?;
        Ok(Self { shards: read, digester })
    }

    /// Reads it anew, on the same connections.
    ///
    /// # Errors
    ///
    /// Redis did not answer, or cannot serve a guard any more.
    pub async fn refresh(&mut self) -> Result<(), InspectError> {
        for shard in &mut self.shards {
            *shard = Shard::read(shard.keys.clone(), Arc::clone(&shard.server)).await?;
        }
        Ok(())
    }

    /// Whether the secret key is known, so that ids can be looked up.
    #[must_use]
    pub fn has_key(&self) -> bool {
        self.digester.is_some()
    }

    /// Asks what the filter says of these ids, in their order.
    ///
    /// # Errors
    ///
    /// One is no id, Redis did not answer, or the secret key is not known.
    pub async fn look<I: AsRef<[u8]>>(&mut self, ids: &[I]) -> Result<Vec<Looked>, InspectError> {
        let digests =
            ids.iter().map(|id| self.digest(id.as_ref())).collect::<Result<Vec<_>, _>>()?;
        let count = self.shards.len();
        let mut order: Vec<usize> = (0..digests.len()).collect();
        order.sort_unstable_by_key(|at| digests[*at]);
        let mut looked: Vec<Option<Looked>> = vec![None; digests.len()];
        let shard = |at: &usize| digests[*at].shard(count);
        for places in order.chunk_by(|one, other| shard(one) == shard(other)) {
            let asked: Vec<Digest> = places.iter().map(|at| digests[*at]).collect();
            let found = self.shards[shard(&places[0])].look(&asked).await?;
            for (at, found) in places.iter().zip(found) {
                looked[*at] = Some(found);
            }
        }
        Ok(looked.into_iter().flatten().collect())
    }

    pub(super) fn digest(&self, id: &[u8]) -> Result<Digest, InspectError> {
        let digester = self.digester.as_ref().ok_or(InspectError::NoKey)?;
        Ok(digester.digest(&Id::new(id)?))
    }
}

/// Returns what hashes with the filter's key, if that is known.
fn digester(
    name: &str,
    shards: &[Shard],
    given: Option<&SecretKey>,
) -> Result<Option<Digester>, InspectError> {
    let kept = shards.iter().find_map(|shard| shard.metadata.key).map(SecretKey::new);
    let Some(key) = given.cloned().or(kept) else { return Ok(None) };
    let ours = key.id_for(name);
    let other = shards.iter().filter_map(|shard| shard.metadata.key_id).find(|id| *id != ours);
    match other {
        Some(theirs) => Err(StoreError::OtherKey { ours, theirs }.into()),
        None => Ok(Some(Digester::new(&key, name))),
    }
}
