//! Operations that belong together: what chance would bring about too seldom.

mod burst;
mod copied;
mod elsewhere;

use super::{Answers, Ask, Asked, Caller, Config, Create, Flavour, Mishap, Old, Told, What};
use crate::net::{Effect, Trap};
use crate::rng::Rng;

/// How long after the first operation of an overtaken request the last comes, ms.
const OVERTAKEN_TAKES: u64 = 9;
/// The same of a request that finds a row deleted which is created anew meanwhile.
const RELEARNT_TAKES: u64 = 100;
/// For how long a Redis that has forgotten does no work, ms.
const NO_WORK: u64 = 2500;
/// How late a null can be, ms.
const LATE: u64 = 2500;
/// How long the handler takes whose null is to outlive the filter, ms: there is another filter by then.
const OUTLIVES: u64 = 3700;
/// The longest life of a mark that is waited for, ms.
const WAITED_FOR: u64 = 3000;
/// How many rows a batch is, and how long it takes, ms.
const BATCH: u64 = 40;
const BATCH_TAKES: u64 = 60;
/// For how long nothing else is drawn after a burst, ms.
const BURST_TAKES: u64 = 40;
/// How many requests each process is asked at a time when its lane is to be full.
const CROWD: usize = 6;

impl What {
    /// Sometimes, operations with the time from the first, ms, and how long nothing else is drawn.
    pub(super) fn scenario(
        rng: &mut Rng,
        config: &Config,
        id: u64,
    ) -> Option<(Vec<(u64, Self)>, u64)> {
        if rng.happens(8) {
            return Some((Self::overtaken(rng, config, id), OVERTAKEN_TAKES));
        }
        if rng.happens(8) {
            let steps = match config.flavour {
                Flavour::Forgetful => Self::resurrected(rng, config, id),
                _ => Self::relearnt(rng, config, id),
            };
            return Some((steps, RELEARNT_TAKES));
        }
        if config.flavour == Flavour::Evicting && rng.happens(6) {
            return Some((Self::bereft(rng, config, id), 0));
        }
        if config.flavour == Flavour::Forgetful
            && config.processes.iter().all(|process| process.handler_time > OUTLIVES)
            && rng.happens(6)
        {
            return Some((Self::outlived(rng, config, id), OUTLIVES));
        }
        if config.mark() <= WAITED_FOR && rng.happens(4) {
            return Some((Self::outlasted(rng, config, id), 0));
        }
        if rng.happens(5) {
            return Some((Self::batch(rng, config, id), BATCH_TAKES));
        }
        if let Some(steps) = Self::elsewhere(rng, config, id) {
            return Some((steps, 0));
        }
        if rng.happens(10) {
            return Some((Self::misled(rng, config, id), 0));
        }
        if rng.happens(4) {
            return Some((Self::crowded(rng, config, id), 0));
        }
        if rng.happens(8) {
            return Some((Self::burst(rng, config, id), BURST_TAKES));
        }
        if matches!(config.flavour, Flavour::Calm | Flavour::Lossy | Flavour::Zombies)
            && rng.happens(3)
        {
            return Some((Self::burst_at_swap(rng, config, id), BURST_TAKES));
        }
        None
    }

    /// A request that finds a row gone, and teaches no more than that it is no longer found lately: the next
    /// one is looked up.
    const fn gone(instance: usize, id: u64) -> Self {
        Self::Ask(Ask { asked: Asked::Head, ..Ask::get(instance, id) })
    }

    /// A create that commits nearly at once.
    const fn create_at_once(instance: usize, id: u64) -> Self {
        Self::Create { instance, create: Create::of(id, 1) }
    }

    /// A create that comes and goes while the answer to an earlier request is on its way, and a request
    /// after it.
    fn overtaken(rng: &mut Rng, config: &Config, id: u64) -> Vec<(u64, Self)> {
        let instance = rng.within(0..config.instances as u64) as usize;
        let other = rng.within(0..config.instances as u64) as usize;
        let effect = Effect::DelayReply(15);
        let get = Self::Ask(Ask { caller: Caller::Bearer, ..Ask::get(instance, id) });
        let create = Self::create_at_once(other, id);
        vec![
            (0, Self::Trap(Trap { on: "check", instance: Some(instance), effect, times: 1 })),
            (0, get.clone()),
            (2, create),
            (OVERTAKEN_TAKES, get),
        ]
    }

