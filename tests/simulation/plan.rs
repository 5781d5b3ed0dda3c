//! What happens in a run, drawn from its seed before it begins.

mod ask;
mod cluster;
mod flavour;
mod old_copies;
mod process;
mod rules;
mod scenario;
mod shards;
mod trouble;

pub(crate) use ask::{Answers, Ask, Asked, Caller};
pub(crate) use flavour::Flavour;
pub(crate) use process::Process;
pub(crate) use rules::Rules;

use std::ops::Range;

use crate::Mode;
use crate::net::{Effect, Trap};
use crate::rng::Rng;

/// From so many ids on, a rebuild that finds a single row has lost some.
const MANY: u64 = 48;
/// So many ids that an insert of most of them takes several calls.
const HUNDREDS: u64 = 240;
/// Ids from here on are never created.
pub(crate) const NEVER: u64 = 1_000_000;

/// Tells what befalls the fleet apart from what else is drawn.
const FLEET: u64 = 0x5eed_f1ee;
/// What tells which primaries do not know that another one took over.
const TWO_PRIMARIES: u64 = 0x5eed_2b12;
/// What tells whether a seed's processes keep copies.
const COPIES: u64 = 0x5eed_c0b1;
/// How often something befalls the copies of such, in a thousand.
const COPIED: u64 = 15;

/// A run.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) config: Config,
    pub(crate) operations: Vec<Operation>,
}

/// How a run's instances are set up.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) instances: usize,
    pub(crate) version: &'static str,
    /// What each process is told as it begins.
    pub(crate) processes: [Process; 4],
    /// Ids below this are created and deleted.
    pub(crate) pool: u64,
    /// Rows that are there as the run begins.
    pub(crate) initial: u64,
    /// Rows seldom come and go, so that few marks keep nulls away.
    pub(crate) settled: bool,
    /// For how long a new filter settles, ms.
    pub(crate) settle: u64,
    pub(crate) null_ttl: u64,
    pub(crate) removed_ttl: u64,
    /// The rebuild period, ms; none to rebuild only when there is need.
    pub(crate) period: Option<u64>,
    pub(crate) page: (usize, u64),
    pub(crate) slow: u64,
    /// Whether processes keep copies of the live filter.
    pub(crate) copies: bool,
    /// Into how many shards the filter is cut.
    pub(crate) shards: u32,
    /// Whether Redis is a cluster.
    pub(crate) cluster: bool,
    /// From when on sources leave out every second row, ms; none if they never do.
    pub(crate) misread_from: Option<u64>,
    pub(crate) flavour: Flavour,
    pub(crate) rules: Rules,
}

/// One thing that happens, and when, ms since the run began.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    pub(crate) at: u64,
    pub(crate) what: What,
}

#[derive(Debug, Clone)]
pub(crate) enum What {
    Ask(Ask),
    Check {
        instance: usize,
        id: u64,
    },
    /// Asks for every id there is.
    Sweep {
        instance: usize,
    },
    Create {
        instance: usize,
        create: Create,
    },
    Delete {
        instance: usize,
        id: u64,
        takes: u64,
        told: Told,
    },
    /// From now on, this process acts on what it finds, watches, or stands aside.
    Mode {
        instance: usize,
        mode: Mode,
    },
    /// From now on, all processes act so.
    FleetMode {
        instance: usize,
        mode: Mode,
    },
    /// A program that does not insert creates this row, in a transaction of so many ms.
    Stranger {
        id: u64,
        hold: u64,
    },
    /// The last program that does not insert is gone.
    Step {
        instance: usize,
    },
    /// All processes end, and begin anew after so long; but the first goes on if it stands still for longer.
    Gone {
        for_ms: u64,
    },
    Rebuild {
        instance: usize,
        accepting_loss: bool,
        short: bool,
    },
    Crash {
        instance: usize,
    },
    /// Ends, and begins again with other settings.
    Redeploy {
        instance: usize,
        process: Process,
    },
    Trap(Trap),
    /// This process stands still for so long, and its clock does not.
    Pause {
        instance: usize,
        for_ms: u64,
    },
    CutOff {
        instance: usize,
        for_ms: u64,
    },
    /// Redis or its operator does something.
    Redis(Mishap),
}

/// One transaction that creates rows: those of these ids that are not there.
#[derive(Debug, Clone)]
pub(crate) struct Create {
    pub(crate) ids: Range<u64>,
    /// How long it has been open before the insert, and how long it stays open after that, ms.
    pub(crate) before: u64,
    pub(crate) hold: u64,
    pub(crate) aborts: bool,
    /// The caller that is shown the rows.
    pub(crate) owner: Caller,
}

impl Create {
    /// One row for everybody, committed so many ms after the insert.
    pub(crate) const fn of(id: u64, hold: u64) -> Self {
        Self { ids: id..id + 1, before: 0, hold, aborts: false, owner: Caller::Anybody }
    }
}

