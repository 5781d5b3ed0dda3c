//! A move from another filter: who restarts as what and when, who hands over, and what befalls either filter meanwhile.

use super::{Config, Create, Flavour, Mishap, Operation, Plan, Process, What};
use crate::moves::Version;
use crate::net::{Effect, Trap};
use crate::rng::Rng;

/// Tells a move apart from what else is drawn.
const MOVES: u64 = 0x5eed_304e;
/// How many runs move, in a thousand.
const MOVED: u64 = 125;
/// How often what befalls keys befalls those of one filter's shard, in a thousand.
const ALONE: u64 = 500;
/// The longest transactions and handlers, ms: a hand-over waits for them.
const LONGEST: u64 = 1000;
const HANDLER: u64 = 100;
/// How many rows a transaction creates that outlives its process.
const TOGETHER: u64 = 4;
/// How long a hand-over takes besides, ms.
const TAKES: u64 = 8000;
/// How much longer such a run is: a move takes its time.
const LONGER: u64 = 2;
/// How much of what befalls Redis does, in a thousand: a process does not end before it has said its inserts again.
const BEFALLS: u64 = 300;

/// The filter that a run's processes have first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Former {
    pub(crate) shards: u32,
    /// In another Redis than the one that they move to.
    pub(crate) elsewhere: bool,
    /// Under another name.
    pub(crate) renamed: bool,
}

impl Former {
    /// Which Redis it is in.
    pub(crate) fn site(self) -> usize {
        usize::from(self.elsewhere)
    }

    fn draw(rng: &mut Rng, shards: u32) -> Self {
        let former = Self {
            shards: rng.pick(&[1, 1, 2, 4]),
            elsewhere: rng.happens(500),
            renamed: rng.happens(500),
        };
        // Else it is the same filter.
        let is_another = former.elsewhere || former.shards != shards;
        Self { renamed: former.renamed || !is_another, ..former }
    }
}

impl Plan {
    /// Of some seeds, the same while the processes move from one filter to another.
    pub(super) fn moved(mut self, most: usize) -> Self {
        let mut rng = Rng::new(self.seed ^ MOVES);
        if !rng.happens(MOVED) {
            return self;
        }
        let former = Former::draw(&mut rng, self.config.shards);
        self.config.former = Some(former);
        self.config.processes = self.config.processes.map(Process::brief);
        self.operations.retain(|operation| !operation.what.is_of_redis() || rng.happens(BEFALLS));
        for operation in &mut self.operations {
            operation.at *= LONGER;
            operation.what.while_moving(&mut rng, self.config.shards + former.shards, former);
        }
        let steps = What::of_move(&mut rng, &self.config).into_iter();
        self.operations.extend(steps.map(|(at, what)| Operation { at, what }));
        self.operations.sort_by_key(|operation| operation.at);
        self.operations.truncate(most);
        self
    }
}

impl Process {
    fn brief(self) -> Self {
        let longest_transaction = self.longest_transaction.min(LONGEST);
        Self { longest_transaction, handler_time: self.handler_time.min(HANDLER), ..self }
    }
}

impl What {
    /// Whether it befalls Redis.
    const fn is_of_redis(&self) -> bool {
        match self {
            Self::Redis(_) => true,
            Self::Trap(trap) => matches!(trap.effect, Effect::Then(_) | Effect::Midway(_)),
            _ => false,
        }
    }

    /// Has it befall either filter.
    fn while_moving(&mut self, rng: &mut Rng, shards: u32, former: Former) {
        let mishap = match self {
            // A filter that is new has nothing to be compared with.
            Self::Rebuild { short, .. } => {
                *short = false;
                return;
            }
            Self::Redeploy { process, .. } => {
                *process = process.brief();
                return;
            }
            Self::Redis(mishap) => mishap,
            Self::Trap(Trap { effect: Effect::Then(mishap) | Effect::Midway(mishap), .. }) => {
                mishap
            }
            _ => return,
        };
        if let Mishap::OfShard(number, _) = mishap {
            *number = rng.within(0..shards.into()) as u32;
        } else if mishap.is_of_keys() && rng.happens(ALONE) {
            *mishap = mishap.clone().of_one(rng, shards);
        }
        if former.elsewhere && rng.happens(500) {
            *mishap = Mishap::AtFormer(Box::new(mishap.clone()));
        }
    }

    /// A process of this version; one that knows the new filter has transactions of so many ms at most.
    fn run(config: &Config, most: u64, instance: usize, version: Version) -> Self {
        let process = config.processes[instance];
        let longest_transaction = match version {
            Version::Old => process.longest_transaction,
            Version::Moving | Version::New => process.longest_transaction.min(most),
        };
        Self::Run { instance, version, process: Process { longest_transaction, ..process } }
    }

