//! One run: the instances, what happens to them, and what their clients see.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::client::{self, Answered};
use crate::cluster;
use crate::database::Transaction;
use crate::mishaps;
use crate::net;
use crate::oracle::{self, Findings};
use crate::plan::{Ask, Caller, Config, Create, NEVER, Plan, Process, Told, What};
use crate::rng::Rng;
use crate::settings::Settings;
use crate::{
    BloomGuard, Builder, Inserted, Mode, NegativeCaching, PathPattern, Schedule, StoreError,
};
use crate::{copies, database, fleet, pauses, random, seeded, shards, trace};

/// How often a create tries to insert its id.
const INSERTS: u32 = 3;
/// For how long there must have been a filter before a rebuild can be trusted to have begun with it, ms.
const SETTLED: u64 = 5_000;
/// How long the end of a run waits for the guards to recover, ms.
const RECOVERY: u64 = 60_000;

/// The longest life of nulls that the end of a run waits for, ms.
const SHORT_LIVED: u64 = 1_000;
/// The share of rows by which a rebuild may fall short, and as good as all of them where there are few.
const SHRINK_LIMIT: (f64, f64) = (0.1, 0.99);
/// Rows that come while all processes are gone.
const GONE_ROWS: u64 = 24;
/// Fewer rows than this are few.
const FEW: u64 = 48;

/// What a run has come to.
pub(crate) struct Outcome {
    pub(crate) findings: Findings,
    pub(crate) hash: u64,
    pub(crate) lines: Vec<String>,
}

/// Carries a plan out.
pub(crate) fn run(plan: &Plan, in_words: bool) -> Outcome {
    run_in(&plan.config, plan.seed, in_words, async {
        World::new(plan.config.clone()).carry_out(plan).await;
    })
}

/// Carries something out over a model of Redis, on a clock that jumps to its next timer.
pub(crate) fn run_in(
    config: &Config,
    seed: u64,
    in_words: bool,
    run: impl Future<Output = ()>,
) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    trace::begin(in_words);
    oracle::begin();
    shards::begin(config.shards);
    cluster::begin(config.cluster);
    random::begin(seed);
    database::begin(config.page, config.misread_from);
    copies::begin();
    mishaps::begin();
    pauses::begin();
    fleet::begin(config.settle);
    runtime.block_on(async {
        net::begin(config, seed);
        let mut network = JoinSet::new();
        network.spawn(net::carry());
        run.await;
    });
    drop(runtime);
    net::end();
    let (hash, lines) = trace::end();
    Outcome { findings: oracle::end(), hash, lines }
}

struct World {
    config: Config,
    instances: Vec<Instance>,
    began: Instant,
}

/// One process of the service.
struct Instance {
    guard: BloomGuard,
    /// What its clients and its application do.
    tasks: JoinSet<()>,
}

impl Instance {
    fn start(config: &Config, number: usize) -> Self {
        copies::started(number);
        let builder = builder(config, number, shards::NAME);
        let guard = pauses::start(number, || builder.build().expect("settings within bounds"));
        Self { guard, tasks: JoinSet::new() }
    }
}

