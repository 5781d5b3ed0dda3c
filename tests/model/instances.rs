//! The instances. Those that hold come first; then each rule is left out where it matters, and what must happen does.

use crate::instance::Event::{self, *};
use crate::instance::Fault::{self, *};
use crate::instance::Step::{self, *};
use crate::instance::{BASE, Expected, Instance};
use crate::rules::Rule::{self, *};

/// Each way in which one key, or all, may be lost.
const LOSSES: &[Fault] =
    &[Restart, Empty, FlushAll, BitsLost, RecentLost, MetaLost, ReplyLost, Death];
const OLD: &[Fault] = &[OldBits, OldRecent, OldMeta, BitsLost, RecentLost, MetaLost];
/// Whatever befalls what Redis holds.
const ANY: &[Fault] =
    &[Restart, Empty, FlushAll, BitsLost, RecentLost, MetaLost, OldBits, OldRecent, OldMeta, Death];

const PLAIN: Instance = Instance {
    name: "plain",
    says: "both rebuild, a lease may expire, B loads a copy or keeps its own",
    rebuilds: [1, 1],
    expiries: 1,
    keeps_copy: true,
    loads: 1,
    ..BASE
};
const SHORT: Instance = Instance {
    name: "short",
    says: "both rebuild, and B keeps its own filter as a copy",
    rebuilds: [1, 1],
    keeps_copy: true,
    ..BASE
};
const LEASES: Instance = Instance {
    name: "leases",
    says: "a lease expires, or the building filter is lost, while both rebuild",
    expiries: 1,
    faults: &[NextLost],
    ..SHORT
};
const TWO: Instance = Instance {
    name: "two",
    says: "A inserts x and B y; B rebuilds, and loads a copy or keeps its own",
    ids: 2,
    inserter: [0, 1],
    rebuilds: [0, 1],
    keeps_copy: true,
    loads: 1,
    ..BASE
};
const LOADED: Instance = Instance {
    name: "loaded",
    says: "B loads a copy while A inserts",
    has_copy: false,
    loads: 1,
    ..BASE
};
const DROPS: Instance = Instance {
    name: "drops",
    says: "two ids, and the record drops entries at any age",
    ids: 2,
    ticks: 1,
    drops_early: true,
    checks: false,
    ..BASE
};
const DROPS_REBUILD: Instance = Instance {
    name: "drops, rebuild",
    says: "A rebuilds, and the record drops entries at any age",
    rebuilds: [1, 0],
    drops_early: true,
    ..BASE
};
const DROPS_ALL: Instance = Instance {
    name: "drops, all",
    says: "the same with two ids, loads and a rebuild of B",
    is_quick: false,
    ids: 2,
    ticks: 1,
    rebuilds: [0, 1],
    drops_early: true,
    keeps_copy: true,
    loads: 1,
    ..BASE
};
const DEADLINE: Instance = Instance {
    name: "deadline",
    says: "transactions begin with the acknowledgement",
    deadline: Some(1),
    ticks: 5,
    kept: 4,
    rebuilds: [1, 0],
    keeps_copy: true,
    ..BASE
};
const ONE_FAULT: Instance = Instance {
    says: "this one fault; two inserts, a rebuild of A, a load",
    rebuilds: [1, 0],
    keeps_copy: true,
    loads: 1,
    inserts: 2,
    ..BASE
};
const PAIR: Instance = Instance {
    name: "pair",
    says: "any one fault, two ids, no rebuild",
    faults: ANY,
    ids: 2,
    ticks: 0,
    ..BASE
};
const BY_ID: Instance = Instance {
    name: "by id",
    says: "an old copy of the live or the building filter is put back while A rebuilds; checks by id",
    faults: &[OldBits, OldNext],
    rebuilds: [1, 0],
    fences: false,
    ..BASE
};
const OLD_DUMP: Instance = Instance {
    name: "old dump",
    says: "Redis restarts from an old copy, and A rebuilds for three ticks; checks by id",
    faults: &[Restart],
    rebuilds: [1, 0],
    ticks: 3,
    fences: false,
    ..BASE
};
const OLD_TOKEN: Instance = Instance {
    name: "old token",
    says: "Redis restarts from an old copy, and B rebuilds twice and fences",
    rebuilds: [0, 2],
    keeps_copy: true,
    fences: true,
    checks: false,
    ..OLD_DUMP
};
const LOST: Instance = Instance {
    name: "lost",
    says: "any one loss, or the end of a process; B rebuilds; checks by id",
    faults: LOSSES,
    rebuilds: [0, 1],
    fences: false,
    ..BASE
};
const LOST_TWICE: Instance = Instance {
    name: "lost twice",
    says: "any two of those",
    is_quick: false,
    fault_count: 2,
    ..LOST
};
const LOST_FENCE: Instance = Instance {
    name: "lost, fence",
    says: "any one loss, and B fences",
    fences: true,
    keeps_copy: true,
    ..LOST
};
const RECORD_LOST: Instance = Instance {
    name: "record lost",
    says: "the record is lost while B rebuilds; two ids",
    ids: 2,
    faults: &[RecentLost],
    ..LOST
};
const REPLIES: Instance = Instance {
    name: "late replies",
    says: "metadata are lost or Redis restarts while A's inserts are under way, and A rebuilds",
    faults: &[Restart, Empty, FlushAll, MetaLost],
    rebuilds: [1, 0],
    fences: false,
    ..BASE
};
const PAGES: Instance = Instance {
    name: "pages",
    says: "calls of two ids, and reads of one member of the record at a time",
    ids: 2,
    has_calls_of_two: true,
    pages: 2,
    page: 1,
    ticks: 1,
    ..BASE
};
const PAGES_DROP: Instance = Instance {
    name: "pages, drops",
    says: "the record drops at any age, too",
    drops_early: true,
    ..PAGES
};
const PAGES_SWAP: Instance = Instance {
    name: "pages, swap",
    says: "B loads a copy or keeps its own",
    is_quick: false,
    rebuilds: [0, 1],
    keeps_copy: true,
    loads: 1,
    pages: 1,
    checks: false,
    ..PAGES
};
const NULLS: Instance = Instance {
    name: "nulls",
    says: "a request passes, its handler finds no row, and a null is stored",
    nulls: 1,
    fences: false,
    checks: false,
    ticks: 5,
    inserts: 2,
    ..BASE
};
const NULLS_DROP: Instance = Instance {
    name: "nulls, drops",
    says: "the record drops at any age",
    drops_early: true,
    ..NULLS
};
const NULLS_FAULT: Instance = Instance {
    name: "nulls, fault",
    says: "any one fault, and A rebuilds",
    faults: ANY,
    ticks: 3,
    rebuilds: [1, 0],
    ..NULLS
};
const SETTLES: Instance = Instance {
    name: "settles",
    says: "x is created by a process that does not insert, until one moment; settling lasts for L longer",
    is_cold: true,
    settling: Some((1, 2)),
    rebuilds: [1, 2],
    keeps_copy: true,
    ticks: 5,
    ..BASE
};
const SETTLES_FAULT: Instance = Instance {
    name: "settles, fault",
    says: "any one loss",
    settling: Some((0, 1)),
    rebuilds: [0, 2],
    ticks: 3,
    fences: false,
    faults: LOSSES,
    ..SETTLES
};
const FENCE: Instance = Instance { name: "fence", says: "fences only", checks: false, ..SHORT };
const FLUSHED: Instance = Instance {
    name: "flushed",
    says: "all is lost within a fence, and inserted anew",
    faults: &[FlushAll],
    checks: false,
    ..PAIR
};

