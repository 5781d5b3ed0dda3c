//! Which filter a command is about. It is looked for first: a guard of a name that does not exist would make one.

use std::collections::BTreeSet;

use bloom_guard::SecretKey;
use bloom_guard::inspect::{Filter, Said, Server, shards_of};

use crate::outcome::Failure;

/// The rounds of a SCAN, of a thousand keys each, in which other filters' names are looked for.
const MOST_ROUNDS: usize = 200;
/// How many of them are named.
const MOST_NAMED: usize = 20;

/// A filter, by its URL and name.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Target {
    /// Where Redis is; `-` takes it from `BLOOM_GUARD_URL`.
    pub(crate) url: String,
    /// The filter's name.
    pub(crate) name: String,
    /// In how many shards the filter is; found out if there is only one of this name.
    #[arg(long, value_name = "N")]
    shards: Option<u32>,
}

impl Target {
    pub(crate) fn url(&self) -> Result<String, Failure> {
        url(&self.url)
    }

    /// Finds the filter, and reads it without changing anything.
    pub(crate) async fn read(&self) -> Result<Filter, Failure> {
        let (url, key) = (self.url()?, secret_key()?);
        let shards = self.find(&url).await?;
        Ok(Filter::read(&url, &self.name, shards, key.as_ref()).await?)
    }

    /// Reads it once more, by what was read before.
    pub(crate) async fn read_again(&self, filter: Option<Filter>) -> Result<Filter, Failure> {
        match filter {
            Some(mut filter) if filter.shards.iter().all(|shard| shard.away.is_none()) => {
                filter.refresh().await?;
                Ok(filter)
            }
            // What was away may be back.
            _ => self.read().await,
        }
    }

    /// The same of a filter that is to be changed: of one whose node is away, a part would be left as it was.
    pub(crate) async fn read_whole(&self) -> Result<Filter, Failure> {
        let filter = self.read().await?;
        match filter.shards.iter().find_map(|shard| shard.away.as_ref()) {
            Some(reason) => Err(Failure(format!(
                "A part of the filter cannot be reached, so nothing is changed: {reason}."
            ))),
            None => Ok(filter),
        }
    }

    /// Returns in how many shards it is.
    async fn find(&self, url: &str) -> Result<u32, Failure> {
        let name = &self.name;
        if let Some(one) = only(&shards_of(url, name, self.shards).await?, name)? {
            return Ok(one);
        }
        match (&shards_of(url, name, None).await?[..], self.shards) {
            (others @ [_, ..], Some(asked)) => Err(Failure(format!(
                "There is no filter {name:?} in {asked} shards: give --shards {}.",
                list(others)
            ))),
            _ => Err(self.unknown(url).await),
        }
    }

    async fn unknown(&self, url: &str) -> Failure {
        let name = &self.name;
        let names = names(url, name).await.unwrap_or_default();
        let known = match names.len() {
            0 => {
                "none was found here at all; see that the URL and its database are right".to_owned()
            }
            _ => format!("there are {}", names.join(", ")),
        };
        Failure(format!("There is no filter of this name, {name:?}: {known}."))
    }
}

/// Returns in how many shards a filter is, of those that were found; none if there is none.
pub(crate) fn only(found: &[u32], name: &str) -> Result<Option<u32>, Failure> {
    match found {
        [_, _, ..] => Err(Failure(format!(
            "There are filters {name:?} in {} shards: say which with --shards.",
            list(found)
        ))),
        found => Ok(found.first().copied()),
    }
}

fn list(shards: &[u32]) -> String {
    shards.iter().map(u32::to_string).collect::<Vec<_>>().join(" or ")
}

/// Returns a URL as it was given, or as the environment has it.
pub(crate) fn url(given: &str) -> Result<String, Failure> {
    if given != "-" {
        return Ok(given.to_owned());
    }
    std::env::var("BLOOM_GUARD_URL")
        .map_err(|_| Failure("The URL is `-`, and BLOOM_GUARD_URL is not set: set it.".to_owned()))
}

/// Reads the secret key from the environment.
pub(crate) fn secret_key() -> Result<Option<SecretKey>, Failure> {
    const NAME: &str = "BLOOM_GUARD_SECRET_KEY";
    let Ok(hex) = std::env::var(NAME) else { return Ok(None) };
    // A number may have a sign.
    let digits = Some(hex.trim()).filter(|digits| digits.len() == 32 && !digits.starts_with('+'));
    match digits.and_then(|digits| u128::from_str_radix(digits, 16).ok()) {
        Some(key) => Ok(Some(SecretKey::new(key.to_be_bytes()))),
        None => Err(Failure(format!(
            "{NAME} is not 32 hex digits but has {} characters: give the key's 16 bytes in hex.",
            hex.chars().count()
        ))),
    }
}

/// Looks for filters by a bounded SCAN.
async fn names(url: &str, near: &str) -> Option<Vec<String>> {
    let server = Server::open(url, &format!("bg:{{{near}}}:meta")).await.ok()?;
    let (mut cursor, mut names) = ("0".to_owned(), BTreeSet::new());
    for _ in 0..MOST_ROUNDS {
        let words = ["SCAN", &cursor, "MATCH", "bg:{*}:meta", "COUNT", "1000"];
        let said = server.ask(&words).await.ok()?;
        let [next, keys] = said.list() else { return None };
        names.extend(keys.list().iter().filter_map(name_of));
        cursor = next.text();
        if cursor == "0" || names.len() >= MOST_NAMED {
            break;
        }
    }
    Some(names.into_iter().take(MOST_NAMED).collect())
}

fn name_of(key: &Said) -> Option<String> {
    let key = key.text();
    let name = key.strip_prefix("bg:{")?.strip_suffix("}:meta")?;
    Some(match name.split_once('#') {
        Some((name, shard)) => {
            format!("{name} (in {} shards)", shard.split_once('/').map_or("?", |(_, all)| all))
        }
        None => name.to_owned(),
    })
}
