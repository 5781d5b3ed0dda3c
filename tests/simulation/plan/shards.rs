//! A filter that is cut into shards: how many, and what befalls one of them alone.

use super::{Config, Flavour, Mishap, Plan, What};
use crate::net::{Effect, Trap};
use crate::rng::Rng;

/// Tells what befalls shards apart from what else is drawn.
const SHARDS: u64 = 0x5eed_5a4d;
/// How many runs have shards, in a thousand.
const CUT: u64 = 333;
/// How often what befalls keys befalls those of one shard, in a thousand.
const ALONE: u64 = 700;
/// How many things more befall shards, for each thousand others.
const MORE: u64 = 10;
/// How long after it one of its rows is asked for, ms.
const ASKED: [u64; 4] = [5, 300, 1200, 4000];

impl Plan {
    /// Of some seeds, the same on a filter that is cut into shards, and with what befalls these.
    pub(super) fn cut(mut self, most: usize) -> Self {
        let mut rng = Rng::new(self.seed ^ SHARDS);
        if !rng.happens(CUT) {
            return self;
        }
        // Each costs time: there are many of few.
        self.config.shards = rng.pick(&[2, 2, 2, 4, 4, 8, 16]);
        for operation in &mut self.operations {
            operation.what.befall_one(&mut rng, self.config.shards);
        }
        self.with_more(&mut rng, MORE, What::of_shards, most)
    }
}

impl What {
    /// Lets it befall one shard alone, mostly, if that makes a difference.
    fn befall_one(&mut self, rng: &mut Rng, shards: u32) {
        let mishap = match self {
            Self::Redis(mishap) => mishap,
            Self::Trap(Trap { effect: Effect::Then(mishap) | Effect::Midway(mishap), .. }) => {
                mishap
            }
            _ => return,
        };
        if mishap.is_of_keys() && rng.happens(ALONE) {
            *mishap = mishap.clone().of_one(rng, shards);
        }
    }

    /// Something that befalls shards, with the time from the first, ms.
    fn of_shards(rng: &mut Rng, config: &Config) -> Vec<(u64, Self)> {
        let one = rng.within(0..config.instances as u64) as usize;
        let rebuild = Self::Rebuild { instance: one, accepting_loss: false, short: false };
        let mut steps = match (rng.within(0..3), config.flavour) {
            // The process that rebuilds ends between two shards.
            (0, _) => {
                let on = rng.pick(&[
                    "swap.lua",
                    "swap.lua",
                    "ZRANGEBYSCORE",
                    "upload.lua",
                    "record.lua",
                ]);
                let trap = Trap { on, instance: None, effect: Effect::SenderDies, times: 1 };
                vec![(0, Self::Trap(trap)), (1, rebuild)]
            }
            // A rebuild fails for one of them, or for those that come after it.
            (1, _) => {
                let lost = Mishap::Delete(vec![rng.pick(&["next", "next", "lock"])]);
                let effect = match rng.within(0..3) {
                    0 => Effect::LoseRequest,
                    _ => Effect::Then(lost.of_one(rng, config.shards)),
                };
                let on = rng.pick(&["lease.lua", "upload.lua", "record.lua", "wait.lua"]);
                let times = rng.pick(&[1, 1, 4]);
                vec![(0, Self::Trap(Trap { on, instance: None, effect, times })), (1, rebuild)]
            }
            (_, Flavour::Forgetful) => {
                let mishap = match rng.within(0..3) {
                    0 => Mishap::FlushAll,
                    _ => Mishap::Rewind,
                };
                vec![(0, Self::Redis(mishap.of_one(rng, config.shards)))]
            }
            (_, Flavour::Evicting | Flavour::Wild) => {
                let mishap = Self::evict(rng, config.flavour);
                let mishap =
                    if mishap.is_of_keys() { mishap } else { Mishap::Delete(vec!["bits"]) };
                vec![(0, Self::Redis(mishap.of_one(rng, config.shards)))]
            }
            _ => vec![(0, rebuild)],
        };
        for at in ASKED {
            let (instance, id) =
                (rng.within(0..config.instances as u64) as usize, rng.within(0..config.pool));
            steps.push((at, Self::Check { instance, id }));
        }
        steps
    }
}

impl Mishap {
    /// Whether it befalls keys of the filter.
    pub(super) const fn is_of_keys(&self) -> bool {
        matches!(
            self,
            Self::FlushAll
                | Self::Rewind
                | Self::PutBack(_)
                | Self::Swap(_)
                | Self::Delete(_)
                | Self::CutShort(_)
                | Self::Expire(..)
        )
    }

    pub(super) fn of_one(self, rng: &mut Rng, shards: u32) -> Self {
        Self::OfShard(rng.within(0..shards.into()) as u32, Box::new(self))
    }
}