/// A process's guard of a filter.
pub(crate) fn builder(config: &Config, number: usize, name: &str) -> Builder {
    let process = &config.processes[number];
    let pattern = PathPattern::<u64>::new("/r/{id}").expect("a pattern");
    let rules = &config.rules;
    let caching = NegativeCaching::new().require_marker(rules.marker).shared_absence(rules.shared);
    let mut builder = BloomGuard::builder(name, pattern)
        .capacity(process.capacity, process.rate)
        .lane(rules.lane.0, rules.lane.1)
        .on_unknown(rules.on_unknown)
        .audits_per_second(rules.audits)
        .negative_caching(caching);
    if config.shards > 1 {
        builder = builder.secret_key(shards::KEY).shards(config.shards);
    }
    if rules.guards_delete {
        builder = builder.methods([Method::GET, Method::HEAD, Method::DELETE]);
    }
    // Shorter than an application could set them, so that they matter within a run.
    builder.settings = Settings {
        nulls: caching.ttl(ms(config.null_ttl)).handler_time(ms(process.handler_time)),
        removed_ttl: Some(ms(config.removed_ttl)),
        longest_transaction: ms(process.longest_transaction),
        longest_rebuild: ms(process.longest_rebuild),
        settle: ms(config.settle),
        recent_ids: process.recent_ids,
        check_deadline: oracle::CHECK_DEADLINE,
        // Other threads carry out other runs, and all copies of this process count together.
        copy_limit: if config.copies { u64::MAX } else { 0 },
        shrink_limit: if config.pool < FEW { SHRINK_LIMIT.1 } else { SHRINK_LIMIT.0 },
        ..builder.settings
    };
    builder = builder.redis("redis://model");
    builder.place.servers = vec![match config.cluster {
        true => cluster::endpoint(number),
        false => cluster::server(number),
    }];
    let schedule = config.period.map_or(Schedule::manual(), |period| Schedule::every(ms(period)));
    builder.rebuild(schedule, database::Scan)
}

impl World {
    fn new(config: Config) -> Self {
        for id in 0..config.initial {
            let id = id * config.pool / config.initial;
            if let Some(transaction) = database::lock(id, false) {
                let owner = match id % 4 {
                    1 if !config.rules.shared => Caller::Bearer,
                    2 if !config.rules.shared => Caller::Cookie,
                    _ => Caller::Anybody,
                };
                transaction.commit(true, owner);
            }
        }
        let instances = (0..config.instances).map(|n| Instance::start(&config, n)).collect();
        Self { config, instances, began: Instant::now() }
    }

    async fn carry_out(mut self, plan: &Plan) {
        for operation in &plan.operations {
            self.wait_until(operation.at).await;
            trace::line(|| format!("{:>6} {:?}", operation.at, operation.what));
            oracle::note(|findings| findings.operations += 1);
            match operation.what {
                What::Gone { for_ms } => self.be_gone(for_ms).await,
                ref what => self.carry_out_one(what),
            }
        }
        self.end(plan.seed).await;
    }

    /// Waits for a moment, ms since the run began. Processes may end meanwhile.
    async fn wait_until(&mut self, at: u64) {
        loop {
            tokio::select! {
                biased;
                instance = net::death() => self.carry_out_one(&What::Crash { instance }),
                () = sleep_until(self.began + ms(at)) => return,
            }
        }
    }

    fn carry_out_one(&mut self, what: &What) {
        match *what {
            What::Ask(ref ask) => self.ask(ask),
            What::Check { instance, id } => {
                let guard = self.instances[instance].guard.clone();
                self.spawn(instance, client::check(guard, instance, id, false));
            }
            What::Sweep { instance } => self.sweep(instance),
            What::Create { instance, ref create } => {
                let longest = ms(self.config.processes[instance].longest_transaction);
                let guard = self.instances[instance].guard.clone();
                self.spawn(instance, create.clone().carry_out(guard, instance, longest));
            }
            What::Delete { instance, id, takes, told } => {
                let longest = ms(self.config.processes[instance].longest_transaction);
                let guard = self.instances[instance].guard.clone();
                let deletion = delete(guard, (instance, id), takes, told, longest);
                match told {
                    // What was told cannot be taken back: it is not rolled back with the process.
                    Told::Early => drop(tokio::spawn(deletion)),
                    Told::Later(_) | Told::Never => self.spawn(instance, deletion),
                }
            }
            What::Gone { .. } => {}
            What::Stranger { id, hold } => drop(tokio::spawn(create_without_insert(id, hold))),
            What::FleetMode { instance, mode } => {
                let guard = self.instances[instance].guard.clone();
                self.spawn(instance, set_fleet_mode(guard, mode));
            }
            What::Step { instance } => {
                let guard = self.instances[instance].guard.clone();
                self.spawn(instance, step(guard));
            }
            What::Mode { instance, mode } => self.instances[instance].guard.set_mode(mode),
            What::Rebuild { instance, accepting_loss, short } => {
                let guard = self.instances[instance].guard.clone();
                self.spawn(instance, rebuild(guard, instance, accepting_loss, short));
            }
            // A process that ends before it has said its inserts again is beyond the promise.
            What::Crash { .. } | What::Redeploy { .. }
                if mishaps::forgot_lately() || !fleet::may_begin_anew() => {}
            What::Crash { instance } => {
                self.instances[instance] = Instance::start(&self.config, instance);
            }
            What::Redeploy { instance, process } => {
                self.config.processes[instance] = process;
                self.instances[instance] = Instance::start(&self.config, instance);
            }
            What::Trap(ref trap) => net::with(|net| net.set(trap.clone())),
            What::Pause { instance, for_ms } => pauses::pause(instance, ms(for_ms)),
            What::CutOff { instance, for_ms } => net::with(|net| net.cut_off(instance, for_ms)),
            What::Redis(ref mishap) => mishaps::befall(mishap),
        }
        for instance in &mut self.instances {
            while instance.tasks.try_join_next().is_some() {}
        }
    }

