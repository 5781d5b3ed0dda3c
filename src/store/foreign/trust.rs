//! Whether the filter on one Redis may be believed when it lacks an id.
//!
//! It may while all of this holds: the application has said that the filter is whole ([`record`](super::record)), on the
//! Redis process that answers now, of the layout and numbers that are configured now; and every witness has been set
//! whenever it was read since. The first look at which one of these fails ends trust, in all processes, until the
//! application says so again.

use std::hash::Hasher as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use ::redis::{Cmd, Value, cmd};
use arc_swap::ArcSwapOption;
use siphasher::sip::SipHasher24;

use super::layout::{Layout, Place};
use super::module::{self, Info};
use super::record::{HANDED_OVER, ON, Record, WITNESSES, decode_words};
use super::size::BloomSize;
use super::witness::{Seal, Words};
use crate::error::StoreError;
use crate::filter::Generation;
use crate::store::Live;
use crate::store::redis::link::process::RedisProcess;
use crate::store::redis::link::wire::Wire;
use crate::store::redis::link::wire::{HANDSHAKE, exchange, one, pipeline};
use crate::store::redis::refusal::doubt;
use crate::store::redis::reply::Reply;
use crate::verdict::Doubt;

const STEP: &str = "a look at a foreign filter";

/// The keys of a filter on one Redis, and what is known of them.
#[derive(Debug)]
pub(super) struct Trust {
    pub(super) layout: Arc<dyn Layout>,
    /// Each with its place among the layout's.
    pub(super) keys: Vec<(usize, String)>,
    /// Where the statement is.
    pub(super) record: String,
    known: ArcSwapOption<Known>,
    /// What a module's filter was sealed with, if that was not stated yet.
    pub(super) drawn: ArcSwapOption<Seal>,
    /// The statement that was found not to hold any more, and why.
    lost: Mutex<Option<(Generation, Doubt)>>,
    /// One look at a time: a later one that ends sooner would be judged a loss by the one before.
    looking: tokio::sync::Mutex<()>,
    /// Whether the guard's own filter has taken its place, for good.
    handed_over: AtomicBool,
}

/// What was found at the last look.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) run: u32,
    pub(super) config: Vec<Option<Vec<u8>>>,
    pub(super) size: Result<BloomSize, String>,
    pub(super) believed: Result<Believed, Doubt>,
}

/// A filter that is believed.
#[derive(Debug)]
pub(super) struct Believed {
    /// The statement, as it is stored.
    pub(super) on: Vec<u8>,
    pub(super) record: Record,
    /// Of each of the keys.
    words: Vec<Words>,
    /// Where the last insert of this process has set a bit that was clear. A filter that was put back from a copy lacks it.
    pub(super) newest: ArcSwapOption<Place>,
    /// What a module said of the filter last.
    seen: ArcSwapOption<Info>,
    /// Why it is not believed any more.
    lost: OnceLock<Doubt>,
}

impl Known {
    /// Returns what makes the filter believed, while it is.
    pub(super) fn believed(&self) -> Result<&Believed, Doubt> {
        let believed = self.believed.as_ref().map_err(|doubt| *doubt)?;
        believed.lost.get().map_or(Ok(believed), |doubt| Err(*doubt))
    }

    /// Describes the filter as its store does.
    pub(super) fn live(&self, layout: &dyn Layout) -> Result<Live, Doubt> {
        let Record { generation, ids, .. } = self.believed()?.record;
        if layout.is_module() {
            return self.believed()?.live();
        }
        let size = *self.size.as_ref().map_err(|_| Doubt::Foreign)?;
        let bits = layout.end(size) * layout.keys().len() as u64;
        let size = BloomSize { bits, ..size };
        // As many as fill half of the bits.
        let capacity = size.estimated_ids(size.bits / 2);
        let items = |ids| u32::try_from(ids).unwrap_or(u32::MAX);
        let rate = size.expected_rate(capacity) as f32;
        let (items, capacity) = (items(ids), items(capacity));
        Ok(Live { generation, items, capacity, rate, expected_rate: size.expected_rate(ids) })
    }
}

impl Believed {
    /// Returns how many ids a module's filter is known to have. To be asked before the module is.
    pub(super) fn floor(&self) -> u64 {
        self.seen.load().as_ref().map_or(self.record.ids, |seen| seen.ids)
    }

    /// Says whether a module's filter has as many ids as it had, shows whether it is sealed, and takes more.
    pub(super) fn has_grown(&self, floor: u64, info: Info) -> Result<(), Doubt> {
        if info.ids < floor || !info.is_legible() {
            return Err(Doubt::Foreign);
        }
        if info.ids >= self.floor() {
            self.seen.store(Some(Arc::new(info)));
        }
        if info.is_full() { Err(Doubt::Full) } else { Ok(()) }
    }

