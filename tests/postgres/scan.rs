//! The scan that a rebuild reads the table by.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use bloom_guard::BoxError;
use bloom_guard::rebuild::{IdSink, RebuildSource};
use tokio::sync::Semaphore;

use crate::users::Users;

/// Users a page.
const PAGE: i64 = 100;

/// How a scan sees the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// Each page as the table is at that moment.
    Pages,
    /// All pages as the table was when the first one was read: REPEATABLE READ.
    Snapshot,
}

/// Scans the table by pages over the key.
#[derive(Clone)]
pub struct Scan {
    users: Arc<Users>,
    reading: Reading,
    halt: Arc<Halt>,
}

impl Scan {
    pub fn new(users: &Arc<Users>, reading: Reading) -> Self {
        Self { users: Arc::clone(users), reading, halt: Arc::default() }
    }

    /// Where the test can stop it.
    pub fn halt(&self) -> Arc<Halt> {
        Arc::clone(&self.halt)
    }
}

impl RebuildSource for Scan {
    async fn scan(&self, ids: &mut IdSink<'_>) -> Result<(), BoxError> {
        let client = self.users.connect().await?;
        if self.reading == Reading::Snapshot {
            client.batch_execute("begin isolation level repeatable read read only").await?;
        }
        let select = "select id from users where id > $1 order by id limit $2";
        let select = client.prepare(select).await?;
        let mut after = i64::MIN;
        loop {
            let rows = client.query(&select, &[&after, &PAGE]).await?;
            let Some(last) = rows.last() else { break };
            after = last.get(0);
            for row in &rows {
                ids.push(&row.get::<_, i64>(0)).await?;
            }
            self.halt.pass().await?;
        }
        if self.reading == Reading::Snapshot {
            client.batch_execute("commit").await?;
        }
        Ok(())
    }
}

/// Where a scan waits for the test.
pub struct Halt {
    /// Pages to pass before waiting; negative where nobody asked for it.
    pages: AtomicI32,
    arrived: Semaphore,
    go: Semaphore,
}

impl Default for Halt {
    fn default() -> Self {
        let (arrived, go) = (Semaphore::new(0), Semaphore::new(0));
        Self { pages: AtomicI32::new(-1), arrived, go }
    }
}

impl Halt {
    /// Has the next scan wait after so many pages.
    pub fn after(&self, pages: i32) {
        self.pages.store(pages, Ordering::SeqCst);
    }

    /// Waits until a scan waits.
    pub async fn arrived(&self) {
        self.arrived.acquire().await.expect("never closed").forget();
    }

    /// Lets the scan go on.
    pub fn go(&self) {
        self.go.add_permits(1);
    }

    async fn pass(&self) -> Result<(), BoxError> {
        if self.pages.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.arrived.add_permits(1);
            self.go.acquire().await?.forget();
        }
        Ok(())
    }
}
