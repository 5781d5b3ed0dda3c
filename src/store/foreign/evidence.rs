//! What shows that a filter's numbers are the writer's; and the statement that it is whole.

use std::collections::BTreeSet;
use std::sync::Arc;

use ::redis::cmd;
use tokio::time::Instant;

use super::error::TrustError;
use super::inspection::{DEADLINE, Inspection, KeyInspection, SiteInspection};
use super::layout::{Kind, Layout};
use super::module;
use super::record::Record;
use super::round::Round;
use super::seal;
use super::site::{Connection, Site};
use crate::filter::Generation;
use crate::id::Id;
use crate::store::link::transport::pipeline;

/// How often wrong numbers may be taken for right ones.
pub(super) const CHANCE: f64 = 1e-9;
/// Filters in which more ids than these are found by chance show nothing, and refuse hardly any.
pub(super) const MOST_FOUND: f64 = 0.9;
const SCRIPT: &str =
    concat!(include_str!("is_clear.lua"), include_str!("refilling.lua"), include_str!("state.lua"));
/// Ids looked for by one pipeline.
const ASKED: usize = 1_000;

impl Inspection {
    /// Judges whether these ids that exist are enough to show that the numbers are the writer's.
    pub(super) fn is_shown_by(
        &self,
        ids: &BTreeSet<Id>,
        layout: &dyn Layout,
    ) -> Result<(), TrustError> {
        let given = ids.iter().filter(|id| layout.shows_numbers(id.as_bytes())).count() as u64;
        let (rate, limit) = (self.false_positive_rate, MOST_FOUND);
        if rate > limit {
            return Err(TrustError::Full { filter: layout.describe(), rate, limit });
        }
        // Where most bits may be alike, each id counts as one bit.
        let bits = if layout.is_even() { 1 } else { self.size.hashes };
        let chance = rate.powf(1.0 / f64::from(bits));
        let needed = (CHANCE.ln() / chance.ln()).ceil().max(1.0) as u64;
        if given < needed { Err(TrustError::TooFew { given, needed, chance }) } else { Ok(()) }
    }
}

impl Site {
    /// Sees that all of these ids that exist are in the filter that was looked at, and that its keys have the lengths that its
    /// numbers say.
    pub(super) async fn look_for(
        &self,
        ids: &[&[u8]],
        seen: &SiteInspection,
    ) -> Result<(), TrustError> {
        for (key, found) in self.trust.keys.all().zip(&seen.sight.keys) {
            self.measure(key, found, seen)?;
        }
        let connection = self.still_inspected(seen).await?;
        let (known, filter) = (self.known().await?, self.trust.of(&seen.config));
        let mut missing = 0;
        for ids in ids.chunks(ASKED) {
            let places = self.places(seen.size, ids);
            let round = Round::new(&self.trust, &known, places.iter(), &(0..usize::MAX), None);
            let replies =
                self.node.inserts.ask(&connection, &pipeline(round.commands()), DEADLINE).await?;
            missing += round.read(replies)?.0.into_iter().filter(|held| !held).count() as u64;
        }
        let given = ids.len() as u64;
        if missing == 0 { Ok(()) } else { Err(TrustError::Missing { filter, missing, given }) }
    }

    /// Judges the length of a key.
    fn measure(
        &self,
        key: &str,
        found: &KeyInspection,
        seen: &SiteInspection,
    ) -> Result<(), TrustError> {
        let (key, filter) = (key.to_owned(), self.trust.of(&seen.config));
        let KeyInspection { bytes, bits_set } = *found;
        if bits_set == 0 {
            return Err(TrustError::Unsealable { key, reason: "it holds no id" });
        }
        let end = self.trust.layout.end(seen.size);
        // Hardly any filter has all of its bits so far in front.
        let least = |bits: f64| (end as f64 * (CHANCE.ln() / bits).exp() / 8.0) as u64;
        let min = if self.trust.layout.is_even() { least(bits_set as f64) } else { 0 };
        let max = self.seal_of(seen)? / 8 + 8;
        let fits = (min..=max).contains(&bytes);
        if fits { Ok(()) } else { Err(TrustError::Length { key, bytes, min, max, filter }) }
    }

