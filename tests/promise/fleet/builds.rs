//! Processes of two builds of an application, and what each answers for records that the other creates, under a flood.

use std::ops::{AddAssign, Range};
use std::time::Duration;

use bloom_guard::{BloomGuard, StoreError, Verdict};
use http::StatusCode;
use support::model::{Strangers, Table, get, get_through, handler};
use tokio::time::sleep;
use tower::Layer;

/// How many records each trial creates in a process and asks for at another.
pub(super) const RECORDS: u64 = 200;
/// So many may pass a filter that lacks them: its false positives, and to spare.
const MAY_PASS: u64 = 5;
/// Between two requests of the flood: at most 200 a second and process.
const PAUSE: Duration = Duration::from_millis(5);

/// One process of a build.
pub(super) struct Process {
    /// One inside the other, the outer first; none of a build without the guard.
    guards: Vec<BloomGuard>,
    table: Table,
}

impl Process {
    pub(super) fn guarded(guard: &BloomGuard, table: &Table) -> Self {
        Self { guards: vec![guard.clone()], table: table.clone() }
    }

    pub(super) fn two_guards(outer: &BloomGuard, inner: &BloomGuard, table: &Table) -> Self {
        Self { guards: vec![outer.clone(), inner.clone()], table: table.clone() }
    }

    /// A build without the guard.
    pub(super) fn bare(table: &Table) -> Self {
        Self { guards: Vec::new(), table: table.clone() }
    }

    /// Inserts and commits, as the contract says.
    pub(super) async fn create(&self, id: u64) -> Result<(), StoreError> {
        for guard in &self.guards {
            guard.insert(&id).await?;
        }
        self.table.commit(id);
        Ok(())
    }

    pub(super) async fn ask(&self, id: u64) -> StatusCode {
        match &*self.guards {
            [outer, inner] => get_through(outer.layer(inner.layer(handler(&self.table))), id).await,
            [guard] => get(guard, &self.table, id).await,
            _ if self.table.look_up(id) => StatusCode::OK,
            _ => StatusCode::NOT_FOUND,
        }
    }

    /// A flood of ids that do not exist hardly reaches the handler.
    pub(super) async fn is_shielded(&self) {
        let before = self.table.lookups();
        for stranger in Strangers(RECORDS).take(RECORDS as usize) {
            assert_eq!(self.ask(stranger).await, StatusCode::NOT_FOUND);
        }
        let passed = self.table.lookups() - before;
        assert!(passed <= MAY_PASS, "{passed} of {RECORDS} absent ids reached the handler");
    }

    /// Returns how many requests for these, all of which exist, are answered 404.
    pub(super) async fn denies(&self, ids: Range<u64>) -> u64 {
        let mut denied = 0;
        for id in ids {
            denied += u64::from(self.ask(id).await == StatusCode::NOT_FOUND);
        }
        denied
    }

    /// Returns how many of these, all of which exist, a look-up refuses.
    pub(super) async fn refuses(&self, ids: Range<u64>) -> u64 {
        let mut refused = 0;
        for id in ids {
            let mut is_absent = false;
            for guard in &self.guards {
                is_absent |= matches!(guard.check(&id).await.unwrap(), Verdict::Absent(_));
            }
            let is_refused = is_absent || self.ask(id).await == StatusCode::NOT_FOUND;
            refused += u64::from(is_refused);
        }
        refused
    }
}

/// What went wrong, by the build of the process in which it did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Harm {
    pub(super) old_refuses: u64,
    pub(super) new_refuses: u64,
    pub(super) old_fails: u64,
    pub(super) new_fails: u64,
}

impl AddAssign for Harm {
    fn add_assign(&mut self, other: Self) {
        self.old_refuses += other.old_refuses;
        self.new_refuses += other.new_refuses;
        self.old_fails += other.old_fails;
        self.new_fails += other.new_fails;
    }
}

impl Harm {
    /// Returns what the page says of it.
    pub(super) fn in_words(self) -> String {
        let counts = [
            ("old refuse", self.old_refuses),
            ("new refuse", self.new_refuses),
            ("old fail to create", self.old_fails),
            ("new fail to create", self.new_fails),
        ];
        let words = counts.iter().filter(|(_, count)| *count > 0).map(|(what, count)| {
            if *count + MAY_PASS >= RECORDS {
                format!("{what} all")
            } else {
                format!("{what} {count} of {RECORDS}")
            }
        });
        let words: Vec<String> = words.collect();
        if words.is_empty() { "nothing".to_owned() } else { words.join("; ") }
    }
}

/// Has each process create records that the other is asked for at once, and itself, while both are flooded.
/// They are those from `first` on, twice [`RECORDS`].
pub(super) async fn both_ways(old: &Process, new: &Process, first: u64) -> Harm {
    tokio::select! {
        never = flood([old, new], first) => match never {},
        harm = creates(old, new, first) => harm,
    }
}

async fn creates(old: &Process, new: &Process, first: u64) -> Harm {
    let mut harm = Harm::default();
    for id in (first..first + 2 * RECORDS).step_by(2) {
        let (by_old, by_new) = (id, id + 1);
        if old.create(by_old).await.is_err() {
            harm.old_fails += 1;
        } else if new.ask(by_old).await == StatusCode::NOT_FOUND {
            harm.new_refuses += 1;
        } else {
            assert_eq!(old.ask(by_old).await, StatusCode::OK, "its own record {by_old}");
        }
        if new.create(by_new).await.is_err() {
            harm.new_fails += 1;
        } else if old.ask(by_new).await == StatusCode::NOT_FOUND {
            harm.old_refuses += 1;
        } else {
            assert_eq!(new.ask(by_new).await, StatusCode::OK, "its own record {by_new}");
        }
    }
    harm
}

async fn flood(processes: [&Process; 2], seed: u64) -> std::convert::Infallible {
    let mut strangers = Strangers(seed);
    loop {
        for process in processes {
            let stranger = strangers.next().unwrap_or(u64::MAX);
            assert_ne!(process.ask(stranger).await, StatusCode::OK);
        }
        sleep(PAUSE).await;
    }
}