/// Those that hold.
const HOLD: &[Instance] = &[
    PLAIN,
    SHORT,
    LEASES,
    TWO,
    LOADED,
    DROPS,
    DROPS_REBUILD,
    DROPS_ALL,
    DEADLINE,
    PAIR,
    BY_ID,
    OLD_DUMP,
    OLD_TOKEN,
    LOST,
    LOST_TWICE,
    LOST_FENCE,
    RECORD_LOST,
    REPLIES,
    PAGES,
    PAGES_DROP,
    PAGES_SWAP,
    NULLS,
    NULLS_DROP,
    NULLS_FAULT,
    SETTLES,
    SETTLES_FAULT,
    FENCE,
    FLUSHED,
    Instance { name: "restart", faults: &[Restart], ..ONE_FAULT },
    Instance { name: "empty", faults: &[Empty], ..ONE_FAULT },
    Instance { name: "FLUSHALL", faults: &[FlushAll], ..ONE_FAULT },
    Instance { name: "bits lost", faults: &[BitsLost], ..ONE_FAULT },
    Instance { name: "recent lost", faults: &[RecentLost], ..ONE_FAULT },
    Instance { name: "meta lost", faults: &[MetaLost], ..ONE_FAULT },
    Instance { name: "next lost", faults: &[NextLost], ..ONE_FAULT },
    Instance { name: "old bits", faults: &[OldBits], ..ONE_FAULT },
    Instance { name: "old recent", faults: &[OldRecent], ..ONE_FAULT },
    Instance { name: "old meta", faults: &[OldMeta], ..ONE_FAULT },
    Instance { name: "old next", faults: &[OldNext], ..ONE_FAULT },
    Instance { name: "reply lost", faults: &[ReplyLost], ..ONE_FAULT },
    Instance { name: "death", faults: &[Death], ..ONE_FAULT },
    Instance {
        name: "pair, rebuild",
        says: "any one fault, two ids, A rebuilds",
        is_quick: false,
        rebuilds: [1, 0],
        ..PAIR
    },
    Instance {
        name: "both",
        says: "any one fault, both rebuild, copies",
        is_quick: false,
        faults: ANY,
        ticks: 0,
        ..PLAIN
    },
    Instance {
        name: "lost twice, fence",
        says: "any two losses, and B fences",
        is_quick: false,
        fault_count: 2,
        ..LOST_FENCE
    },
    Instance { name: "long", says: "any two losses, three ticks", ticks: 3, ..LOST_TWICE },
    Instance {
        name: "known",
        says: "as plain; the header is known",
        is_header_known: true,
        ..PLAIN
    },
    Instance {
        name: "known, pair",
        says: "as pair; the header is known",
        is_header_known: true,
        ..PAIR
    },
    Instance {
        name: "known, by id",
        says: "as by id; the header is known",
        is_header_known: true,
        ..BY_ID
    },
    Instance {
        name: "known, lost",
        says: "as lost, fence; the header is known",
        is_header_known: true,
        ..LOST_FENCE
    },
    Instance {
        name: "known, pages",
        says: "as pages, drops; the header is known",
        is_header_known: true,
        ..PAGES_DROP
    },
    Instance {
        name: "known, two",
        says: "as two; the header is known",
        is_quick: false,
        is_header_known: true,
        ..TWO
    },
    Instance {
        name: "known, old",
        says: "two old copies or losses; the header is known",
        is_quick: false,
        is_header_known: true,
        faults: OLD,
        fault_count: 2,
        ticks: 1,
        ..BY_ID
    },
];

