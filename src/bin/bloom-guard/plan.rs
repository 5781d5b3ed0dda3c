//! `plan`: what a filter takes, before it is made.

use std::time::Duration;

use bloom_guard::Sizing;
use bloom_guard::inspect::Defaults;
use serde_json::json;

use crate::outcome::{Ending, Failure, Outcome, say};
use crate::words;

/// What the guide's page `redis` says of an entry of the journal and of a mark, bytes; and of a null.
const ENTRY: f64 = 50.0;
const MARK: f64 = 120.0;
/// What a rebuild of a billion takes an id, by the same page, ns.
const REBUILD: f64 = 175.0;
/// What an idle process costs Redis, by the same page, of a core: with one shard, and with 256.
const IDLE: (f64, f64) = (0.001, 0.003);
/// What an id takes that is remembered as found.
const FOUND: u64 = 16;
/// The connections of a guard.
const CONNECTIONS: u64 = 3;
/// A shard of so many bytes is allocated in less than a millisecond, by the same page.
const QUICK: u64 = 6 << 20;

/// Says what a filter takes in Redis and in a process. Asks nobody.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How many ids there are, with room for growth.
    ids: u64,
    /// How many absent ids may pass: 0.001 is one in a thousand.
    rate: f64,
    /// How many ids are inserted in a second, one a call.
    #[arg(long, value_name = "N", default_value_t = 10.0)]
    inserts_per_second: f64,
    /// How many processes have a guard.
    #[arg(long, value_name = "P", default_value_t = 4)]
    processes: u64,
    /// In how many shards, a power of two; else as few as do.
    #[arg(long, value_name = "S")]
    shards: Option<u32>,
}

/// What is planned.
struct Plan {
    sizing: Sizing,
    shards: u32,
    ids: u64,
    /// How many shards are allocated in less than a millisecond each.
    quick: Option<u32>,
    defaults: Defaults,
    inserts: f64,
    processes: u64,
}

pub(crate) fn run(arguments: &Arguments, json: bool) -> Outcome {
    let Arguments { ids, rate, inserts_per_second: inserts, processes, shards } = *arguments;
    if !(0.0..=1e9).contains(&inserts) {
        return Err(Failure(format!(
            "{inserts} inserts a second is no number from 0 to 1e9: give one."
        )));
    }
    let powers = || (0..=10).map(|power| 1_u32 << power);
    let sized = |shards| Sizing::sharded(ids, rate, shards);
    let wrong = |error| Failure(format!("{error}: give other IDS, RATE or --shards."));
    let shards = match shards {
        Some(given) if !powers().any(|power| power == given) => {
            return Err(Failure(format!(
                "{given} shards is no power of two from 1 to 1024: give one."
            )));
        }
        Some(given) => given,
        None => powers().find(|shards| sized(*shards).is_ok()).unwrap_or(1),
    };
    let sizing = sized(shards).map_err(wrong)?;
    let is_quick =
        |shards: &u32| sized(*shards).is_ok_and(|of| of.bytes() / u64::from(*shards) <= QUICK);
    let quick = powers().find(is_quick);
    let plan =
        Plan { sizing, shards, ids, quick, defaults: Defaults::of(&sizing), inserts, processes };
    plan.tell(json)?;
    Ok(Ending::wrong_if(plan.longer_journal().is_some()))
}

impl Plan {
    /// While a rebuild goes on: a filter in one piece is there twice, of shards one.
    fn rebuilt(&self) -> u64 {
        self.sizing.bytes() + self.sizing.bytes() / u64::from(self.shards)
    }

    fn entries(&self) -> f64 {
        self.inserts * self.defaults.journal.as_secs_f64()
    }

    fn marks(&self) -> f64 {
        self.inserts * self.defaults.mark_ttl.as_secs_f64()
    }

    /// What `journal_entries` has to be set to, if the default is too few.
    fn longer_journal(&self) -> Option<f64> {
        let is_short = self.entries() > self.defaults.journal_entries as f64;
        is_short.then(|| self.entries() * 1.25)
    }

    fn journal_entries(&self) -> f64 {
        self.longer_journal().unwrap_or(self.defaults.journal_entries as f64)
    }

    fn beside(&self) -> u64 {
        let most = self.journal_entries();
        (self.entries().min(most) * ENTRY + self.marks().min(most) * MARK) as u64
    }

