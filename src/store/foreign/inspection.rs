//! A look at a whole foreign filter. It seals a module's.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ::redis::{Cmd, Value, cmd};

use super::known::{Numbers, read_numbers};
use super::layout::{Kind, Layout};
use super::module::{Info, SEALED, exist, flags, has_seal, insert, seal_ids};
use super::seal::{self, WORD};
use super::site::{Connection, Site};
use super::size::BloomSize;
use crate::error::StoreError;
use crate::random;
use crate::store::link::refusal::doubt;
use crate::store::link::reply::Reply;
use crate::store::link::transport::pipeline;
use crate::verdict::Doubt;

/// How long each command of an inspection may take.
pub(super) const DEADLINE: Duration = Duration::from_secs(5);

/// Bytes counted by one command, which keeps Redis busy for less than a millisecond.
const PIECE: u64 = 1 << 20;
/// Witnesses of a filter, spread over all of its keys.
pub(super) const SAMPLED: u64 = 256;

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
    pub(super) sight: Sight,
}

/// What a look at all of a filter on one Redis has shown.
#[derive(Debug, Clone, Default)]
pub(super) struct Sight {
    /// Of a bitmap.
    pub(super) keys: Vec<KeyInspection>,
    /// As they are stored.
    pub(super) witnesses: Vec<u8>,
    /// What a module says, if there is a filter.
    pub(super) info: Option<Info>,
    /// Where the seal belongs, or what it is made of, if the filter has room for one.
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
        let size = sites.first().map_or(BloomSize::new(0, 0), |site| site.size);
        let keys = || sites.iter().flat_map(|site| &site.sight.keys);
        let bits_set = keys().map(|key| key.bits_set).sum();
        let most = layout.end(size).div_ceil(8);
        let bytes = keys().map(|key| key.bytes.min(most)).sum();
        let all = layout.whole(size);
        let rate = (bits_set as f64 / all.bits as f64).powf(f64::from(size.hashes));
        let ids = all.estimated_ids(bits_set);
        let info = sites.iter().find_map(|site| site.sight.info);
        let sum = Self { size, bytes, bits_set, ids, false_positive_rate: rate, sites };
        match (layout.kind(), info) {
            (Kind::Bitmap, _) => sum,
            (Kind::Module, None) => Self { false_positive_rate: 0.0, ..sum },
            (Kind::Module, Some(info)) => {
                let (size, bytes, ids) = (info.size(), info.bytes, info.ids);
                Self { size, bytes, ids, false_positive_rate: size.expected_rate(ids), ..sum }
            }
        }
    }
}

impl Site {
    /// Looks at all of the filter that is here.
    pub(super) async fn inspect(&self) -> Result<SiteInspection, StoreError> {
        let trust = &self.trust;
        let connection = self.node.inserts.connected(DEADLINE).await?;
        let config = self.read_config(&connection).await?;
        let size = trust.layout.size(&config).map_err(|reason| trust.foreign(&reason))?;
        let sight = match trust.layout.kind() {
            Kind::Bitmap => self.inspect_bitmap(&connection, trust.layout.end(size)).await?,
            Kind::Module => self.inspect_module(&connection).await?,
        };
        Ok(SiteInspection { run: connection.process.run, config, size, sight })
    }

    /// Looks at all of the filter that is here, the bits before `end`.
    async fn inspect_bitmap(
        &self,
        connection: &Arc<Connection>,
        end: u64,
    ) -> Result<Sight, StoreError> {
        let mut sight = Sight { seal: seal::place(end), ..Sight::default() };
        let keys = self.trust.keys.all();
        let parts = SAMPLED / keys.len().max(1) as u64;
        for (at, key) in keys.enumerate() {
            let look = Look { site: self, connection, key };
            let length = look.count(cmd("STRLEN").arg(key)).await?;
            let bytes = length.min(end.div_ceil(8));
            let bits_set = look.bits_set(bytes).await?;
            sight.keys.push(KeyInspection { bytes: length, bits_set });
            // Spread over the whole filter.
            let words = look.sample(bytes, parts.clamp(1, bytes.max(1))).await?;
            sight.witnesses.extend(look.witnesses(at as u16, words).await?);
        }
        Ok(sight)
    }

    /// Asks a module what there is, and seals it: trust can be stated in this very filter only.
    async fn inspect_module(&self, connection: &Arc<Connection>) -> Result<Sight, StoreError> {
        let info = match self.ask_one(connection, Info::ask(self.trust.keys.first())).await {
            Err(error) if doubt(&error) == Doubt::Gone => return Ok(Sight::default()),
            reply => Info::read(reply?)?,
        };
        let known = self.trust.known();
        let believed = known.as_ref().and_then(|known| known.believed().ok());
        let mut seal = believed.map(|believed| believed.record.seal);
        if seal.is_none() && info.ids > 0 && info.has_room() && info.is_legible() {
            seal = Some(self.seal_module(connection).await?);
        }
        Ok(Sight { info: Some(info), seal, ..Sight::default() })
    }

