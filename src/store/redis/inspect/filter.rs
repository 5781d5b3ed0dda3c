//! A filter: its shards, and what it says of ids.

use std::sync::Arc;

use ::redis::RedisError;

use super::error::InspectError;
use super::looked::Looked;
use super::server::{Said, Server};
use super::shard::Shard;
use crate::error::StoreError;
use crate::id::{Digest, Digester, Id, SecretKey};
use crate::settings;
use crate::store::JournalReach;
use crate::store::link::access::Access;
use crate::store::link::refusal::doubt;
use crate::store::link::transport::Trouble;
use crate::store::map::endpoint::Endpoint;
use crate::store::map::server::Server as Node;
use crate::store::redis::keys::{Keys, MOST_SHARDS};
use crate::verdict::Doubt;

/// How many shards of a filter are looked for.
const TRIED: u32 = 4;

/// A filter in Redis, as it was read without joining it.
#[derive(Debug)]
pub struct Filter {
    /// Its shards: one, if it is not cut.
    pub shards: Vec<Shard>,
    digester: Option<Digester>,
}

/// Which shards are looked for, of how many: the first ones, as one node of a cluster may be away.
fn shards_to_try(asked: Option<u32>) -> Vec<(u32, u32)> {
    let any = || (0..=MOST_SHARDS.ilog2()).map(|power| 1 << power).collect();
    let counts: Vec<u32> = asked.map_or_else(any, |asked| vec![asked]);
    counts.into_iter().flat_map(|of| (0..of.min(TRIED)).map(move |number| (number, of))).collect()
}

/// Returns in how many shards filters of this name are, of all numbers or of the one that is asked for: none, if there is no such
/// filter.
///
/// # Errors
///
/// Redis did not answer, URL or name cannot be used, or none was found and the user may not look everywhere.
pub async fn shards_of(
    url: &str,
    name: &str,
    asked: Option<u32>,
) -> Result<Vec<u32>, InspectError> {
    settings::name(name)?;
    let (mut found, mut servers, mut failed) = (Vec::new(), Vec::new(), None);
    let tried = shards_to_try(asked);
    let all: Vec<Keys> = tried.iter().map(|(n, of)| Keys::of_shard(name, *n, *of)).collect();
    let homes = homes(url, all.iter().map(|keys| &*keys.meta)).await?;
    let mut away = Vec::new();
    for ((keys, home), (_, shards)) in all.iter().zip(&homes).zip(tried) {
        if found.contains(&shards) || away.contains(&home) {
            continue;
        }
        match ask_where(url, &mut servers, &["EXISTS", &keys.meta], &keys.meta).await {
            Ok((_, said)) => found.extend((said == Said::Int(1)).then_some(shards)),
            // A user may have the rights for one filter, and so for one number of shards.
            Err(InspectError::Store(error)) if doubt(&error) == Doubt::Denied => {
                failed = failed.or(Some(error));
            }
            Err(InspectError::Store(error)) if home.is_some() && is_away(&error) => {
                away.push(home);
                failed = failed.or(Some(error));
            }
            Err(error) => return Err(error),
        }
    }
    match failed.filter(|_| found.is_empty()) {
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

/// Returns which nodes of a cluster keys are on, host and port; nothing where it is no cluster, or none serves a key's slot.
///
/// # Errors
///
/// The URL cannot be read, or no node answers.
pub async fn nodes_of(url: &str, keys: &[String]) -> Result<Vec<Option<String>>, InspectError> {
    let nodes = homes(url, keys.iter().map(String::as_str)).await?;
    Ok(nodes.into_iter().map(|node| node.map(|node| node.to_string())).collect())
}

async fn homes<'a>(
    url: &str,
    keys: impl ExactSizeIterator<Item = &'a str>,
) -> Result<Vec<Option<Node>>, InspectError> {
    let count = keys.len();
    match Endpoint::parse(url)?.with(&Access::default())?.slots(keys.map(Arc::from).collect()) {
        Some(slots) => {
            let nodes = slots.primaries().await.map_err(RedisError::from).map_err(Trouble::from);
            Ok(nodes.map_err(|trouble| trouble.error)?)
        }
        None => Ok(vec![None; count]),
    }
}

async fn read_shard(
    url: &str,
    servers: &mut Vec<Arc<Server>>,
    keys: Keys,
) -> Result<Shard, InspectError> {
    let (server, _) = ask_where(url, servers, &["EXISTS", &keys.meta], &keys.meta).await?;
    Ok(Shard::read(keys, server).await?)
}

/// Whether no node that could be asked serves a slot.
fn is_away(error: &StoreError) -> bool {
    matches!(doubt(error), Doubt::Disconnected | Doubt::Timeout | Doubt::Cluster)
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
        let keys: Vec<Keys> =
            (0..shards).map(|number| Keys::of_shard(name, number, shards)).collect();
        let homes = homes(url, keys.iter().map(|keys| &*keys.meta)).await?;
        let (mut read, mut servers, mut away) = (Vec::new(), Vec::new(), Vec::new());
        for (keys, home) in keys.into_iter().zip(homes) {
            // Shards of one node are away together.
            if let Some((_, error)) = away.iter().find(|(node, _)| *node == home) {
                read.push(Shard::away(keys, error));
                continue;
            }
            match read_shard(url, &mut servers, keys.clone()).await {
                Ok(shard) => read.push(shard),
                Err(InspectError::Store(error)) if home.is_some() && is_away(&error) => {
                    read.push(Shard::away(keys, &error));
                    away.push((home, error));
                }
                Err(error) => return Err(error),
            }
        }
        if read.iter().all(|shard| shard.away.is_some())
            && let Some((_, error)) = away.into_iter().next()
        {
            return Err(error.into());
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

    /// How far back the journals of all shards reach, of those that tell.
    #[must_use]
    pub fn journal(&self) -> Option<JournalReach> {
        self.shards.iter().filter_map(|shard| shard.journal).reduce(JournalReach::with)
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