    /// Describes a module's filter.
    fn live(&self) -> Result<Live, Doubt> {
        let seen = self.seen.load_full().ok_or(Doubt::Changing)?;
        if seen.is_full() {
            return Err(Doubt::Full);
        }
        let (size, Info { capacity, ids, .. }) = (seen.size(), *seen);
        let rate = size.expected_rate(capacity) as f32;
        let number = |number| u32::try_from(number).unwrap_or(u32::MAX);
        let (items, capacity) = (number(ids), number(capacity));
        let (generation, expected_rate) = (self.record.generation, size.expected_rate(ids));
        Ok(Live { generation, items, capacity, rate, expected_rate })
    }

    /// Whether the statement is the one that is there now.
    ///
    /// # Errors
    ///
    /// It is gone, or a later one has taken its place, or the guard's own filter that of this one.
    pub(super) fn is_stated(&self, on: Option<&[u8]>) -> Result<(), Doubt> {
        if on == Some(self.on.as_slice()) {
            return Ok(());
        }
        if on == Some(HANDED_OVER.as_bytes()) {
            return Err(Doubt::Changing);
        }
        let now = on.and_then(Record::decode);
        let is_newer = now.is_some_and(|now| now.generation > self.record.generation);
        Err(if is_newer { Doubt::Changing } else { Doubt::Gone })
    }
}

impl Believed {
    /// Says whether an absence may rest on what a batch found, and on the statement behind it. A filter that is not what it was
    /// is no loss where a later statement is of another.
    pub(super) fn stands(&self, found: Result<(), Doubt>, on: Option<&[u8]>) -> Result<(), Doubt> {
        match self.is_stated(on) {
            Err(Doubt::Changing) => Err(Doubt::Changing),
            stated => found.and(stated),
        }
    }
}

impl Trust {
    pub(super) fn new(layout: Arc<dyn Layout>, instance: usize, name: &str) -> Self {
        let keys = layout.keys().into_iter().enumerate();
        let here = keys.filter(|(_, key)| key.instance == instance);
        let keys: Vec<_> = here.map(|(at, key)| (at, key.key)).collect();
        Self {
            keys,
            layout,
            record: format!("bg:{{{name}}}:trust"),
            known: ArcSwapOption::empty(),
            drawn: ArcSwapOption::empty(),
            lost: Mutex::default(),
            looking: tokio::sync::Mutex::default(),
            handed_over: AtomicBool::new(false),
        }
    }

    /// Whether the guard's own filter is known to have taken its place.
    pub(super) fn is_handed_over(&self) -> bool {
        self.handed_over.load(Ordering::Relaxed)
    }

    /// Returns a key by its place among the layout's.
    pub(super) fn key_of(&self, place: usize) -> &str {
        self.keys.iter().find(|(at, _)| *at == place).map_or("", |(_, key)| key)
    }

    /// Says in words why the filter is not believed.
    pub(super) fn explain(&self, known: &Known, doubt: &Doubt) -> String {
        let filter = self.layout.describe();
        if self.is_handed_over() {
            return format!("{filter}: the guard's own filter has taken its place (hand_over)");
        }
        match (&known.size, doubt) {
            (Err(reason), _) => format!("{filter}: {reason}"),
            (Ok(_), Doubt::NoFilter) => {
                format!("{filter}: the application has not said that it is whole (trust_after)")
            }
            (Ok(_), doubt) => {
                format!("{filter}: {doubt}, and it is not known to be whole (trust_after)")
            }
        }
    }

    pub(super) fn known(&self) -> Option<Arc<Known>> {
        self.known.load_full()
    }