    /// States that the filter that was looked at is whole, or that was refilled under a word. `counts` are how many ids it
    /// has, and as how many a source should give.
    pub(super) async fn trust_after(
        &self,
        seen: &SiteInspection,
        (ids, given): (u64, u64),
        word: &str,
    ) -> Result<(), TrustError> {
        let connection = self.still_inspected(seen).await?;
        // Redis's clock may have been set back.
        let lost = self.trust.lost().map_or(0, |(lost, _)| lost.get());
        let now = connection.redis_us(Instant::now()).max(lost + 1);
        let generation =
            Generation::new(now).ok_or_else(|| self.trust.foreign("redis has no clock"))?;
        let of = self.trust.of(&seen.config);
        let seal = self.seal_of(seen)?;
        let record = Record { run: seen.run, generation, ids, seal, of };
        self.state(&connection, &record, given, seen, word).await?;
        // After a loss it is another one: copies of the filter have this one.
        self.trust.drawn.store(None);
        if self.look().await? { Ok(()) } else { Err(self.changed("it is not believed")) }
    }

    /// Returns a connection to the process that was inspected, if the numbers in Redis are still the same.
    async fn still_inspected(&self, seen: &SiteInspection) -> Result<Arc<Connection>, TrustError> {
        let connection = self.node.inserts.connected(DEADLINE).await?;
        if connection.process.run != seen.run {
            return Err(self.changed("another redis process answers"));
        }
        if self.read_config(&connection).await? != seen.config {
            return Err(self.changed("its numbers are others"));
        }
        Ok(connection)
    }

    fn changed(&self, what: &'static str) -> TrustError {
        TrustError::Changed { key: self.trust.keys.first().to_owned(), what }
    }

    /// Returns where the seal belongs, or what it is made of.
    fn seal_of(&self, seen: &SiteInspection) -> Result<u64, TrustError> {
        let reason = match self.trust.layout.kind() {
            Kind::Bitmap => "it has no room for a seal",
            Kind::Module => "it holds no id, has no room for a seal (16 ids), or a rate over 0.25",
        };
        let key = || self.trust.keys.first().to_owned();
        seen.sight.seal.ok_or_else(|| TrustError::Unsealable { key: key(), reason })
    }

    /// Seals the filter and writes the statement, if it still is what was inspected.
    async fn state(
        &self,
        connection: &Arc<Connection>,
        record: &Record,
        given: u64,
        seen: &SiteInspection,
        word: &str,
    ) -> Result<(), TrustError> {
        let (keys, end) = (&self.trust.keys, self.trust.layout.end(seen.size));
        let mut command = cmd("EVAL");
        command.arg(SCRIPT).arg(keys.all().len() + 1);
        command.arg(&keys.statement).arg(keys.all().collect::<Vec<_>>());
        command
            .arg(record.encode())
            .arg(&record.of)
            .arg(&seen.sight.witnesses)
            .arg(word)
            .arg(given);
        match self.trust.layout.kind() {
            Kind::Bitmap => command.arg(&seal::draw().to_be_bytes()).arg(record.seal / 8).arg(end),
            Kind::Module => command.arg(module::seal_ids(record.seal).collect::<Vec<_>>()),
        };
        let reply = self.ask_one(connection, command).await?;
        let key = keys.first().to_owned();
        match reply.int() {
            Ok(1) => Ok(()),
            Ok(0) => Err(self.changed("bits are clear that were set")),
            Ok(_) => Err(TrustError::Behind { key, end, filter: record.of.clone() }),
            Err(_) => {
                let on = reply.bytes()?;
                let theirs = Record::decode(&on).map(|record| record.of).unwrap_or_default();
                Err(TrustError::Other { ours: record.of.clone(), theirs })
            }
        }
    }
}
