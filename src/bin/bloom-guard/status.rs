//! `status`: how a filter stands.

use bloom_guard::inspect::{Filter, Shard};
use bloom_guard::{Doubt, Generation, JournalReach, Mode};
use serde_json::{Value, json};

use crate::check::{Fate, milder, notes};
use crate::outcome::{Ending, Outcome, say};
use crate::processes::Processes;
use crate::target::Target;
use crate::words;

/// Says how a filter stands, by what is in Redis, and which processes are connected. Only reads.
///
/// Exit status 1: it, or one of its shards, refuses nothing now, or a rebuild that began now would fail.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,
}

/// All shards of a filter together.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    pub(crate) live: usize,
    /// How many shards refuse absent ids, where the mode has them do so.
    pub(crate) refusing: usize,
    pub(crate) all: usize,
    pub(crate) doubt: Option<Doubt>,
    pub(crate) oldest: Option<Generation>,
    pub(crate) age_ms: i64,
    pub(crate) items: u64,
    capacity: u64,
    rate: f64,
    expected_rate: f64,
    bytes: u64,
    pub(crate) mode: Mode,
    mode_us: i64,
    /// For how long the filter settles, ms; 0 if it waits for a rebuild.
    pub(crate) settling_ms: Option<i64>,
    may_evict: bool,
    /// Why Redis refuses checks.
    pub(crate) refuses_checks: Option<Doubt>,
    pub(crate) polled_ago_ms: i64,
    journal: Option<JournalReach>,
    /// When the rebuild began that is under way, ms. Of several, the first.
    pub(crate) rebuilding_ms: Option<i64>,
    /// When a rebuild was asked for last, µs.
    asked_us: i64,
    /// The address of the process that rebuilds.
    rebuilt_by: Option<String>,
    /// How long marks last, by what any process states.
    reach_ms: i64,
    next_bytes: u64,
    /// Why some shards cannot be asked.
    pub(crate) away: Option<String>,
    now_ms: i64,
}

impl Standing {
    pub(crate) fn of(filter: &Filter) -> Self {
        let mut standing = Self {
            all: filter.shards.len(),
            journal: filter.journal(),
            polled_ago_ms: i64::MAX,
            ..Self::default()
        };
        for shard in &filter.shards {
            standing.add_live(shard);
            standing.refusing += usize::from(refuses(shard));
            match &shard.away {
                Some(reason) => {
                    standing.away = standing.away.take().or_else(|| Some(reason.clone()));
                }
                None => standing.add_metadata(shard),
            }
        }
        standing.expected_rate /= standing.live.max(1) as f64;
        standing
    }

    fn add_live(&mut self, shard: &Shard) {
        let (Ok(generation), Ok(numbers)) = (shard.generation(), shard.numbers()) else {
            self.doubt = shard.generation().err();
            return;
        };
        let (items, capacity, rate, expected_rate, bytes) = numbers;
        self.live += 1;
        self.oldest = Some(self.oldest.map_or(generation, |oldest| oldest.min(generation)));
        self.age_ms = self.age_ms.max((shard.now_us - generation.get()) / 1000);
        self.items += items;
        self.capacity += capacity;
        self.rate = rate.into();
        self.expected_rate += expected_rate;
        self.bytes += bytes;
    }

    fn add_metadata(&mut self, shard: &Shard) {
        let (metadata, now_ms) = (&shard.metadata, shard.now_us / 1000);
        self.now_ms = now_ms;
        if metadata.mode_us >= self.mode_us {
            (self.mode, self.mode_us) = (metadata.mode, metadata.mode_us);
        }
        if metadata.settles_ms > 0 {
            let rest = (metadata.settles_ms - now_ms).max(0);
            self.settling_ms = Some(self.settling_ms.map_or(rest, |longest| longest.max(rest)));
        }
        self.may_evict |= shard.may_evict;
        self.refuses_checks = self.refuses_checks.or(shard.refuses_checks);
        self.polled_ago_ms = self.polled_ago_ms.min(now_ms - metadata.polled_ms);
        self.reach_ms = self.reach_ms.max(metadata.reach_ms);
        self.asked_us = self.asked_us.max(metadata.asked_us);
        if let Some(process) = &shard.rebuilt_by {
            let began = metadata.epoch_us / 1000;
            if self.rebuilding_ms.is_none_or(|first| began < first) {
                (self.rebuilding_ms, self.rebuilt_by) = (Some(began), Some(process.clone()));
            }
        }
        self.next_bytes += shard.next.map_or(0, |next| next.bytes);
    }

    /// Whether any shard refuses.
    pub(crate) fn refuses(&self) -> bool {
        self.refusing > 0 && self.mode == Mode::Enforce
    }

    /// Whether all do.
    pub(crate) fn is_whole(&self) -> bool {
        self.refusing == self.all && self.mode == Mode::Enforce
    }

    fn is_wrong(&self) -> bool {
        !self.is_whole() || self.journal.is_some_and(|journal| journal.is_too_short())
    }

    fn live_words(&self) -> String {
        let Some(oldest) = self.oldest else {
            return self
                .doubt
                .map_or_else(String::new, |doubt| format!("none: {doubt}. {}", doubt.advice()));
        };
        let ms = oldest.get() / 1000;
        format!(
            "generation {oldest}, built {} ({} ago)\nitems: {} of {} at the build, {}\nrate: {} absent ids pass, {} when full",
            words::moment(ms),
            words::span_ms(self.age_ms),
            words::number(self.items),
            words::number(self.capacity),
            words::bytes(self.bytes),
            words::rate(self.expected_rate),
            words::rate(self.rate)
        )
    }

