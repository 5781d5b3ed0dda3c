//! A rebuild's part on one Redis.

use std::sync::Arc;

use ::redis::{Cmd, Value, cmd};
use tokio::time::Instant;

use super::fence::{CALL, Fence, LIFE, encoded};
use crate::error::StoreError;
use crate::filter::Generation;
use crate::store::Live;
use crate::store::foreign::layout::{Place, beside};
use crate::store::foreign::module::{self, Info};
use crate::store::foreign::record::{Record, SampledWord, encode_words};
use crate::store::foreign::site::Site;
use crate::store::foreign::size::BloomSize;
use crate::store::foreign::trust::Known;
use crate::store::foreign::witness::{Seal, word_of};
use crate::store::redis::link::connection::Connection;
use crate::store::redis::link::process::Memory;
use crate::store::redis::link::wire::{one, pipeline};
use crate::store::redis::reply::Reply;
use crate::store::redis::script::Script;
use crate::verdict::Doubt;

static TAKE_TOKEN: Script = Script::new("take_token.lua", include_str!("take_token.lua"));
static PUT_LIVE: Script = Script::new("put_live.lua", include_str!("put_live.lua"));

const STEP: &str = "a rebuild of a foreign filter";
/// Words of all keys that witness the new filter, about.
const WORDS: usize = 256;
const FEWEST_WORDS: usize = 4;

/// A rebuild's part on one Redis.
pub(super) struct SiteRefill {
    pub(super) fence: Fence,
    pub(super) size: BloomSize,
    /// What was known of the live filter.
    known: Arc<Known>,
    seal: Seal,
    /// Of each of the keys, words with bits that were set.
    words: Vec<Vec<(u64, u64)>>,
    /// Ids that were given so far.
    given: usize,
}

impl SiteRefill {
    /// Takes the token, and makes an empty filter; nothing if another rebuild has it.
    pub(super) async fn begin(site: &Arc<Site>, token: &str) -> Result<Option<Self>, StoreError> {
        let connection = site.adds.connected(CALL).await?;
        let known = site.known().await?;
        if known.run != connection.process.run {
            return Err(StoreError::OtherRedis);
        }
        let size = *known.size.as_ref().map_err(|reason| site.foreign(reason))?;
        let seal = site.new_seal(size)?;
        let fence = Fence { site: Arc::clone(site), token: token.to_owned(), run: known.run };
        let words = vec![Vec::new(); site.trust.keys.len()];
        let refill = Self { fence, size, known, seal, words, given: 0 };
        let making = refill.making().map_err(|reason| site.foreign(&reason))?;
        refill.find_room(&connection).await?;
        Ok(refill.take_token(&connection, &making).await?.then_some(refill))
    }

    /// Fails if Redis would have no room for the new filter beside the live one: then it would refuse all writes, to the
    /// live filter, too.
    async fn find_room(&self, connection: &Arc<Connection>) -> Result<(), StoreError> {
        let site = &self.fence.site;
        let ask = one(cmd("INFO").arg("memory").clone());
        let info = site.adds.ask(connection, &ask, CALL).await?.pop().unwrap_or(Value::Nil);
        let Some(Memory { used, limit }) = Memory::parse(&Reply::new(STEP, info).text()?) else {
            return Ok(());
        };
        let bitmap = site.trust.layout.end(self.size).div_ceil(8) * site.trust.keys.len() as u64;
        let needed = used.saturating_add(self.module_bytes().unwrap_or(bitmap));
        if needed <= limit { Ok(()) } else { Err(StoreError::NoRoom { needed, limit }) }
    }

    /// Makes the new keys and takes the token, in one step; says whether no other rebuild has it.
    async fn take_token(
        &self,
        connection: &Arc<Connection>,
        making: &[Cmd],
    ) -> Result<bool, StoreError> {
        let (site, words) = (&self.fence.site, encoded(making));
        let life = LIFE.as_millis().to_string();
        let mut args = vec![self.fence.token.as_bytes(), life.as_bytes()];
        args.extend(words.iter().map(Vec::as_slice));
        let keys = [&*site.trust.marker, &site.trust.record];
        let taken = site.adds.script(connection, &TAKE_TOKEN, &keys, &args, CALL).await?;
        match taken.int()? {
            1 => Ok(true),
            0 => Ok(false),
            _ => Err(site.foreign("the guard's own filter has taken its place (hand_over)")),
        }
    }

    /// Returns the commands that make an empty filter, sealed, whose life ends with the rebuild.
    fn making(&self) -> Result<Vec<Cmd>, String> {
        let trust = &self.fence.site.trust;
        let mut commands = Vec::new();
        for key in self.new_keys() {
            commands.push(cmd("DEL").arg(&key).clone());
            commands.extend(trust.layout.make(&key)?);
            commands.push(if trust.layout.is_module() {
                module::insert(&key, module::seal_ids(&self.seal))
            } else {
                let Seal { first, value } = self.seal;
                cmd("BITFIELD").arg(&key).arg("SET").arg("i64").arg(first).arg(value).clone()
            });
            commands.push(expire(&key));
        }
        Ok(commands)
    }

