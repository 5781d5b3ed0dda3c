//! One Redis process: its role, its moods, its scripts and its keys.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

use super::keyspace::{Keyspace, number};
use super::lua::{self, Rules};
use super::reply::Reply;
use crate::cluster::Map;
use crate::recording::{self, Record};

/// How far the clocks of a cluster's nodes are apart, µs, times the number of their site.
const APART: u64 = 10_000;
/// A clock that is behind by so much was set back, µs.
const JUMP: u64 = 1_000_000;

/// A Redis process.
#[derive(Debug, Default)]
pub(crate) struct Node {
    pub(crate) keys: Keyspace,
    /// Random and new with every start.
    pub(crate) run_id: u64,
    /// The replication history it is on.
    pub(crate) history: u64,
    pub(crate) replica: bool,
    /// It has too few replicas to accept writes.
    pub(crate) lonely: bool,
    /// When it becomes a replica, ms since the run began, and of which history.
    pub(crate) demoted: Option<(u64, u64)>,
    /// How many bytes its keys may take, if there is a limit.
    pub(crate) limit: Option<usize>,
    /// It cannot save, and so accepts no writes.
    pub(crate) misconfigured: bool,
    /// It reads its dump until this moment, ms since the run began.
    pub(crate) loading_until: u64,
    /// It stands still until this moment, ms since the run began: what arrives waits.
    pub(crate) still_until: u64,
    pub(crate) version: &'static str,
    /// What it knows of its cluster, if it is in one.
    pub(crate) map: Option<Map>,
    /// The scripts it knows, by their hashes.
    scripts: BTreeMap<String, Arc<str>>,
}

/// An error before a command touches anything.
pub(crate) struct Refusal(pub(crate) String);

impl Node {
    /// A process of this version that starts with these keys.
    pub(crate) fn start(version: &'static str, run_id: u64, history: u64, keys: Keyspace) -> Self {
        Self { version, run_id, history, keys, ..Self::default() }
    }

    /// Returns the process that takes another one's place, with these keys.
    pub(crate) fn succeed(&self, run_id: u64, history: u64, mut keys: Keyspace) -> Self {
        if let Some(map) = &self.map {
            map.begin_with(&mut keys);
        }
        Self { map: self.map.clone(), ..Self::start(self.version, run_id, history, keys) }
    }

    /// It becomes a replica.
    pub(crate) fn demote(&mut self, history: u64) {
        (self.replica, self.lonely, self.history, self.demoted) = (true, false, history, None);
        if let Some(map) = &mut self.map {
            map.here = None;
        }
    }

    /// Forgets all scripts.
    pub(crate) fn flush_scripts(&mut self) {
        self.scripts.clear();
    }

    /// Executes a command that a client sent, at a moment of the run and of Redis's clock.
    pub(crate) fn execute(&mut self, words: &[&[u8]], run_ms: u64, clock_us: u64) -> Reply {
        let here = self.map.as_ref().and_then(|map| map.here).unwrap_or(0);
        let clock_us = clock_us + here as u64 * APART;
        // No two commands at one microsecond.
        let after = self.keys.now_us + 1;
        self.keys.now_us = if clock_us + JUMP < after { clock_us } else { clock_us.max(after) };
        let reply = self.answer(words, run_ms);
        let ended = mem::take(&mut self.keys.ended);
        recording::note(|| Record {
            ended,
            words: words.iter().map(|word| word.to_vec()).collect(),
            code: self.script_of(words, &reply),
            now_us: self.keys.now_us,
            reply: reply.clone(),
        });
        reply
    }

    /// The script that a command ran.
    fn script_of(&self, words: &[&[u8]], reply: &Reply) -> Option<String> {
        let hash = match words[0] {
            b"EVAL" => return Some(String::from_utf8_lossy(words[1]).into_owned()),
            b"EVALSHA" => text(words[1]),
            _ => return None,
        };
        let unknown = matches!(reply, Reply::Error(error) if error.starts_with("NOSCRIPT"));
        self.scripts.get(hash).filter(|_| !unknown).map(|code| code.to_string())
    }