    /// Returns a hash of layout, keys and numbers.
    pub(super) fn filter(&self, config: &[Option<Vec<u8>>]) -> u64 {
        let mut hasher = SipHasher24::new();
        hasher.write(format!("{} {config:?}", self.layout.describe()).as_bytes());
        hasher.finish()
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
        *self.lost.lock().unwrap_or_else(PoisonError::into_inner) = Some((generation, why));
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
        *self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the statement, the numbers and all witnesses.
    ///
    /// # Errors
    ///
    /// Whatever the exchange reports. What was known stays then.
    pub(super) async fn look(
        &self,
        wire: &dyn Wire,
        process: &RedisProcess,
    ) -> Result<(), StoreError> {
        let _alone = self.looking.lock().await;
        self.look_alone(wire, process).await
    }

    /// Looks at once, where a batch met a later statement than what it was asked by: the next poll may be a second away.
    /// Not where somebody looks already.
    pub(super) async fn look_again(
        &self,
        wire: &dyn Wire,
        process: &RedisProcess,
        asked_by: &Arc<Known>,
    ) {
        let Ok(_alone) = self.looking.try_lock() else { return };
        if self.known().is_some_and(|known| Arc::ptr_eq(&known, asked_by)) {
            // The next batch tries again, and the next poll.
            self.look_alone(wire, process).await.ok();
        }
    }

    async fn look_alone(&self, wire: &dyn Wire, process: &RedisProcess) -> Result<(), StoreError> {
        let record = cmd("HMGET").arg(&self.record).arg(ON).arg(WITNESSES).clone();
        let commands = pipeline([record].into_iter().chain(self.config()));
        let mut replies = exchange(wire, &commands, HANDSHAKE).await?.into_iter();
        let [on, words] = Reply::new(STEP, replies.next().unwrap_or(Value::Nil)).fields()?;
        let (on, words) = (on.optional_bytes()?, words.optional_bytes()?);
        let config = read_config(replies.next())?;
        if on.as_deref() == Some(HANDED_OVER.as_bytes()) {
            self.handed_over.store(true, Ordering::Relaxed);
        }
        let known = match self.known.load_full() {
            Some(known) if known.holds(process, on.as_deref(), &config) => known,
            before => {
                let known = self.judge(before.as_deref(), process, on, words, config);
                let known = Arc::new(known);
                self.known.store(Some(Arc::clone(&known)));
                // Another look or a batch may have found it lost meanwhile.
                self.keep_lost();
                known
            }
        };
        self.look_at_witnesses(wire, &known).await?;
        self.revoke(wire, &known).await;
        Ok(())
    }

    async fn look_at_witnesses(&self, wire: &dyn Wire, known: &Known) -> Result<(), StoreError> {
        let asked = match known.believed() {
            Ok(believed) if self.layout.is_module() => self.ask_module(wire, believed).await,
            Ok(believed) => self.ask_all(wire, believed).await,
            // Whether there is such a module.
            Err(_) if self.layout.is_module() => {
                let info = exchange(wire, &one(Info::ask(self.key_of(0))), HANDSHAKE).await;
                info.map(|_| true).map_err(StoreError::from)
            }
            Err(_) => return Ok(()),
        };
        let lost = match asked {
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

    /// Returns the command that reads the numbers, if Redis has them.
    pub(super) fn config(&self) -> Option<Cmd> {
        let config = self.layout.config()?;
        Some(cmd("HMGET").arg(config.key).arg(config.fields).clone())
    }

    fn judge(
        &self,
        before: Option<&Known>,
        process: &RedisProcess,
        on: Option<Vec<u8>>,
        words: Option<Vec<u8>>,
        config: Vec<Option<Vec<u8>>>,
    ) -> Known {
        if let Some(before) = before {
            self.leave(before, process, on.as_deref(), &config);
        }
        let unknown = before.is_none_or(|before| matches!(before.believed, Err(Doubt::NoFilter)));
        let believed = match (on, words) {
            (Some(on), Some(words)) => self.believe(process, on, &words, &config),
            _ if unknown => Err(Doubt::NoFilter),
            _ => Err(Doubt::Gone),
        };
        let size = self.layout.size(&config);
        let believed =
            if size.is_err() && believed.is_ok() { Err(Doubt::Foreign) } else { believed };
        Known { run: process.run, config, size, believed }
    }

    /// Gives up what was believed, where anything that it rests on is another now.
    fn leave(
        &self,
        before: &Known,
        process: &RedisProcess,
        on: Option<&[u8]>,
        config: &[Option<Vec<u8>>],
    ) {
        let Ok(believed) = before.believed() else { return };
        if before.run != process.run {
            self.lose(believed, Doubt::Suspect);
        } else if before.config != config {
            self.lose(believed, Doubt::Foreign);
        } else if let Err(doubt) = believed.is_stated(on)
            && doubt != Doubt::Changing
        {
            self.lose(believed, doubt);
        }
    }

    /// Judges a statement.
    fn believe(
        &self,
        process: &RedisProcess,
        on: Vec<u8>,
        words: &[u8],
        config: &[Option<Vec<u8>>],
    ) -> Result<Believed, Doubt> {
        let record = Record::decode(&on).ok_or(Doubt::Foreign)?;
        if record.run != process.run {
            // Nor is it believed on the process that it names, should that answer again.
            self.note_lost(record.generation, Doubt::Suspect);
            return Err(Doubt::Suspect);
        }
        if record.filter != self.filter(config) {
            return Err(Doubt::Foreign);
        }
        if let Some((lost, why)) = self.lost()
            && record.generation <= lost
        {
            return Err(why);
        }
        let words = decode_words(words).ok_or(Doubt::Foreign)?;
        let of = |at| {
            let words = words.iter().filter(|(key, ..)| *key == at);
            Words::new(words.map(|&(_, first, set)| (first, set)))
        };
        let keys = if self.layout.is_module() { 0 } else { self.keys.len() };
        let words = (0..keys).map(of).collect::<Option<_>>().ok_or(Doubt::Foreign)?;
        let (newest, seen) = (ArcSwapOption::empty(), ArcSwapOption::empty());
        Ok(Believed { on, record, words, newest, seen, lost: OnceLock::new() })
    }

    /// Asks for the seal and the words of each key; says whether all are as they were.
    async fn ask_all(&self, wire: &dyn Wire, believed: &Believed) -> Result<bool, StoreError> {
        let seal = &believed.record.seal;
        let keys = || self.keys.iter().zip(&believed.words);
        let commands = pipeline(keys().map(|((_, key), words)| words.ask(key, seal)));
        let replies = exchange(wire, &commands, HANDSHAKE).await?;
        for ((_, words), reply) in keys().zip(replies) {
            if !words.hold(seal, Reply::new(STEP, reply))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Asks a module for the ids of the seal; says whether all are there, and no fewer others than before.
    async fn ask_module(&self, wire: &dyn Wire, believed: &Believed) -> Result<bool, StoreError> {
        let (key, floor) = (self.key_of(0), believed.floor());
        let seals = module::ask(key, [], Some(&believed.record.seal));
        let replies = exchange(wire, &pipeline([seals, Info::ask(key)]), HANDSHAKE).await?;
        let [seals, info] = Reply::new(STEP, Value::Array(replies)).fields()?;
        let sealed = module::has_seal(seals)?;
        let grown = believed.has_grown(floor, Info::read(info)?);
        Ok(sealed && grown != Err(Doubt::Foreign))
    }

    /// Returns the commands that ask these keys for the seal, if the filter is believed, and then for the statement.
    pub(super) fn ask_seals(&self, known: &Known, keys: &[&str]) -> Vec<Cmd> {
        let Ok(believed) = known.believed() else { return Vec::new() };
        let seal = &believed.record.seal;
        let seals = keys.iter().map(|key| self.ask_seal(key, seal));
        seals.chain([cmd("HGET").arg(&self.record).arg(ON).clone()]).collect()
    }

    /// Reads their replies, and ends trust where a key has no seal.
    pub(super) async fn read_seals(
        &self,
        wire: &dyn Wire,
        known: &Known,
        replies: Vec<Value>,
    ) -> Result<(), StoreError> {
        let Ok(believed) = &known.believed else { return Ok(()) };
        let mut replies = replies.into_iter().map(|reply| Reply::new(STEP, reply));
        let Some(on) = replies.next_back() else { return Ok(()) };
        let mut found = Ok(());
        for reply in replies {
            if !self.has_seal(&believed.record.seal, reply)? {
                found = Err(Doubt::Foreign);
            }
        }
        let on = on.optional_bytes()?;
        if let Err(doubt) = believed.stands(found, on.as_deref())
            && doubt != Doubt::Changing
        {
            self.lose(believed, doubt);
            self.revoke(wire, known).await;
        }
        Ok(())
    }

    /// Returns the command that asks a key for its seal.
    pub(super) fn ask_seal(&self, key: &str, seal: &Seal) -> Cmd {
        if self.layout.is_module() {
            return module::ask(key, [], Some(seal));
        }
        let mut command = cmd("BITFIELD");
        command.arg(key);
        seal.ask(&mut command);
        command
    }

    /// Whether the reply to it is that the seal is there.
    pub(super) fn has_seal(&self, seal: &Seal, reply: Reply) -> Result<bool, StoreError> {
        if self.layout.is_module() {
            return module::has_seal(reply);
        }
        let [read] = reply.fields()?;
        seal.is(&read)
    }

    /// Takes a statement back that does not hold any more, so that no process relies on it.
    pub(super) async fn revoke(&self, wire: &dyn Wire, known: &Known) {
        let Ok(believed) = &known.believed else { return };
        if believed.lost.get().is_none() {
            return;
        }
        let mut command = cmd("EVAL");
        command.arg(include_str!("revoke.lua")).arg(1).arg(&self.record).arg(ON).arg(&believed.on);
        // The next look tries again, and the other processes find out by themselves, too.
        exchange(wire, &one(command), Duration::from_millis(250)).await.ok();
    }
}

impl Known {
    /// Whether a look shows what is known.
    fn holds(&self, process: &RedisProcess, on: Option<&[u8]>, config: &[Option<Vec<u8>>]) -> bool {
        let known = self.believed.as_ref().ok().map(|believed| believed.on.as_slice());
        known.is_some() && known == on && self.run == process.run && self.config == config
    }
}

/// Reads the reply to the command for the numbers.
pub(super) fn read_config(reply: Option<Value>) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
    let Some(reply) = reply else { return Ok(Vec::new()) };
    Reply::new(STEP, reply).array()?.into_iter().map(Reply::optional_bytes).collect()
}