    /// A row that is deleted, which Redis remembers, and created anew by a process that ends, before
    /// Redis starts again from what it was in between; and requests for it, when there is a filter again.
    fn resurrected(rng: &mut Rng, config: &Config, id: u64) -> Vec<(u64, Self)> {
        let mut instance = || rng.within(0..config.instances as u64) as usize;
        let (creator, other) = (instance(), instance());
        let delete = Self::Delete { instance: other, id, takes: 0, told: Told::Later(0) };
        let create = Self::create_at_once(creator, id);
        let fail_over = Mishap::FailOver { from_dump: true, old: Old::Ends };
        let get = |instance| Self::Ask(Ask::get(instance, id));
        vec![
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
    /// record of creates may be lost meanwhile, and begun anew by another create.
    fn relearnt(rng: &mut Rng, config: &Config, id: u64) -> Vec<(u64, Self)> {
        let mut instance = || rng.within(0..config.instances as u64) as usize;
        let get = |instance, after| Self::Ask(Ask { after, ..Ask::get(instance, id) });
        let delete = Self::Delete { instance: instance(), id, takes: 0, told: Told::Later(70) };
        let again = Self::create_at_once(instance(), id);
        let another = Self::create_at_once(instance(), (id + 1) % config.pool);
        let learner = instance();
        let (slow, last) = (get(learner, 60), get(learner, 0));
        let (meanwhile, end) = match config.flavour {
            Flavour::Evicting => (Self::Redis(Mishap::Delete(vec!["recent"])), RELEARNT_TAKES),
            // What was learnt arrives when the record has dropped it.
            Flavour::Lossy => {
                let effect = Effect::DelayRequest(LATE);
                let trap = Trap { on: "null.lua", instance: Some(learner), effect, times: 2 };
                (Self::Trap(trap), RELEARNT_TAKES + LATE)
            }
            _ => (Self::Check { instance: instance(), id }, RELEARNT_TAKES),
        };
        let gone = Self::gone(learner, id);
        vec![
            (0, delete),
            (5, gone),
            (10, slow),
            (20, again),
            (40, meanwhile),
            (45, another),
            (end, last),
        ]
    }

    /// A row whose insert Redis forgets while its transaction is open, with all but the filters, just
    /// before it does no work for a while; a rebuild is through with its scan by then.
    fn bereft(rng: &mut Rng, config: &Config, id: u64) -> Vec<(u64, Self)> {
        let instances = config.instances as u64;
        let creator = rng.within(0..instances);
        let other = ((creator + rng.within(1..instances)) % instances) as usize;
        let creator = creator as usize;
        let hold = (config.processes[creator].longest_transaction - 100).min(1800);
        let create = Self::Create { instance: creator, create: Create::of(id, hold) };
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
        vec![
            (0, create),
            (30, Self::Redis(Mishap::Delete(vec!["recent", "fleet"]))),
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

    /// A row that is deleted, missed by a slow request and created anew by a process that ends, before Redis
    /// forgets all; there is another filter as the request is answered.
    fn outlived(rng: &mut Rng, config: &Config, id: u64) -> Vec<(u64, Self)> {
        let instances = config.instances as u64;
        let creator = rng.within(0..instances);
        let learner = ((creator + rng.within(1..instances)) % instances) as usize;
        let creator = creator as usize;
        let get = |after| Self::Ask(Ask { after, ..Ask::get(learner, id) });
        vec![
            (0, Self::Mode { instance: learner, mode: crate::Mode::Enforce }),
            (0, Self::Delete { instance: learner, id, takes: 0, told: Told::Never }),
            (5, Self::gone(learner, id)),
            (10, get(OUTLIVES)),
            (30, Self::create_at_once(creator, id)),
            (80, Self::Crash { instance: creator }),
            (100, Self::Redis(Mishap::Restart { from_dump: false, loading: 0 })),
            // It learns of the new filter.
            (OUTLIVES - 100, Self::Check { instance: learner, id }),
            (OUTLIVES - 50, Self::Check { instance: learner, id }),
            (OUTLIVES + 60, get(0)),
            (OUTLIVES + 70, get(0)),
        ]
    }

    /// A row that is deleted, missed by a request and created anew; that is answered when the mark of the
    /// create has ended.
    fn outlasted(rng: &mut Rng, config: &Config, id: u64) -> Vec<(u64, Self)> {
        let mut instance = || rng.within(0..config.instances as u64) as usize;
        let (creator, learner) = (instance(), instance());
        let after = config.mark() + 100;
        let slow = Ask { after, ..Ask::get(learner, id) };
        vec![
            (0, Self::Delete { instance: creator, id, takes: 0, told: Told::Never }),
            (5, Self::gone(learner, id)),
            (10, Self::Ask(slow)),
            (20, Self::create_at_once(creator, id)),
            (after + 40, Self::Ask(Ask::get(instance(), id))),
            (after + 50, Self::Ask(Ask::get(instance(), id))),
        ]
    }

    /// Rows that are deleted, some of which Redis remembers and others slow requests have missed, are created anew
    /// at once.
    fn batch(rng: &mut Rng, config: &Config, id: u64) -> Vec<(u64, Self)> {
        let mut instance = || rng.within(0..config.instances as u64) as usize;
        let (creator, learner, deleter) = (instance(), instance(), instance());
        let ids = id..(id + BATCH).min(config.pool);
        let create = Create { ids: ids.clone(), ..Create::of(id, 1) };
        let mut steps = vec![(20, Self::Create { instance: creator, create })];
        for id in ids.step_by(3) {
            let told = if rng.happens(500) { Told::Later(0) } else { Told::Never };
            steps.push((0, Self::Delete { instance: deleter, id, takes: 0, told }));
            if matches!(told, Told::Never) {
                steps.push((5, Self::gone(learner, id)));
                let slow = Ask { after: 35, ..Ask::get(learner, id) };
                steps.push((10, Self::Ask(slow)));
            }
            steps.push((BATCH_TAKES, Self::Check { instance: learner, id }));
        }
        steps
    }

    /// A row that one caller is not shown, or a part of it that is not there, asked for twice: what was
    /// found lately counts as such no more, and then a 404 may teach.
    fn misled(rng: &mut Rng, config: &Config, id: u64) -> Vec<(u64, Self)> {
        let mut instance = || rng.within(0..config.instances as u64) as usize;
        let (learner, other) = (instance(), instance());
        let others = [Caller::Anybody, Caller::Bearer, Caller::Cookie];
        // Of a private row, a true answer misleads as well.
        let misled = if rng.happens(500) {
            Ask::draw(rng, config, learner, id)
        } else {
            let caller = rng.pick(&others);
            Ask { caller, ..Ask::get(learner, id) }
        };
        let mut steps = vec![(0, Self::Ask(misled.clone())), (10, Self::Ask(misled))];
        steps.extend(
            (0..).step_by(5).zip(others).map(|(later, caller)| {
                (60 + later, Self::Ask(Ask { caller, ..Ask::get(other, id) }))
            }),
        );
        steps
    }

    /// A row that was lately missed here, asked for by many at a time.
    fn crowded(rng: &mut Rng, config: &Config, id: u64) -> Vec<(u64, Self)> {
        let instance = rng.within(0..config.instances as u64) as usize;
        let answers = Answers::Always(404, None);
        let missed = Self::Ask(Ask { asked: Asked::Head, answers, ..Ask::get(instance, id) });
        let slow = Ask { after: 30, ..Ask::get(instance, id) };
        let crowd = (0..CROWD).map(|_| (20, Self::Ask(slow.clone())));
        [(0, missed.clone()), (10, missed)].into_iter().chain(crowd).collect()
    }
}
