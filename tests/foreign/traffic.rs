//! An application under load: it creates records, and asks for those that there are.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bloom_guard::BloomGuard;
use support::model::Table;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::guarded::refused;

/// The longest time from an insert to the commit.
pub(crate) const LONGEST_TRANSACTION: Duration = Duration::from_secs(2);

/// What the application does all the while.
pub(crate) struct Traffic {
    table: Table,
    next: AtomicU64,
    ends: AtomicBool,
    checks: AtomicU64,
}

impl Traffic {
    /// Records are created from this id on.
    pub(crate) fn new(table: &Table, first: u64) -> Arc<Self> {
        let (next, ends) = (AtomicU64::new(first), AtomicBool::new(false));
        Arc::new(Self { table: table.clone(), next, ends, checks: AtomicU64::new(0) })
    }

    /// How many records were created, and how often records were checked.
    pub(crate) fn done(&self) -> (u64, u64) {
        (self.next.load(Ordering::SeqCst), self.checks.load(Ordering::SeqCst))
    }

    /// Ends all of it.
    pub(crate) async fn end(&self, tasks: Vec<JoinHandle<()>>) {
        self.ends.store(true, Ordering::SeqCst);
        for task in tasks {
            task.await.unwrap();
        }
    }

    fn goes_on(&self) -> bool {
        !self.ends.load(Ordering::SeqCst)
    }

    /// Creates records through a guard. The transaction ends at some time that is allowed.
    pub(crate) async fn create(self: Arc<Self>, guard: BloomGuard) {
        while self.goes_on() {
            let id = self.next.fetch_add(1, Ordering::SeqCst);
            if guard.insert(&id).await.is_ok() {
                let table = self.table.clone();
                tokio::spawn(async move {
                    sleep(LONGEST_TRANSACTION * (id % 10) as u32 / 11).await;
                    table.commit(id);
                });
            }
            sleep(Duration::from_millis(2)).await;
        }
    }

    /// No check of a record says that it is absent.
    pub(crate) async fn check(self: Arc<Self>, guard: BloomGuard) {
        while self.goes_on() {
            let ids = self.table.snapshot();
            let newest = ids.iter().rev().take(300).chain(ids.iter().step_by(37)).copied();
            assert_eq!(refused(&guard, newest).await, [0; 0]);
            self.checks.fetch_add(1, Ordering::SeqCst);
            sleep(Duration::from_millis(2)).await;
        }
    }
}
