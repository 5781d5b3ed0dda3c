//! A look at a whole foreign filter, and the statement that it is whole.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ::redis::{Cmd, Value, cmd};
use tokio::time::Instant;

use super::layout::Layout;
use super::module::{self, Info};
use super::record::{Record, SampledWord, encode_words};
use super::site::Site;
use super::size::BloomSize;
use super::trust::read_config;
use super::witness::{Seal, word_of};
use crate::error::StoreError;
use crate::filter::Generation;
use crate::random;
use crate::store::redis::link::connection::Connection;
use crate::store::redis::link::wire::{one, pipeline};
use crate::store::redis::refusal::doubt;
use crate::store::redis::reply::Reply;
use crate::verdict::Doubt;

const STEP: &str = "an inspection";
/// How long each of its commands may take.
const DEADLINE: Duration = Duration::from_secs(5);
/// Bytes counted by one command, which keeps Redis busy for less than a millisecond.
const PIECE: u64 = 1 << 20;
/// Witnesses of a filter, spread over all of its keys.
const SAMPLED: u64 = 256;

/// What there is of a foreign filter, at one moment.
///
/// Made by [`ForeignHandle::inspect`](crate::ForeignHandle::inspect), and what
/// [`trust_after`](crate::ForeignHandle::trust_after) wants to see: trust is stated in what was looked at, and in nothing
/// that took its place since.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Inspection {
    /// How large the filter is made: with the numbers in Redis, where the system keeps them there.
    pub size: BloomSize,
    /// The bytes there are of it now.
    pub bytes: u64,
    /// The bits that are set; none where a module keeps the filter, which does not tell.
    pub bits_set: u64,
    /// How many ids it holds, as estimated from that: `-m/k · ln(1 - set/m)`. A module counts them.
    pub ids: u64,
    /// The share of ids that do not exist and are found all the same: `(set/m)^k`. With a module it is estimated from
    /// bytes, capacity and ids.
    pub false_positive_rate: f64,
    pub(super) sites: Vec<SiteInspection>,
}

/// What there is on one Redis.
#[derive(Debug, Clone)]
pub(super) struct SiteInspection {
    run: u32,
    config: Vec<Option<Vec<u8>>>,
    size: BloomSize,
    bytes: u64,
    bits_set: u64,
    words: Vec<SampledWord>,
    /// What a module says.
    info: Option<Info>,
    /// What a module's filter was sealed with, if it had room.
    seal: Option<Seal>,
}

impl Inspection {
    /// Puts together what there is on all instances.
    pub(super) fn of(sites: Vec<SiteInspection>, layout: &dyn Layout) -> Self {
        let size = sites.first().map_or(BloomSize::new(0, 0), |site| site.size);
        if let Some(info) = sites.first().and_then(|site| site.info) {
            let (size, ids, bytes) = (info.size(), info.ids, info.bytes);
            let false_positive_rate = size.expected_rate(ids);
            return Self { size, bytes, bits_set: 0, ids, false_positive_rate, sites };
        }
        if layout.is_module() {
            return Self { size, bytes: 0, bits_set: 0, ids: 0, false_positive_rate: 0.0, sites };
        }
        let sum = |of: fn(&SiteInspection) -> u64| sites.iter().map(of).sum::<u64>();
        let (bytes, bits_set) = (sum(|site| site.bytes), sum(|site| site.bits_set));
        let bits = layout.end(size) * layout.keys().len() as u64;
        let all = BloomSize::new(bits, size.hashes);
        let fill = bits_set as f64 / all.bits as f64;
        let (ids, rate) = (all.estimated_ids(bits_set), fill.powf(f64::from(size.hashes)));
        Self { size, bytes, bits_set, ids, false_positive_rate: rate, sites }
    }
}

impl Site {
    /// Looks at all of the filter that is here.
    pub(super) async fn inspect(&self) -> Result<SiteInspection, StoreError> {
        let connection = self.adds.connected(DEADLINE).await?;
        let config = self.read_config(&connection).await?;
        let size = self.trust.layout.size(&config).map_err(|reason| self.foreign(&reason))?;
        let run = connection.process.run;
        let (words, info, seal) = (Vec::new(), None, None);
        let mut found =
            SiteInspection { run, config, size, bytes: 0, bits_set: 0, words, info, seal };
        if self.trust.layout.is_module() {
            self.inspect_module(&connection, &mut found).await?;
            return Ok(found);
        }
        for (at, (_, key)) in self.trust.keys.iter().enumerate() {
            self.inspect_key(&connection, at, key, &mut found).await?;
        }
        Ok(found)
    }

