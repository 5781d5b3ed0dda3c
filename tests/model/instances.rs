//! The instances. Without a rule that matters there the promise is broken, and what must happen does.

use crate::instance::{ABSENT, BASE, HOLDS, Instance};
use crate::rules::Rule::{self, *};
use crate::state::{Fault, Fault::*, Step, Step::*};

/// Each way in which something may be lost; in which the promise holds one key may also be an old copy of itself.
#[rustfmt::skip]
const LOSSES: &[Fault] = &[Restart, Empty, FlushAll, BitsLost, RecentLost, MetaLost, ReplyLost, Death];
#[rustfmt::skip]
const ANY: &[Fault] = &[Restart, Empty, FlushAll, BitsLost, RecentLost, MetaLost, OldBits, OldRecent, OldMeta, Death];
/// These befall one after another, each in an instance of its own as `FAULT`.
#[rustfmt::skip]
const EACH_FAULT: &[Fault] =
    &[Restart, Empty, FlushAll, BitsLost, RecentLost, MetaLost, NextLost, OldBits, OldRecent, OldMeta, OldNext, Death];
/// The leader keeps what it has built.
const KEEPING: &[Step] = &[Lease, Recent, Scan, Upload, Swap, Keep];

/// A name, a sentence, and what is other than in the one after `like`.
macro_rules! instances {
    ($($of:ident $name:literal $says:literal { $($field:ident: $value:expr),* } like $base:ident;)*) => {
        $(const $of: Instance = Instance { name: $name, says: $says, $($field: $value,)* ..$base };)*
        const EACH: &[Instance] = &[$($of),*];
    };
}

