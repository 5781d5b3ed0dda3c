//! Everything at once: writers, rebuilds without a pause, and requests for all that was created.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bloom_guard::{BloomGuard, Verdict};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_postgres::Client;

use crate::api::{Answer, Api, Home};
use crate::cluster::Cluster;
use crate::scan::{Reading, Scan};
use crate::users::{Users, draw};

/// How long the storm lasts.
const LASTS: Duration = Duration::from_secs(3);
const LONGEST_TRANSACTION: Duration = Duration::from_secs(3);
/// A transaction waits as long as this at most, and is rolled back when it then took longer than
/// [`DEADLINE`], as the database would see to.
const WAIT: Duration = Duration::from_millis(1_500);
const DEADLINE: Duration = Duration::from_millis(2_500);
const WRITERS: usize = 32;
const READERS: usize = 4;

struct Storm {
    api: Api,
    /// Users whose create has returned, and whose delete has not begun.
    there: Mutex<Vec<i64>>,
    over: AtomicBool,
    transactions: AtomicU64,
    rebuilds: AtomicU64,
    checks: AtomicU64,
    refused: Mutex<Vec<i64>>,
    random: AtomicU64,
}

impl Storm {
    /// `SplitMix64`.
    fn random(&self) -> u64 {
        let step = 0x9E37_79B9_7F4A_7C15_u64;
        let mut z = self.random.fetch_add(step, Ordering::Relaxed).wrapping_add(step);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn guard(&self) -> &BloomGuard {
        let index = usize::try_from(self.random() % self.api.guards.len() as u64).unwrap();
        &self.api.guards[index]
    }

    async fn write(self: Arc<Self>) {
        let client = self.api.users.connect().await.unwrap();
        while !self.over.load(Ordering::SeqCst) {
            match self.random() % 8 {
                0 => self.delete(&client).await,
                _ => self.create(&client).await,
            }
            self.transactions.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Insert before commit. Half of the ids are the sequence's, which become visible out of turn;
    /// the others lie anywhere, behind a scan's cursor as well.
    async fn create(&self, client: &Client) {
        let begun = Instant::now();
        client.batch_execute("begin").await.unwrap();
        let id = if self.random() & 1 == 0 {
            draw(client).await
        } else {
            let id = (self.random() >> 2).cast_signed();
            client.execute("insert into users (id) values ($1)", &[&id]).await.unwrap();
            id
        };
        self.guard().insert(&id).await.unwrap();
        // Mostly short transactions, some as long as may be.
        let share = (self.random() >> 32) as f64 / f64::from(u32::MAX);
        sleep(WAIT.mul_f64(share.powi(3))).await;
        if begun.elapsed() > DEADLINE || self.random().is_multiple_of(10) {
            client.batch_execute("rollback").await.unwrap();
            return;
        }
        client.batch_execute("commit").await.unwrap();
        self.there.lock().await.push(id);
        self.check(id).await;
    }

    async fn delete(&self, client: &Client) {
        let id = {
            let mut there = self.there.lock().await;
            let index = self.random() % (there.len().max(1) as u64);
            let index = usize::try_from(index).unwrap();
            if index >= there.len() {
                return;
            }
            there.swap_remove(index)
        };
        client.execute("delete from users where id = $1", &[&id]).await.unwrap();
        // It is not repeated where Redis has no time for it: then the id passes once.
        self.guard().remove(&id).await.ok();
    }

    async fn rebuild(self: Arc<Self>, instance: usize) {
        while !self.over.load(Ordering::SeqCst) {
            // Only another instance's rebuild may be in the way; many rows may have been deleted.
            match self.api.guards[instance].rebuild_accepting_loss().await {
                Ok(_) => {
                    self.rebuilds.fetch_add(1, Ordering::SeqCst);
                }
                Err(error) => {
                    assert!(matches!(*error, bloom_guard::RebuildError::Busy), "{error:?}");
                    tokio::task::yield_now().await;
                }
            }
        }
    }

    async fn read(self: Arc<Self>) {
        while !self.over.load(Ordering::SeqCst) {
            let id = {
                let there = self.there.lock().await;
                let recent = if self.random() & 1 == 0 { 64 } else { there.len() };
                let from = there.len().saturating_sub(recent);
                let index = self.random() % ((there.len() - from).max(1) as u64);
                there.get(from + usize::try_from(index).unwrap()).copied()
            };
            if let Some(id) = id {
                self.check(id).await;
            }
            tokio::task::yield_now().await;
        }
    }

    /// The oracle: it was there when the request began, and 404 says that it was not. That does not
    /// count where its delete has begun meanwhile.
    async fn check(&self, id: i64) {
        self.checks.fetch_add(1, Ordering::SeqCst);
        let guard = self.guard();
        let answer = match guard.check(&id).await.unwrap() {
            Verdict::Absent(_) => Answer::Refused,
            // A request for what was found lately asks nobody.
            _ => self.api.get_from(guard, id).await,
        };
        if matches!(answer, Answer::Refused | Answer::Missing)
            && self.there.lock().await.contains(&id)
        {
            self.refused.lock().await.push(id);
        }
    }
}

async fn storm(home: Home, reading: Reading) -> Arc<Storm> {
    let users = Users::with(2_000).await;
    let scan = Scan::new(&users, reading);
    let api = Api::start(home, &users, &scan, |builder| {
        builder.longest_transaction(LONGEST_TRANSACTION).capacity(100_000, 1e-6)
    })
    .await;
    let storm = Arc::new(Storm {
        api,
        there: Mutex::default(),
        over: AtomicBool::new(false),
        transactions: AtomicU64::new(0),
        rebuilds: AtomicU64::new(0),
        checks: AtomicU64::new(0),
        refused: Mutex::default(),
        random: AtomicU64::new(u64::from(std::process::id())),
    });
    let mut tasks = JoinSet::new();
    for _ in 0..WRITERS {
        tasks.spawn(Arc::clone(&storm).write());
    }
    for _ in 0..READERS {
        tasks.spawn(Arc::clone(&storm).read());
    }
    for instance in 0..storm.api.guards.len() {
        tasks.spawn(Arc::clone(&storm).rebuild(instance));
    }
    sleep(LASTS).await;
    storm.over.store(true, Ordering::SeqCst);
    tasks.join_all().await;
    let there = storm.there.lock().await.clone();
    for id in there {
        storm.check(id).await;
    }
    storm
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_amid_rebuilds_without_a_pause_never_lose_a_user() {
    let _one_for_all = Cluster::shared();
    for (home, reading) in [(Home::Redis, Reading::Snapshot), (Home::Process, Reading::Pages)] {
        let storm = storm(home, reading).await;
        let count = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
        let [transactions, rebuilds, checks] =
            [&storm.transactions, &storm.rebuilds, &storm.checks].map(count);
        let refused = storm.refused.lock().await;
        assert!(refused.is_empty(), "{home:?}: users that were created are refused: {refused:?}");
        assert!(
            transactions > 20 && rebuilds > 0 && checks > 50,
            "{home:?}: too little to show anything: {transactions}, {rebuilds}, {checks}"
        );
    }
}