    /// Asks a module what there is, and seals it: trust can be stated in this very filter only.
    async fn inspect_module(
        &self,
        connection: &Arc<Connection>,
        found: &mut SiteInspection,
    ) -> Result<(), StoreError> {
        let key = self.trust.key_of(0);
        let info = match self.ask_all(connection, [Info::ask(key)]).await {
            Err(error) if doubt(&error) == Doubt::Gone => return Ok(()),
            replies => Info::read(replies?.remove(0))?,
        };
        found.info = Some(info);
        let known = self.trust.known();
        let believed = known.as_ref().and_then(|known| known.believed().ok());
        found.seal = believed.map(|believed| believed.record.seal);
        if found.seal.is_none() && info.ids > 0 && info.has_room() && info.is_legible() {
            found.seal = Some(self.seal_module(connection, key).await?);
        }
        Ok(())
    }

    /// Seals a module's filter, unless this process has done so: each time takes room for 16 ids.
    async fn seal_module(
        &self,
        connection: &Arc<Connection>,
        key: &str,
    ) -> Result<Seal, StoreError> {
        if let Some(drawn) = self.trust.drawn.load_full() {
            let ask = self.trust.ask_seal(key, &drawn);
            if module::has_seal(self.ask_all(connection, [ask]).await?.remove(0))? {
                return Ok(*drawn);
            }
        }
        let seal = module::draw();
        let insert = module::insert(key, module::seal_ids(&seal));
        let reply = self.ask_all(connection, [insert]).await?.remove(0);
        module::flags(reply, module::SEALED as usize)?;
        self.trust.drawn.store(Some(Arc::new(seal)));
        Ok(seal)
    }

    async fn inspect_key(
        &self,
        connection: &Arc<Connection>,
        at: usize,
        key: &str,
        found: &mut SiteInspection,
    ) -> Result<(), StoreError> {
        let length = self.ask_numbers(connection, [cmd("STRLEN").arg(key).clone()]).await?;
        // Without the seal.
        let length = length[0].cast_unsigned().min(self.trust.layout.end(found.size).div_ceil(8));
        for first in (0..length).step_by(PIECE as usize) {
            let last = (first + PIECE).min(length) - 1;
            let count = cmd("BITCOUNT").arg(key).arg(first).arg(last).clone();
            found.bits_set += self.ask_numbers(connection, [count]).await?[0].cast_unsigned();
        }
        found.bytes += length;
        let words = self.sample(connection, key, length).await?;
        let mut command = cmd("BITFIELD");
        command.arg(key);
        for first in &words {
            command.arg("GET").arg("i64").arg(*first);
        }
        let reply = self.ask_all(connection, [command]).await?.remove(0);
        for (first, set) in words.into_iter().zip(reply.array()?) {
            found.words.push((at, first, set.int()?.cast_unsigned()));
        }
        Ok(())
    }

    /// Returns the first bits of words that are spread over a key of so many bytes and have bits set.
    async fn sample(
        &self,
        connection: &Arc<Connection>,
        key: &str,
        length: u64,
    ) -> Result<BTreeSet<u64>, StoreError> {
        // From somewhere in each of so many parts on, the first bit that is set.
        let parts = (SAMPLED / self.trust.keys.len() as u64).clamp(1, length.max(1));
        let bits = (0..parts).map(|part| {
            let (first, end) = (length * part / parts, length * (part + 1) / parts);
            let from = first + random::scatter() % (end - first).max(1);
            cmd("BITPOS").arg(key).arg(1).arg(from).arg(end.saturating_sub(1)).clone()
        });
        let mut bits = self.ask_numbers(connection, bits).await?;
        // Parts with so few bits that none was met.
        if bits.iter().all(|bit| *bit < 0) {
            bits = self.ask_numbers(connection, [cmd("BITPOS").arg(key).arg(1).clone()]).await?;
        }
        Ok(bits.into_iter().filter_map(|bit| u64::try_from(bit).ok()).map(word_of).collect())
    }