instances! {
    SHORT "short" "Both rebuild, and B keeps its own filter as a copy." { rebuilds: [1, 1], order: KEEPING } like BASE;
    PLAIN "plain" "A lease may expire, and B may load a copy." { expiries: 1, loads: 1 } like SHORT;
    FENCE "fence" "Fences only." { checks: false } like SHORT;
    LOADED "loaded" "B loads a copy while A inserts." { has_copy: false, loads: 1 } like BASE;
    TWO "two" "A inserts x and B y; B rebuilds, loads a copy or keeps its own." { ids: 2, inserter: [0, 1], rebuilds: [0, 1] } like PLAIN;
    DROPS "drops" "Two ids, and the record drops any entry." { ids: 2, ticks: 1, drops_early: true, checks: false } like BASE;
    DROPS_REBUILD "drops, rebuild" "A rebuilds meanwhile." { rebuilds: [1, 0], drops_early: true } like BASE;
    DROPS_ALL "drops, all" "B rebuilds and loads." { checks: true, rebuilds: [0, 1], order: KEEPING, loads: 1, is_quick: false } like DROPS;
    DEADLINE "deadline" "Transactions begin with the acknowledgement." { deadline: 1, ticks: 5, kept: 4, rebuilds: [1, 0] } like SHORT;
    LEASES "leases" "A lease expires, and the building filter is lost." { expiries: 1, faults: &[NextLost] } like SHORT;

    FAULT "reply lost" "One fault, two inserts, a rebuild of A, a load." { faults: &[ReplyLost], rebuilds: [1, 0], loads: 1, inserts: 2 } like SHORT;
    PAIR "pair" "Any one fault, two ids, no rebuild." { faults: ANY, ids: 2, ticks: 0 } like BASE;
    PAIR_REBUILD "pair, rebuild" "A rebuilds meanwhile." { rebuilds: [1, 0], is_quick: false } like PAIR;
    BOTH "both" "Any one fault; both rebuild, B loads." { faults: ANY, ticks: 0, expiries: 0, is_quick: false } like PLAIN;
    FLUSHED "flushed" "All is lost within a fence, and inserted anew." { faults: &[FlushAll], checks: false } like PAIR;
    BY_ID "by id" "The live or the building filter is an old copy while A rebuilds." { faults: &[OldBits, OldNext], rebuilds: [1, 0], fences: false } like BASE;
    OLD_DUMP "old dump" "Redis restarts from an old copy while A rebuilds." { faults: &[Restart], ticks: 3 } like BY_ID;
    OLD_TOKEN "old token" "Old metadata give a token again." { faults: &[OldMeta], rebuilds: [1, 1], expiries: 1, ticks: 0 } like BY_ID;
    LATE "late" "Redis loses data while inserts are under way, and A rebuilds." { faults: &[Restart, Empty, FlushAll, MetaLost] } like BY_ID;

    LOST "lost" "Any one loss, or the end of A; B rebuilds." { faults: LOSSES, rebuilds: [0, 1] } like BY_ID;
    LOST_FENCE "lost, fence" "B fences, too, and keeps its own filter as a copy." { fences: true, order: KEEPING } like LOST;
    LOST_OWN "lost, own" "It is B that inserts, and A that rebuilds." { inserter: [1, 1], rebuilds: [1, 0] } like LOST;
    LOST_LIST "lost, list" "The list of own inserts is full at any time." { forgets_early: true } like LOST;
    LOST_RECORD "lost record" "The record is lost while B rebuilds; two ids." { ids: 2, faults: &[RecentLost] } like LOST;
    LOST_TWICE "lost twice" "Any two losses." { fault_count: 2, is_quick: false } like LOST;
    LOST_TWICE_FENCE "lost twice, fence" "Any two losses." { fault_count: 2, is_quick: false } like LOST_FENCE;
    LOST_TWICE_LIST "lost twice, list" "Any two losses, and the record drops any entry." { fault_count: 2, drops_early: true, is_quick: false } like LOST_LIST;
    LOST_TWICE_INSERTER "lost twice, inserter" "The inserter rebuilds." { rebuilds: [1, 0], fences: true, inserts: 2, ticks: 1 } like LOST_TWICE;
    LOST_LATER "lost later" "Three ticks." { ticks: 3 } like LOST_TWICE;

    PAGES "pages" "Calls of two ids, and one member of the record a read." { ids: 2, has_calls_of_two: true, pages: 2, page: 1, ticks: 1 } like BASE;
    PAGES_DROP "pages, drops" "The record drops any entry." { drops_early: true } like PAGES;
    PAGES_FAULT "pages, fault" "Any one fault." { faults: ANY, ticks: 0 } like PAGES;
    PAGES_SWAP "pages, swap" "B loads a copy or keeps its own." { rebuilds: [0, 1], order: KEEPING, loads: 1, pages: 1, checks: false, is_quick: false } like PAGES;

    NULLS "nulls" "A handler finds no row, and a null is stored." { nulls: 1, fences: false, checks: false, ticks: 5, inserts: 2 } like BASE;
    NULLS_DROP "nulls, drops" "The record drops any entry." { drops_early: true } like NULLS;
    NULLS_FAULT "nulls, fault" "Any one fault, and A rebuilds." { faults: ANY, ticks: 3, rebuilds: [1, 0] } like NULLS;
    SETTLES "settles" "Another process creates x until a moment; settling lasts for L longer." { settling: Some((1, 2)), rebuilds: [1, 2], ticks: 5 } like SHORT;
    SETTLES_FAULT "settles, fault" "Any one loss." { settling: Some((0, 1)), rebuilds: [0, 2], ticks: 3, fences: false, faults: LOSSES } like SETTLES;

    SCAN_FIRST "scan before the lease" "R11: another order of a rebuild." { order: &[Scan, Lease, Recent, Upload, Swap], rebuilds: [1, 1], ticks: 3, expected: ABSENT } like BASE;
    NO_RECORD "no read of the record" "R11: a step is left out." { order: &[Lease, Scan, Upload, Swap] } like SCAN_FIRST;
    RECORD_FIRST "record before the lease" "R11: another order." { order: &[Recent, Lease, Scan, Upload, Swap] } like SCAN_FIRST;
    RECORD_LAST "record after the scan" "R11: it gives up at times." { order: &[Lease, Scan, Recent, Upload, Swap], drops_early: true, expected: HOLDS } like SCAN_FIRST;
    OUTGROWN "allocated twice" "R5: two filters under one lease." { order: &[Lease, Recent, Scan, Outgrown, Upload, Swap] } like SCAN_FIRST;
    OUTGROWN_AGAIN "allocated twice, scanned again" "R5: the same." { order: &[Lease, Recent, Scan, Outgrown, Scan, Upload, Swap] } like SCAN_FIRST;

    TOO_SHORT "too short" "Settling lasts only until the other process stops." { settling: Some((1, 1)), expected: ABSENT } like SETTLES;
    ALL_OLD "all old" "Beyond the promise: all keys are old copies." { faults: &[OldAll], expected: ABSENT } like FAULT;
    TWO_OLD "two old" "Beyond the promise: so are those that a check compares." { faults: &[OldBits, OldMeta], fault_count: 2, expected: ABSENT } like BY_ID;
}