    /// Returns the commands that renew the life of marker and filter.
    pub(super) fn renewal(&self) -> Vec<Cmd> {
        let keys = [self.fence.site.trust.marker.clone()].into_iter().chain(self.new_keys());
        keys.map(|key| expire(&key)).collect()
    }

    fn new_keys(&self) -> impl Iterator<Item = String> {
        self.fence.site.trust.keys.iter().map(|(_, key)| new_key(key))
    }

    /// Returns how many ids the filter held when it was last known to be whole.
    pub(super) fn previous(&self) -> Option<u64> {
        let ids = self.known.believed.as_ref().ok()?.record.ids;
        // A module counts those of its seal.
        let sealed = if self.fence.site.trust.layout.is_module() { module::SEALED } else { 0 };
        Some(ids.saturating_sub(sealed))
    }

    /// Adds ids to the new filter.
    pub(super) async fn write(&mut self, ids: &[&[u8]]) -> Result<(), StoreError> {
        if ids.is_empty() {
            return Ok(());
        }
        let connection = self.fence.connected().await?;
        let site = Arc::clone(&self.fence.site);
        let places = site.places(self.size, ids);
        places.iter().for_each(|place| self.note(place));
        let commands = site.filling(&places);
        let replies = site.adds.ask(&connection, &pipeline(commands), CALL).await?;
        if site.trust.layout.is_module() {
            let reply = replies.into_iter().next().unwrap_or(Value::Nil);
            module::flags(Reply::new(STEP, reply), ids.len())?;
        }
        Ok(())
    }

    /// Has one of an id's bits witness the filter, in the place of one that was given long ago.
    fn note(&mut self, place: &Place) {
        let Some(bit) = place.bits.first() else { return };
        let (keys, trust) = (self.words.len(), &self.fence.site.trust);
        let Some(at) = trust.keys.iter().position(|(key, _)| *key == place.key) else { return };
        let (words, most) = (&mut self.words[at], (WORDS / keys).max(FEWEST_WORDS));
        let first = word_of(*bit);
        let word = (first, 1 << (63 - (bit - first)));
        if words.len() < most {
            words.push(word);
        } else {
            words[self.given % most] = word;
        }
        self.given += 1;
    }

    /// Puts the new filter in the live one's place.
    pub(super) async fn swap(&self, ids: u64) -> Result<(), StoreError> {
        let site = &self.fence.site;
        let generation = self.generation().await?;
        let swapped = self.try_swap(generation, ids).await;
        if matches!(swapped, Ok(false)) {
            return Err(StoreError::Lost { step: "the swap" });
        }
        let checks = site.checks.connected(CALL).await?;
        site.trust.look(checks.wire(), &checks.process).await?;
        match (self.live(), swapped) {
            // Also where the reply was lost.
            (Ok(live), _) if live.generation == generation => Ok(()),
            (_, Err(error)) => Err(error),
            (_, Ok(_)) => Err(StoreError::Lost { step: "the swap" }),
        }
    }

    /// Draws a generation that is later than any before, also than what was stated since the rebuild began.
    async fn generation(&self) -> Result<Generation, StoreError> {
        let (site, connection) = (&self.fence.site, self.fence.connected().await?);
        let known = site.known().await?;
        let stated = known.believed.as_ref().map_or(0, |believed| believed.record.generation.get());
        let last = site.trust.lost().map_or(stated, |(lost, _)| lost.get().max(stated));
        let now = connection.redis_us(Instant::now());
        Generation::new(now.max(last + 1)).ok_or_else(|| site.foreign("redis has no clock"))
    }

    async fn try_swap(&self, generation: Generation, ids: u64) -> Result<bool, StoreError> {
        let (site, connection) = (&self.fence.site, self.fence.connected().await?);
        let trust = &site.trust;
        let record = self.statement(&connection, generation, ids).await?.encode();
        let words = self.witnesses()?;
        let counter = trust.layout.counter();
        let mut keys = vec![&*trust.marker, &trust.record];
        keys.push(counter.as_deref().unwrap_or(&trust.marker));
        let new: Vec<String> = self.new_keys().collect();
        for (new, (_, live)) in new.iter().zip(&trust.keys) {
            keys.extend([&**new, live]);
        }
        let life = trust.layout.expiry().map_or(0, |life| life.as_millis()).to_string();
        let count = counter.as_ref().map_or(String::new(), |_| ids.to_string());
        let (looks, sealed) = self.look_at_seals();
        let looks = encoded(&looks);
        let mut args = vec![self.fence.token.as_bytes(), record.as_bytes(), &words];
        args.extend([life.as_bytes(), count.as_bytes(), &sealed]);
        args.extend(looks.iter().map(Vec::as_slice));
        let swapped = site.adds.script(&connection, &PUT_LIVE, &keys, &args, CALL).await?;
        Ok(swapped.int()? == 1)
    }

