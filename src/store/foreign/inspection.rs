//! A look at a whole foreign filter.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ::redis::{Cmd, cmd};

use super::known::{Numbers, read_numbers};
use super::layout::Layout;
use super::module::{self, Info};
use super::seal::WORD;
use super::site::Connection;
use super::site::Site;
use super::size::BloomSize;
use crate::error::StoreError;
use crate::random;
use crate::store::link::refusal::doubt;
use crate::store::link::reply::Reply;
use crate::store::link::wire::pipeline;
use crate::verdict::Doubt;

/// How long each of its commands may take.
pub(super) const DEADLINE: Duration = Duration::from_secs(5);
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
    pub(super) run: u32,
    pub(super) config: Numbers,
    pub(super) size: BloomSize,
    /// Of a bitmap.
    pub(super) keys: Vec<KeyInspection>,
    /// As they are stored.
    pub(super) witnesses: Vec<u8>,
    /// What a module says.
    pub(super) info: Option<Info>,
    /// What a module's filter was sealed with, if it had room.
    pub(super) seal: Option<u64>,
}

/// What there is at one key.
#[derive(Debug, Clone)]
pub(super) struct KeyInspection {
    /// With whatever is behind the last bit.
    pub(super) bytes: u64,
    pub(super) bits_set: u64,
}

impl Inspection {
    /// Puts together what there is on all instances.
    pub(super) fn of(sites: Vec<SiteInspection>, layout: &dyn Layout) -> Self {
        let mut size = sites.first().map_or(BloomSize::new(0, 0), |site| site.size);
        let keys = || sites.iter().flat_map(|site| &site.keys);
        let most = layout.end(size).div_ceil(8);
        let mut bytes = keys().map(|key| key.bytes.min(most)).sum();
        let bits_set = keys().map(|key| key.bits_set).sum();
        let (mut ids, mut rate) = (0, 0.0);
        if let Some(info) = sites.first().and_then(|site| site.info) {
            (size, ids, bytes) = (info.size(), info.ids, info.bytes);
            rate = size.expected_rate(ids);
        } else if !layout.is_module() {
            let all = layout.whole(size);
            ids = all.estimated_ids(bits_set);
            rate = (bits_set as f64 / all.bits as f64).powf(f64::from(size.hashes));
        }
        Self { size, bytes, bits_set, ids, false_positive_rate: rate, sites }
    }
}

impl Site {
    /// Looks at all of the filter that is here.
    pub(super) async fn inspect(&self) -> Result<SiteInspection, StoreError> {
        let connection = self.node.inserts.connected(DEADLINE).await?;
        let config = self.read_config(&connection).await?;
        let size = self.trust.layout.size(&config).map_err(|reason| self.trust.foreign(&reason))?;
        let (mut keys, mut witnesses, mut module) = (Vec::new(), Vec::new(), (None, None));
        if self.trust.layout.is_module() {
            module = self.inspect_module(&connection).await?;
        } else {
            for (at, (_, key)) in self.trust.keys.iter().enumerate() {
                let (key, of_key) = self.inspect_key(&connection, at, key, size).await?;
                keys.push(key);
                witnesses.extend(of_key);
            }
        }
        let (run, (info, seal)) = (connection.process.run, module);
        Ok(SiteInspection { run, config, size, keys, witnesses, info, seal })
    }

    /// Asks a module what there is, and seals it: trust can be stated in this very filter only.
    async fn inspect_module(
        &self,
        connection: &Arc<Connection>,
    ) -> Result<(Option<Info>, Option<u64>), StoreError> {
        let key = self.trust.key_of(0);
        let info = match self.ask_all(connection, [Info::ask(key)]).await {
            Err(error) if doubt(&error) == Doubt::Gone => return Ok((None, None)),
            replies => Info::read(replies?.remove(0))?,
        };
        let known = self.trust.known();
        let believed = known.as_ref().and_then(|known| known.believed().ok());
        let mut seal = believed.map(|believed| believed.record.seal);
        if seal.is_none() && info.ids > 0 && info.has_room() && info.is_legible() {
            seal = Some(self.seal_module(connection, key).await?);
        }
        Ok((Some(info), seal))
    }