/// When the guard is told of a deletion.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Told {
    /// Before it commits.
    Early,
    /// So long after it, ms.
    Later(u64),
    Never,
}

#[derive(Debug, Clone)]
pub(crate) enum Mishap {
    /// Writes a dump; a replica's link stalls here, too.
    Dump,
    Restart {
        from_dump: bool,
        loading: u64,
    },
    /// Another process takes over.
    FailOver {
        from_dump: bool,
        old: Old,
    },
    FlushAll,
    /// The name leads to another process, with all there is or as of the last dump. The old one lives on by itself.
    Astray {
        from_dump: bool,
    },
    /// The name leads to the old process again.
    Back,
    /// The process that runs has the data of the last dump again.
    Rewind,
    /// This key is as it was in the last dump again, and all others stay: by RESTORE.
    PutBack(&'static str),
    /// These keys are put aside, or those that lie aside are put back: by RENAME, or all by SWAPDB.
    Swap(Vec<&'static str>),
    /// Its clock jumps by so much, ms.
    Clock(i64),
    Delete(Vec<&'static str>),
    /// The second half of this key's string is lost.
    CutShort(&'static str),
    Expire(&'static str, u64),
    FlushScripts,
    /// From now on it may take so many bytes more, or any number.
    Room(Option<u64>),
    Misconfigured(bool),
    Lonely(bool),
    Loading(u64),
    /// For so long, ms: the machine is suspended, the disk stalls, a script is slow.
    StandStill(u64),
    /// What happens to keys happens to those of this shard alone.
    OfShard(u32, Box<Mishap>),
    /// It happens to the node at this address.
    AtNode(usize, Box<Mishap>),
    /// Half of a shard's keys go to the node at this address.
    BeginToLeave(u32, usize),
    /// A shard is served by the node at this address, which has all its keys.
    Leave(u32, usize),
    /// The keys of a shard that had begun to leave are back.
    Stay(u32),
    /// The node at an address takes another one for that which serves a shard.
    Lie {
        at: usize,
        shard: u32,
        to: usize,
    },
    /// All nodes know which of them serves what.
    Gossip,
}

/// What becomes of the process that another one takes over from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Old {
    Ends,
    /// It is a replica at once, and its connections stay open.
    Demoted,
    /// So does it after this time, ms. Until then it takes itself for the primary, with too few replicas to accept writes; in a
    /// cluster, with too few other nodes to serve anything.
    Alone(u64),
}

impl Old {
    /// It stays so many times in a thousand.
    fn draw(rng: &mut Rng, stays: u64) -> Self {
        if rng.happens(stays) { Self::Demoted } else { Self::Ends }
    }
}

/// All keys that a filter has, but for its nulls.
pub(crate) const KEYS: [&str; 5] = ["bits", "next", "recent", "fleet", "lock"];

impl What {
    /// What befalls Redis: at once, or as a request is executed.
    fn mishap(&mut self) -> Option<&mut Mishap> {
        match self {
            Self::Redis(mishap)
            | Self::Trap(Trap { effect: Effect::Then(mishap) | Effect::Midway(mishap), .. }) => {
                Some(mishap)
            }
            _ => None,
        }
    }
}

impl Mishap {
    /// Whether Redis may forget the mode of all processes.
    pub(crate) fn loses_the_mode(&self) -> bool {
        use Mishap::{
            Astray, AtNode, Back, Clock, Delete, Expire, FailOver, FlushAll, OfShard, PutBack,
            Restart, Rewind, Swap,
        };
        match self {
            Swap(keys) | Delete(keys) => keys.contains(&"fleet"),
            Expire(key, _) | PutBack(key) => *key == "fleet",
            // A clock that jumps: what was stated for a time is over, or lasts for longer.
            Restart { .. }
            | FailOver { .. }
            | Astray { .. }
            | Back
            | FlushAll
            | Rewind
            | Clock(_) => true,
            // The other shards know it. But they may lose it before a poll tells this one of it.
            OfShard(_, mishap) | AtNode(_, mishap) => mishap.loses_the_mode(),
            _ => false,
        }
    }
}

impl Plan {
    /// Draws a run.
    pub(crate) fn draw(seed: u64, operations: usize) -> Self {
        Self::draw_on_one(seed, operations).clustered(operations).with_old_copies(operations)
    }

    /// Draws a run in which Redis is no cluster.
    pub(crate) fn draw_on_one(seed: u64, operations: usize) -> Self {
        let mut copies_rng = Rng::new(seed ^ COPIES);
        let copies = copies_rng.happens(400).then_some(copies_rng);
        Self::draw_with(seed, copies, operations).cut(operations).with_two_primaries()
    }

    /// The same, but that some primaries which another takes over from do not know it for a while.
    fn with_two_primaries(mut self) -> Self {
        let mut rng = Rng::new(self.seed ^ TWO_PRIMARIES);
        for what in self.operations.iter_mut().map(|operation| &mut operation.what) {
            if let Some(Mishap::FailOver { old: old @ Old::Demoted, .. }) = what.mishap()
                && rng.happens(400)
            {
                *old = Old::Alone(rng.within(10..2500));
            }
        }
        self
    }

    /// Adds steps, which are drawn, to so many operations in a thousand; keeps no more operations than `most`.
    fn with_more(
        mut self,
        rng: &mut Rng,
        per_mille: u64,
        steps: impl Fn(&mut Rng, &Config) -> Vec<(u64, What)>,
        most: usize,
    ) -> Self {
        let more: Vec<_> = self.operations.iter().filter(|_| rng.happens(per_mille)).collect();
        let more = more.into_iter().map(|operation| operation.at).collect::<Vec<_>>();
        for at in more {
            let steps = steps(rng, &self.config).into_iter();
            let steps = steps.map(|(later, what)| Operation { at: at + later, what });
            self.operations.extend(steps);
        }
        self.operations.sort_by_key(|operation| operation.at);
        self.operations.truncate(most);
        self
    }

    /// Draws a run whose processes keep no copies, of a filter that is not cut into shards.
    pub(crate) fn draw_plain(seed: u64, operations: usize) -> Self {
        Self::draw_with(seed, None, operations)
    }

    fn draw_with(seed: u64, mut copies: Option<Rng>, operations: usize) -> Self {
        let mut rng = Rng::new(seed);
        let mut config = Config::draw(&mut rng);
        // Drawn apart: the other operations of a seed are the same as if no fleet changed.
        let mut fleet_rng = Rng::new(seed ^ FLEET);
        config.settle = fleet_rng.pick(&[0, 0, 0, 8_000, 12_000]);
        config.copies = copies.is_some();
        let mut at = 0;
        let mut hot = 0;
        let mut drawn = Vec::with_capacity(operations);
        while drawn.len() < operations {
            at += match rng.within(0..100) {
                0..50 => rng.within(0..4),
                50..90 => rng.within(4..60),
                _ => rng.within(60..300),
            };
            // Many look at one id at a time, lest what happens to it goes unseen.
            if rng.happens(60) {
                hot = rng.within(0..config.pool);
            }
            let id = if rng.happens(400) { hot } else { rng.within(0..config.pool) };
            if config.settle > 0 && fleet_rng.happens(100) {
                let what = What::fleet(&mut fleet_rng, &config, id);
                drawn.push(Operation { at, what });
                continue;
            }
            if let Some(rng) = &mut copies
                && rng.happens(COPIED)
            {
                let steps = What::copied(rng, &config, id).into_iter();
                drawn.extend(steps.map(|(later, what)| Operation { at: at + later, what }));
                continue;
            }
            if let Some((steps, takes)) = What::scenario(&mut rng, &config, id) {
                let steps = steps.into_iter();
                drawn.extend(steps.map(|(later, what)| Operation { at: at + later, what }));
                at += takes;
            } else {
                let what = What::draw(&mut rng, &config, id);
                // Without metadata, a process that begins may bring a secret key of its own.
                if config.flavour == Flavour::Evicting
                    && matches!(what, What::Crash { .. })
                    && rng.happens(500)
                {
                    let lost = Mishap::Delete(vec!["fleet"]);
                    drawn.push(Operation { at, what: What::Redis(lost) });
                }
                drawn.push(Operation { at, what });
            }
        }
        drawn.truncate(operations);
        drawn.sort_by_key(|operation| operation.at);
        let operations = drawn;
        Self { seed, config, operations }
    }
}

impl Config {
    fn draw(rng: &mut Rng) -> Self {
        use Flavour::{Calm, Evicting, Forgetful, Lossy, Wild, Zombies};
        let flavour =
            rng.pick(&[Calm, Lossy, Lossy, Zombies, Zombies, Forgetful, Forgetful, Evicting, Wild]);
        let pool = rng.pick(&[4, 8, 16, 32, MANY, 96, 96, HUNDREDS]);
        Self {
            instances: rng.within(2..5) as usize,
            version: rng.pick(&["7.0.15", "7.0.15", "6.2.14"]),
            processes: Process::draw_all(rng, flavour),
            pool,
            initial: if pool < MANY { pool / 2 } else { rng.within(8..pool / 2) },
            settled: rng.happens(400),
            settle: 0,
            null_ttl: rng.pick(&[1000, 5000, 60_000]),
            removed_ttl: rng.pick(&[1000, 5000, 60_000]),
            period: rng.pick(&[None, None, Some(1000), Some(4000)]),
            page: (
                if pool == HUNDREDS { 100 } else { rng.pick(&[5, 20, 100]) } as usize,
                rng.pick(&[0, 5, 50, 200]),
            ),
            slow: rng.pick(&[0, 20, 100]),
            copies: false,
            shards: 1,
            cluster: false,
            misread_from: None,
            flavour,
            rules: Rules::draw(rng),
        }
    }

    /// How long a create keeps nulls away from its id, ms: see `Settings::record_life`.
    pub(crate) fn mark(&self) -> u64 {
        let marks =
            self.processes.iter().map(|of| (of.longest_transaction + 1000 + of.handler_time) * 2);
        marks.max().unwrap_or_default()
    }
}

impl What {
    fn draw(rng: &mut Rng, config: &Config, id: u64) -> Self {
        let instance = rng.within(0..config.instances as u64) as usize;
        match rng.within(0..1000) {
            630..885 if config.settled && rng.happens(750) => {
                Self::Ask(Ask::draw(rng, config, instance, id))
            }
            0..350 => Self::Ask(Ask::draw(rng, config, instance, id)),
            350..480 => {
                let absent = Self::absent(rng);
                Self::Ask(Ask::draw(rng, config, instance, absent))
            }
            480..600 => Self::Check { instance, id },
            600..620 => Self::Sweep { instance },
            620..626 => Self::mode(rng, instance),
            626..630 => Self::Redeploy { instance, process: Process::draw(rng, config.flavour) },
            630..790 => Self::create(rng, config, instance, id),
            790..885 => Self::delete(rng, config, instance, id),
            885..915 => Self::Rebuild {
                instance,
                accepting_loss: config.flavour != Flavour::Calm && rng.happens(50),
                short: config.flavour == Flavour::Calm && config.pool >= MANY && rng.happens(200),
            },
            _ => Self::trouble(rng, config, instance),
        }
    }

    /// A fleet that changes.
    fn fleet(rng: &mut Rng, config: &Config, id: u64) -> Self {
        let instance = rng.within(0..config.instances as u64) as usize;
        match rng.within(0..100) {
            0..12 => Self::FleetMode { instance, mode: rng.pick(&[Mode::Shadow, Mode::Off]) },
            12..24 => Self::Step { instance },
            24..26 => Self::Gone { for_ms: 100_000 },
            26..30 if config.flavour == Flavour::Forgetful => {
                Self::Redis(Mishap::Astray { from_dump: rng.happens(300) })
            }
            30..36 if config.flavour == Flavour::Forgetful => Self::Redis(Mishap::Back),
            26..50 => Self::Check { instance, id },
            _ => Self::Stranger { id, hold: rng.pick(&[0, 0, 50, 500]) },
        }
    }

    /// An id that is never created; some of them again and again.
    fn absent(rng: &mut Rng) -> u64 {
        NEVER + if rng.happens(500) { rng.within(0..20) } else { rng.within(0..1 << 40) }
    }

    /// Mostly back to the mode that acts.
    fn mode(rng: &mut Rng, instance: usize) -> Self {
        let mode =
            rng.pick(&[Mode::Enforce, Mode::Enforce, Mode::Enforce, Mode::Shadow, Mode::Off]);
        Self::Mode { instance, mode }
    }

    fn create(rng: &mut Rng, config: &Config, instance: usize, id: u64) -> Self {
        let longest = config.processes[instance].longest_transaction;
        let hold = match rng.within(0..10) {
            0..4 => rng.within(0..3),
            4..7 => rng.within(0..longest),
            _ => longest - rng.within(0..longest / 8),
        };
        let owner = match rng.within(0..100) {
            // Where an absence is the same for all, so is each row.
            0..20 if !config.rules.shared => rng.pick(&[Caller::Bearer, Caller::Cookie]),
            _ => Caller::Anybody,
        };
        let before = rng.pick(&[0, 0, 3, 50]);
        // Of many at once, more than one call of the script takes.
        let many = if rng.happens(60) { rng.within(2..HUNDREDS) } else { 1 };
        let id = if many > 1 { rng.within(0..id + 1) } else { id };
        let ids = id..(id + many).min(config.pool);
        let create = Create { ids, before, hold, aborts: rng.happens(100), owner };
        Self::Create { instance, create }
    }

    fn delete(rng: &mut Rng, config: &Config, instance: usize, id: u64) -> Self {
        let longest = config.processes[instance].longest_transaction;
        let told = match rng.within(0..10) {
            0..3 => Told::Later(rng.within(0..longest)),
            3..6 => Told::Later(rng.within(0..3)),
            6 => Told::Early,
            _ => Told::Never,
        };
        Self::Delete { instance, id, takes: rng.pick(&[0, 2, 100]), told }
    }
}
