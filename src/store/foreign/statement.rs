//! The statement that the part of a filter on one Redis is whole: `{key}:bg:trust`, a string beside the part's first key.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ::redis::{Cmd, Value, cmd};
use arc_swap::ArcSwapOption;

use super::layout::{Extent, Layout, Numbers, beside};
use super::size::BloomSize;
use crate::error::StoreError;
use crate::filter::Generation;
use crate::refusal::Refusal;
use crate::store::BoxFuture;
use crate::store::link::handshake::{End, Handshake};
use crate::store::link::process::RedisProcess;
use crate::store::link::refusal::doubt;
use crate::store::link::reply::Reply;
use crate::store::link::transport::{HANDSHAKE, Transport, ask, exchange, pipeline};
use crate::verdict::Doubt;

const STEP: &str = "a statement about another system's filter";
/// Puts a word in a statement's place: no process relies on it, and those that start later see that there was one.
const REVOKE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('SET', KEYS[1], 'ended') end return 1";

/// What trust rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Statement {
    /// The Redis process.
    pub(super) run: u32,
    /// When it was stated, by Redis's clock.
    pub(super) generation: Generation,
    /// How many ids the part held then, and how many fill half of its bits.
    pub(super) ids: u64,
    pub(super) capacity: u64,
    /// The length of each of a bitmap's keys; the least of a module's filter.
    pub(super) length: u64,
    /// The layout, its keys and its numbers.
    pub(super) of: String,
}

impl Statement {
    /// Returns it as it is stored.
    pub(super) fn encode(&self) -> String {
        let Self { run, generation, ids, capacity, length, of } = self;
        format!("1 {run:08x} {generation} {ids} {capacity} {length} {of}")
    }

    /// Reads it.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut fields = std::str::from_utf8(bytes).ok()?.strip_prefix("1 ")?.splitn(6, ' ');
        let run = u32::from_str_radix(fields.next()?, 16).ok()?;
        let generation = Generation::new(fields.next()?.parse().ok()?)?;
        let ids = fields.next()?.parse().ok()?;
        let capacity = fields.next()?.parse().ok()?;
        let length = fields.next()?.parse().ok()?;
        Some(Self { run, generation, ids, capacity, length, of: fields.next()?.to_owned() })
    }
}

/// What an absence rests on, as it was read at one moment: before the bits, or behind them.
pub(super) struct Evidence {
    /// The statement, as it is stored.
    pub(super) on: Option<Vec<u8>>,
    pub(super) config: Numbers,
    /// Of each key.
    pub(super) extents: Vec<Extent>,
}

/// What this process knows of a part, as of the last look.
pub(super) struct Known {
    pub(super) run: u32,
    on: Option<Vec<u8>>,
    config: Numbers,
    /// Or what is wrong: with the config, or that a filter of other numbers is stated.
    pub(super) size: Result<BloomSize, String>,
    stated: Result<Statement, Doubt>,
    /// How many ids a module has said that its filter has.
    floor: AtomicU64,
}

/// A statement that was found not to hold any more, and why.
struct Lost {
    on: Vec<u8>,
    generation: Generation,
    why: Doubt,
}

/// The part of a filter on one Redis: its keys, and what this process knows of them.
pub(super) struct Part {
    pub(super) layout: Arc<dyn Layout>,
    /// Each with its place among the layout's. Never empty.
    pub(super) keys: Vec<(usize, String)>,
    /// The statement's key.
    pub(super) statement: String,
    known: ArcSwapOption<Known>,
    lost: ArcSwapOption<Lost>,
    /// One look at a time: the older of two would be taken for a change.
    looking: tokio::sync::Mutex<()>,
}

impl Part {
    /// Returns the part of a layout on one of its instances.
    pub(super) fn new(layout: &Arc<dyn Layout>, instance: usize) -> Self {
        let here = |(at, (its, key))| (its == instance).then_some((at, key));
        let keys: Vec<_> = layout.keys().into_iter().enumerate().filter_map(here).collect();
        Self {
            layout: Arc::clone(layout),
            statement: beside(&keys[0].1, "bg:trust"),
            keys,
            known: ArcSwapOption::empty(),
            lost: ArcSwapOption::empty(),
            looking: tokio::sync::Mutex::default(),
        }
    }

    pub(super) fn known(&self) -> Option<Arc<Known>> {
        self.known.load_full()
    }

    /// Returns a key by its place among the layout's.
    pub(super) fn key(&self, place: usize) -> &str {
        self.keys.iter().find(|(at, _)| *at == place).map_or("", |(_, key)| key)
    }

    pub(super) fn error(&self, reason: &str) -> StoreError {
        StoreError::Foreign { key: self.keys[0].1.clone(), reason: reason.to_owned() }
    }

    /// Names the layout, its keys and all numbers.
    pub(super) fn describe(&self, config: &Numbers) -> String {
        let values = config.iter().map(|value| value.as_deref().unwrap_or_default().escape_ascii());
        let fields = self.layout.config().map_or(&[][..], |(_, fields)| fields);
        let numbers = fields.iter().zip(values).map(|(field, value)| format!(" {field} {value}"));
        [format!("{:?}", self.layout)].into_iter().chain(numbers).collect()
    }