    /// Seals a module's filter, unless this process has done so: each time takes room for 16 ids.
    async fn seal_module(
        &self,
        connection: &Arc<Connection>,
        key: &str,
    ) -> Result<u64, StoreError> {
        if let Some(drawn) = self.trust.drawn.load_full() {
            let ask = module::ask(key, [], Some(*drawn));
            if module::has_seal(self.ask_all(connection, [ask]).await?.remove(0))? {
                return Ok(*drawn);
            }
        }
        let seal = random::scatter();
        let insert = module::insert(key, module::seal_ids(seal));
        let reply = self.ask_all(connection, [insert]).await?.remove(0);
        module::flags(reply, module::SEALED as usize)?;
        self.trust.drawn.store(Some(Arc::new(seal)));
        Ok(seal)
    }

    /// Looks at one key; returns witnesses, too.
    async fn inspect_key(
        &self,
        connection: &Arc<Connection>,
        at: usize,
        key: &str,
        size: BloomSize,
    ) -> Result<(KeyInspection, Vec<u8>), StoreError> {
        let end = self.trust.layout.end(size);
        let length = self.ask_numbers(connection, [cmd("STRLEN").arg(key).clone()]).await?;
        let length = length[0].cast_unsigned();
        let bytes = length.min(end.div_ceil(8));
        let mut bits_set = 0;
        for first in (0..bytes).step_by(PIECE as usize) {
            let last = (first + PIECE).min(bytes) - 1;
            let count = cmd("BITCOUNT").arg(key).arg(first).arg(last).clone();
            bits_set += self.ask_numbers(connection, [count]).await?[0].cast_unsigned();
        }
        let words = self.sample(connection, key, bytes).await?;
        let mut command = cmd("BITFIELD");
        command.arg(key);
        for first in &words {
            command.arg("GET").arg("i64").arg(*first);
        }
        let read = self.ask_all(connection, [command]).await?.remove(0).ints()?;
        let mut witnesses = Vec::with_capacity(18 * words.len());
        for (first, set) in words.into_iter().zip(read) {
            witnesses.extend((at as u16).to_be_bytes());
            witnesses.extend(first.to_be_bytes());
            witnesses.extend(set?.to_be_bytes());
        }
        Ok((KeyInspection { bytes: length, bits_set }, witnesses))
    }

    /// Returns the first bits of words that are spread over a key of so many bytes and have bits set.
    async fn sample(
        &self,
        connection: &Arc<Connection>,
        key: &str,
        bytes: u64,
    ) -> Result<BTreeSet<u64>, StoreError> {
        // The first bit that is set in each of so many parts.
        let parts = (SAMPLED / self.trust.keys.len() as u64).clamp(1, bytes.max(1));
        let bits = (0..parts).map(|part| {
            let (first, end) = (bytes * part / parts, bytes * (part + 1) / parts);
            cmd("BITPOS").arg(key).arg(1).arg(first).arg(end.saturating_sub(1)).clone()
        });
        let bits = self.ask_numbers(connection, bits).await?;
        let set = bits.into_iter().filter_map(|bit| u64::try_from(bit).ok());
        Ok(set.map(|bit| bit / WORD * WORD).collect())
    }

    /// Reads the numbers, if Redis has them.
    pub(super) async fn read_config(
        &self,
        connection: &Arc<Connection>,
    ) -> Result<Numbers, StoreError> {
        read_numbers(self.ask_all(connection, self.trust.config()).await?.pop())
    }

    async fn ask_numbers(
        &self,
        connection: &Arc<Connection>,
        commands: impl IntoIterator<Item = Cmd>,
    ) -> Result<Vec<i64>, StoreError> {
        let replies = self.ask_all(connection, commands).await?;
        replies.iter().map(Reply::int).collect()
    }

    pub(super) async fn ask_all(
        &self,
        connection: &Arc<Connection>,
        commands: impl IntoIterator<Item = Cmd>,
    ) -> Result<Vec<Reply>, StoreError> {
        let commands = pipeline(commands);
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        let replies = self.node.inserts.ask(connection, &commands, DEADLINE).await?;
        Ok(replies.into_iter().map(|value| Reply::new("an inspection", value)).collect())
    }
}
