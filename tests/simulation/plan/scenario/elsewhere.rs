//! Operations that belong together: what happens to Redis's data, to clocks and to processes in the midst of
//! a create, a deletion or a rebuild.

use super::super::{Ask, Config, Create, Flavour, KEYS, Mishap, Old, Process, Told, What};
use crate::rng::Rng;

/// How soon every process has noticed that data have gone back in time, and rebuilt, ms.
const REBUILT: u64 = 6000;
/// How many creates there are in the midst of an upload.
const UPLOADED: u64 = 6;
/// How many rows are forgotten at once.
const FORGOTTEN: u64 = 160;
/// The longest mark that is outlasted by a handler, ms.
const MARK: u64 = 3000;
/// How long a handler takes whose process stands still meanwhile, ms.
const SLOW: u64 = 60;

impl What {
    /// Sometimes, operations with the time from the first, ms.
    pub(super) fn elsewhere(rng: &mut Rng, config: &Config, id: u64) -> Option<Vec<(u64, Self)>> {
        let instances = config.instances as u64;
        let one = rng.within(0..instances) as usize;
        let other = (one + rng.within(1..instances) as usize) % config.instances;
        let between = (one, other);
        match config.flavour {
            Flavour::Forgetful if rng.happens(4) => Some(Self::put_back(rng, config, between, id)),
            Flavour::Forgetful if rng.happens(3) => Some(Self::half_kept(rng, between, id)),
            Flavour::Forgetful if rng.happens(3) => {
                Some(Self::forgotten_batch(config, between, id))
            }
            Flavour::Forgetful | Flavour::Evicting if rng.happens(3) => {
                Some(Self::unmarked(rng, config, between, id))
            }
            Flavour::Calm | Flavour::Zombies if config.mark() <= MARK && rng.happens(4) => {
                Some(Self::given_more_time(config, between, id))
            }
            Flavour::Calm | Flavour::Lossy | Flavour::Zombies if rng.happens(4) => {
                Some(Self::stood_still(config, between, id))
            }
            _ if rng.happens(4) => Some(Self::told_late(rng, config, between, id)),
            _ if rng.happens(3) => Some(Self::uploaded(rng, config, between, id)),
            _ => None,
        }
    }

    fn hold(config: &Config, instance: usize, most: u64) -> u64 {
        (config.processes[instance].longest_transaction - 100).min(most)
    }

    /// Some keys, or all, are put aside, and put back when there were inserts without them.
    fn put_back(
        rng: &mut Rng,
        config: &Config,
        (one, other): (usize, usize),
        id: u64,
    ) -> Vec<(u64, Self)> {
        let keys = match rng.within(0..3) {
            0 => KEYS.to_vec(),
            1 => vec!["bits"],
            _ => Self::some_keys(rng),
        };
        let away = rng.pick(&[30, 300, 1500, 4000]);
        let create = |instance, id, hold| {
            let create = Create::of(id % config.pool, hold);
            Self::Create { instance, create }
        };
        let check = |instance, id: u64| Self::Check { instance, id: id % config.pool };
        let mut steps = vec![
            (0, Self::Redis(Mishap::Swap(keys.clone()))),
            (5, create(one, id, away)),
            (away - 10, create(one, id + 1, 30)),
            (away - 5, create(other, id + 2, 800)),
            (away, Self::Redis(Mishap::Swap(keys))),
            (away + 1, create(one, id + 3, 800)),
        ];
        for (later, at) in [(2100, one), (2200, other), (REBUILT, one), (REBUILT + 20, other)] {
            steps.extend((0..3).map(|n| (away + later, check(at, id + n))));
        }
        steps
    }

    /// Rows that are inserted at once; a failover loses them all while their transaction is open.
    fn forgotten_batch(config: &Config, (one, other): (usize, usize), id: u64) -> Vec<(u64, Self)> {
        let id = id.min(config.pool.saturating_sub(FORGOTTEN));
        let ids = id..(id + FORGOTTEN).min(config.pool);
        let create = Create { ids: ids.clone(), ..Create::of(id, 900) };
        let mut steps = vec![
            (0, Self::Redis(Mishap::Dump)),
            (5, Self::Create { instance: one, create }),
            (60, Self::Redis(Mishap::FailOver { from_dump: true, old: Old::Ends })),
        ];
        for (later, id) in (0..).zip(ids.step_by(4)) {
            steps.push((3500 + later * 30, Self::Check { instance: other, id }));
        }
        steps
    }