    pub(crate) fn refusing_words(&self) -> String {
        let why = match (self.refuses_checks, self.settling_ms) {
            _ if self.is_whole() => return "absent ids are refused".to_owned(),
            _ if self.away.is_some() && self.refuses() => "they cannot be asked".to_owned(),
            (Some(doubt), _) => format!("{doubt}. {}", doubt.advice()),
            _ if self.live == 0 => "no filter is live".to_owned(),
            _ if let Some(mode) = milder(self.mode) => mode.to_owned(),
            (_, Some(_)) => "the filter settles".to_owned(),
            _ if self.may_evict => {
                "Redis may evict any key (unless accept_eviction is set)".to_owned()
            }
            _ => "no filter is live".to_owned(),
        };
        if self.refuses() {
            let Self { refusing, all, .. } = self;
            return format!(
                "absent ids are refused in {refusing} of {all} shards, and in the others not: {why}"
            );
        }
        format!("nothing is refused: {why}")
    }

    pub(crate) fn settling_words(&self) -> Option<String> {
        self.settling_ms.map(|rest| match rest {
            0 => "until the next rebuild".to_owned(),
            rest => format!("for {} more, then until the next rebuild", words::span_ms(rest)),
        })
    }

    fn rebuild_words(&self) -> String {
        match self.rebuilding_ms {
            Some(ms) => format!(
                "under way since {} ({}){}, {} of it in Redis",
                words::moment(ms),
                words::span_ms(self.now_ms - ms),
                self.rebuilder().map_or_else(String::new, |process| format!(" by {process}")),
                words::bytes(self.next_bytes)
            ),
            None if self.asked_us > self.oldest.map_or(0, Generation::get) => {
                format!("asked for {}, none under way", words::moment(self.asked_us / 1000))
            }
            None => "none under way".to_owned(),
        }
    }

    fn text(&self) -> String {
        let mut lines = vec![self.refusing_words(), format!("live: {}", self.live_words())];
        if self.all > 1 {
            lines.push(format!("shards: {} of {} answer", self.live, self.all));
        }
        lines.extend(self.away.as_ref().map(|reason| format!("cannot be asked: {reason}")));
        let set = match self.mode_us {
            0 => "as it was never set".to_owned(),
            us => format!("set {}", words::moment(us / 1000)),
        };
        lines.push(format!("mode of all processes: {}, {set}", name(self.mode)));
        lines.extend(self.settling_words().map(|rest| format!("settling: {rest}")));
        lines.push(format!("rebuild: {}", self.rebuild_words()));
        lines.push(match self.journal {
            Some(journal) if journal.is_too_short() => {
                format!("journal: {journal}: a rebuild would fail; raise journal_entries")
            }
            Some(journal) => format!("journal: {journal}"),
            None => "journal: how far it reaches cannot be told".to_owned(),
        });
        lines.push(format!(
            "longest_transaction and handler_time: {} together, the longest that redis knows of",
            words::span_ms(self.reach_ms / 2)
        ));
        lines.push(format!("last polled by a process: {} ago", words::span_ms(self.polled_ago_ms)));
        lines.join("\n")
    }

    /// The address of a process that rebuilds, where it has one.
    pub(crate) fn rebuilder(&self) -> Option<&str> {
        self.rebuilt_by.as_deref().filter(|address| !address.is_empty())
    }

    pub(crate) fn value(&self) -> Value {
        json!({
            "refuses": self.refuses(),
            "checks_refused_by_redis": self.refuses_checks.map(Doubt::as_str),
            "doubt": self.doubt.map(Doubt::as_str),
            "generation": self.oldest.map(Generation::get),
            "age_seconds": self.oldest.map(|_| self.age_ms / 1000),
            "items": self.items,
            "capacity": self.capacity,
            "rate": self.rate,
            "expected_rate": self.expected_rate,
            "bytes": self.bytes,
            "shards": { "live": self.live, "refusing": self.refusing, "all": self.all },
            "away": self.away,
            "mode": name(self.mode),
            "settling_seconds": self.settling_ms.map(|ms| ms / 1000),
            "rebuild_asked_ms": (self.asked_us > 0).then_some(self.asked_us / 1000),
            "rebuilding_since_ms": self.rebuilding_ms,
            "rebuilt_by": self.rebuilder(),
            "next_bytes": self.next_bytes,
            "journal_reaches_seconds": self.journal.and_then(|journal| journal.reaches).map(|back| back.as_secs()),
            "journal_required_seconds": self.journal.map(|journal| journal.required.as_secs()),
            "longest_transaction_and_handler_time_seconds": self.reach_ms / 2000,
            "polled_seconds_ago": self.polled_ago_ms / 1000,
        })
    }
}

/// Whether absent ids of a shard are refused, where the mode has them be so.
fn refuses(shard: &Shard) -> bool {
    shard.generation().is_ok()
        && shard.refuses_checks.is_none()
        && Fate::of_absent(shard) == Fate::Refused
}

/// The name of a mode, as it is given to `mode`.
pub(crate) fn name(mode: Mode) -> &'static str {
    match mode {
        Mode::Shadow => "shadow",
        Mode::Off => "off",
        _ => "enforce",
    }
}

pub(crate) async fn run(arguments: &Arguments, json: bool) -> Outcome {
    let filter = arguments.target.read().await?;
    let standing = Standing::of(&filter);
    let processes = Processes::of(&filter, &arguments.target.name).await?;
    let (mut text, mut value) = (standing.text(), standing.value());
    text += &format!("\n{}", processes.text());
    value["processes"] = processes.value();
    for note in notes(&filter) {
        text += &format!("\n{note}");
    }
    value["notes"] = json!(notes(&filter));
    say(json, &text, &value)?;
    Ok(Ending::wrong_if(standing.is_wrong()))
}
