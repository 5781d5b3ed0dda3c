//! What happens in a run, drawn from its seed before it begins.

use crate::net::{self, Effect, Trap};
use crate::rng::Rng;

/// Ids that are created and deleted.
pub(crate) const POOL: u64 = 96;
/// Ids from here on are never created.
pub(crate) const NEVER: u64 = 1_000_000;

/// The operations of an overtaken request, and how long after the first the last comes, ms.
const OVERTAKEN: usize = 4;
const OVERTAKEN_TAKES: u64 = 9;

/// The same of a request that finds a row deleted which is created anew meanwhile.
const RELEARNT: usize = 6;
const RELEARNT_TAKES: u64 = 100;
const RESURRECTED: usize = 8;
/// The operations around a Redis that forgets and then does no work, and for how long it does none, ms.
const BEREFT: usize = 11;
const NO_WORK: u64 = 2500;
/// How late a null can be, ms.
const LATE: u64 = 2500;

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
    pub(crate) capacity: u64,
    pub(crate) rate: f64,
    pub(crate) initial: u64,
    /// Each instance's.
    pub(crate) longest_transaction: [u64; 4],
    pub(crate) longest_rebuild: u64,
    pub(crate) handler_time: u64,
    pub(crate) null_ttl: u64,
    pub(crate) removed_ttl: u64,
    /// The rebuild period, ms; none to rebuild only when there is need.
    pub(crate) period: Option<u64>,
    pub(crate) journal_entries: u64,
    pub(crate) node_entries: usize,
    pub(crate) page: (usize, u64),
    pub(crate) slow: u64,
    pub(crate) flavour: Flavour,
}

/// Which kind of trouble a run has most of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flavour {
    /// None but what a network does.
    Calm,
    /// Requests and replies get lost or late.
    Lossy,
    /// Several rebuilders, held up at every step.
    Zombies,
    /// Redis restarts, fails over and forgets.
    Forgetful,
    /// Keys go missing one by one.
    Evicting,
    /// All of that, but what only processes that reach Redis can make good.
    Wild,
}

/// One thing that happens, and when, ms since the run began.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    pub(crate) at: u64,
    pub(crate) what: What,
}

#[derive(Debug, Clone)]
pub(crate) enum What {
    Get {
        instance: usize,
        id: u64,
        before: u64,
        after: u64,
        lag: u64,
        credentials: bool,
        head: bool,
    },
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
        id: u64,
        before: u64,
        hold: u64,
        aborts: bool,
        private: bool,
    },
    Delete {
        instance: usize,
        id: u64,
        takes: u64,
        later: u64,
    },
    Rebuild {
        instance: usize,
        accepting_loss: bool,
        short: bool,
    },
    Crash {
        instance: usize,
    },
    Trap(Trap),
    CutOff {
        instance: usize,
        for_ms: u64,
    },
    /// Redis or its operator does something.
    Redis(Mishap),
}

#[derive(Debug, Clone)]
pub(crate) enum Mishap {
    /// Writes a dump; a replica's link stalls here, too.
    Dump,
    Restart {
        from_dump: bool,
        loading: u64,
    },
    /// Another process takes over; the old one stays reachable or not.
    FailOver {
        from_dump: bool,
        old_stays: bool,
    },
    FlushAll,
    Delete(&'static [&'static str]),
    Trim(u64),
    Expire(&'static str, u64),
    FlushScripts,
    Full(bool),
    Misconfigured(bool),
    Lonely(bool),
    Loading(u64),
    /// For so long, ms: the machine is suspended, the disk stalls, a script is slow.
    StandStill(u64),
}

/// Whether a loss of acknowledged inserts in Redis leaves their transactions open.
pub(crate) const OPEN_TRANSACTIONS_OUTLIVE_LOSSES: bool = true;

impl Mishap {
    /// Whether Redis forgets inserts that it acknowledged, and nothing in it tells.
    pub(crate) fn loses_inserts(&self) -> bool {
        match self {
            Self::Restart { .. } => true,
            Self::FailOver { from_dump, .. } => *from_dump,
            _ => false,
        }
    }
}

