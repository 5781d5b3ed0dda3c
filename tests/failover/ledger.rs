//! What the application knows to be true, and what it saw that was not.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Instant;

/// A record that was refused after its create had returned.
#[derive(Debug)]
#[expect(dead_code, reason = "read by whoever reads the failure")]
pub struct False {
    pub id: u64,
    /// Which instance refused it, and why.
    pub instance: usize,
    pub rejected: String,
    /// Since the run began: acknowledged, committed, refused, ms.
    pub times: (u128, u128, u128),
}

#[derive(Default)]
struct Entries {
    acknowledged: HashMap<u64, Instant>,
    open: Vec<u64>,
    committed: Vec<(u64, Instant)>,
    refused: Vec<False>,
}

/// The transactions of a run.
pub struct Ledger {
    begun: Instant,
    entries: Mutex<Entries>,
}

impl Ledger {
    pub fn new() -> Self {
        Self { begun: Instant::now(), entries: Mutex::default() }
    }

    pub fn elapsed(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    /// A transaction has begun: its id may be asked for, and 404 is as good an answer as 200.
    pub fn open(&self, id: u64) {
        self.entries.lock().unwrap().open.push(id);
    }

    pub fn acknowledged(&self, id: u64) {
        self.entries.lock().unwrap().acknowledged.insert(id, Instant::now());
    }

    /// Its create is about to return: from now on it must be found.
    pub fn committed(&self, id: u64) {
        let mut entries = self.entries.lock().unwrap();
        entries.open.retain(|open| *open != id);
        entries.committed.push((id, Instant::now()));
    }

    pub fn rolled_back(&self, id: u64) {
        self.entries.lock().unwrap().open.retain(|open| *open != id);
    }

    /// How many ids Redis has acknowledged.
    pub fn adds(&self) -> usize {
        self.entries.lock().unwrap().acknowledged.len()
    }

    /// How many transactions are open.
    pub fn still_open(&self) -> usize {
        self.entries.lock().unwrap().open.len()
    }

    /// A committed id, one of the last ones every other time.
    pub fn pick(&self, random: u64) -> Option<u64> {
        let entries = self.entries.lock().unwrap();
        let among = if random & 1 == 0 { 64 } else { usize::MAX };
        let recent = &entries.committed[entries.committed.len().saturating_sub(among)..];
        any(recent, random >> 1).map(|(id, _)| *id)
    }

    /// An id whose transaction is open.
    pub fn pick_open(&self, random: u64) -> Option<u64> {
        any(&self.entries.lock().unwrap().open, random).copied()
    }

    /// Every committed id.
    pub fn all(&self) -> Vec<u64> {
        self.entries.lock().unwrap().committed.iter().map(|(id, _)| *id).collect()
    }

    /// A committed id was refused.
    pub fn refused(&self, id: u64, instance: usize, rejected: String) {
        let since = |at: Instant| at.duration_since(self.begun).as_millis();
        let mut entries = self.entries.lock().unwrap();
        let acknowledged = entries.acknowledged[&id];
        let committed = entries.committed.iter().find(|(other, _)| *other == id);
        let committed = committed.expect("a committed id").1;
        let times = (since(acknowledged), since(committed), since(Instant::now()));
        entries.refused.push(False { id, instance, rejected, times });
    }

    /// What was refused wrongly.
    pub fn false_refusals(&self) -> Vec<False> {
        std::mem::take(&mut self.entries.lock().unwrap().refused)
    }
}

fn any<T>(among: &[T], random: u64) -> Option<&T> {
    let index = usize::try_from(random % (among.len().max(1) as u64)).unwrap();
    among.get(index)
}
