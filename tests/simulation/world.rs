//! One run: the instances, what happens to them, and what their clients see.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{Method, Request, Response, StatusCode, header};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tower::{Layer as _, ServiceExt as _};

use crate::mishaps;
use crate::net;
use crate::oracle::{self, Findings};
use crate::plan::{Config, NEVER, POOL, Plan, What};
use crate::rng::Rng;
use crate::settings::Settings;
use crate::store::redis::Endpoint;
use crate::{BloomGuard, PathPattern, Schedule, Verdict};
use crate::{database, random, seeded, trace};

/// How often a create tries to insert its id.
const INSERTS: u32 = 3;
/// For how long there must have been a filter before a rebuild can be trusted to have begun with it, ms.
const SETTLED: u64 = 5_000;
/// How long the end of a run waits for the guards to recover, ms.
const RECOVERY: u64 = 30_000;

/// What a run has come to.
pub(crate) struct Outcome {
    pub(crate) findings: Findings,
    pub(crate) hash: u64,
    pub(crate) lines: Vec<String>,
}

/// Carries a plan out.
pub(crate) fn run(plan: &Plan, in_words: bool) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    trace::begin(in_words);
    oracle::begin();
    random::begin(plan.seed);
    database::begin(plan.config.page);
    mishaps::begin();
    runtime.block_on(async {
        let config = &plan.config;
        net::begin(plan.seed, config.version, config.node_entries, config.slow);
        let mut network = JoinSet::new();
        network.spawn(net::carry());
        World::new(config.clone()).carry_out(plan).await;
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
        let pattern = PathPattern::<u64>::new("/r/{id}").expect("a pattern");
        let mut builder =
            BloomGuard::builder("sim", pattern).capacity(config.capacity, config.rate);
        // Shorter than an application could set them, so that they matter within a run.
        builder.settings = Settings {
            null_ttl: ms(config.null_ttl),
            removed_ttl: Some(ms(config.removed_ttl)),
            longest_transaction: ms(config.longest_transaction[number]),
            longest_rebuild: ms(config.longest_rebuild),
            handler_time: ms(config.handler_time),
            journal_entries: config.journal_entries,
            check_deadline: oracle::CHECK_DEADLINE,
            ..builder.settings
        };
        builder.redis = Some(Endpoint(Arc::new(net::Address(number))));
        let schedule =
            config.period.map_or(Schedule::manual(), |period| Schedule::every(ms(period)));
        let guard =
            builder.rebuild(schedule, database::Scan).build().expect("settings within bounds");
        Self { guard, tasks: JoinSet::new() }
    }
}

impl World {
    fn new(config: Config) -> Self {
        for id in 0..config.initial {
            let id = id * POOL / config.initial;
            if let Some(transaction) = database::lock(id, false) {
                transaction.commit(true, false);
            }
        }
        let instances = (0..config.instances).map(|n| Instance::start(&config, n)).collect();
        Self { config, instances, began: Instant::now() }
    }

    async fn carry_out(mut self, plan: &Plan) {
        for operation in &plan.operations {
            sleep_until(self.began + ms(operation.at)).await;
            trace::line(|| format!("{:>6} {:?}", operation.at, operation.what));
            oracle::note(|findings| findings.operations += 1);
            self.carry_out_one(&operation.what);
        }
        self.end(plan.seed).await;
    }

    fn carry_out_one(&mut self, what: &What) {
        match *what {
            What::Get { instance, id, before, after, lag, credentials, head } => {
                let get = Get { instance, id, before, after, lag, credentials, head };
                let guard = self.instances[instance].guard.clone();
                self.spawn(instance, get.send(guard, false));
            }
            What::Check { instance, id } => {
                let guard = self.instances[instance].guard.clone();
                self.spawn(instance, check(guard, instance, id, false));
            }
            What::Sweep { instance } => self.sweep(instance),
            What::Create { instance, id, before, hold, aborts, private } => {
                let longest = ms(self.config.longest_transaction[instance]);
                let create = Create { id, before, hold, aborts, private, longest };
                let guard = self.instances[instance].guard.clone();
                self.spawn(instance, create.carry_out(guard));
            }
            What::Delete { instance, id, takes, later } => {
                let guard = self.instances[instance].guard.clone();
                self.spawn(instance, delete(guard, id, takes, later));
            }
            What::Rebuild { instance, accepting_loss, short } => {
                let guard = self.instances[instance].guard.clone();
                self.spawn(instance, rebuild(guard, instance, accepting_loss, short));
            }
            // A process that ends before it has said its inserts again is beyond the promise.
            What::Crash { .. } if mishaps::forgot_lately() => {}
            What::Crash { instance } => {
                self.instances[instance] = Instance::start(&self.config, instance);
            }
            What::Trap(ref trap) => net::with(|net| net.set(trap.clone())),
            What::CutOff { instance, for_ms } => net::with(|net| net.cut_off(instance, for_ms)),
            What::Redis(ref mishap) => mishaps::befall(mishap),
        }
        for instance in &mut self.instances {
            while instance.tasks.try_join_next().is_some() {}
        }
    }

    fn spawn(&mut self, instance: usize, task: impl Future<Output = ()> + Send + 'static) {
        self.instances[instance].tasks.spawn(task);
    }

    fn sweep(&mut self, instance: usize) {
        for id in database::ids() {
            let guard = self.instances[instance].guard.clone();
            self.spawn(instance, check(guard, instance, id, false));
        }
    }