    /// Returns the statement that the new filter is whole. A module counts its ids itself.
    async fn statement(
        &self,
        connection: &Arc<Connection>,
        generation: Generation,
        ids: u64,
    ) -> Result<Record, StoreError> {
        let (site, trust) = (&self.fence.site, &self.fence.site.trust);
        let filter = trust.filter(&self.known.config);
        let (run, seal) = (self.fence.run, self.seal);
        let mut record = Record { run, filter, generation, ids, seal };
        if trust.layout.is_module() {
            let info = one(Info::ask(&new_key(trust.key_of(0))));
            let mut replies = site.adds.ask(connection, &info, CALL).await?;
            record.ids = Info::read(Reply::new(STEP, replies.remove(0)))?.ids;
        }
        Ok(record)
    }

    /// Returns the witnesses as they are stored.
    fn witnesses(&self) -> Result<Vec<u8>, StoreError> {
        let site = &self.fence.site;
        if site.trust.layout.is_module() {
            return Ok(Vec::new());
        }
        if let Some(at) = self.words.iter().position(Vec::is_empty) {
            let reason = "no id falls on it, so nothing could show that it is whole".to_owned();
            return Err(StoreError::Foreign { key: site.trust.keys[at].1.clone(), reason });
        }
        let of = |(at, words): (usize, &Vec<(u64, u64)>)| -> Vec<SampledWord> {
            words.iter().map(|&(first, set)| (at, first, set)).collect()
        };
        let words: Vec<SampledWord> = self.words.iter().enumerate().flat_map(of).collect();
        Ok(encode_words(&words))
    }

    /// Returns the commands that read each new key's seal, and what they reply if it is there.
    fn look_at_seals(&self) -> (Vec<Cmd>, Vec<u8>) {
        let seal = &self.seal;
        if self.fence.site.trust.layout.is_module() {
            let looks = self.new_keys().map(|key| module::ask(&key, [], Some(seal))).collect();
            return (looks, vec![b'1'; module::SEALED as usize]);
        }
        let first = seal.first / 8;
        let look = |key| cmd("GETRANGE").arg(key).arg(first).arg(first + 7).clone();
        (self.new_keys().map(look).collect(), seal.value.to_be_bytes().into())
    }

    /// Describes the live filter.
    pub(super) fn live(&self) -> Result<Live, Doubt> {
        let trust = &self.fence.site.trust;
        trust.known().ok_or(Doubt::Disconnected)?.live(&*trust.layout)
    }

    /// Returns how large a module says that the live filter is.
    pub(super) fn module_bytes(&self) -> Option<u64> {
        self.fence.site.trust.known()?.believed().ok()?.module_bytes()
    }

    /// Gives the token back, and frees what is not live.
    pub(super) async fn release(&self) {
        let marker = self.fence.site.trust.marker.clone();
        let keys = self.new_keys().chain([marker]);
        let free: Vec<Cmd> = keys.map(|key| cmd("UNLINK").arg(key).clone()).collect();
        if let Err(error) = self.fence.run(&free).await {
            tracing::debug!(%error, "the new filter is left to expire");
        }
    }
}

impl Site {
    /// Returns a seal for an empty filter.
    fn new_seal(&self, size: BloomSize) -> Result<Seal, StoreError> {
        if self.trust.layout.is_module() {
            return Ok(module::draw());
        }
        let seal = Seal::draw(self.trust.layout.end(size));
        seal.ok_or_else(|| self.foreign("there is no room for a seal behind its last bit"))
    }

    /// Returns the commands that add ids to the new filter. Each time it gets a life: it may have been lost meanwhile, and
    /// be made again by them.
    pub(crate) fn filling(&self, places: &[Place]) -> Vec<Cmd> {
        let keys = places.chunk_by(|one, other| one.key == other.key);
        let fill = |places: &[Place]| {
            let key = new_key(self.trust.key_of(places[0].key));
            let mut commands = self.trust.layout.fill(&key, places);
            commands.push(expire(&key));
            commands
        };
        keys.flat_map(fill).collect()
    }
}

/// Returns the command that gives a key as long a life as nobody renews it.
fn expire(key: &str) -> Cmd {
    cmd("PEXPIRE").arg(key).arg(LIFE.as_millis() as u64).clone()
}

/// Returns the key of the filter that is to take a key's place.
fn new_key(key: &str) -> String {
    beside(key, "new")
}
