//! Whether the filter on one Redis may be believed when it lacks an id.
//!
//! It may while all of this holds: the application has said that the filter is whole ([`record`](super::record)), on the
//! Redis process that answers now, of the layout and numbers that are configured now; and seal and witnesses have been as
//! they should whenever they were read since. The first look at which one of these fails ends trust, in all processes,
//! until the application says so again.

use std::sync::Arc;
use std::time::Duration;

use ::redis::{Cmd, Value, cmd};
use arc_swap::ArcSwapOption;
use parking_lot::Mutex;

use super::bitmap;
use super::filter::ForeignFilter;
use super::keys::Keys;
use super::known::{Believed, Known, Numbers, read_numbers};
use super::layout::{Kind, Layout};
use super::module::{Info, exist, has_seal};
use super::record::{REFILLED, Record};
use crate::error::StoreError;
use crate::filter::Generation;
use crate::store::Live;
use crate::store::link::process::RedisProcess;
use crate::store::link::refusal::doubt;
use crate::store::link::reply::Reply;
use crate::store::link::transport::{HANDSHAKE, Transport, exchange, one, pipeline};
use crate::verdict::Doubt;

const STEP: &str = "a look at a foreign filter";

/// A filter on one Redis, and what is known of it.
pub(super) struct Trust {
    pub(super) layout: Arc<dyn Layout>,
    pub(super) keys: Keys,
    /// What a module's filter was sealed with, if trust in it was not stated yet.
    pub(super) drawn: ArcSwapOption<u64>,
    known: ArcSwapOption<Known>,
    /// The statement that was found not to hold any more, and why.
    lost: Mutex<Option<(Generation, Doubt)>>,
    /// One look at a time: a later one that ends sooner would be judged a loss by the one before.
    looking: tokio::sync::Mutex<()>,
    /// What the last statement of any process was about, and as how many ids a source should give.
    proven: ArcSwapOption<(u64, String)>,
}

impl Trust {
    pub(super) fn new(filter: &ForeignFilter, instance: usize) -> Self {
        let layout = Arc::clone(&filter.layout);
        Self {
            keys: Keys::on(&*layout, instance),
            layout,
            drawn: ArcSwapOption::empty(),
            known: ArcSwapOption::empty(),
            lost: Mutex::default(),
            looking: tokio::sync::Mutex::default(),
            proven: ArcSwapOption::empty(),
        }
    }

    /// Returns as how many ids a source should give, if trust was last stated by this layout and these numbers.
    pub(super) fn proven(&self, of: &str) -> Option<u64> {
        self.proven.load().as_ref().filter(|proven| proven.1 == of).map(|proven| proven.0)
    }

    /// Notes what the last statement was about. It stays known when all data are lost.
    fn note_proven(&self, proven: Option<&[u8]>) {
        let read = || {
            let (ids, of) = std::str::from_utf8(proven?).ok()?.split_once(' ')?;
            Some((ids.parse().ok()?, of.to_owned()))
        };
        if let Some(proven) = read() {
            self.proven.store(Some(Arc::new(proven)));
        }
    }

    pub(super) fn foreign(&self, reason: &str) -> StoreError {
        StoreError::Foreign { key: self.keys.first().to_owned(), reason: reason.to_owned() }
    }

    /// Describes the filter as its store does.
    pub(super) fn live(&self, known: &Known) -> Result<Live, Doubt> {
        let believed = known.believed()?;
        let size = *known.size.as_ref().map_err(|_| Doubt::Foreign)?;
        let (size, capacity, items) = match self.layout.kind() {
            Kind::Bitmap => {
                let size = self.layout.whole(size);
                // As many as fill half of the bits.
                (size, size.estimated_ids(size.bits / 2), believed.record.ids)
            }
            Kind::Module => believed.extent()?,
        };
        let (rate, expected_rate) =
            (size.expected_rate(capacity) as f32, size.expected_rate(items));
        let (generation, bytes) = (believed.record.generation, size.bits.div_ceil(8));
        Ok(Live { generation, items, capacity, rate, expected_rate, bytes })
    }

    /// Says in words why the filter is not believed.
    pub(super) fn explain(&self, known: &Known, doubt: &Doubt) -> String {
        let reason = match (&known.size, &known.other) {
            (Err(reason), _) => reason.clone(),
            (_, Some(other)) => {
                format!("the application has said that {other} is whole, at the same key")
            }
            _ if *doubt == Doubt::NotLive => "it is being refilled from the source".to_owned(),
            _ if *doubt == Doubt::NoFilter => {
                "the application has not said that it is whole (trust_after)".to_owned()
            }
            _ => format!("{doubt}, and it is not known to be whole (trust_after)"),
        };
        format!("{}: {reason}", self.layout.describe())
    }