    fn answer(&mut self, words: &[&[u8]], run_ms: u64) -> Reply {
        if let Some((at, history)) = self.demoted
            && at <= run_ms
        {
            self.demote(history);
        }
        let name = words[0].to_ascii_uppercase();
        if run_ms < self.loading_until && !matches!(name.as_slice(), b"INFO" | b"TIME") {
            return Reply::error("LOADING Redis is loading the dataset in memory");
        }
        if let Some(map) = self.map.clone()
            && let Some(reply) = map.answer(words, self.demoted.is_some(), &mut self.keys)
        {
            return reply;
        }
        match (name.as_slice(), &words[1..]) {
            (b"INFO", _) => Reply::bulk(self.info()),
            (b"EVAL", [code, rest @ ..]) => {
                let code = text(code);
                let hash = redis::Script::new(code).get_hash().to_owned();
                self.scripts.entry(hash.clone()).or_insert_with(|| code.into());
                self.evaluate(&hash, rest)
            }
            (b"EVALSHA", [hash, rest @ ..]) => {
                let hash = text(hash);
                if !self.scripts.contains_key(hash) {
                    return Reply::error("NOSCRIPT No matching script. Please use EVAL.");
                }
                self.evaluate(hash, rest)
            }
            (b"SCRIPT", _) => {
                self.flush_scripts();
                Reply::ok()
            }
            _ => match self.refusal(words, None) {
                Some(Refusal(error)) => Reply::Error(error),
                None => self.keys.run(words),
            },
        }
    }

    fn evaluate(&mut self, hash: &str, rest: &[&[u8]]) -> Reply {
        let code = Arc::clone(&self.scripts[hash]);
        // A script that declares flags, and not that it writes nothing, is taken for a write.
        if code.starts_with("#!") {
            if self.replica {
                return Reply::error(
                    "READONLY Can not run script with write flag on readonly replica.",
                );
            }
            if let Some(Refusal(error)) = self.refuses_writes() {
                return Reply::Error(error);
            }
        }
        let (keys, args) = rest[1..].split_at(number(rest[0]) as usize);
        lua::run(self, hash, &code, keys, args)
    }

    pub(crate) fn refuses_writes(&self) -> Option<Refusal> {
        let refusal = |text: &str| Some(Refusal(text.to_owned()));
        if self.misconfigured {
            return refusal(
                "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
            );
        }
        if self.replica {
            return refusal("READONLY You can't write against a read only replica.");
        }
        if self.lonely {
            return refusal("NOREPLICAS Not enough good replicas to write.");
        }
        None
    }

    /// Why the command is refused in the process's present state, within a script or outside.
    pub(crate) fn refusal(&self, words: &[&[u8]], script: Option<&mut Rules>) -> Option<Refusal> {
        let (writes, needs_memory) = kind(words[0]);
        if !writes {
            return None;
        }
        if let Some(refusal) = self.refuses_writes() {
            return Some(refusal);
        }
        let spared = script.as_ref().is_some_and(|rules| rules.allows_oom || rules.wrote);
        if needs_memory && !spared && self.is_full() {
            let text = "OOM command not allowed when used memory > 'maxmemory'.";
            return Some(Refusal(text.to_owned()));
        }
        if let Some(rules) = script {
            rules.wrote = true;
        }
        None
    }

    /// Whether its keys take more than they may. A script's room is looked at as it begins.
    pub(crate) fn is_full(&self) -> bool {
        self.limit.is_some_and(|limit| self.keys.bytes() > limit)
    }

    fn info(&self) -> String {
        let (used, limit) = (self.keys.bytes(), self.limit.unwrap_or(0));
        let role = if self.replica { "slave" } else { "master" };
        let (run_id, history) = (self.run_id, self.history);
        format!(
            "# Server\r\nredis_version:{}\r\nrun_id:{run_id:016x}{:024x}\r\n\
             # Memory\r\nused_memory:{used}\r\nmaxmemory:{limit}\r\nmaxmemory_policy:noeviction\r\n\
             # Replication\r\nrole:{role}\r\nmaster_replid:{history:016x}{:024x}\r\n",
            self.version, 0, 0
        )
    }
}

/// What the guard sends as text.
fn text(word: &[u8]) -> &str {
    std::str::from_utf8(word).expect("a text")
}

/// Whether a command is flagged as a write, and whether as one that needs memory.
fn kind(name: &[u8]) -> (bool, bool) {
    match name.to_ascii_uppercase().as_slice() {
        b"SET" | b"SETRANGE" | b"SETBIT" | b"BITFIELD" | b"BITOP" | b"HSET" | b"HSETNX"
        | b"ZADD" => (true, true),
        b"DEL" | b"FLUSHALL" | b"HDEL" | b"ZREM" | b"ZREMRANGEBYRANK" | b"RENAME" | b"PERSIST"
        | b"PEXPIRE" => (true, false),
        _ => (false, false),
    }
}