    /// All processes are gone for longer than a filter is remembered, and rows come meanwhile. The first may stand still instead.
    async fn be_gone(&mut self, for_ms: u64) {
        if mishaps::forgot_lately() || !fleet::may_begin_anew() {
            return;
        }
        let stays = usize::from(pauses::lasts(0, ms(for_ms)));
        self.instances.truncate(stays);
        let gone = Instant::now();
        sleep(ms(for_ms)).await;
        if self.config.settle > 0 {
            for id in 0..self.config.pool.min(GONE_ROWS) {
                if let Some(transaction) = database::lock(id, false) {
                    transaction.commit(true, Caller::Anybody);
                }
            }
        }
        fleet::came_back();
        let config = &self.config;
        self.instances.extend((stays..config.instances).map(|n| Instance::start(config, n)));
        self.began += gone.elapsed();
    }

    fn spawn(&mut self, instance: usize, task: impl Future<Output = ()> + Send + 'static) {
        self.instances[instance].tasks.spawn(pauses::run(instance, task));
    }

    fn ask(&mut self, ask: &Ask) {
        let guard = self.instances[ask.instance].guard.clone();
        let handler = self.config.processes[ask.instance].handler_time;
        let ask = Ask { lag: ask.lag.min(handler), ..ask.clone() };
        self.spawn(ask.instance, async move {
            ask.send(guard).await;
        });
    }

    fn sweep(&mut self, instance: usize) {
        for id in database::ids() {
            let guard = self.instances[instance].guard.clone();
            self.spawn(instance, client::check(guard, instance, id, false));
        }
    }

    /// Everything heals; what exists is still there, and what does not is refused again.
    async fn end(&mut self, seed: u64) {
        net::with(net::Net::heal);
        pauses::ended().await;
        for instance in &mut self.instances {
            instance.guard.set_mode(Mode::Enforce);
            while instance.tasks.join_next().await.is_some() {}
        }
        database::cut_next_scan(false);
        database::misread_no_more();
        for number in 0..self.instances.len() {
            self.sweep(number);
        }
        self.settle().await;
        let guard = self.instances[0].guard.clone();
        // A rebuild may have to wait until what the record lacks is older than any transaction.
        let recovered = timeout(ms(RECOVERY), async {
            let live = || guard.state().live.ok().map(|live| live.generation);
            let all_answer = || {
                let state = guard.state();
                state.live.is_ok() && state.shards.is_none_or(|shards| shards.live == shards.all)
            };
            let (mut seen, mut replaced) = (live(), 0);
            // Others may always be at it when this process would be. The second of theirs began after all had healed.
            while !(guard.rebuild_accepting_loss().await.is_ok() && all_answer())
                && (replaced < 2 || !all_answer())
            {
                sleep(ms(500)).await;
                let now = live();
                replaced += u32::from(now.is_some() && now != seen);
                seen = now.or(seen);
            }
        });
        if recovered.await.is_err() {
            oracle::violated("no rebuild succeeds although everything has healed".to_owned());
        }
        self.enforce().await;
        let mut rng = Rng::new(seed);
        self.look_at_all(&mut rng).await;
        self.copy().await;
        if self.config.null_ttl <= SHORT_LIVED {
            self.ask_for_all().await;
        }
    }