    pub(super) fn known(&self) -> Option<Arc<Known>> {
        self.known.load_full()
    }

    /// Returns layout, keys and numbers.
    pub(super) fn of(&self, config: &Numbers) -> String {
        let fields = self.layout.config().map_or(&[][..], |(_, fields)| fields);
        let values = config.iter().map(|value| value.as_deref().unwrap_or_default().escape_ascii());
        let numbers = fields.iter().zip(values).map(|(field, value)| format!(" {field} {value}"));
        [self.layout.describe()].into_iter().chain(numbers).collect()
    }

    /// Ends trust in the filter of a statement.
    pub(super) fn lose(&self, believed: &Believed, why: Doubt) {
        if believed.lost.set(why).is_err() {
            return;
        }
        self.note_lost(believed.record.generation, why);
        self.keep_lost();
        tracing::error!(
            parent: None,
            filter = self.layout.describe(),
            %why,
            "the filter is not what it was: bits that were set are clear, or its key or numbers are others. Nothing is \
             refused until it is known to be whole: see trust_after"
        );
    }

    /// Notes that a statement holds no more, also if it should come back.
    fn note_lost(&self, generation: Generation, why: Doubt) {
        *self.lost.lock() = Some((generation, why));
    }

    /// Has what is known now not be believed either, where it is by a statement that holds no more.
    fn keep_lost(&self) {
        if let Some((lost, why)) = self.lost()
            && let Some(known) = self.known()
            && let Ok(believed) = &known.believed
            && believed.record.generation <= lost
        {
            // It may be noted already.
            believed.lost.set(why).ok();
        }
    }

    /// Returns the last statement that was found not to hold any more, and why.
    pub(super) fn lost(&self) -> Option<(Generation, Doubt)> {
        *self.lost.lock()
    }

    /// Looks at the statement, the numbers, the seal and the witnesses. Where that fails, what was known stays.
    pub(super) async fn look(
        &self,
        transport: &dyn Transport,
        process: &RedisProcess,
    ) -> Result<(), StoreError> {
        let _alone = self.looking.lock().await;
        let record = cmd("HMGET").arg(&self.keys.statement).arg(&["on", "stays", "proven"]).clone();
        let commands = pipeline([record].into_iter().chain(self.config()));
        let replies = exchange(transport, &commands, HANDSHAKE).await?;
        let mut replies = replies.into_iter().map(|reply| Reply::new(STEP, reply));
        let [on, stays, proven] =
            replies.next().unwrap_or(Reply::new(STEP, Value::Nil)).fields()?;
        let (on, stays) = (on.optional_bytes()?, stays.optional_bytes()?.is_some());
        let config = read_numbers(replies.next())?;
        self.note_proven(proven.optional_bytes()?.as_deref());
        let is_same = |known: &Arc<Known>| {
            let stated = known.believed.as_ref().ok().map(|believed| &believed.on);
            stated.is_some()
                && stated == on.as_ref()
                && known.run == process.run
                && known.config == config
        };
        let known = match self.known.load_full() {
            Some(known) if is_same(&known) => known,
            before => {
                let known = Arc::new(self.judge(before.as_deref(), process, on, stays, config));
                self.known.store(Some(Arc::clone(&known)));
                if let Some(before) = &before {
                    self.revoke(transport, before).await;
                }
                // Another look or a batch may have found it lost meanwhile.
                self.keep_lost();
                known
            }
        };
        self.look_at_filter(transport, &known).await?;
        self.revoke(transport, &known).await;
        Ok(())
    }

    async fn look_at_filter(
        &self,
        transport: &dyn Transport,
        known: &Known,
    ) -> Result<(), StoreError> {
        let looked = match (self.layout.kind(), known.believed()) {
            (Kind::Bitmap, Err(_)) => return Ok(()),
            (Kind::Bitmap, Ok(believed)) => {
                let seal = believed.record.seal;
                bitmap::look(transport, &self.keys, &believed.on, seal).await
            }
            (Kind::Module, believed) => self.look_at_module(transport, believed.ok()).await,
        };
        let lost = match looked {
            Ok(true) => return Ok(()),
            Ok(false) => Doubt::Foreign,
            Err(error) => match doubt(&error) {
                lost @ (Doubt::WrongType | Doubt::Gone) => lost,
                _ => return Err(error),
            },
        };
        if let Ok(believed) = known.believed() {
            self.lose(believed, lost);
        }
        Ok(())
    }

