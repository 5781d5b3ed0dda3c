//! Keys, their types and their lifetimes, and the commands that are the same for all types.

use std::collections::{BTreeMap, BTreeSet};

use super::reply::Reply;

pub(crate) type Bytes = Vec<u8>;

/// What a key holds.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Text(Bytes),
    Hash(BTreeMap<Bytes, Bytes>),
    Sorted(Sorted),
}

/// A sorted set. Scores are whole numbers here.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sorted {
    pub(crate) scores: BTreeMap<Bytes, i64>,
    pub(crate) order: BTreeSet<(i64, Bytes)>,
}

#[derive(Debug, Clone)]
pub(crate) struct Slot {
    value: Value,
    /// When the key ends, ms since the Unix epoch.
    ends: Option<u64>,
}

/// All keys of one database.
#[derive(Debug, Clone, Default)]
pub(crate) struct Keyspace {
    slots: BTreeMap<Bytes, Slot>,
    /// The moment of the command under way.
    pub(crate) now_us: u64,
    /// The keys that were found to have ended since this was last looked at.
    pub(crate) ended: Vec<Bytes>,
}

impl Keyspace {
    pub(crate) const fn now_ms(&self) -> u64 {
        self.now_us / 1000
    }

    /// Drops the key if its time is over.
    fn expire(&mut self, key: &[u8]) {
        let now = self.now_ms();
        if self.slots.get(key).and_then(|slot| slot.ends).is_some_and(|ends| ends <= now) {
            self.slots.remove(key);
            self.ended.push(key.to_vec());
        }
    }

    pub(crate) fn get(&mut self, key: &[u8]) -> Option<&Value> {
        self.expire(key);
        self.slots.get(key).map(|slot| &slot.value)
    }

    pub(crate) fn get_mut(&mut self, key: &[u8]) -> Option<&mut Value> {
        self.expire(key);
        self.slots.get_mut(key).map(|slot| &mut slot.value)
    }

    /// The value of a key, made if there is none.
    pub(crate) fn entry(&mut self, key: &[u8], new: impl FnOnce() -> Value) -> &mut Value {
        self.expire(key);
        let slot =
            self.slots.entry(key.to_vec()).or_insert_with(|| Slot { value: new(), ends: None });
        &mut slot.value
    }

    pub(crate) fn put(&mut self, key: &[u8], value: Value, ends: Option<u64>) {
        self.slots.insert(key.to_vec(), Slot { value, ends });
    }

    pub(crate) fn remove(&mut self, key: &[u8]) -> bool {
        self.expire(key);
        self.slots.remove(key).is_some()
    }

    /// When a key ends, if it does.
    pub(crate) fn ends(&mut self, key: &[u8]) -> Option<u64> {
        self.expire(key);
        self.slots.get(key).and_then(|slot| slot.ends)
    }

    pub(crate) fn clear(&mut self) {
        self.slots.clear();
    }

    /// Takes a key out, with its time to live.
    pub(crate) fn take(&mut self, key: &[u8]) -> Option<Slot> {
        self.slots.remove(key)
    }

    /// Puts back what was taken out, if that was anything.
    pub(crate) fn put_back(&mut self, key: &[u8], slot: Option<Slot>) {
        self.slots.remove(key);
        self.slots.extend(slot.map(|slot| (key.to_vec(), slot)));
    }

    /// About how much memory they take.
    pub(crate) fn bytes(&self) -> usize {
        let of = |value: &Value| match value {
            Value::Text(text) => text.len(),
            Value::Hash(fields) => fields.values().map(|value| value.len() + 16).sum(),
            Value::Sorted(set) => set.order.len() * 64,
        };
        self.slots.iter().map(|(key, slot)| key.len() + of(&slot.value)).sum()
    }

    /// The keys there are.
    pub(crate) fn keys(&self) -> Vec<Bytes> {
        self.slots.keys().cloned().collect()
    }

    /// Runs the commands on keys of whatever type; none if it is not one of them.
    pub(crate) fn run_any(&mut self, name: &str, args: &[&[u8]]) -> Option<Reply> {
        Some(match (name, args) {
            ("DEL", keys) => Reply::Int(keys.iter().map(|key| i64::from(self.remove(key))).sum()),
            ("EXISTS", keys) => {
                Reply::Int(keys.iter().map(|key| i64::from(self.get(key).is_some())).sum())
            }
            ("TYPE", [key]) => Reply::Status(
                match self.get(key) {
                    None => "none",
                    Some(Value::Text(_)) => "string",
                    Some(Value::Hash(_)) => "hash",
                    Some(Value::Sorted(_)) => "zset",
                }
                .to_owned(),
            ),
            ("RENAME", [from, to]) => {
                self.expire(from);
                match self.slots.remove(*from) {
                    Some(slot) => {
                        self.slots.insert(to.to_vec(), slot);
                        Reply::ok()
                    }
                    None => Reply::error("ERR no such key"),
                }
            }
            ("PERSIST", [key]) => {
                self.expire(key);
                let slot = self.slots.get_mut(*key);
                Reply::Int(i64::from(slot.is_some_and(|slot| slot.ends.take().is_some())))
            }
            ("PEXPIRE", [key, life]) => {
                let ends = self.now_ms() + number(life) as u64;
                self.expire(key);
                let slot = self.slots.get_mut(*key);
                Reply::Int(i64::from(slot.is_some_and(|slot| {
                    slot.ends = Some(ends);
                    true
                })))
            }
            ("PTTL", [key]) => match (self.get(key).is_some(), self.ends(key)) {
                (false, _) => Reply::Int(-2),
                (true, None) => Reply::Int(-1),
                (true, Some(ends)) => Reply::Int((ends - self.now_ms()) as i64),
            },
            ("FLUSHALL", []) => {
                self.clear();
                Reply::ok()
            }
            ("TIME", []) => {
                let (seconds, micros) = (self.now_us / 1_000_000, self.now_us % 1_000_000);
                Reply::Array(vec![
                    Reply::bulk(seconds.to_string()),
                    Reply::bulk(micros.to_string()),
                ])
            }
            _ => return None,
        })
    }

    /// Runs a command.
    pub(crate) fn run(&mut self, args: &[&[u8]]) -> Reply {
        let name = String::from_utf8_lossy(args[0]).to_ascii_uppercase();
        let args = &args[1..];
        self.run_any(&name, args)
            .or_else(|| self.run_text(&name, args))
            .or_else(|| self.run_hash(&name, args))
            .or_else(|| self.run_sorted(&name, args))
            .unwrap_or_else(|| {
                let shown: Vec<_> = args.iter().map(|arg| String::from_utf8_lossy(arg)).collect();
                panic!("the model does not know the command {name} {shown:?}")
            })
    }
}

/// Reads a number that the guard wrote.
pub(crate) fn number(text: &[u8]) -> i64 {
    std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| panic!("not a whole number: {:?}", String::from_utf8_lossy(text)))
}
