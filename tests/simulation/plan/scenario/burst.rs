//! Operations that belong together: many checks that reach one process at once, so that they merge into
//! batches, and what happens in their midst.

use std::ops::Range;

use super::super::{Ask, Caller, Config, Create, Flavour, Mishap, What};
use crate::net::{Effect, Trap};
use crate::rng::Rng;

/// How many checks are a burst.
const BURST: Range<u64> = 5..41;
/// How long after the first of a burst the last comes, ms.
const WAVE: u64 = 6;
/// How often a few are asked for while a filter is about to go live, and how long apart, ms.
const WAVES: u64 = 10;
const APART: u64 = 12;

impl What {
    /// Many checks for a few ids, some of which are given up at once, while they wait or in flight.
    pub(super) fn burst(rng: &mut Rng, config: &Config, id: u64) -> Vec<(u64, Self)> {
        let instance = rng.within(0..config.instances as u64) as usize;
        let mut steps = Vec::new();
        // What comes later queues behind them.
        if rng.happens(500) {
            let effect = Effect::DelayReply(rng.within(5..25));
            steps.push((0, Self::on_check(instance, effect, 2)));
        }
        steps.extend(Self::in_their_midst(rng, config, instance));
        if rng.happens(300) {
            let other = rng.within(0..config.instances as u64) as usize;
            let create = Create::of(id, rng.within(0..3));
            steps.push((rng.within(0..4), Self::Create { instance: other, create }));
        }
        let last = rng.pick(&[1, 1, WAVE]);
        for _ in 0..rng.within(BURST) {
            let id = match rng.within(0..10) {
                0..4 => id,
                4..8 => rng.within(0..config.pool),
                _ => Self::absent(rng),
            };
            steps.push((rng.within(0..last), Self::one_of_many(rng, config, instance, id)));
        }
        steps
    }

    /// A few checks at a time while a filter goes live.
    pub(super) fn burst_at_swap(rng: &mut Rng, config: &Config, id: u64) -> Vec<(u64, Self)> {
        let instances = config.instances as u64;
        let one = rng.within(0..instances) as usize;
        let other = (one + rng.within(1..instances) as usize) % config.instances;
        let effect = Effect::DelayRequest(rng.pick(&[10, 50, 150]));
        let mut steps = vec![
            (0, Self::Rebuild { instance: other, accepting_loss: false, short: false }),
            (0, Self::Trap(Trap { on: "swap.lua", instance: Some(other), effect, times: 1 })),
        ];
        steps.push((0, Self::on_check(one, Effect::Overtaken, WAVES as u32)));
        for wave in 0..WAVES {
            let ids = (0..4).map(|n| if n == 0 { id } else { rng.within(0..config.pool) });
            let checks = ids.map(|id| (wave * APART, Self::Check { instance: one, id }));
            steps.extend(checks.collect::<Vec<_>>());
        }
        steps
    }

    fn one_of_many(rng: &mut Rng, config: &Config, instance: usize, id: u64) -> Self {
        if rng.happens(400) {
            return Self::Check { instance, id };
        }
        let mut ask = match rng.within(0..3) {
            0 => Ask::draw(rng, config, instance, id),
            _ => {
                let caller = rng.pick(&[Caller::Anybody, Caller::Bearer, Caller::Cookie]);
                Ask { caller, ..Ask::get(instance, id) }
            }
        };
        if rng.happens(200) {
            ask.hangs_up = Some(rng.pick(&[0, 0, 1, 2, 5]));
        }
        Self::Ask(ask)
    }

    fn on_check(instance: usize, effect: Effect, times: u32) -> Self {
        Self::Trap(Trap { on: "check", instance: Some(instance), effect, times })
    }

    /// What happens to one of the next batches.
    fn in_their_midst(rng: &mut Rng, config: &Config, instance: usize) -> Vec<(u64, Self)> {
        let once = |effect| Self::on_check(instance, effect, 1);
        match (rng.within(0..4), config.flavour) {
            (0, _) => vec![(0, once(Effect::Blink))],
            (1, Flavour::Lossy | Flavour::Wild) => {
                let late = rng.within(5..40);
                let effect = match rng.within(0..4) {
                    0 => Effect::LoseRequest,
                    1 => Effect::LoseReply,
                    2 => Effect::DelayRequest(late),
                    _ => Effect::DelayReply(late),
                };
                vec![(0, once(effect))]
            }
            (1 | 2, Flavour::Forgetful) => {
                let mishap = Self::forget(rng);
                vec![(0, once(Effect::Midway(mishap)))]
            }
            // The live filter is put aside, and put back in the midst of a later batch or after that.
            (3, Flavour::Forgetful) if rng.happens(300) => {
                let swap = || Mishap::Swap(vec!["bits"]);
                let back = rng.within(1..30);
                vec![(0, once(Effect::Midway(swap()))), (back, Self::Redis(swap()))]
            }
            (1..3, Flavour::Evicting | Flavour::Wild) => {
                let mishap = Self::evict(rng, config.flavour);
                vec![(0, once(Effect::Midway(mishap)))]
            }
            _ => Vec::new(),
        }
    }
}
