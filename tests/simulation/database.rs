//! The application's database, with transactions, and the table's scan.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::sleep;

use crate::BoxError;
use crate::net;
use crate::plan::Caller;
use crate::rebuild::{IdSink, RebuildSource};
use crate::trace;

thread_local! {
    static DATABASE: RefCell<Database> = RefCell::default();
}

/// All rows of one table, and what is known of their past.
#[derive(Debug, Default)]
pub(crate) struct Database {
    rows: BTreeMap<u64, Row>,
    /// Rows a scan reads at once, and how long it rests after that, ms.
    pub(crate) page: (usize, u64),
    /// From when on scans leave out every second row, ms.
    misread_from: Option<u64>,
    /// The next scan ends after the first row, without an error.
    pub(crate) next_is_short: bool,
}

#[derive(Debug)]
struct Row {
    exists: bool,
    /// The caller that is shown it.
    owner: Caller,
    /// Counts the rows with this id.
    life: u64,
    /// A transaction on it is open.
    locked: bool,
    deleting: bool,
    /// When it came and went.
    past: Vec<(u64, bool)>,
}

impl Default for Row {
    fn default() -> Self {
        Self {
            exists: false,
            owner: Caller::Anybody,
            life: 0,
            locked: false,
            deleting: false,
            past: Vec::new(),
        }
    }
}

/// What a reader finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    Found,
    /// It is there, but this caller is not shown it.
    Hidden,
    Missing,
}

/// A row as a request begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen(Option<u64>);

/// The right to change a row, until it is dropped.
pub(crate) struct Transaction {
    id: u64,
}

fn with<T>(see: impl FnOnce(&mut Database) -> T) -> T {
    DATABASE.with_borrow_mut(see)
}

/// Begins a run's database.
pub(crate) fn begin(page: (usize, u64), misread_from: Option<u64>) {
    with(|database| *database = Database { page, misread_from, ..Database::default() });
}

/// For how long scans have left out every second row, ms.
pub(crate) fn misread_for() -> Option<u64> {
    with(|database| net::now_ms().checked_sub(database.misread_from?))
}

/// Scans read every row again.
pub(crate) fn misread_no_more() {
    with(|database| database.misread_from = None);
}

/// Whether the next scan will end early.
pub(crate) fn cut_next_scan(early: bool) {
    with(|database| database.next_is_short = early);
}

/// A row as it is now: an existing one whose deletion has not begun, or none.
pub(crate) fn see(id: u64) -> Seen {
    Seen(with(|database| {
        database.rows.get(&id).filter(|row| row.exists && !row.deleting).map(|row| row.life)
    }))
}

impl Seen {
    /// Whether there was a row that is still there, untouched.
    pub(crate) fn lasted(self, id: u64) -> bool {
        self.0.is_some() && see(id) == self
    }
}

/// What a caller is shown of a row, at a replica that lags so many ms behind.
pub(crate) fn read(id: u64, lag: u64, caller: Caller) -> Reading {
    let moment = net::now_ms().saturating_sub(lag);
    with(|database| {
        let Some(row) = database.rows.get(&id) else { return Reading::Missing };
        let there = if lag == 0 {
            row.exists
        } else {
            row.past.iter().rev().find(|(at, _)| *at <= moment).is_some_and(|(_, is)| *is)
        };
        match there {
            false => Reading::Missing,
            true if caller.sees(row.owner) => Reading::Found,
            true => Reading::Hidden,
        }
    })
}

/// Returns the caller that is shown a row.
pub(crate) fn owner(id: u64) -> Caller {
    with(|database| database.rows.get(&id).map_or(Caller::Anybody, |row| row.owner))
}

/// The ids there are.
pub(crate) fn ids() -> Vec<u64> {
    with(|database| database.rows.iter().filter(|(_, row)| row.exists).map(|(id, _)| *id).collect())
}

/// The ids that are being created.
pub(crate) fn being_created() -> BTreeSet<u64> {
    let created = |(_, row): &(&u64, &Row)| row.locked && !row.exists;
    with(|database| database.rows.iter().filter(created).map(|(id, _)| *id).collect())
}

/// Locks a row, if it is in this state and nobody else has it.
pub(crate) fn lock(id: u64, exists: bool) -> Option<Transaction> {
    with(|database| {
        let row = database.rows.entry(id).or_default();
        if row.locked || row.exists != exists {
            return None;
        }
        row.locked = true;
        Some(Transaction { id })
    })
}

impl Transaction {
    pub(crate) const fn id(&self) -> u64 {
        self.id
    }

    /// The deletion begins, for all to know.
    pub(crate) fn begin_deletion(&self) {
        with(|database| {
            if let Some(row) = database.rows.get_mut(&self.id) {
                row.deleting = true;
            }
        });
    }

    /// Makes the change visible.
    pub(crate) fn commit(self, exists: bool, owner: Caller) {
        let now = net::now_ms();
        let id = self.id;
        with(|database| {
            let row = database.rows.entry(id).or_default();
            row.exists = exists;
            row.owner = owner;
            row.life += 1;
            row.past.push((now, exists));
            trace::line(|| {
                format!("{now:>6} id {id} {}", if exists { "is there" } else { "is gone" })
            });
        });
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        with(|database| {
            if let Some(row) = database.rows.get_mut(&self.id) {
                row.locked = false;
                row.deleting = false;
            }
        });
    }
}

/// The table, as a rebuild reads it: page by page, each as it is at that moment.
pub(crate) struct Scan;

impl RebuildSource for Scan {
    async fn scan(&self, ids: &mut IdSink<'_>) -> Result<(), BoxError> {
        let ((page, rest), short) =
            with(|database| (database.page, std::mem::take(&mut database.next_is_short)));
        let most = if short { 1 } else { u64::MAX };
        let mut from = 0;
        loop {
            let rows: Vec<u64> = with(|database| {
                let misread = database.misread_from.is_some_and(|from| from <= net::now_ms());
                let rows = database.rows.range(from..).filter(|(_, row)| row.exists);
                let rows = rows.map(|(id, _)| *id).filter(|id| !misread || id % 2 == 0);
                rows.take(page).collect()
            });
            let Some(last) = rows.last() else { return Ok(()) };
            from = last + 1;
            for id in &rows {
                if ids.count() >= most {
                    return Ok(());
                }
                ids.push(id).await?;
            }
            if rest > 0 {
                sleep(Duration::from_millis(rest)).await;
            }
        }
    }
}
