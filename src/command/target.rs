//! Which filter a command is about, the observer that joins it, and a bare connection for what no guard asks.

use std::sync::Arc;
use std::time::Duration;

use ::redis::Cmd;
use tokio::time::sleep;

use super::outcome::Failure;
use crate::error::StoreError;
use crate::extract::PathPattern;
use crate::id::SecretKey;
use crate::middleware::layer::BloomGuard;
use crate::nulls::rules::NegativeCaching;
use crate::refusal::Refusal;
use crate::settings;
use crate::store::link::connector::Access;
use crate::store::link::queue;
use crate::store::link::reply::Reply;
use crate::store::link::resp::Packed;
use crate::store::link::transport::{self, Transport};
use crate::store::map::endpoint::Endpoint;
use crate::store::redis::keys::{self, Keys};

/// How often a survey of all shards, of a second each, and a change are tried.
const TRIES: usize = 3;
/// How many shards of a cluster are tried: the nodes of some may be gone.
const TRIED: usize = 16;
/// How many ids are asked for at once.
pub(super) const ASKED: usize = queue::ROOM;

const DEADLINE: Duration = Duration::from_secs(10);
/// The longest reply: CLIENT LIST of some thousand connections.
const LONG: usize = 64 << 20;

/// A filter, by its URL and name.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Target {
    /// Where Redis is; `-` takes it from `BLOOM_GUARD_URL`.
    pub(super) url: String,
    /// The filter's name.
    pub(super) name: String,
    /// In how many shards the filter is.
    #[arg(long, value_name = "N", default_value_t = 1)]
    shards: u32,
}

impl Target {
    pub(super) fn endpoint(&self) -> Result<Endpoint, Failure> {
        settings::name(&self.name)?;
        keys::judge_shards(self.shards)?;
        // `with` refuses a user without a password, as a guard does; Redis would never be told of it.
        Ok(Endpoint::parse(&url(&self.url)?)?.with(&Access::default())?)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = Keys> + '_ {
        (0..self.shards).map(|number| Keys::of_shard(&self.name, number, self.shards))
    }

    /// Returns the keys of the first shard that answers, and a connection to it; nothing if there is no such filter.
    pub(super) async fn find(&self) -> Result<Option<(Server, Keys)>, Failure> {
        let endpoint = self.endpoint()?;
        let tried = if endpoint.is_cluster() { TRIED } else { 1 };
        let mut failed: Option<StoreError> = None;
        for keys in self.keys().take(tried) {
            let asked = async {
                let server = Server::open(&endpoint, &keys.meta).await?;
                Ok((server.ask(&["EXISTS", &keys.meta]).await?.flag()?, server))
            };
            match asked.await {
                Ok((is_there, server)) => return Ok(is_there.then_some((server, keys))),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(None), |error| Err(error.into()))
    }

    /// As [`find`](Self::find), but fails if there is no such filter.
    pub(super) async fn found(&self) -> Result<(Server, Keys), Failure> {
        let Self { name, shards, .. } = self;
        self.find().await?.ok_or_else(|| {
            let shards = if *shards == 1 { String::new() } else { format!(" in {shards} shards") };
            Failure(format!("there is no filter {name:?}{shards} here: see that URL, name and --shards are right"))
        })
    }

    /// Joins the filter as an observer, and waits for all shards that can be reached.
    pub(super) async fn observe(&self) -> Result<BloomGuard, Failure> {
        self.found().await?;
        let mut builder = BloomGuard::builder(&self.name, PathPattern::<String>::new("/{id}")?)
            .redis(&url(&self.url)?)
            .shards(self.shards)
            .longest_transaction(Duration::from_secs(1))
            .negative_caching(NegativeCaching::new().handler_time(Duration::from_millis(100)))
            .check_deadline(Duration::from_secs(2))
            .copy_limit(0);
        builder.settings.observes = true;
        if let Some(key) = secret_key()? {
            builder = builder.secret_key(key);
        }
        let guard = builder.build()?;
        look(&guard).await?;
        Ok(guard)
    }
}

pub(super) struct Server {
    transport: Arc<dyn Transport>,
    pub(super) is_of_cluster: bool,
}

impl Server {
    pub(super) async fn open(endpoint: &Endpoint, key: &str) -> Result<Self, StoreError> {
        let key: Arc<str> = key.into();
        let connector = endpoint.connector(move || Some(Arc::clone(&key)));
        let transport = connector.connect().await.map_err(|error| transport::meaning(&error))?;
        Ok(Self { transport, is_of_cluster: connector.is_to_a_cluster() })
    }

    pub(super) async fn ask<W: AsRef<[u8]>>(&self, words: &[W]) -> Result<Reply, StoreError> {
        let mut command = Cmd::new();
        for word in words {
            command.arg(word.as_ref());
        }
        let command = Packed::from(command).for_long_replies(LONG);
        transport::ask(&*self.transport, "a command", command, DEADLINE).await
    }
}

pub(super) async fn look(guard: &BloomGuard) -> Result<(), StoreError> {
    guard.start();
    let mut surveyed = Ok(());
    for _ in 0..TRIES {
        surveyed = guard.guard.store.survey().await.map(drop);
        if surveyed.is_ok() && guard.state().is_ready() {
            break;
        }
    }
    surveyed?;
    // Redis may let it read the filter, and refuse checks.
    guard.guard.metrics.probe(&guard.guard.store).await;
    Ok(())
}

/// Makes a change, and repeats it if it fails: a connection may take some time. What another operator has set since is not this
/// call's to undo.
pub(super) async fn insist(
    change: impl AsyncFn() -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    for _ in 1..TRIES {
        match change().await {
            Err(error) if !error.is(Refusal::OVERTAKEN) => sleep(Duration::from_millis(300)).await,
            ended => return ended,
        }
    }
    change().await
}

pub(super) fn url(given: &str) -> Result<String, Failure> {
    if given != "-" {
        return Ok(given.to_owned());
    }
    std::env::var("BLOOM_GUARD_URL")
        .map_err(|_| Failure("the URL is `-`, and BLOOM_GUARD_URL is not set".to_owned()))
}

fn secret_key() -> Result<Option<SecretKey>, Failure> {
    const NAME: &str = "BLOOM_GUARD_SECRET_KEY";
    let Some(hex) = std::env::var_os(NAME) else { return Ok(None) };
    let hex = hex.to_string_lossy();
    // A number may have a sign.
    let digits = Some(hex.trim()).filter(|digits| digits.len() == 32 && !digits.starts_with('+'));
    match digits.and_then(|digits| u128::from_str_radix(digits, 16).ok()) {
        Some(key) => Ok(Some(SecretKey::new(key.to_be_bytes()))),
        None => {
            Err(Failure(format!("{NAME} is not 32 hex digits: give the key's 16 bytes in hex")))
        }
    }
}