/// Each rule left out.
const BROKEN: &[(Instance, &[Rule])] = &[
    (FLUSHED, &[R1Clock, R15Metadata]),
    (PAGES, &[R1EachId]),
    (DROPS, &[R2FloorInRecord]),
    (PAIR, &[R3Stamp]),
    (PAIR, &[R4Greatest]),
    (BY_ID, &[R5Stamp]),
    (BY_ID, &[R5Pieces]),
    (LEASES, &[R5MadeOnce]),
    (LEASES, &[R5LeaseWithNext]),
    (REPLIES, &[R6Incarnation]),
    (DEADLINE, &[R7Deadline]),
    (LOST, &[R8Disproved]),
    (LOST, &[R9Repeated]),
    (OLD_DUMP, &[R9Kept]),
    (OLD_DUMP, &[R9Vouched]),
    (LOST, &[R10Wait]),
    (LOST_TWICE, &[R10BeforeScan]),
    (SHORT, &[R11Both]),
    (DROPS_REBUILD, &[R12Floor]),
    (RECORD_LOST, &[R12Greatest]),
    (RECORD_LOST, &[R12Raised]),
    (OLD_TOKEN, &[R13Nonce]),
    (OLD_DUMP, &[R13Incarnation]),
    (SHORT, &[R14NotUpload]),
    (SHORT, &[R14NotSwap]),
    (LOST_FENCE, &[R14OnlyWhole]),
    (BY_ID, &[R15Metadata]),
    (BY_ID, &[R15Between]),
    (BY_ID, &[R15Live]),
    (BY_ID, &[R15SecondHeader]),
    (DROPS, &[R16Floor]),
    (PAIR, &[R16Reaches]),
    (DROPS, &[R16Position]),
    (PAGES_DROP, &[R16PageFloor]),
    (TWO, &[R17Position]),
    (PAGES_SWAP, &[R17PagePosition]),
    (FENCE, &[R17NotJoined]),
    (LOADED, &[R18FirstHeader]),
    (NULLS, &[R19Recent]),
    (NULLS, &[R19InTime]),
    (NULLS_DROP, &[R19Floor]),
    (NULLS_FAULT, &[R19Greatest]),
    (NULLS, &[R19Deleted]),
    (LOST, &[R20Repeated]),
    (SETTLES, &[R20Lease]),
    (SETTLES, &[R20StrictlyLater]),
    (SETTLES, &[R20Rebuild]),
];