    /// The steps of the guide, with when they are taken, ms since the run began.
    fn of_move(rng: &mut Rng, config: &Config) -> Vec<(u64, Self)> {
        let instances = config.instances as u64;
        let any = |rng: &mut Rng| rng.within(0..instances) as usize;
        // The new version may promise shorter transactions.
        let most = rng.pick(&[LONGEST, LONGEST, LONGEST / 2]);
        let run = |instance, version| Self::run(config, most, instance, version);
        let (from, spread) = (rng.within(0..1500), rng.pick(&[1, 500, 2000]));
        let mut steps: Vec<_> = (0..config.instances)
            .map(|instance| (from + rng.within(0..spread), run(instance, Version::Moving)))
            .collect();
        let mut again = Vec::new();
        for later in [1500, 3000, 5000, 7000] {
            let at = from + spread + later;
            again.extend((0..config.instances).map(|n| (at, run(n, Version::Moving))));
        }
        if rng.happens(300) {
            let (instance, at) = (any(rng), from + rng.within(0..spread * 2));
            steps.push((at, run(instance, Version::Old)));
            steps.push((at + rng.within(10..1000), run(instance, Version::Moving)));
        }
        let last = steps.iter().map(|(at, _)| *at).max().unwrap_or_default();
        // Where one could not end yet.
        steps.extend(again);
        let called = last + rng.pick(&[1, 300, 1500]);
        let outlived = Self::outlived_by_transactions(rng, config, &steps, called);
        steps.extend(outlived);
        steps.extend(Self::of_hand_over(rng, config, called));
        let done = called + TAKES + rng.within(0..LONGEST);
        for again in [0, 1000, 2000, 3000, 5000] {
            for instance in 0..config.instances {
                steps.push((done + again + rng.within(0..1000), run(instance, Version::New)));
            }
        }
        if rng.happens(500) {
            // By mistake.
            let (instance, at) = (any(rng), done + rng.within(0..2000));
            steps.push((at, run(instance, Version::Old)));
            steps.push((at + rng.within(100..2000), run(instance, Version::Moving)));
        }
        steps.push((done + 3500 + rng.within(0..3000), Self::DropFormer));
        steps
    }

    /// Some hand over, and the caller may end, or its last step's requests are lost or late.
    fn of_hand_over(rng: &mut Rng, config: &Config, called: u64) -> Vec<(u64, Self)> {
        let any = |rng: &mut Rng| rng.within(0..config.instances as u64) as usize;
        let caller = any(rng);
        let mut steps = vec![(called, Self::HandOver { instance: caller })];
        for later in [500, 1500, 3000, 4500, 6000, 8000] {
            if rng.happens(400) {
                steps.push((called + later, Self::HandOver { instance: any(rng) }));
            }
        }
        if rng.happens(500) {
            let effect = match rng.within(0..5) {
                0 => Effect::LoseRequest,
                1 => Effect::LoseReply,
                2 => Effect::SenderDies,
                3 => Effect::DelayReply(rng.pick(&[300, 1500])),
                _ => Effect::DelayRequest(rng.pick(&[100, 900, 3000])),
            };
            let times = rng.pick(&[1, 1, 2, 3, 6]);
            let on = rng.pick(&["leave.lua", "change_fleet.lua"]);
            let trap = Trap { on, instance: None, effect, times };
            steps.push((called, Self::Trap(trap)));
        }
        if rng.happens(200) {
            let at = called + rng.within(0..LONGEST + TAKES);
            steps.push((at, Self::Crash { instance: caller }));
        }
        if matches!(config.flavour, Flavour::Forgetful | Flavour::Evicting) && rng.happens(500) {
            steps.extend(Self::forgotten_that_it_was_left(rng, config, called));
        }
        steps
    }

    /// The former filter is lost with what says that it was left, while a process begins anew.
    fn forgotten_that_it_was_left(rng: &mut Rng, config: &Config, called: u64) -> Vec<(u64, Self)> {
        let at = called + TAKES + rng.within(0..LONGEST * 3);
        let instance = rng.within(0..config.instances as u64) as usize;
        let lost = match config.former {
            Some(former) if former.elsewhere => Mishap::AtFormer(Box::new(Mishap::FlushAll)),
            _ if rng.happens(500) => Mishap::FlushAll,
            // Its first shard.
            _ => Mishap::OfShard(config.shards, Box::new(Mishap::FlushAll)),
        };
        vec![
            (at, Self::Redis(lost)),
            (at + rng.within(0..20), Self::Crash { instance }),
            (at + rng.within(0..600), Self::Create { instance, create: Create::of(1, 1) }),
        ]
    }

    /// Processes with transactions that are open make way for such that move.
    fn outlived_by_transactions(
        rng: &mut Rng,
        config: &Config,
        runs: &[(u64, Self)],
        called: u64,
    ) -> Vec<(u64, Self)> {
        let mut steps = Vec::new();
        for (instance, (at, _)) in runs.iter().enumerate().take(config.instances) {
            let id = rng.within(0..config.pool);
            let longest = config.processes[instance].longest_transaction;
            let ids = id..(id + TOGETHER).min(config.pool);
            let create = Create { ids: ids.clone(), ..Create::of(id, longest - 50) };
            steps.push((at.saturating_sub(30), Self::Create { instance, create }));
            for (later, id) in (0..5).flat_map(|n| ids.clone().map(move |id| (n * 400, id))) {
                let instance = rng.within(0..config.instances as u64) as usize;
                steps.push((called + longest + later, Self::Check { instance, id }));
            }
        }
        steps
    }
}