impl Plan {
    /// Draws a run.
    pub(crate) fn draw(seed: u64, operations: usize) -> Self {
        let mut rng = Rng::new(seed);
        let config = Config::draw(&mut rng);
        let mut at = 0;
        let mut hot = 0;
        let mut drawn = Vec::with_capacity(operations + BEREFT);
        while drawn.len() < operations {
            at += match rng.within(0..100) {
                0..50 => rng.within(0..4),
                50..90 => rng.within(4..60),
                _ => rng.within(60..300),
            };
            // Many look at one id at a time, lest what happens to it goes unseen.
            if rng.happens(60) {
                hot = rng.within(0..POOL);
            }
            let id = if rng.happens(400) { hot } else { rng.within(0..POOL) };
            if rng.happens(8) {
                let steps = What::overtaken(&mut rng, &config, id);
                drawn.extend(steps.map(|(later, what)| Operation { at: at + later, what }));
                at += OVERTAKEN_TAKES;
            } else if rng.happens(8) {
                let steps = match config.flavour {
                    Flavour::Forgetful => What::resurrected(&mut rng, &config, id).to_vec(),
                    _ => What::relearnt(&mut rng, &config, id).to_vec(),
                };
                let steps = steps.into_iter();
                drawn.extend(steps.map(|(later, what)| Operation { at: at + later, what }));
                at += RELEARNT_TAKES;
            } else if config.flavour == Flavour::Evicting && rng.happens(6) {
                let steps = What::bereft(&mut rng, &config, id);
                drawn.extend(steps.map(|(later, what)| Operation { at: at + later, what }));
            } else {
                let what = What::draw(&mut rng, &config, id);
                // Without metadata, a process that begins may bring a secret key of its own.
                if config.flavour == Flavour::Evicting
                    && matches!(what, What::Crash { .. })
                    && rng.happens(500)
                {
                    drawn.push(Operation { at, what: What::Redis(Mishap::Delete(&["meta"])) });
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
        Self {
            instances: rng.within(2..5) as usize,
            version: rng.pick(&["7.0.15", "7.0.15", "6.2.14"]),
            capacity: rng.pick(&[100, 200, 400]),
            rate: rng.pick(&[0.2, 0.02, 0.002, 0.0002]),
            initial: rng.within(8..POOL / 2),
            longest_transaction: Self::longest_transactions(rng, flavour),
            longest_rebuild: rng.pick(&[12_000, 20_000, 60_000]),
            // Where nulls are to outlive their filter, the marks of creates must not keep them away.
            handler_time: match flavour {
                Forgetful => 100,
                _ => rng.pick(&[100, 100, 400, 2000]),
            },
            null_ttl: rng.pick(&[1000, 5000, 60_000]),
            removed_ttl: rng.pick(&[1000, 5000, 60_000]),
            period: rng.pick(&[None, None, Some(1000), Some(4000)]),
            journal_entries: rng.pick(&[8, 30, 1000, 1_000_000]),
            node_entries: rng.pick(&[2, 5, 100]) as usize,
            page: (rng.pick(&[5, 20, 100]) as usize, rng.pick(&[0, 5, 50, 200])),
            slow: rng.pick(&[0, 20, 100]),
            flavour,
        }
    }

    /// Mostly the same for all, and sometimes not; short where marks are in the way.
    fn longest_transactions(rng: &mut Rng, flavour: Flavour) -> [u64; 4] {
        let mut draw = || rng.pick(&[1000, 2000, 4000]);
        let all = [draw(), draw(), draw(), draw()];
        if flavour == Flavour::Forgetful {
            [1000; 4]
        } else if rng.happens(400) {
            all
        } else {
            [all[0]; 4]
        }
    }
}

impl What {
    fn draw(rng: &mut Rng, config: &Config, id: u64) -> Self {
        let instance = rng.within(0..config.instances as u64) as usize;
        match rng.within(0..1000) {
            0..300 => Self::get(rng, config, instance, id),
            300..480 => Self::get_absent(rng, config, instance),
            480..620 => Self::Check { instance, id },
            620..640 => Self::Sweep { instance },
            640..800 => Self::create(rng, config, instance, id),
            800..890 => Self::delete(rng, config, instance, id),
            890..920 => Self::Rebuild {
                instance,
                accepting_loss: config.flavour != Flavour::Calm && rng.happens(50),
                short: config.flavour == Flavour::Calm && rng.happens(200),
            },
            _ => Self::trouble(rng, config, instance),
        }
    }

    /// A create that comes and goes while the answer to an earlier request is on its way, and a request
    /// after it.
    fn overtaken(rng: &mut Rng, config: &Config, id: u64) -> [(u64, Self); OVERTAKEN] {
        let instance = rng.within(0..config.instances as u64) as usize;
        let other = rng.within(0..config.instances as u64) as usize;
        let effect = Effect::DelayReply(15);
        let get =
            Self::Get { instance, id, before: 0, after: 0, lag: 0, credentials: true, head: false };
        let create =
            Self::Create { instance: other, id, before: 0, hold: 0, aborts: false, private: false };
        [
            (0, Self::Trap(Trap { on: "check", instance: Some(instance), effect, times: 1 })),
            (0, get.clone()),
            (2, create),
            (OVERTAKEN_TAKES, get),
        ]
    }

    /// A row that is deleted, which Redis remembers, and created anew by a process that ends, before
    /// Redis starts again from what it was in between; and requests for it, when there is a filter again.
    fn resurrected(rng: &mut Rng, config: &Config, id: u64) -> [(u64, Self); RESURRECTED] {
        let mut instance = || rng.within(0..config.instances as u64) as usize;
        let (creator, other) = (instance(), instance());
        let delete = Self::Delete { instance: other, id, takes: 0, later: 0 };
        let create = Self::Create {
            instance: creator,
            id,
            before: 0,
            hold: 1,
            aborts: false,
            private: false,
        };
        let fail_over = Mishap::FailOver { from_dump: true, old_stays: false };
        let get = |instance| Self::Get {
            instance,
            id,
            before: 0,
            after: 0,
            lag: 0,
            credentials: false,
            head: false,
        };
        [
            (0, delete),
            (30, Self::Redis(Mishap::Dump)),
            (40, create),
            (80, Self::Crash { instance: creator }),
            (RELEARNT_TAKES, Self::Redis(fail_over)),
            (3500, get(other)),
            (4500, get(creator)),
            (6000, get(other)),
        ]
    }

    /// A row that is deleted, missed by a slow request and created anew before that is answered; the
    /// marks of creates may be lost meanwhile, and begun anew by another create.
    fn relearnt(rng: &mut Rng, config: &Config, id: u64) -> [(u64, Self); RELEARNT] {
        let mut instance = || rng.within(0..config.instances as u64) as usize;
        let get = |instance, after| Self::Get {
            instance,
            id,
            before: 0,
            after,
            lag: 0,
            credentials: false,
            head: false,
        };
        let create = |instance, id| Self::Create {
            instance,
            id,
            before: 0,
            hold: 1,
            aborts: false,
            private: false,
        };
        let delete = Self::Delete { instance: instance(), id, takes: 0, later: 70 };
        let again = create(instance(), id);
        let another = create(instance(), (id + 1) % POOL);
        let learner = instance();
        let (slow, last) = (get(learner, 60), get(instance(), 0));
        let (meanwhile, end) = match config.flavour {
            Flavour::Evicting => (Self::Redis(Mishap::Delete(&["marks"])), RELEARNT_TAKES),
            // What was learnt arrives when the marks are over.
            Flavour::Lossy => {
                let effect = Effect::DelayRequest(LATE);
                let trap = Trap { on: "null.lua", instance: Some(learner), effect, times: 2 };
                (Self::Trap(trap), RELEARNT_TAKES + LATE)
            }
            _ => (Self::Check { instance: instance(), id }, RELEARNT_TAKES),
        };
        [(0, delete), (10, slow), (20, again), (40, meanwhile), (45, another), (end, last)]
    }

    /// A row whose insert Redis forgets while its transaction is open, with all but the filters, just
    /// before it does no work for a while; a rebuild is through with its scan by then.
    fn bereft(rng: &mut Rng, config: &Config, id: u64) -> [(u64, Self); BEREFT] {
        let instances = config.instances as u64;
        let creator = rng.within(0..instances);
        let other = ((creator + rng.within(1..instances)) % instances) as usize;
        let creator = creator as usize;
        let hold = (config.longest_transaction[creator] - 100).min(1800);
        let create =
            Self::Create { instance: creator, id, before: 0, hold, aborts: false, private: false };
        let rebuild = Self::Rebuild { instance: other, accepting_loss: false, short: false };
        let check = || Self::Check { instance: other, id };
        let from = rng.within(200..800);
        let until = from + NO_WORK;
        let (begin, end) = if rng.happens(500) {
            (Self::Redis(Mishap::StandStill(NO_WORK)), check())
        } else {
            let refuses = |is| Self::Redis(Mishap::Misconfigured(is));
            (refuses(true), refuses(false))
        };
        [
            (0, create),
            (30, Self::Redis(Mishap::Delete(&["log", "meta"]))),
            (40, rebuild),
            (from, begin),
            (until, end),
            (until + 5, check()),
            (until + 20, check()),
            (until + 50, check()),
            (until + 100, check()),
            (until + 200, check()),
            (until + 400, check()),
        ]
    }

    fn get(rng: &mut Rng, config: &Config, instance: usize, id: u64) -> Self {
        let handler = config.handler_time;
        let (before, after) = match rng.within(0..10) {
            0..6 => (0, rng.within(0..3)),
            6..9 => (rng.within(0..handler), rng.within(0..handler)),
            _ => (rng.within(0..handler * 4), rng.within(0..handler * 4)),
        };
        let lag = if rng.happens(100) { rng.within(0..handler) } else { 0 };
        Self::Get {
            instance,
            id,
            before,
            after,
            lag,
            credentials: rng.happens(300),
            head: rng.happens(100),
        }
    }

    /// A request for an id that is never created; some of them again and again.
    fn get_absent(rng: &mut Rng, config: &Config, instance: usize) -> Self {
        let id = NEVER + if rng.happens(500) { rng.within(0..20) } else { rng.within(0..1 << 40) };
        Self::get(rng, config, instance, id)
    }

    fn create(rng: &mut Rng, config: &Config, instance: usize, id: u64) -> Self {
        let longest = config.longest_transaction[instance];
        let hold = match rng.within(0..10) {
            0..4 => rng.within(0..3),
            4..7 => rng.within(0..longest),
            _ => longest - rng.within(0..longest / 8),
        };
        Self::Create {
            instance,
            id,
            before: rng.pick(&[0, 0, 3, 50]),
            hold,
            aborts: rng.happens(100),
            private: rng.happens(150),
        }
    }

    fn delete(rng: &mut Rng, config: &Config, instance: usize, id: u64) -> Self {
        let longest = config.longest_transaction[instance];
        let later = if rng.happens(300) { rng.within(0..longest) } else { rng.within(0..3) };
        Self::Delete { instance, id, takes: rng.pick(&[0, 2, 100]), later }
    }

    fn trouble(rng: &mut Rng, config: &Config, instance: usize) -> Self {
        let flavour = match config.flavour {
            Flavour::Wild => rng.pick(&[Flavour::Lossy, Flavour::Zombies, Flavour::Evicting]),
            other => other,
        };
        match flavour {
            Flavour::Lossy => match rng.within(0..10) {
                0 => Self::CutOff { instance, for_ms: rng.within(1..1500) },
                _ => Self::Trap(Self::trap(rng, instance)),
            },
            Flavour::Zombies => Self::hold_up(rng, instance),
            // Each time no filter answers for seconds: seldom enough that there is one to lose.
            Flavour::Forgetful if rng.happens(700) => {
                Self::Check { instance, id: rng.within(0..POOL) }
            }
            Flavour::Forgetful | Flavour::Evicting if rng.happens(250) => {
                let mishap = match flavour {
                    Flavour::Forgetful => Self::forget(rng),
                    _ => Self::evict(rng, config.flavour),
                };
                Self::Trap(Self::meanwhile(rng, mishap))
            }
            // In the midst of what it says again.
            Flavour::Forgetful | Flavour::Evicting if rng.happens(150) => {
                let effect = Effect::FallSilent(rng.pick(&[300, 1000, 1500]));
                Self::Trap(Trap { on: net::AGAIN, instance: Some(instance), effect, times: 1 })
            }
            // With a process goes what it could have said again.
            Flavour::Forgetful if rng.happens(100) => Self::Crash { instance },
            Flavour::Forgetful => Self::Redis(Self::forget(rng)),
            Flavour::Evicting => match rng.within(0..10) {
                0 => Self::Crash { instance },
                _ => Self::Redis(Self::evict(rng, config.flavour)),
            },
            _ => Self::Check { instance, id: rng.within(0..POOL) },
        }
    }

    fn trap(rng: &mut Rng, instance: usize) -> Trap {
        let on = rng.pick(&[
            "",
            "add.lua",
            "add.lua",
            "null.lua",
            "null.lua",
            "check",
            "view.lua",
            "swap.lua",
            "catch_up.lua",
            "replay.lua",
            "upload.lua",
            "enrol.lua",
            "lease.lua",
            "XRANGE",
            "INFO",
        ]);
        let effect = match rng.within(0..4) {
            0 => Effect::LoseRequest,
            1 => Effect::LoseReply,
            2 => Effect::DelayRequest(rng.pick(&[10, 20, 100, 300, 1000, 2500, 5000])),
            _ => Effect::DelayReply(rng.pick(&[10, 20, 100, 300, 1000, 2500, 5000])),
        };
        let instance = rng.happens(500).then_some(instance);
        Trap { on, instance, effect, times: rng.pick(&[1, 1, 2, 5]) }
    }

    /// Holds a rebuild up, takes its lease away, or begins another.
    fn hold_up(rng: &mut Rng, instance: usize) -> Self {
        match rng.within(0..10) {
            0..5 => {
                let on = rng.pick(&[
                    "allocate.lua",
                    "upload.lua",
                    "catch_up.lua",
                    "replay.lua",
                    "swap.lua",
                    "swap.lua",
                    "renew.lua",
                    "XRANGE",
                ]);
                let effect = Effect::DelayRequest(rng.pick(&[50, 300, 1000, 3000, 6000]));
                let instance = rng.happens(500).then_some(instance);
                Self::Trap(Trap { on, instance, effect, times: rng.pick(&[1, 2, 3]) })
            }
            5 => Self::Trap(Self::meanwhile(rng, Mishap::Delete(&["lock"]))),
            6 => Self::Redis(Mishap::Delete(&["lock"])),
            _ => Self::Rebuild { instance, accepting_loss: false, short: false },
        }
    }

    /// Lets something happen in the middle of a rebuild.
    fn meanwhile(rng: &mut Rng, mishap: Mishap) -> Trap {
        let on = rng.pick(&[
            "lease.lua",
            "XRANGE",
            "allocate.lua",
            "upload.lua",
            "catch_up.lua",
            "replay.lua",
            "BITCOUNT",
            "GETRANGE",
            "swap.lua",
            "add.lua",
            "null.lua",
            "enrol.lua",
        ]);
        Trap { on, instance: None, effect: Effect::Then(mishap), times: 1 }
    }

    fn forget(rng: &mut Rng) -> Mishap {
        match rng.within(0..13) {
            0..5 => Mishap::Dump,
            5..7 => {
                Mishap::Restart { from_dump: rng.happens(800), loading: rng.pick(&[0, 100, 1000]) }
            }
            7..11 => Mishap::FailOver { from_dump: rng.happens(700), old_stays: rng.happens(700) },
            11 => Mishap::FlushAll,
            _ => Self::stand_still(rng),
        }
    }

    fn stand_still(rng: &mut Rng) -> Mishap {
        Mishap::StandStill(rng.pick(&[300, 1500, 2500, 4000]))
    }

    fn evict(rng: &mut Rng, flavour: Flavour) -> Mishap {
        let mishap = Self::evict_any(rng);
        let metadata = match &mishap {
            Mishap::Delete(keys) => keys.contains(&"meta"),
            Mishap::Expire(key, _) => *key == "meta",
            _ => false,
        };
        // Who is cut off while it happens cannot say its inserts again in time.
        if metadata && flavour == Flavour::Wild { Mishap::Delete(&["log"]) } else { mishap }
    }

    fn evict_any(rng: &mut Rng) -> Mishap {
        match rng.within(0..13) {
            0..6 => Mishap::Delete(rng.pick(&[
                &["bits"] as &[&str],
                &["next"],
                &["log"],
                &["meta"],
                &["marks"],
                &["lock"],
                &["bits", "next"],
                &["meta", "marks"],
                &["log", "meta"],
            ])),
            6 => Mishap::Trim(rng.within(0..10)),
            7 => {
                let key = rng.pick(&["next", "next", "bits", "log", "meta", "marks"]);
                Mishap::Expire(key, rng.pick(&[5, 100, 1000, 10_000]))
            }
            8 => Mishap::FlushScripts,
            9 => Mishap::Full(rng.happens(500)),
            10 => Mishap::Misconfigured(rng.happens(300)),
            11 => Self::stand_still(rng),
            _ => match rng.within(0..2) {
                0 => Mishap::Lonely(rng.happens(300)),
                _ => Mishap::Loading(rng.within(1..500)),
            },
        }
    }
}
