//! Sizes are promises: a full filter is measured against the rate it was sized for.
//!
//! Each test fills a filter to its capacity and asks it for ids it has never seen, often enough that
//! the standard deviation of the count is below 3 % of it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::thread;

use crate::filter::{Filter, Membership, Sizing};
use crate::id::{Digester, Id, SecretKey};

const CAPACITY: u64 = 1_000_000;
const THREADS: u64 = 2;

/// Sums what `part` returns for the equal parts of 0..`ids`.
fn sum(ids: u64, first: u64, part: impl Fn(&mut dyn Iterator<Item = Id>) -> u64 + Sync) -> u64 {
    let share = ids / THREADS;
    thread::scope(|scope| {
        let parts = (0..THREADS).map(|n| {
            let start = first + n * share;
            let part = &part;
            scope.spawn(move || {
                part(&mut (start..start + share).map(|id| Id::new(id.to_be_bytes()).unwrap()))
            })
        });
        parts.collect::<Vec<_>>().into_iter().map(|part| part.join().unwrap()).sum()
    })
}

#[track_caller]
fn assert_kept(rate: f64, bits_per_id: f64, probes: u64) {
    let sizing = Sizing::new(CAPACITY, rate).unwrap();
    assert!((sizing.bits_per_id() / bits_per_id - 1.0).abs() < 0.01, "{}", sizing.bits_per_id());
    let filter = Filter::new(sizing.geometry(0x00c0_ffee));
    let digester = Digester::new(&SecretKey::new(*b"sixteen key byte"), "users");
    let possible = |id: &Id| filter.lookup(&digester.digest(id)) == Membership::Possible;

    sum(CAPACITY, 0, |ids| {
        ids.for_each(|id| filter.insert(&digester.digest(&id)));
        0
    });
    let found = sum(CAPACITY, 0, |ids| ids.filter(possible).count() as u64);
    assert_eq!(found, CAPACITY, "an inserted id was reported as never inserted");

    let false_positives = sum(probes, CAPACITY, |ids| ids.filter(possible).count() as u64);
    let measured = false_positives as f64 / probes as f64;
    assert!(probes as f64 * rate > 1200.0, "too few probes to tell");
    assert!((measured / rate - 1.0).abs() < 0.1, "{measured}");
}

#[test]
fn one_per_cent_is_kept() {
    assert_kept(0.01, 9.90, 2_000_000);
}

#[test]
fn one_in_ten_thousand_is_kept() {
    assert_kept(0.0001, 21.91, 13_000_000);
}