    /// Returns the commands that read what an absence rests on. The first only reads, and is a write to Redis all the same: a
    /// replica refuses it, and a primary that was demoted.
    pub(super) fn ask(&self) -> Vec<Cmd> {
        let config = self.layout.config();
        let config = config.map(|(key, fields)| cmd("HMGET").arg(key).arg(fields).clone());
        let extents = self.keys.iter().map(|(_, key)| self.layout.measure(key));
        let stated = cmd("GETEX").arg(&self.statement).clone();
        [stated].into_iter().chain(config).chain(extents).collect()
    }

    /// Reads their replies.
    pub(super) fn read(
        &self,
        replies: &mut impl Iterator<Item = Value>,
    ) -> Result<Evidence, StoreError> {
        let mut next = || Reply::new(STEP, replies.next().unwrap_or(Value::Nil));
        let on = next().optional_bytes()?;
        let config = self.layout.config().map(|_| next().array()).transpose()?;
        let config = config.into_iter().flatten().map(Reply::optional_bytes);
        let config = config.collect::<Result<_, _>>()?;
        let extents = self.keys.iter().map(|_| self.layout.extent(next()));
        Ok(Evidence { on, config, extents: extents.collect::<Result<_, _>>()? })
    }

    /// Returns the statement, if it holds as far as is known.
    pub(super) fn trusted<'a>(&self, known: &'a Known) -> Result<&'a Statement, Doubt> {
        let stated = known.stated.as_ref().map_err(|doubt| *doubt)?;
        match &*self.lost.load() {
            Some(lost) if stated.generation <= lost.generation => Err(lost.why),
            _ => Ok(stated),
        }
    }

    /// Says whether what was read is as it was stated: else why not, [`Doubt::Suspect`] for a statement that was made since.
    /// `floor` is [`Known::floor`] from before it was read.
    pub(super) fn judge(&self, known: &Known, floor: u64, read: &Evidence) -> Result<(), Doubt> {
        if read.on != known.on {
            let is_stated = read.on.as_deref().and_then(Statement::decode).is_some();
            return Err(if is_stated { Doubt::Suspect } else { Doubt::Gone });
        }
        let Ok(stated) = &known.stated else { return Ok(()) };
        if read.config != known.config {
            return Err(Doubt::Damaged);
        }
        known.floor.fetch_max(read.extents[0].ids, Ordering::SeqCst);
        let ids = floor.max(stated.ids);
        read.extents.iter().try_for_each(|extent| self.layout.fits(stated.length, ids, extent))
    }

    /// Ends trust, in all processes, where what was found says that the filter is not what was stated.
    pub(super) async fn heed(
        &self,
        transport: &dyn Transport,
        known: &Known,
        found: Result<(), Doubt>,
    ) {
        if let Err(why) = found
            && !matches!(why, Doubt::Suspect | Doubt::Refused(Refusal::FULL))
            && self.lose(known, why)
        {
            // The next look tries again.
            self.revoke(transport).await.ok();
        }
    }

    /// Notes that a statement does not hold any more, also if all should be as it was later. Returns whether that is news.
    pub(super) fn lose(&self, known: &Known, why: Doubt) -> bool {
        let (Ok(stated), Some(on)) = (self.trusted(known), &known.on) else { return false };
        let new = Arc::new(Lost { on: on.clone(), generation: stated.generation, why });
        self.lost.rcu(|lost| match lost {
            Some(lost) if lost.generation >= new.generation => Arc::clone(lost),
            _ => Arc::clone(&new),
        });
        tracing::error!(
            parent: None,
            filter = ?self.layout,
            %why,
            "the filter is not what was stated to be whole: nothing is refused until that is stated again (trust_foreign)"
        );
        true
    }

    /// Returns the time of the last statement that was found not to hold, µs, or 0.
    pub(super) fn lost_us(&self) -> i64 {
        self.lost.load().as_ref().map_or(0, |lost| lost.generation.get())
    }

    /// Takes the statement back that was found not to hold.
    pub(super) async fn revoke(&self, transport: &dyn Transport) -> Result<(), StoreError> {
        let Some(lost) = self.lost.load_full() else { return Ok(()) };
        let mut script = cmd("EVAL");
        script.arg(REVOKE).arg(1).arg(&self.statement).arg(&lost.on);
        ask(transport, STEP, script, HANDSHAKE).await.map(drop)
    }

    /// Looks which statement there is, and whether it holds. Where Redis does not answer, what was known stays.
    pub(super) async fn look(
        &self,
        transport: &dyn Transport,
        process: &RedisProcess,
    ) -> Result<(), StoreError> {
        let _alone = self.looking.lock().await;
        let (before, run) = (self.known(), process.run);
        let floor = before.as_ref().map_or(0, |known| known.floor());
        let read = exchange(transport, &pipeline(self.ask()), HANDSHAKE).await;
        let read = read.map_err(StoreError::from);
        let read = match read.and_then(|replies| self.read(&mut replies.into_iter())) {
            Ok(read) => read,
            Err(error) => {
                if let (Some(known), why @ (Doubt::Damaged | Doubt::Gone)) = (before, doubt(&error))
                {
                    self.heed(transport, &known, Err(why)).await;
                }
                return Err(error);
            }
        };
        let is_same = |known: &Arc<Known>| {
            known.run == run && known.on == read.on && known.config == read.config
        };
        let (known, floor) = match before.clone().filter(is_same) {
            Some(known) => (known, floor),
            None => (Arc::new(self.learn(before.as_deref(), run, &read)), 0),
        };
        self.known.store(Some(Arc::clone(&known)));
        if let (Some(before), Err(why)) = (before, &known.stated) {
            self.lose(&before, *why);
        }
        self.heed(transport, &known, self.judge(&known, floor, &read)).await;
        // It may have been found lost before, and not have been taken back.
        if self.lost.load().as_ref().is_some_and(|lost| known.on.as_ref() == Some(&lost.on)) {
            self.revoke(transport).await.ok();
        }
        Ok(())
    }

    /// Judges what was read, after what was known before.
    pub(super) fn learn(&self, before: Option<&Known>, run: u32, read: &Evidence) -> Known {
        let (on, config) = (read.on.clone(), read.config.clone());
        let statement = on.as_deref().and_then(Statement::decode);
        let of = self.describe(&config);
        let size = match &statement {
            Some(other) if other.of != of && other.run == run => {
                Err(format!("{} is stated to be whole, at the same key", other.of))
            }
            _ => self.layout.size(&config),
        };
        let is_new = before.is_none_or(|before| before.stated == Err(Doubt::NoFilter));
        let stated = match statement {
            None if on.is_none() && is_new => Err(Doubt::NoFilter),
            None => Err(self.lost.load().as_ref().map_or(Doubt::Gone, |lost| lost.why)),
            Some(statement) if statement.run != run => Err(Doubt::Suspect),
            Some(_) if size.is_err() => Err(Doubt::Damaged),
            Some(statement) => Ok(statement),
        };
        Known { run, on, config, size, stated, floor: AtomicU64::default() }
    }
}