    /// Everything heals; what exists is still there, and what does not is refused again.
    async fn end(&mut self, seed: u64) {
        net::with(net::Net::heal);
        for instance in &mut self.instances {
            while instance.tasks.join_next().await.is_some() {}
        }
        database::cut_next_scan(false);
        for number in 0..self.instances.len() {
            self.sweep(number);
        }
        let guard = self.instances[0].guard.clone();
        // A rebuild may have to wait until a gap in the journal is older than any transaction.
        let recovered = timeout(ms(RECOVERY), async {
            while guard.rebuild_accepting_loss().await.is_err() {
                sleep(ms(500)).await;
            }
        });
        if recovered.await.is_err() {
            oracle::violated("no rebuild succeeds although everything has healed".to_owned());
        }
        let mut rng = Rng::new(seed);
        for number in 0..self.instances.len() {
            let guard = self.instances[number].guard.clone();
            if timeout(ms(RECOVERY), guard.ready()).await.is_err() {
                oracle::violated(format!("instance {number} does not recover"));
            }
            self.sweep(number);
            for _ in 0..4 {
                let id = NEVER + rng.within(0..1 << 40);
                self.spawn(number, check(guard.clone(), number, id, true));
            }
        }
        for instance in &mut self.instances {
            while instance.tasks.join_next().await.is_some() {}
        }
    }
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Judges an answer about an id.
fn judge(instance: usize, id: u64, before: database::Seen, refused: bool, healed: bool) {
    trace::mix(&[instance as u8, u8::from(refused)]);
    trace::mix(&id.to_be_bytes());
    trace::mix(&net::now_ms().to_be_bytes());
    if id >= NEVER {
        oracle::never_was(refused, healed);
    } else if before.lasted(id) {
        oracle::existed(id, instance, refused);
    }
}

async fn check(guard: BloomGuard, instance: usize, id: u64, healed: bool) {
    let before = database::see(id);
    let asked = Instant::now();
    let verdict = guard.check(&id).await.expect("a number is an id");
    oracle::waited(instance, asked.elapsed(), 1);
    let refused = matches!(verdict, Verdict::Absent(_));
    judge(instance, id, before, refused, healed);
}

/// One request.
#[derive(Clone, Copy)]
struct Get {
    instance: usize,
    id: u64,
    before: u64,
    after: u64,
    lag: u64,
    credentials: bool,
    head: bool,
}

impl Get {
    async fn send(self, guard: BloomGuard, healed: bool) {
        let Self { instance, id, before, after, lag, credentials, head } = self;
        let handled = Arc::new(AtomicBool::new(false));
        let reached = Arc::clone(&handled);
        let handler = tower::service_fn(move |_request: Request<()>| {
            reached.store(true, Ordering::Relaxed);
            async move {
                sleep(ms(before)).await;
                let found = id < NEVER && database::read(id, lag, credentials);
                sleep(ms(after)).await;
                let mut response = Response::new(());
                if !found {
                    *response.status_mut() = StatusCode::NOT_FOUND;
                }
                Ok::<_, Infallible>(response)
            }
        });
        let mut request = Request::builder().uri(format!("/r/{id}"));
        if credentials {
            request = request.header(header::AUTHORIZATION, "Bearer x");
        }
        if head {
            request = request.method(Method::HEAD);
        }
        let request = request.body(()).expect("a request");
        let seen = database::see(id);
        let sent = Instant::now();
        let response = guard.layer(handler).oneshot(request).await.expect("never fails");
        let busy = if handled.load(Ordering::Relaxed) { ms(before) + ms(after) } else { ms(0) };
        // For its check, and for its null.
        oracle::waited(instance, sent.elapsed().saturating_sub(busy), 2);
        let refused =
            !handled.load(Ordering::Relaxed) && response.status() == StatusCode::NOT_FOUND;
        if refused
            && matches!(response.extensions().get::<crate::Rejected>(), Some(rejected) if rejected.reason() == crate::RejectReason::Absent(crate::Proof::Null))
        {
            oracle::note(|findings| findings.nulls += 1);
        }
        // Nobody without credentials is shown a private row, by the handler no more than by us.
        if credentials || !database::is_private(id) {
            judge(instance, id, seen, refused, healed);
        }
    }
}

/// One transaction that creates a row.
struct Create {
    id: u64,
    before: u64,
    hold: u64,
    aborts: bool,
    private: bool,
    longest: Duration,
}

impl Create {
    async fn carry_out(self, guard: BloomGuard) {
        let Some(transaction) = database::lock(self.id, false) else { return };
        sleep(ms(self.before)).await;
        if seeded::is_in("the insert after the commit") {
            transaction.commit(true, self.private);
            let _ = guard.insert(&self.id).await;
            return;
        }
        let mut tried = 0;
        let began = loop {
            let began = Instant::now();
            match guard.insert(&self.id).await {
                Ok(()) => break began,
                Err(_) if tried < INSERTS => tried += 1,
                Err(_) => return,
            }
            sleep(ms(20)).await;
        };
        trace::line(|| format!("{:>6} id {} is acknowledged", net::now_ms(), self.id));
        // The database ends a transaction before it takes longer than it may after its insert.
        let last = began + self.longest - ms(1);
        if Instant::now() > last {
            return;
        }
        sleep_until((Instant::now() + ms(self.hold)).min(last)).await;
        if !self.aborts && transaction.commit(true, self.private) {
            oracle::note(|findings| findings.commits += 1);
        }
    }
}

async fn delete(guard: BloomGuard, id: u64, takes: u64, later: u64) {
    let Some(transaction) = database::lock(id, true) else { return };
    transaction.begin_deletion();
    sleep(ms(takes)).await;
    if transaction.commit(false, false) {
        sleep(ms(later)).await;
        let _ = guard.remove(&id).await;
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
