//! Operations that belong together: what a copy of the filter lets pass, in vain or while another filter goes live, and what
//! befalls Redis while the copy is read.

use super::super::{Answers, Ask, Asked, Config, Create, Flavour, Mishap, Told, What};
use super::WAITED_FOR;
use crate::net::{Effect, Trap};
use crate::rng::Rng;

/// How soon after a filter went live each process has copied it, if it rebuilds by need, ms.
const COPIED: u64 = 3_000;
/// The longest life of nulls that is waited for, ms.
const LIFE: u64 = 1_000;
/// How many ids are asked for in a row.
const ROW: u64 = 4;

impl What {
    /// Operations with the time from the first, ms.
    pub(in super::super) fn copied(rng: &mut Rng, config: &Config, id: u64) -> Vec<(u64, Self)> {
        let instances = config.instances as u64;
        let one = rng.within(0..instances) as usize;
        let other = (one + rng.within(1..instances) as usize) % config.instances;
        match rng.within(0..4) {
            0 => Self::replaced(rng, config, (one, other), id),
            1 => Self::while_it_is_read(rng, config, (one, other), id),
            2 if config.mark() <= WAITED_FOR => Self::outlasted_copied(config, (one, other), id),
            _ => Self::in_vain(rng, config, (one, other), id),
        }
    }

    const fn rebuild(instance: usize) -> Self {
        Self::Rebuild { instance, accepting_loss: false, short: false }
    }

    /// Another filter goes live. For a while each process has a copy of the one before; a row comes meanwhile.
    fn replaced(
        rng: &mut Rng,
        config: &Config,
        (one, other): (usize, usize),
        id: u64,
    ) -> Vec<(u64, Self)> {
        let mut steps = vec![
            (0, Self::rebuild(one)),
            (rng.within(0..COPIED), Self::Create { instance: one, create: Create::of(id, 1) }),
        ];
        for _ in 0..ROW * 3 {
            let near = (id + rng.within(0..ROW)) % config.pool;
            let ask = Ask::draw(rng, config, other, near);
            steps.push((rng.within(0..COPIED), Self::Ask(Ask { before: 0, after: 0, ..ask })));
        }
        steps
    }

    /// Something befalls Redis, or another filter goes live, while a copy is read.
    fn while_it_is_read(
        rng: &mut Rng,
        config: &Config,
        (one, other): (usize, usize),
        id: u64,
    ) -> Vec<(u64, Self)> {
        let effect = match config.flavour {
            Flavour::Forgetful => Effect::Then(Self::forget(rng)),
            Flavour::Evicting => Effect::Then(Self::evict(rng, config.flavour)),
            Flavour::Wild => Effect::Then(Mishap::Delete(vec!["bits"])),
            _ => Effect::DelayReply(rng.pick(&[20, 300, 900, 1500])),
        };
        let mut steps = vec![
            (0, Self::Trap(Trap { on: "GETRANGE", instance: Some(one), effect, times: 1 })),
            (0, Self::rebuild(other)),
            (rng.within(0..COPIED), Self::rebuild(other)),
        ];
        for n in 0..ROW {
            let near = (id + n) % config.pool;
            steps.push((rng.within(0..COPIED), Self::Ask(Ask::get(one, near))));
            steps.push((COPIED + n * 50, Self::Ask(Ask::get(one, near))));
        }
        steps
    }

    /// A row is deleted, which nobody tells, and asked for again and again; so is an id that was never there.
    fn in_vain(
        rng: &mut Rng,
        config: &Config,
        (one, other): (usize, usize),
        id: u64,
    ) -> Vec<(u64, Self)> {
        let absent = Self::absent(rng);
        let mut steps =
            vec![(0, Self::Delete { instance: other, id, takes: 0, told: Told::Never })];
        // When what was missed counts as missed no more.
        let late = if config.null_ttl <= LIFE { config.null_ttl * 8 / 5 } else { 0 };
        for n in 0..ROW * 2 {
            let at = 5 + n * 20 + if n < ROW { 0 } else { late };
            steps.push((at, Self::Ask(Self::vain(rng, config, one, id))));
            steps.push((at + 5, Self::Ask(Self::vain(rng, config, one, absent))));
        }
        steps
    }

    /// A request that shows nothing, by its answer or because it has none.
    fn vain(rng: &mut Rng, config: &Config, instance: usize, id: u64) -> Ask {
        let get = Ask::get(instance, id);
        match rng.within(0..6) {
            0 => Ask { after: 5, hangs_up: Some(2), ..get },
            1 => Ask { answers: Answers::Fails, ..get },
            2 => Ask { answers: Answers::Always(rng.pick(&[302, 401, 403, 500]), None), ..get },
            3 if config.rules.guards_delete => Ask { asked: Asked::Delete, ..get },
            _ => get,
        }
    }

    /// A row is deleted, missed by a slow request that its copy may let pass, and created anew meanwhile. The mark
    /// of that is over before the request is answered.
    fn outlasted_copied(
        config: &Config,
        (one, other): (usize, usize),
        id: u64,
    ) -> Vec<(u64, Self)> {
        let after = config.mark() + 100;
        vec![
            (0, Self::Delete { instance: other, id, takes: 0, told: Told::Never }),
            (10, Self::Ask(Ask { after, ..Ask::get(one, id) })),
            (20, Self::Create { instance: other, create: Create::of(id, 1) }),
            (after + 40, Self::Check { instance: one, id }),
            (after + 50, Self::Check { instance: other, id }),
        ]
    }
}
