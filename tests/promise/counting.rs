//! Why a removal clears no bits: a filter that counts, and takes an id out, would refuse records that exist.
//!
//! A rebuild reads the table after a record's deletion, and puts a filter live that lacks the id. Then the removal
//! arrives, which the application makes behind the deletion's commit. The filter cannot tell an id that it lacks from one
//! that it has by chance: the removal takes away what other ids have put there.

use bloom_guard::filter::Sizing;
use bloom_guard::{Digester, Id, SecretKey};

const IDS: u64 = 10_000;
/// Removals that come behind a rebuild.
const LATE: u64 = 100_000;

/// A counter of four bits for each bit of a filter. One at its ceiling stays there.
struct Counters {
    digester: Digester,
    sizing: Sizing,
    counts: Vec<u8>,
}

impl Counters {
    fn new() -> Self {
        let digester = Digester::new(&SecretKey::new([7; 16]), "users");
        let sizing = Sizing::new(IDS, 0.001).unwrap();
        Self { digester, sizing, counts: vec![0; sizing.bytes() as usize * 8] }
    }

    fn bits(&self, id: u64) -> Vec<usize> {
        let digest = self.digester.digest(&Id::display(&id).unwrap());
        let position = self.sizing.geometry(1).position(&digest);
        position.bit_offsets().map(|bit| bit as usize).collect()
    }

    fn has(&self, id: u64) -> bool {
        self.bits(id).into_iter().all(|bit| self.counts[bit] > 0)
    }

    fn add(&mut self, id: u64) {
        for bit in self.bits(id) {
            self.counts[bit] = (self.counts[bit] + 1).min(15);
        }
    }

    /// Takes an id out, unless the filter can tell that it was never added.
    fn remove(&mut self, id: u64) -> bool {
        let is_there = self.has(id);
        if is_there {
            for bit in self.bits(id) {
                self.counts[bit] -= u8::from(self.counts[bit] < 15);
            }
        }
        is_there
    }
}

#[test]
fn a_filter_that_counts_would_refuse_records_after_late_removals() {
    let mut filter = Counters::new();
    (0..IDS).for_each(|id| filter.add(id));
    assert!((0..IDS).all(|id| filter.has(id)));
    let taken = (IDS..IDS + LATE).filter(|id| filter.remove(*id)).count();
    let lost = (0..IDS).filter(|id| !filter.has(*id)).count();
    println!(
        "of {LATE} late removals {taken} took bits away: {lost} records of {IDS} would be refused"
    );
    assert!(taken > 0 && lost > taken, "{taken} removals, {lost} records");
}
