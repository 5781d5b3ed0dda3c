//! One key that is put back as an old copy of itself, after inserts that the copy lacks; all others stay.

use super::{Config, Create, Flavour, Mishap, Plan, What};
use crate::net::{Effect, Trap};
use crate::rng::Rng;

/// Tells what is put back apart from what else is drawn.
const OLD_COPIES: u64 = 0x5eed_01dc;
/// How many runs have such copies, in a thousand of those in which Redis loses data.
const SHARE: u64 = 500;
/// How often a key is put back, for each thousand operations.
const MORE: u64 = 8;
/// How much stays of what befalls Redis besides, in a thousand.
const STAYS: u64 = 80;
/// How long after it one of the rows is asked for, ms: before a poll, after one, and when there may be another filter.
const ASKED: [u64; 7] = [0, 2, 30, 300, 1200, 2500, 5000];
/// How many ids there are beyond those that are created and deleted again and again.
const FRESH: u64 = 10_000;

impl Plan {
    /// Of some seeds, the same with keys that are put back as old copies.
    pub(super) fn with_old_copies(mut self, most: usize) -> Self {
        let mut rng = Rng::new(self.seed ^ OLD_COPIES);
        let loses_data = matches!(self.config.flavour, Flavour::Forgetful | Flavour::Evicting);
        if !loses_data || !rng.happens(SHARE) {
            return self;
        }
        // Each time no filter answers for seconds: there must be one to put back.
        self.operations
            .retain_mut(|operation| operation.what.mishap().is_none() || rng.happens(STAYS));
        self.with_more(&mut rng, MORE, What::old_copy, most)
    }
}

impl What {
    /// A dump, rows that are inserted after it, and one key as of the dump; with the time from the first, ms.
    fn old_copy(rng: &mut Rng, config: &Config) -> Vec<(u64, Self)> {
        let one = rng.within(0..config.instances as u64) as usize;
        let other = (one + 1) % config.instances;
        let key = rng.pick(&["bits", "bits", "bits", "recent", "recent", "fleet", "fleet", "next"]);
        let mut put = Mishap::PutBack(key);
        if config.shards > 1 && rng.happens(700) {
            put = put.of_one(rng, config.shards);
        }
        // Mostly ids that no filter holds yet: an old one refuses no others.
        let first = if rng.happens(700) {
            config.pool + rng.within(0..FRESH)
        } else {
            rng.within(0..config.pool)
        };
        let ids = first..first + rng.pick(&[1, 1, 4]);
        let longest = config.processes[one].longest_transaction;
        let hold = rng.pick(&[0, 0, 1, 900, longest - 1]);
        let create = |instance| {
            let create = Create { ids: ids.clone(), ..Create::of(first, hold) };
            Self::Create { instance, create }
        };
        let rebuild = Self::Rebuild { instance: other, accepting_loss: false, short: false };
        let mut steps = Vec::new();
        let at = if key == "next" {
            // There is one to copy only in the midst of a rebuild.
            let copied = rng.pick(&["lease.lua", "upload.lua", "ZRANGEBYSCORE"]);
            steps.push((0, Self::upon(copied, Effect::Then(Mishap::Dump))));
            steps.push((1, rebuild));
            let on = rng.pick(&["add.lua", "add.lua", "upload.lua", "record.lua", "wait.lua"]);
            let at = rng.pick(&[5, 30, 300]);
            steps.extend([3, at + 1, at + 30, at + 300].map(|at| (at, create(one))));
            steps.push((at, Self::upon(on, Effect::Then(put))));
            at
        } else {
            let at = rng.pick(&[10, 30, 300, 1500, 4000]);
            steps.push((0, Self::Redis(Mishap::Dump)));
            steps.push((5, create(one)));
            if rng.happens(300) {
                steps.push((rng.within(1..at), rebuild));
            }
            steps.push((at, Self::at_once_or_upon(rng, put)));
            if rng.happens(300) {
                steps.push((at + rng.pick(&[1, 300, 1500]), create(other)));
            }
            at
        };
        for after in ASKED {
            let instance = if rng.happens(700) { other } else { one };
            let id = rng.within(ids.clone());
            steps.push((at + after, Self::Check { instance, id }));
        }
        steps
    }

    fn at_once_or_upon(rng: &mut Rng, put: Mishap) -> Self {
        let scripts = ["check", "add.lua", "null.lua", "join.lua", "swap.lua", "upload.lua"];
        let on = rng.pick(&scripts);
        match rng.within(0..10) {
            0..7 => Self::Redis(put),
            7 => Self::upon("check", Effect::Midway(put)),
            _ => Self::upon(on, Effect::Then(put)),
        }
    }

    const fn upon(on: &'static str, effect: Effect) -> Self {
        Self::Trap(Trap { on, instance: None, effect, times: 1 })
    }
}