/// What must happen.
const REACHED: &[(Instance, Event)] = &[
    (TWO, FenceRefuses),
    (PAGES, PageMoves),
    (LOADED, CopyLoaded),
    (NULLS, NullStored),
    (LOST, SwapAfterLoss),
    (PLAIN, SwapWithoutLease),
    (LEASES, NextGone),
    (SETTLES, SettlingEnds),
];

/// R11: other orders of a rebuild. R5: a filter that is allocated twice under one lease.
const ORDERS: &[(&str, &[Step])] = &[
    ("scan before lease", &[ScanX, Lease, Recent, Upload, Swap]),
    ("no record", &[Lease, ScanX, Upload, Swap]),
    ("record before lease", &[Recent, Lease, ScanX, Upload, Swap]),
    ("outgrown", &[Lease, Recent, ScanX, Outgrown, Upload, Swap]),
    ("outgrown, scanned again", &[Lease, Recent, ScanX, Outgrown, ScanX, Upload, Swap]),
];
const RECORD_LAST: &[Step] = &[Lease, ScanX, Recent, Upload, Swap];

/// All of them.
pub(crate) fn instances() -> Vec<Instance> {
    let expected = Expected::Broken;
    let one = Instance { is_quick: true, rebuilds: [1, 1], expected, ticks: 3, ..BASE };
    let last = Instance { order: RECORD_LAST, drops_early: true, ..one };
    let others = [
        Instance { name: "all old", says: OldAll.says(), faults: &[OldAll], expected, ..ONE_FAULT },
        Instance { name: "record after the scan", expected: Expected::Holds, ..last },
        Instance { name: "record after the scan", without: &[R12AfterScan], ..last },
        Instance { name: "settles too soon", settling: Some((1, 1)), expected, ..SETTLES },
    ];
    let broken =
        BROKEN.iter().map(|(of, without)| Instance { is_quick: true, expected, without, ..*of });
    let reached = REACHED.iter().map(|(of, event)| Instance {
        is_quick: true,
        expected: Expected::Reached(*event),
        ..*of
    });
    let orders = ORDERS.iter().map(|(name, order)| Instance { name, order, ..one });
    HOLD.iter().copied().chain(broken).chain(reached).chain(orders).chain(others).collect()
}
