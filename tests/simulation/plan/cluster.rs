//! A cluster: which shards are moved to which node and when, which map is wrong, and what befalls one node alone.

use super::{Config, Create, Flavour, Mishap, Old, Plan, What};
use crate::cluster::NODES;
use crate::rng::Rng;

/// Tells what befalls a cluster apart from what else is drawn.
const CLUSTER: u64 = 0x5eed_c105;
/// How many runs have one, in a thousand: of those with shards, and of the others.
const OF_SHARDS: u64 = 500;
const OF_ONE: u64 = 60;
/// How often what befalls a process befalls that of one node, in a thousand.
const ALONE: u64 = 800;
/// How many shards are moved, for each thousand of what happens besides.
const MORE: u64 = 15;
/// How long after it one of its rows is asked for, ms.
const ASKED: [u64; 5] = [2, 50, 400, 1300, 4000];

impl Plan {
    /// Of some seeds, the same in a cluster.
    pub(super) fn clustered(mut self, most: usize) -> Self {
        let mut rng = Rng::new(self.seed ^ CLUSTER);
        let share = if self.config.shards > 1 { OF_SHARDS } else { OF_ONE };
        if !rng.happens(share) {
            return self;
        }
        self.config.cluster = true;
        for operation in &mut self.operations {
            operation.what.befall_a_node(&mut rng);
        }
        self.with_more(&mut rng, MORE, What::of_cluster, most)
    }
}

impl What {
    /// Lets what befalls a process befall one node's, mostly.
    fn befall_a_node(&mut self, rng: &mut Rng) {
        let Some(mishap) = self.mishap() else { return };
        let of_keys = mishap.is_of_keys() || matches!(mishap, Mishap::OfShard(..));
        if !of_keys && !matches!(mishap, Mishap::Clock(_)) && rng.happens(ALONE) {
            *mishap = Mishap::AtNode(rng.pick(&NODES), Box::new(mishap.clone()));
        }
    }

    /// A shard that moves, or a map that is wrong, with the time from the first, ms.
    fn of_cluster(rng: &mut Rng, config: &Config) -> Vec<(u64, Self)> {
        let shard = rng.within(0..config.shards.into()) as u32;
        let [from, to] = [rng.pick(&NODES), rng.pick(&NODES)];
        let soon = |rng: &mut Rng| rng.pick(&[0, 1, 5, 50, 300, 1500]);
        let later = soon(rng);
        let mut steps = match rng.within(0..7) {
            0 | 1 => vec![(0, Mishap::Leave(shard, to))],
            2 => vec![(0, Mishap::BeginToLeave(shard, to)), (later, Mishap::Leave(shard, to))],
            3 => vec![(0, Mishap::BeginToLeave(shard, to)), (later, Mishap::Stay(shard))],
            4 => vec![(0, Mishap::Lie { at: from, shard, to })],
            // There and back, and what was inserted there is lost.
            _ => {
                let lost = match config.flavour {
                    Flavour::Forgetful => match rng.within(0..3) {
                        0 => Mishap::OfShard(shard, Box::new(Mishap::Rewind)),
                        _ => Mishap::AtNode(
                            to,
                            Box::new(Mishap::FailOver {
                                from_dump: true,
                                old: Old::draw(rng, 300),
                            }),
                        ),
                    },
                    _ => Mishap::Gossip,
                };
                let back = later + 100 + soon(rng);
                vec![
                    (0, Mishap::Leave(shard, from)),
                    (20, Mishap::Gossip),
                    (500, Mishap::Leave(shard, to)),
                    (510, Mishap::AtNode(to, Box::new(Mishap::Dump))),
                    (560 + later, lost),
                    (560 + back, Mishap::Leave(shard, from)),
                ]
            }
        };
        let last = steps.iter().map(|(at, _)| *at).max().unwrap_or_default();
        steps.push((last + soon(rng), Mishap::Gossip));
        let mut steps: Vec<_> =
            steps.into_iter().map(|(at, what)| (at, Self::Redis(what))).collect();
        let mut instance = || rng.within(0..config.instances as u64) as usize;
        let (creates, asks) = (instance(), instance());
        let id = rng.within(0..config.pool);
        // In the midst of it.
        let at = rng.within(0..last + 1);
        steps.push((at, Self::Create { instance: creates, create: Create::of(id, 1) }));
        steps.extend(ASKED.map(|after| (at + after, Self::Check { instance: asks, id })));
        let another = rng.within(0..config.pool);
        steps
            .extend(ASKED.map(|after| (last + after, Self::Check { instance: asks, id: another })));
        steps
    }
}

impl Mishap {
    /// Whether it befalls a cluster as such.
    pub(crate) const fn is_of_a_cluster(&self) -> bool {
        matches!(
            self,
            Self::BeginToLeave(..)
                | Self::Leave(..)
                | Self::Stay(_)
                | Self::Lie { .. }
                | Self::Gossip
        )
    }
}