    fn rebuild(&self) -> f64 {
        self.ids as f64 * REBUILD / 1e9
    }

    /// The share of a core that Redis spends on all processes when nobody asks.
    fn idle(&self) -> f64 {
        let (one, many) = IDLE;
        self.processes as f64 * (one + (many - one) * f64::from(self.shards - 1) / 255.0)
    }

    /// The copy, ids that were found, and nulls; and the copy alone.
    fn in_process(&self) -> (u64, u64) {
        let copy = self.sizing.bytes();
        let copy = if copy <= self.defaults.copy_limit { copy } else { 0 };
        (copy + self.defaults.found * FOUND + self.defaults.null_bytes, copy)
    }

    fn tell(&self, json: bool) -> Result<(), Failure> {
        let (in_process, copy) = self.in_process();
        let value = json!({
            "shards": self.shards,
            "shards_allocated_within_1_ms": self.quick,
            "hashes": self.sizing.hashes(),
            "bits_per_id": self.sizing.bits_per_id(),
            "redis_bytes": self.sizing.bytes(),
            "redis_bytes_while_rebuilt": self.rebuilt(),
            "journal_entries": self.entries().ceil(),
            "marks": self.marks().ceil(),
            "journal_and_marks_bytes": self.beside(),
            "process_bytes": in_process,
            "copy_bytes": copy,
            "process_bytes_more_while_rebuilding": self.sizing.bytes(),
            "rebuild_seconds": self.rebuild(),
            "idle_share_of_a_redis_core": self.idle(),
            "connections": self.processes * CONNECTIONS,
        });
        say(json, &self.text(), &value)
    }

    fn text(&self) -> String {
        let bytes = words::bytes;
        let (in_process, copy) = self.in_process();
        let beside = format!(
            "{} (journal: {} entries kept for {}; marks: {} for {})",
            bytes(self.beside()),
            words::number(self.entries() as u64),
            words::span(self.defaults.journal),
            words::number(self.marks() as u64),
            words::span(self.defaults.mark_ttl)
        );
        let mut lines = vec![
            format!("Redis, the live filter: {}", bytes(self.sizing.bytes())),
            format!("Redis, while it is rebuilt: {}", bytes(self.rebuilt())),
            format!("Redis, beside it at these inserts: {beside}"),
            format!("Redis, maxmemory at the least: {}", bytes(self.rebuilt() + self.beside())),
            self.shards_line(),
            format!("a process: {}, of which the copy is {}", bytes(in_process), bytes(copy)),
            format!("a process that rebuilds: {} more", bytes(self.sizing.bytes())),
            self.rebuild_line(),
            format!(
                "idle: Redis spends about {:.1} % of a core on these processes",
                self.idle() * 100.0
            ),
            format!(
                "connections: {} ({CONNECTIONS} a process, to each node of a cluster that has a shard, and one more to each Sentinel)",
                words::number(self.processes * CONNECTIONS)
            ),
        ];
        if copy == 0 {
            lines.push(format!(
                "The filter is above copy_limit ({}): no process keeps a copy, unless it is raised.",
                bytes(self.defaults.copy_limit)
            ));
        }
        lines.extend(self.too_much());
        lines.join("\n")
    }

    fn rebuild_line(&self) -> String {
        let time = words::span(Duration::from_secs(self.rebuild().ceil() as u64));
        format!("a rebuild: about {time} on two idle cores, from a source as quick as memory")
    }

    fn shards_line(&self) -> String {
        let each = words::bytes(self.sizing.bytes() / u64::from(self.shards));
        let quick = match self.quick {
            Some(quick) if quick > self.shards => {
                format!(
                    "; with {quick} a rebuild holds Redis up for less than a millisecond at a time"
                )
            }
            _ => String::new(),
        };
        format!("shards: {} of {each}{quick}", self.shards)
    }

    fn too_much(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(entries) = self.longer_journal() {
            lines.push(format!(
                "The journal is too short: set journal_entries to {}, or insert many ids at a time.",
                words::number(entries as u64)
            ));
        }
        let most = self.journal_entries();
        if self.marks() > most {
            lines.push(
                "There are more marks than journal_entries: no 404 is remembered.".to_owned(),
            );
        }
        lines
    }
}