    /// Each process knows all that exists, and refuses what does not.
    async fn look_at_all(&mut self, rng: &mut Rng) {
        for number in 0..self.instances.len() {
            let guard = self.instances[number].guard.clone();
            if timeout(ms(RECOVERY), guard.ready()).await.is_err() {
                trace::line(|| format!("instance {number}: {}", guard.state()));
                oracle::violated(format!("instance {number} does not recover"));
            }
            self.insert_again(number).await;
            self.sweep(number);
            for _ in 0..4 {
                let id = NEVER + rng.within(0..1 << 40);
                self.spawn(number, client::check(guard.clone(), number, id, true));
            }
        }
        for instance in &mut self.instances {
            while instance.tasks.join_next().await.is_some() {}
        }
    }

    /// Each process can insert into every shard.
    async fn insert_again(&self, number: usize) {
        let guard = &self.instances[number].guard;
        for shard in shards::all() {
            let Some(id) = database::ids().into_iter().find(|id| shards::of(*id) == shard) else {
                continue;
            };
            let inserted = timeout(ms(RECOVERY), async {
                while insert(guard, number, &[id]).await.is_err() {
                    sleep(ms(500)).await;
                }
            });
            if inserted.await.is_err() {
                oracle::violated(format!("instance {number} cannot insert into shard {shard}"));
            }
        }
    }

    /// Each process copies the filter that is live.
    async fn copy(&self) {
        let copying = self.instances.iter().enumerate().filter(|_| self.config.copies);
        for (number, instance) in copying {
            copies::end(&instance.guard, number).await;
        }
    }

    /// What rows there are is in the filter by now.
    async fn enforce(&self) {
        if self.config.settle == 0 {
            return;
        }
        let guard = &self.instances[0].guard;
        let enforced = timeout(ms(RECOVERY), async {
            while guard.set_fleet_mode(Mode::Enforce).await.is_err() {
                sleep(ms(500)).await;
            }
            for instance in &self.instances {
                while instance.guard.mode() != Mode::Enforce {
                    sleep(ms(100)).await;
                }
            }
        });
        if enforced.await.is_err() {
            oracle::violated("the mode of all processes cannot be set".to_owned());
        }
    }

    /// Programs that do not insert are gone, and what settles has.
    async fn settle(&self) {
        fleet::step_begins();
        if self.config.settle > 0 {
            sleep(ms(self.config.settle)).await;
        }
    }

    /// Nothing has been missed for so long that it would count: what exists is served, when it is asked for
    /// slowly.
    async fn ask_for_all(&self) {
        sleep(ms(self.config.null_ttl * 2)).await;
        for (number, instance) in self.instances.iter().enumerate() {
            for id in database::ids() {
                let busy = async || {
                    let ask = Ask { caller: database::owner(id), ..Ask::get(number, id) };
                    ask.send(instance.guard.clone()).await == Some(Answered::Busy)
                };
                // A check into which two swaps fall cannot say anything.
                if busy().await && busy().await {
                    oracle::violated(format!("instance {number} has no room for {id} after all"));
                }
            }
        }
    }
}

/// A program of the application that knows nothing of the guard.
async fn create_without_insert(id: u64, hold: u64) {
    let Some(transaction) = database::lock(id, false).filter(|_| fleet::takes_strangers()) else {
        return;
    };
    // Shorter than any longest transaction: it may commit when the step has begun.
    sleep(ms(hold)).await;
    transaction.commit(true, Caller::Anybody);
    oracle::note(|findings| findings.strangers += 1);
}

