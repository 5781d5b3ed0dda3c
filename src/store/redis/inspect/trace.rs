//! What is known of one id beside the filter's bits: its mark, its null, and the journal.

use ::redis::cmd;

use super::error::InspectError;
use super::filter::Filter;
use super::shard::Shard;
use crate::error::StoreError;
use crate::id::Digest;
use crate::store::link::reply::Reply;

/// How many entries are read at a time, and how often.
const PAGE: usize = 1_000;
const MOST_PAGES: usize = 2_000;

/// When an id was inserted, so far as that can be told; moments by Redis's clock, ms.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inserts {
    /// The id's digest, as lines of the log and keys of nulls name it.
    pub digest: String,
    /// The shard that the id is in.
    pub shard: usize,
    /// When its create mark ends, which was set when it was inserted.
    pub mark_ends_ms: Option<i64>,
    /// The last insert since the moment that was asked for.
    pub inserted_ms: Option<i64>,
    /// Whether the journal holds every insert since then, so that there was no other.
    pub is_complete: bool,
    /// For how long its null still lasts.
    pub null_ends_in_ms: Option<i64>,
}

impl Filter {
    /// Looks when an id was inserted: since the build of the live filter began, or at any time that the journal holds.
    ///
    /// # Errors
    ///
    /// It is no id, Redis did not answer, or the secret key is not known.
    pub async fn inserts(&self, id: &[u8]) -> Result<Inserts, InspectError> {
        let digest = self.digest(id)?;
        let number = digest.shard(self.shards.len());
        let shard = &self.shards[number];
        if shard.away.is_some() {
            let digest = digest.to_string();
            return Ok(Inserts { digest, shard: number, ..Inserts::default() });
        }
        let since_ms = shard.generation().map_or(0, |generation| generation.get() / 1000);
        let mut mark = cmd("ZSCORE");
        mark.arg(&shard.keys.marks).arg(digest.as_bytes());
        let mark = shard.server.step("ZSCORE", mark).await?.optional_bytes()?;
        let mark = mark.and_then(|bytes| String::from_utf8(bytes).ok()?.parse::<f64>().ok());
        let null = shard.server.ask(&["PTTL", &shard.keys.null(&digest)]).await?;
        let (inserted_ms, whole) = shard.last_insert(&digest, since_ms).await?;
        let reaches = shard.journal.is_some_and(|journal| match journal.reaches {
            None => true,
            Some(back) => shard.now_us / 1000 - back.as_millis() as i64 <= since_ms,
        });
        Ok(Inserts {
            digest: digest.to_string(),
            shard: number,
            mark_ends_ms: mark.map(|ends| ends as i64),
            inserted_ms,
            is_complete: whole && reaches,
            null_ends_in_ms: null.text().parse().ok().filter(|ms| *ms > 0),
        })
    }
}

impl Shard {
    /// Returns the last insert of an id that the journal has from then on, and whether all of it was read.
    async fn last_insert(
        &self,
        digest: &Digest,
        since_ms: i64,
    ) -> Result<(Option<i64>, bool), StoreError> {
        let (mut from, mut found) = (since_ms.to_string(), None);
        for _ in 0..MOST_PAGES {
            let mut page = cmd("XRANGE");
            page.arg(&self.keys.log).arg(&from).arg("+").arg("COUNT").arg(PAGE);
            let entries = self.server.step("XRANGE", page).await?.array()?;
            let is_last = entries.len() < PAGE;
            for entry in entries {
                let [number, fields] = entry.fields::<2>()?;
                let number = number.text()?;
                if names(fields, digest)? {
                    found = number.split('-').next().and_then(|ms| ms.parse().ok());
                }
                from = format!("({number}");
            }
            if is_last {
                return Ok((found, true));
            }
        }
        Ok((found, false))
    }
}

/// Whether an entry is of an insert of this id.
fn names(fields: Reply, digest: &Digest) -> Result<bool, StoreError> {
    let (mut is_insert, mut is_in) = (false, false);
    for [name, value] in fields.pairs()? {
        match name.text()?.as_str() {
            "k" => is_insert = value.text()? == "a",
            "d" => is_in = value.bytes()?.as_chunks::<16>().0.contains(digest.as_bytes()),
            _ => {}
        }
    }
    Ok(is_insert && is_in)
}
