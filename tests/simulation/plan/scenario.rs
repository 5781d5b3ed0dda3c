//! Operations that belong together: what chance would bring about too seldom.

use super::{Config, Flavour, Mishap, POOL, What};
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
        None
    }

    /// A create that comes and goes while the answer to an earlier request is on its way, and a request
    /// after it.
    fn overtaken(rng: &mut Rng, config: &Config, id: u64) -> Vec<(u64, Self)> {
        let instance = rng.within(0..config.instances as u64) as usize;
        let other = rng.within(0..config.instances as u64) as usize;
        let effect = Effect::DelayReply(15);
        let get =
            Self::Get { instance, id, before: 0, after: 0, lag: 0, credentials: true, head: false };
        let create =
            Self::Create { instance: other, id, before: 0, hold: 0, aborts: false, private: false };
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
    /// marks of creates may be lost meanwhile, and begun anew by another create.
    fn relearnt(rng: &mut Rng, config: &Config, id: u64) -> Vec<(u64, Self)> {
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
        vec![(0, delete), (10, slow), (20, again), (40, meanwhile), (45, another), (end, last)]
    }

    /// A row whose insert Redis forgets while its transaction is open, with all but the filters, just
    /// before it does no work for a while; a rebuild is through with its scan by then.
    fn bereft(rng: &mut Rng, config: &Config, id: u64) -> Vec<(u64, Self)> {
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
        vec![
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
}