impl Known {
    /// Returns how many ids a module has said that its filter has. To be asked before the module is.
    pub(super) fn floor(&self) -> u64 {
        self.floor.load(Ordering::SeqCst)
    }
}

/// What is done first on each connection, and once a second after that.
impl Handshake<()> for Part {
    fn join<'a>(
        &'a self,
        transport: &'a dyn Transport,
        process: &'a RedisProcess,
    ) -> BoxFuture<'a, Result<Arc<()>, StoreError>> {
        Box::pin(async move { self.look(transport, process).await.map(Arc::new) })
    }

    fn recheck<'a>(
        &'a self,
        transport: &'a dyn Transport,
        process: &'a RedisProcess,
        (): &'a (),
        asks: bool,
    ) -> BoxFuture<'a, Result<(), End>> {
        Box::pin(async move {
            match if asks { self.look(transport, process).await } else { Ok(()) } {
                // A Redis that refuses this answers no check either, and says why: but for missing rights.
                Err(StoreError::Refused { doubt, .. })
                    if doubt != Doubt::Refused(Refusal::DENIED) =>
                {
                    Ok(())
                }
                looked => looked.map_err(End::from),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::foreign::filter::ForeignFilter;

    #[test]
    fn no_odd_reply_is_evidence() {
        let value = |text: &str| Value::BulkString(text.into());
        let config = || Value::Array(vec![value("20"), value("7"), Value::Nil, Value::Nil]);
        let part = Part::new(&ForeignFilter::redisson("key").layout, 0);
        let read = |replies: [Value; 3]| part.read(&mut replies.into_iter());
        assert!(read([value("ended"), config(), Value::Int(3)]).is_ok());
        for odd in [
            [Value::Int(0), config(), Value::Int(3)],
            [Value::Nil, Value::Nil, Value::Int(3)],
            [Value::Nil, Value::Array(vec![Value::Int(1); 4]), Value::Int(3)],
            [Value::Nil, config(), Value::Nil],
            [Value::Nil, config(), Value::Int(-1)],
        ] {
            assert!(read(odd.clone()).is_err(), "{odd:?}");
        }
    }

    #[test]
    fn what_is_stored_is_what_is_read_and_nothing_else_is() {
        let generation = Generation::new(1_700_000_000_000_000).unwrap();
        let of = "go-zero \"a key\" of 20 bits".to_owned();
        let statement = Statement { run: 0xbeef, generation, ids: 7, capacity: 8, length: 9, of };
        let stored = statement.encode();
        assert_eq!(Statement::decode(stored.as_bytes()), Some(statement));
        assert_eq!(Statement::decode(&[stored.as_bytes(), &[0xff]].concat()), None);
        let wrong = ["", "ended", "1", "2 0 17 7 8 9 of", "1 x 17 7 8 9 of", "1 0 17 7 8 9"];
        for wrong in wrong {
            assert_eq!(Statement::decode(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