    /// Seals a module's filter, unless this process has done so: each time takes room for 16 ids.
    pub(super) async fn seal_module(
        &self,
        connection: &Arc<Connection>,
    ) -> Result<u64, StoreError> {
        let (key, drawn) = (self.trust.keys.first(), &self.trust.drawn);
        if let Some(seal) = drawn.load_full()
            && has_seal(self.ask_one(connection, exist(key, [], Some(*seal))).await?)?
        {
            return Ok(*seal);
        }
        let seal = random::scatter();
        let inserted = self.ask_one(connection, insert(key, seal_ids(seal))).await?;
        flags(inserted, SEALED as usize)?;
        drawn.store(Some(Arc::new(seal)));
        Ok(seal)
    }

    /// Reads the numbers, if Redis has them.
    pub(super) async fn read_config(
        &self,
        connection: &Arc<Connection>,
    ) -> Result<Numbers, StoreError> {
        let Some(config) = self.trust.config() else { return Ok(Numbers::new()) };
        read_numbers(Some(self.ask_one(connection, config).await?))
    }

    /// Asks Redis for what an inspection needs.
    pub(super) async fn ask_all(
        &self,
        connection: &Arc<Connection>,
        commands: impl IntoIterator<Item = Cmd>,
    ) -> Result<Vec<Reply>, StoreError> {
        let commands = pipeline(commands);
        let replies = self.node.inserts.ask(connection, &commands, DEADLINE).await?;
        Ok(replies.into_iter().map(|value| Reply::new("an inspection", value)).collect())
    }

    pub(super) async fn ask_one(
        &self,
        connection: &Arc<Connection>,
        command: Cmd,
    ) -> Result<Reply, StoreError> {
        let reply = self.ask_all(connection, [command]).await?.pop();
        Ok(reply.unwrap_or_else(|| Reply::new("an inspection", Value::Nil)))
    }
}

/// A look at one key.
struct Look<'a> {
    site: &'a Site,
    connection: &'a Arc<Connection>,
    key: &'a str,
}

impl Look<'_> {
    async fn count(&self, command: &Cmd) -> Result<u64, StoreError> {
        let reply = self.site.ask_one(self.connection, command.clone()).await?;
        Ok(reply.int()?.cast_unsigned())
    }

    /// Counts the bits that are set in the first bytes.
    async fn bits_set(&self, bytes: u64) -> Result<u64, StoreError> {
        let mut set = 0;
        for first in (0..bytes).step_by(PIECE as usize) {
            let last = (first + PIECE).min(bytes) - 1;
            set += self.count(cmd("BITCOUNT").arg(self.key).arg(first).arg(last)).await?;
        }
        Ok(set)
    }

    /// Returns the first bits of words that have bits set: of each part of the bytes its first.
    async fn sample(&self, bytes: u64, parts: u64) -> Result<BTreeSet<u64>, StoreError> {
        // The first bit that is set in each.
        let bits = (0..parts).map(|part| {
            let (first, end) = (bytes * part / parts, bytes * (part + 1) / parts);
            cmd("BITPOS").arg(self.key).arg(1).arg(first).arg(end.saturating_sub(1)).clone()
        });
        let bits = self.site.ask_all(self.connection, bits).await?;
        let bits: Vec<i64> = bits.iter().map(Reply::int).collect::<Result<_, _>>()?;
        let set = bits.into_iter().filter_map(|bit| u64::try_from(bit).ok());
        Ok(set.map(|bit| bit / WORD * WORD).collect())
    }

    /// Reads these words, as the statement has them.
    async fn witnesses(&self, at: u16, words: BTreeSet<u64>) -> Result<Vec<u8>, StoreError> {
        let mut command = cmd("BITFIELD");
        command.arg(self.key);
        for first in &words {
            command.arg("GET").arg("i64").arg(*first);
        }
        let read = self.site.ask_one(self.connection, command).await?.ints()?;
        let mut witnesses = Vec::with_capacity(18 * words.len());
        for (first, set) in words.into_iter().zip(read) {
            witnesses.extend(at.to_be_bytes());
            witnesses.extend(first.to_be_bytes());
            witnesses.extend(set?.to_be_bytes());
        }
        Ok(witnesses)
    }
}