    /// States that the filter that was looked at is whole.
    pub(super) async fn trust_after(
        &self,
        seen: &SiteInspection,
        ids: u64,
    ) -> Result<(), StoreError> {
        let connection = self.adds.connected(DEADLINE).await?;
        if connection.process.run != seen.run {
            return Err(
                self.foreign("another redis process answers than the one that was inspected")
            );
        }
        let seal = self.seal(seen)?;
        if self.read_config(&connection).await? != seen.config {
            return Err(self.foreign("its numbers are not those that were inspected"));
        }
        let now = connection.redis_us(Instant::now());
        let generation = Generation::new(now).ok_or_else(|| self.foreign("redis has no clock"))?;
        let filter = self.trust.filter(&seen.config);
        let record = Record { run: seen.run, filter, generation, ids, seal };
        let state = self.state(&record, &seen.words);
        if self.ask_numbers(&connection, [state]).await? != [1] {
            return Err(self.foreign("it is not what was inspected"));
        }
        // After a loss it is another one: copies of the filter have this one.
        self.trust.drawn.store(None);
        let checks = self.checks.connected(DEADLINE).await?;
        self.trust.look(checks.wire(), &checks.process).await?;
        let known = self.trust.known();
        let believed = known.as_ref().map(|known| known.believed().map(drop));
        match believed {
            Some(Ok(())) => Ok(()),
            _ => Err(self.foreign("it is not what was inspected")),
        }
    }

    /// Returns the seal for a filter that was looked at, if anything can show that it is whole.
    fn seal(&self, seen: &SiteInspection) -> Result<Seal, StoreError> {
        if self.trust.layout.is_module() {
            let reason = "it holds no id, has no room for a seal (16 ids), or a rate over 0.25";
            return seen.seal.ok_or_else(|| self.foreign(reason));
        }
        let has_words = |at| seen.words.iter().any(|&(key, _, set)| key == at && set != 0);
        if let Some(at) = (0..self.trust.keys.len()).find(|at| !has_words(*at)) {
            let reason = "it holds no id, so nothing could show that it is whole".to_owned();
            return Err(StoreError::Foreign { key: self.trust.keys[at].1.clone(), reason });
        }
        let seal = Seal::draw(self.trust.layout.end(seen.size));
        seal.ok_or_else(|| self.foreign("there is no room for a seal behind its last bit"))
    }

    /// Returns the command that seals the filter and writes the statement.
    fn state(&self, record: &Record, words: &[SampledWord]) -> Cmd {
        let mut command = cmd("EVAL");
        if self.trust.layout.is_module() {
            command.arg(include_str!("state_module.lua")).arg(2);
            command.arg(&self.trust.record).arg(self.trust.key_of(0)).arg(record.encode());
            command.arg(module::seal_ids(&record.seal).collect::<Vec<_>>());
            return command;
        }
        command.arg(include_str!("state.lua")).arg(self.trust.keys.len() + 1);
        command.arg(&self.trust.record);
        for (_, key) in &self.trust.keys {
            command.arg(key);
        }
        command.arg(record.encode()).arg(encode_words(words));
        command.arg(record.seal.first).arg(record.seal.value);
        command
    }

    async fn read_config(
        &self,
        connection: &Arc<Connection>,
    ) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        let Some(command) = self.trust.config() else { return Ok(Vec::new()) };
        read_config(self.adds.ask(connection, &one(command), DEADLINE).await?.into_iter().next())
    }

    async fn ask_numbers(
        &self,
        connection: &Arc<Connection>,
        commands: impl IntoIterator<Item = Cmd>,
    ) -> Result<Vec<i64>, StoreError> {
        let replies = self.ask_all(connection, commands).await?;
        replies.iter().map(Reply::int).collect()
    }

    async fn ask_all(
        &self,
        connection: &Arc<Connection>,
        commands: impl IntoIterator<Item = Cmd>,
    ) -> Result<Vec<Reply>, StoreError> {
        let replies = self.adds.ask(connection, &pipeline(commands), DEADLINE).await?;
        let reply = |value: Value| Reply::new(STEP, value);
        Ok(replies.into_iter().map(reply).collect())
    }
}