    /// Redis starts again with some of its keys as they were, and without the others.
    fn half_kept(rng: &mut Rng, (one, other): (usize, usize), id: u64) -> Vec<(u64, Self)> {
        let create = Create::of(id, 900);
        let delete = Self::Delete { instance: other, id, takes: 0, told: Told::Later(0) };
        let check = |instance| Self::Check { instance, id };
        vec![
            (0, delete),
            (20, Self::Create { instance: one, create }),
            (rng.within(40..900), Self::Redis(Mishap::Dump)),
            (900, Self::Redis(Mishap::Dump)),
            (900, Self::Redis(Mishap::Restart { from_dump: true, loading: 0 })),
            (900, Self::Redis(Mishap::Delete(Self::some_keys(rng)))),
            (1000, check(one)),
            (1000, check(other)),
            (3500, check(one)),
            (REBUILT, check(other)),
        ]
    }

    /// The mark of a row that is about to appear is lost, or over too soon; requests miss the row meanwhile.
    fn unmarked(
        rng: &mut Rng,
        config: &Config,
        (one, other): (usize, usize),
        id: u64,
    ) -> Vec<(u64, Self)> {
        let hold = config.processes[one].longest_transaction - 1;
        let create = Create::of(id, hold);
        let mishap = match config.flavour {
            Flavour::Evicting if rng.happens(500) => Mishap::Delete(vec!["fleet", "recent"]),
            _ => Mishap::Clock(60_000),
        };
        let mut steps = vec![
            (0, Self::Create { instance: one, create }),
            (5, Self::gone(other, id)),
            (rng.within(10..200), Self::Redis(mishap)),
            (hold + 100, Self::Check { instance: one, id }),
            (hold + 120, Self::Check { instance: other, id }),
        ];
        let asks = (0..10).map(|n| (hold * n / 10 + 40, Self::Ask(Ask::get(other, id))));
        steps.extend(asks);
        steps
    }

    /// A process begins anew that has more time for its requests, and misses a row that is about to appear. Its
    /// answer comes when the row's mark has ended.
    fn given_more_time(config: &Config, (one, other): (usize, usize), id: u64) -> Vec<(u64, Self)> {
        let after = config.mark() + 40;
        let process = Process { handler_time: after + 1000, ..config.processes[other] };
        let hold = Self::hold(config, one, 900);
        let ask = || Self::Ask(Ask { after, ..Ask::get(other, id) });
        vec![
            (0, Self::Create { instance: one, create: Create::of(id, hold) }),
            (10, Self::Redeploy { instance: other, process }),
            (60, ask()),
            (90, ask()),
            (after + 120, Self::Ask(Ask::get(one, id))),
            (after + 140, Self::Ask(Ask::get(other, id))),
        ]
    }

    /// A request has missed a row, and its process stands still until the mark of the row's create has ended.
    fn stood_still(config: &Config, (one, other): (usize, usize), id: u64) -> Vec<(u64, Self)> {
        let for_ms = config.mark() + 100;
        let create = Create::of(id, 1);
        vec![
            (0, Self::Delete { instance: other, id, takes: 0, told: Told::Never }),
            (5, Self::gone(one, id)),
            (10, Self::Ask(Ask { after: SLOW, ..Ask::get(one, id) })),
            (25, Self::Create { instance: other, create }),
            (40, Self::Pause { instance: one, for_ms }),
            (for_ms + 60, Self::Check { instance: other, id }),
            (for_ms + 70, Self::Check { instance: one, id }),
        ]
    }

    /// A row is deleted and created anew, and the deletion is told as late as it may be.
    fn told_late(
        rng: &mut Rng,
        config: &Config,
        (one, other): (usize, usize),
        id: u64,
    ) -> Vec<(u64, Self)> {
        let late = config.processes[other].longest_transaction - 1;
        let takes = rng.pick(&[0, late / 2, late]);
        let create = Create::of(id, Self::hold(config, one, 20));
        vec![
            (0, Self::Delete { instance: other, id, takes, told: Told::Later(late) }),
            (takes + 10, Self::Create { instance: one, create }),
            (takes + late + 30, Self::Check { instance: one, id }),
            (takes + late + 40, Self::Check { instance: other, id }),
        ]
    }

    /// Rows are created all the while that a filter is uploaded and catches up; most transactions end after that.
    fn uploaded(
        rng: &mut Rng,
        config: &Config,
        (one, other): (usize, usize),
        id: u64,
    ) -> Vec<(u64, Self)> {
        let hold = Self::hold(config, other, 1500);
        let rebuild = Self::Rebuild { instance: one, accepting_loss: false, short: false };
        let mut steps = vec![(0, rebuild)];
        let mut at = 0;
        for id in (0..UPLOADED).map(|n| (id + n) % config.pool) {
            at += rng.within(1..30);
            let create = Create::of(id, hold);
            steps.push((at, Self::Create { instance: other, create }));
            steps.push((at + hold + 10, Self::Check { instance: one, id }));
            steps.push((at + hold + 300, Self::Check { instance: other, id }));
        }
        steps
    }
}
