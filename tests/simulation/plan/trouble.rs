//! What goes wrong, by the run's flavour.

use super::{Config, Flavour, KEYS, Mishap, Old, What};
use crate::net::{self, Effect, Trap};
use crate::rng::Rng;

impl What {
    pub(super) fn trouble(rng: &mut Rng, config: &Config, instance: usize) -> Self {
        let flavour = match config.flavour {
            Flavour::Wild => rng.pick(&[Flavour::Lossy, Flavour::Zombies, Flavour::Evicting]),
            other => other,
        };
        match flavour {
            Flavour::Lossy => match rng.within(0..10) {
                0 => Self::CutOff { instance, for_ms: rng.within(1..1500) },
                1 => Self::pause(rng, config, instance),
                _ => Self::Trap(Self::trap(rng, instance)),
            },
            Flavour::Zombies | Flavour::Calm if rng.happens(100) => {
                Self::pause(rng, config, instance)
            }
            Flavour::Zombies => Self::hold_up(rng, instance),
            // Each time no filter answers for seconds: seldom enough that there is one to lose.
            Flavour::Forgetful if rng.happens(700) => {
                Self::Check { instance, id: rng.within(0..config.pool) }
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
            _ => Self::Check { instance, id: rng.within(0..config.pool) },
        }
    }

    /// Sometimes for longer than the record reaches back.
    fn pause(rng: &mut Rng, config: &Config, instance: usize) -> Self {
        Self::Pause { instance, for_ms: rng.pick(&[300, 1500, config.mark() + 500]) }
    }

    fn trap(rng: &mut Rng, instance: usize) -> Trap {
        let on = rng.pick(&[
            "",
            "add.lua",
            "add.lua",
            "null.lua",
            "null.lua",
            "check",
            "fence",
            "view.lua",
            "swap.lua",
            "record.lua",
            "wait.lua",
            "upload.lua",
            "join.lua",
            "lease.lua",
            "ZRANGEBYSCORE",
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
                    "lease.lua",
                    "upload.lua",
                    "record.lua",
                    "wait.lua",
                    "swap.lua",
                    "swap.lua",
                    "renew.lua",
                    "ZRANGEBYSCORE",
                ]);
                let effect = Effect::DelayRequest(rng.pick(&[50, 300, 1000, 3000, 6000]));
                let instance = rng.happens(500).then_some(instance);
                Self::Trap(Trap { on, instance, effect, times: rng.pick(&[1, 2, 3]) })
            }
            5 => Self::Trap(Self::meanwhile(rng, Mishap::Delete(vec!["lock"]))),
            6 => Self::Redis(Mishap::Delete(vec!["lock"])),
            _ => Self::Rebuild { instance, accepting_loss: false, short: false },
        }
    }

    /// Lets something happen in the middle of a rebuild.
    fn meanwhile(rng: &mut Rng, mishap: Mishap) -> Trap {
        let on = rng.pick(&[
            "lease.lua",
            "ZRANGEBYSCORE",
            "lease.lua",
            "upload.lua",
            "record.lua",
            "wait.lua",
            "BITCOUNT",
            "GETRANGE",
            "swap.lua",
            "add.lua",
            "null.lua",
            "join.lua",
        ]);
        Trap { on, instance: None, effect: Effect::Then(mishap), times: 1 }
    }

    pub(super) fn forget(rng: &mut Rng) -> Mishap {
        match rng.within(0..15) {
            0..5 => Mishap::Dump,
            13 => Mishap::Rewind,
            14 => Self::jump(rng),
            5..7 => {
                Mishap::Restart { from_dump: rng.happens(800), loading: rng.pick(&[0, 100, 1000]) }
            }
            7..11 => Mishap::FailOver { from_dump: rng.happens(700), old: Old::draw(rng, 700) },
            11 => Mishap::FlushAll,
            _ => Self::stand_still(rng),
        }
    }

    pub(super) fn jump(rng: &mut Rng) -> Mishap {
        // Set back, numbers run ahead of the clock until it shows again what it showed before.
        Mishap::Clock(rng.pick(&[2500, 10_000, 60_000, 600_000, -2500, -10_000]))
    }

    /// Any of them; at least one.
    pub(super) fn some_keys(rng: &mut Rng) -> Vec<&'static str> {
        let which = rng.within(1..1 << KEYS.len());
        KEYS.into_iter()
            .enumerate()
            .filter(|(at, _)| which >> at & 1 == 1)
            .map(|(_, key)| key)
            .collect()
    }

    fn stand_still(rng: &mut Rng) -> Mishap {
        Mishap::StandStill(rng.pick(&[300, 1500, 2500, 4000]))
    }

    pub(super) fn evict(rng: &mut Rng, flavour: Flavour) -> Mishap {
        let mishap = Self::evict_any(rng);
        let metadata = match &mishap {
            Mishap::Delete(keys) => keys.contains(&"fleet"),
            Mishap::Expire(key, _) => *key == "fleet",
            _ => false,
        };
        // Who is cut off while it happens cannot say its inserts again in time.
        if metadata && flavour == Flavour::Wild { Mishap::Delete(vec!["recent"]) } else { mishap }
    }

    fn evict_any(rng: &mut Rng) -> Mishap {
        match rng.within(0..14) {
            13 => Mishap::CutShort(rng.pick(&["bits", "next"])),
            0..4 => Mishap::Delete(vec![rng.pick(&KEYS)]),
            4..7 => Mishap::Delete(Self::some_keys(rng)),
            7 => {
                let key = rng.pick(&["next", "next", "bits", "recent", "fleet"]);
                Mishap::Expire(key, rng.pick(&[5, 100, 1000, 10_000]))
            }
            8 => Mishap::FlushScripts,
            9 => Mishap::Room(rng.pick(&[None, None, Some(0), Some(200), Some(2000)])),
            10 => Mishap::Misconfigured(rng.happens(300)),
            11 => Self::stand_still(rng),
            _ => match rng.within(0..2) {
                0 => Mishap::Lonely(rng.happens(300)),
                _ => Mishap::Loading(rng.within(1..500)),
            },
        }
    }
}