/// Each rule left out. Where several rules catch one thing, the promise breaks only without all of them.
#[rustfmt::skip]
const BROKEN: &[(Instance, &[&[Rule]])] = &[
    (PAGES, &[&[R1EachId]]), (FLUSHED, &[&[R1Clock, R15Metadata, R15SecondHeader]]), (DROPS, &[&[R2FloorInRecord]]),
    (PAIR, &[&[R3Stamp], &[R4Greatest]]),
    (BY_ID, &[&[R5Stamp], &[R5Pieces]]), (LEASES, &[&[R5MadeOnce], &[R5LeaseWithNext]]),
    (LATE, &[&[R6Incarnation]]), (DEADLINE, &[&[R7Deadline]]), (LOST, &[&[R8Disproved, R3Stamp]]),
    (LOST, &[&[R9Repeated]]), (LOST_LIST, &[&[R9Vouched]]), (OLD_DUMP, &[&[R9Kept, R10BeforeScan]]),
    (LOST, &[&[R10Wait]]), (LOST_TWICE, &[&[R10BeforeScan]]), (SHORT, &[&[R11Both, R5Stamp]]),
    (DROPS_REBUILD, &[&[R12Floor]]), (LOST_RECORD, &[&[R12Greatest], &[R12Raised]]), (RECORD_LAST, &[&[R12AfterScan]]),
    (OLD_TOKEN, &[&[R13Nonce]]), (OLD_DUMP, &[&[R13Incarnation, R5Stamp]]),
    (SHORT, &[&[R14NotUpload], &[R14NotSwap]]), (LOST_FENCE, &[&[R14OnlyWhole]]),
    (BY_ID, &[&[R15Metadata], &[R15Between], &[R15Live], &[R15SecondHeader]]),
    (DROPS, &[&[R16Floor], &[R16Position]]), (PAIR, &[&[R16Reaches]]), (PAGES_DROP, &[&[R16PageFloor]]),
    (TWO, &[&[R17Position]]), (PAGES_SWAP, &[&[R17PagePosition]]), (FENCE, &[&[R17NotJoined]]),
    (LOADED, &[&[R18FirstHeader]]),
    (NULLS, &[&[R19Recent], &[R19InTime], &[R19Deleted]]),
    (NULLS_DROP, &[&[R19Floor]]), (NULLS_FAULT, &[&[R19Greatest]]),
    (LOST_OWN, &[&[R20Repeated, R10Wait]]), (SETTLES, &[&[R20Lease], &[R20StrictlyLater], &[R20Rebuild]]),
];

/// What must happen, so that what holds is not about nothing.
#[rustfmt::skip]
const REACHED: &[(Instance, &str)] = &[
    (TWO, "refuses"), (PAGES, "moves the copy"), (LOADED, "gives B another copy"), (NULLS, "stores a null for"),
    (LOST, "swaps after a loss"), (PLAIN, "swaps without its lease"), (LEASES, "its filter is gone"),
    (SETTLES, "swaps, and settling ends"),
];

/// All of them.
pub(crate) fn instances() -> Vec<Instance> {
    let quick = |of: &Instance| Instance { is_quick: true, expected: ABSENT, ..*of };
    let mut all = EACH.to_vec();
    for faults in EACH_FAULT.chunks(1) {
        all.push(Instance { name: faults[0].into(), faults, ..FAULT });
    }
    for (of, each) in BROKEN {
        all.extend(each.iter().map(|without| Instance { without, ..quick(of) }));
    }
    all.extend(REACHED.iter().map(|(of, expected)| Instance { expected, ..quick(of) }));
    all
}
