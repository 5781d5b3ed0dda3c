//! Creates, requests and rebuilds through two instances, all the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bloom_guard::rejection::Rejected;
use bloom_guard::{BloomGuard, Verdict};
use http::{Request, StatusCode};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tower::{Layer, ServiceExt};

use crate::ledger::Ledger;
use support::eventually;
use support::model::{Table, handler};

/// The longest that any step may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// The longest time from an insert to its commit: enough for a failover and the rebuild after it.
pub const LONGEST_TRANSACTION: Duration = Duration::from_secs(8);
/// A transaction that has not committed by then is rolled back, as the database would see to.
const DEADLINE: Duration = Duration::from_millis(7_500);
const LONGEST_WORK: Duration = Duration::from_millis(7_000);
/// What is open when the application closes commits within this time.
const CLOSING: Duration = Duration::from_secs(1);
/// Between two creates of one instance.
const CREATE_EVERY: Duration = Duration::from_millis(8);
/// Clients of each instance, and their pause between two requests.
const CLIENTS: usize = 4;
const THINK: Duration = Duration::from_millis(2);
/// Between two rebuilds of one instance.
const REBUILD_EVERY: Duration = Duration::from_millis(300);

/// The application: two instances over one table.
pub struct Application {
    pub guards: [BloomGuard; 2],
    pub table: Table,
    pub ledger: Ledger,
    pub requests: AtomicU64,
    /// Requests for ids that do not exist which no handler had to answer.
    pub refusals: AtomicU64,
    pub rebuilds: AtomicU64,
    closing: watch::Sender<bool>,
    random: AtomicU64,
}

impl Application {
    pub fn new(guards: [BloomGuard; 2], table: Table) -> Arc<Self> {
        Arc::new(Self {
            guards,
            table,
            ledger: Ledger::new(),
            requests: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
            rebuilds: AtomicU64::new(0),
            closing: watch::Sender::new(false),
            random: AtomicU64::new(u64::from(std::process::id())),
        })
    }