async fn set_fleet_mode(guard: BloomGuard, mode: Mode) {
    let steps = fleet::sets_milder();
    if guard.set_fleet_mode(mode).await.is_ok() {
        fleet::set_milder(steps);
    }
}

async fn step(guard: BloomGuard) {
    fleet::step_begins();
    let ended = guard.enforce_everywhere().await;
    trace::line(|| format!("{:>6} the step: {ended:?}", net::now_ms()));
    if ended.is_ok() {
        fleet::stepped();
    }
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

impl Create {
    async fn carry_out(self, guard: BloomGuard, instance: usize, longest: Duration) {
        let transactions: Vec<_> = self.ids.filter_map(|id| database::lock(id, false)).collect();
        let ids: Vec<u64> = transactions.iter().map(Transaction::id).collect();
        if ids.is_empty() {
            return;
        }
        sleep(ms(self.before)).await;
        if seeded::is_in("the insert after the commit") {
            for transaction in transactions {
                transaction.commit(true, self.owner);
            }
            let _ = insert(&guard, instance, &ids).await;
            return;
        }
        let mut tried = 0;
        let began = loop {
            let began = Instant::now();
            match insert(&guard, instance, &ids).await {
                Ok(()) => break began,
                Err(_) if tried < INSERTS => tried += 1,
                Err(_) => return,
            }
            sleep(ms(20)).await;
        };
        trace::line(|| format!("{:>6} ids {ids:?} are acknowledged", net::now_ms()));
        ids.iter().for_each(|id| mishaps::note_inserted(*id));
        // The database ends a transaction before it takes longer than it may after its insert.
        let last = began + longest - ms(1);
        if Instant::now() > last {
            return;
        }
        sleep_until((Instant::now() + ms(self.hold)).min(last)).await;
        if self.aborts || Instant::now() > last {
            return;
        }
        for transaction in transactions {
            transaction.commit(true, self.owner);
            oracle::note(|findings| findings.commits += 1);
        }
    }
}

async fn insert(guard: &BloomGuard, instance: usize, ids: &[u64]) -> Result<(), StoreError> {
    if let [id] = ids {
        if guard.insert(id).await? == Inserted::New {
            oracle::was_new(*id, instance);
        }
    } else {
        guard.insert_many(ids).await?;
    }
    copies::inserted(instance, ids);
    Ok(())
}

async fn remove(guard: &BloomGuard, instance: usize, id: u64) {
    copies::removed(guard, instance, id);
    let _ = guard.remove(&id).await;
}

async fn delete(
    guard: BloomGuard,
    (instance, id): (usize, u64),
    takes: u64,
    told: Told,
    longest: Duration,
) {
    let Some(transaction) = database::lock(id, true) else { return };
    transaction.begin_deletion();
    if let Told::Early = told {
        remove(&guard, instance, id).await;
    }
    sleep(ms(takes)).await;
    transaction.commit(false, Caller::Anybody);
    if let Told::Later(later) = told {
        let last = Instant::now() + longest;
        sleep(ms(later).min(longest - ms(1))).await;
        // A process that has stood still tells it no more.
        if Instant::now() < last {
            remove(&guard, instance, id).await;
        }
    }
}

async fn rebuild(guard: BloomGuard, instance: usize, accepting_loss: bool, short: bool) {
    // A scan that ends early is found out where there is a filter to compare it with.
    if short && oracle::live_for(SETTLED) {
        database::cut_next_scan(true);
    }
    let ended = if accepting_loss && !short {
        guard.rebuild_accepting_loss().await
    } else {
        guard.rebuild_now().await
    };
    trace::line(|| {
        let outcome = match &ended {
            Ok(report) => format!("generation {} is live", report.generation),
            Err(error) => format!("no rebuild: {error:?}"),
        };
        format!("{:>6} instance {instance}: {outcome}", net::now_ms())
    });
}