    /// Asks a module for the ids of the seal: all have to be there, and no fewer others than before. Without trust, whether
    /// there is such a module.
    async fn look_at_module(
        &self,
        transport: &dyn Transport,
        believed: Option<&Believed>,
    ) -> Result<bool, StoreError> {
        let key = self.keys.first();
        let Some(believed) = believed else {
            exchange(transport, &one(Info::ask(key)), HANDSHAKE).await?;
            return Ok(true);
        };
        let floor = believed.floor();
        let asked = pipeline([exist(key, [], Some(believed.record.seal)), Info::ask(key)]);
        let replies = exchange(transport, &asked, HANDSHAKE).await?;
        let [seals, info] = Reply::new(STEP, Value::Array(replies)).fields()?;
        let sealed = has_seal(seals)?;
        let grown = believed.has_grown(floor, Info::read(info)?);
        Ok(sealed && grown != Err(Doubt::Foreign))
    }

    /// Returns the command that reads the numbers, if Redis has them.
    pub(super) fn config(&self) -> Option<Cmd> {
        let (key, fields) = self.layout.config()?;
        Some(cmd("HMGET").arg(key).arg(fields).clone())
    }

    fn judge(
        &self,
        before: Option<&Known>,
        process: &RedisProcess,
        on: Option<Vec<u8>>,
        stays: bool,
        config: Numbers,
    ) -> Known {
        if let Some(before) = before {
            self.leave(before, process, on.as_deref(), &config);
        }
        let unknown = before.is_none_or(|before| matches!(before.believed, Err(Doubt::NoFilter)));
        let size = self.layout.size(&config);
        let of = self.of(&config);
        let record = on.as_deref().and_then(Record::decode);
        let other = record.as_ref().filter(|record| record.of != of);
        let other = other.map(|record| record.of.clone());
        let believed = match (on, record) {
            (Some(on), Some(record)) if other.is_none() && size.is_ok() => {
                self.believe(process, record).map(|record| Believed::new(on, record, stays))
            }
            (Some(on), None) if on.starts_with(REFILLED.as_bytes()) => Err(Doubt::NotLive),
            (Some(_), _) => Err(Doubt::Foreign),
            // Trust that was ever stated has been lost.
            (None, _) if unknown && self.proven(&of).is_none() => Err(Doubt::NoFilter),
            (None, _) => Err(Doubt::Gone),
        };
        Known { run: process.run, config, size, believed, other }
    }

    /// Gives up what was believed, where anything that it rests on is another now.
    fn leave(&self, before: &Known, process: &RedisProcess, on: Option<&[u8]>, config: &Numbers) {
        let Ok(believed) = before.believed() else { return };
        if before.run != process.run {
            self.lose(believed, Doubt::Suspect);
        } else if before.config != *config {
            self.lose(believed, Doubt::Foreign);
        } else if let Err(doubt) = believed.is_stated(on)
            && doubt != Doubt::Changing
        {
            self.lose(believed, doubt);
        }
    }

    /// Judges a statement of this filter.
    fn believe(&self, process: &RedisProcess, record: Record) -> Result<Record, Doubt> {
        if record.run != process.run {
            // Nor is it believed on the process that it names, should that answer again.
            self.note_lost(record.generation, Doubt::Suspect);
            return Err(Doubt::Suspect);
        }
        match self.lost() {
            Some((lost, why)) if record.generation <= lost => Err(why),
            _ => Ok(record),
        }
    }

    /// Ends trust, in all processes, where what was found says that the filter is not what it was.
    pub(super) async fn heed(
        &self,
        transport: &dyn Transport,
        known: &Known,
        found: Result<(), Doubt>,
    ) {
        if let (Err(doubt), Ok(believed)) = (found, known.believed())
            && !matches!(doubt, Doubt::Changing | Doubt::Full)
        {
            self.lose(believed, doubt);
            // At once: a process that starts now would find all as it was, if the filter was away for a moment.
            self.revoke(transport, known).await;
        }
    }

    /// Takes a statement back that does not hold any more, so that no process relies on it.
    pub(super) async fn revoke(&self, transport: &dyn Transport, known: &Known) {
        let Ok(believed) = &known.believed else { return };
        let Some(why) = believed.lost.get() else { return };
        let mut command = cmd("EVAL");
        command.arg(include_str!("revoke.lua")).arg(1).arg(&self.keys.statement).arg(&believed.on);
        command.arg(u8::from(*why == Doubt::Disproved));
        // The next look tries again, and the other processes find out by themselves, too.
        exchange(transport, &one(command), Duration::from_millis(250)).await.ok();
    }
}