    /// Starts the traffic; it ends with the set.
    pub fn start(self: &Arc<Self>) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        for instance in 0..self.guards.len() {
            tasks.spawn(Arc::clone(self).create(instance));
            tasks.spawn(Arc::clone(self).rebuild(instance));
            for _ in 0..CLIENTS {
                tasks.spawn(Arc::clone(self).ask(instance));
            }
        }
        tasks
    }

    /// Waits for so many more adds to be acknowledged.
    pub async fn adds(&self, count: usize) {
        let before = self.ledger.adds();
        eventually("adds are acknowledged", PATIENCE, || async {
            let adds = self.ledger.adds() - before;
            let states = || self.guards.each_ref().map(BloomGuard::state);
            if adds >= count { Ok(()) } else { Err(format!("{adds} of {count}, {:?}", states())) }
        })
        .await;
    }

    /// Begins no further transaction, and waits for the last one's end.
    pub async fn ended(&self) {
        self.closing.send_replace(true);
        eventually("all transactions end", PATIENCE, || async {
            let open = self.ledger.still_open();
            if open == 0 { Ok(()) } else { Err(format!("{open} open")) }
        })
        .await;
    }

    /// Asks for every record that there is, in each instance.
    pub async fn ask_for_all(&self) {
        for id in self.ledger.all() {
            for instance in 0..self.guards.len() {
                self.ask_for(instance, id).await;
            }
        }
    }

    /// A share of a time, any as likely as another.
    fn share_of(&self, time: Duration) -> Duration {
        time.mul_f64((self.random() >> 32) as f64 / f64::from(u32::MAX))
    }

    /// Returns when a transaction has done what it does between its insert and its commit.
    async fn work(&self) {
        let mut closing = self.closing.subscribe();
        let closed = async {
            // It ends with the application at the latest.
            closing.wait_for(|closing| *closing).await.ok();
            sleep(self.share_of(CLOSING)).await;
        };
        tokio::select! {
            () = sleep(self.share_of(LONGEST_WORK)) => {}
            () = closed => {}
        }
    }

    /// `SplitMix64`.
    fn random(&self) -> u64 {
        let step = 0x9E37_79B9_7F4A_7C15_u64;
        let mut z = self.random.fetch_add(step, Ordering::Relaxed).wrapping_add(step);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    async fn create(self: Arc<Self>, instance: usize) {
        let mut transactions = JoinSet::new();
        while !*self.closing.borrow() {
            transactions.spawn(Arc::clone(&self).transaction(instance));
            sleep(CREATE_EVERY).await;
            while transactions.try_join_next().is_some() {}
        }
        transactions.join_all().await;
    }

    /// Insert before commit; the commit follows at any time the database allows. Ids that exist are
    /// even and anywhere in the table: many commit behind a scan's cursor.
    async fn transaction(self: Arc<Self>, instance: usize) {
        let id = self.random() & !1;
        let begun = Instant::now();
        self.ledger.open(id);
        if self.guards[instance].insert(&id).await.is_ok() {
            self.ledger.acknowledged(id);
            self.work().await;
            if begun.elapsed() < DEADLINE {
                self.table.commit(id);
                self.ledger.committed(id);
                return;
            }
        }
        self.ledger.rolled_back(id);
    }

    async fn rebuild(self: Arc<Self>, instance: usize) {
        loop {
            // Busy, or Redis is away: both are as it should be.
            if self.guards[instance].rebuild_now().await.is_ok() {
                self.rebuilds.fetch_add(1, Ordering::SeqCst);
            }
            sleep(REBUILD_EVERY).await;
        }
    }

    async fn ask(self: Arc<Self>, instance: usize) {
        loop {
            let random = self.random();
            match random >> 61 {
                0 => self.ask_for_missing(instance, random | 1).await,
                1 => {
                    if let Some(id) = self.ledger.pick_open(random >> 1) {
                        self.get(instance, id).await;
                    }
                }
                _ => {
                    if let Some(id) = self.ledger.pick(random) {
                        self.ask_for(instance, id).await;
                    }
                }
            }
            sleep(THINK).await;
        }
    }

    /// The oracle: an id whose create returned before this request began is never refused.
    pub async fn ask_for(&self, instance: usize, id: u64) {
        let (status, rejected) = self.get(instance, id).await;
        if status == StatusCode::NOT_FOUND {
            let rejected = rejected.expect("the handler finds what was committed");
            self.ledger.refused(id, instance, rejected.to_string());
        }
        // A request for what was found lately asks nobody.
        if let Verdict::Absent(proof) = self.guards[instance].check(&id).await.unwrap() {
            self.ledger.refused(id, instance, format!("{proof:?}"));
        }
    }

    async fn ask_for_missing(&self, instance: usize, id: u64) {
        let (status, rejected) = self.get(instance, id).await;
        assert_ne!(status, StatusCode::OK, "{id} was never created");
        if status == StatusCode::NOT_FOUND && rejected.is_some() {
            self.refusals.fetch_add(1, Ordering::SeqCst);
        }
    }

    async fn get(&self, instance: usize, id: u64) -> (StatusCode, Option<Rejected>) {
        self.requests.fetch_add(1, Ordering::SeqCst);
        let request = Request::get(format!("/users/{id}")).body(String::new()).unwrap();
        let service = self.guards[instance].layer(handler(&self.table));
        let response = service.oneshot(request).await.unwrap();
        (response.status(), response.extensions().get::<Rejected>().cloned())
    }

    /// Whether both instances refuse what does not exist.
    pub async fn refuses(&self) -> bool {
        let mut refuses = true;
        for guard in &self.guards {
            let verdict = guard.check(&(self.random() | 1)).await.unwrap();
            refuses &= matches!(verdict, Verdict::Absent(_));
        }
        refuses
    }
}
