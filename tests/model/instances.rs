//! The instances.
use crate::instance::{BASE, Fault, Fault::*, Instance, Step};
const IN: &[Fault] =
    &[Restart, FlushAll, BitsLost, RecentLost, MetaLost, OldBits, OldRecent, OldMeta];
const INE: &[Fault] =
    &[Restart, FlushAll, BitsLost, RecentLost, MetaLost, OldBits, OldRecent, OldMeta, Empty];
const INED: &[Fault] =
    &[Restart, FlushAll, BitsLost, RecentLost, MetaLost, OldBits, OldRecent, OldMeta, Empty, Death];
const LOSSD: &[Fault] =
    &[Restart, FlushAll, BitsLost, RecentLost, MetaLost, Empty, ReplyLost, Death];
const F1: Instance =
    Instance { fault_count: 1, rebuilds: [1, 0], keeps_copy: true, loads: 1, inserts: 2, ..BASE };
pub(crate) const INSTANCES: &[Instance] = &[
    Instance { name: "ok.1", rebuilds: [1, 1], keeps_copy: true, loads: 1, expiries: 1, ..BASE },
    Instance {
        name: "ok.2",
        ids: 2,
        inserter: [0, 1],
        rebuilds: [0, 1],
        keeps_copy: true,
        loads: 1,
        ..BASE
    },
    Instance {
        name: "early",
        ids: 2,
        rebuilds: [0, 1],
        keeps_copy: true,
        loads: 1,
        ticks: 1,
        drops_early: true,
        ..BASE
    },
    Instance {
        name: "deadline",
        deadline: Some(1),
        rebuilds: [1, 1],
        ticks: 4,
        kept: 4,
        keeps_copy: true,
        loads: 1,
        ..BASE
    },
    Instance { name: "f.restart", faults: &[Restart], ..F1 },
    Instance { name: "f.empty", faults: &[Empty], ..F1 },
    Instance { name: "f.flush", faults: &[FlushAll], ..F1 },
    Instance { name: "f.bits", faults: &[BitsLost], ..F1 },
    Instance { name: "f.recent", faults: &[RecentLost], ..F1 },
    Instance { name: "f.meta", faults: &[MetaLost], ..F1 },
    Instance { name: "f.next", faults: &[NextLost], ..F1 },
    Instance { name: "f.oldbits", faults: &[OldBits], ..F1 },
    Instance { name: "f.oldrecent", faults: &[OldRecent], ..F1 },
    Instance { name: "f.oldmeta", faults: &[OldMeta], ..F1 },
    Instance { name: "f.oldnext", faults: &[OldNext], ..F1 },
    Instance { name: "f.reply", faults: &[ReplyLost], ..F1 },
    Instance { name: "f.death", faults: &[Death], ..F1 },
    Instance {
        name: "any.two",
        faults: INED,
        fault_count: 1,
        ids: 2,
        rebuilds: [1, 0],
        ticks: 0,
        ..BASE
    },
    Instance {
        name: "any.both",
        faults: INE,
        fault_count: 1,
        rebuilds: [1, 1],
        keeps_copy: true,
        loads: 1,
        ticks: 0,
        ..BASE
    },
    Instance { name: "any.norebuild", faults: IN, fault_count: 1, ids: 2, ticks: 0, ..BASE },
    Instance {
        name: "loss.two",
        faults: LOSSD,
        fault_count: 2,
        rebuilds: [0, 1],
        keeps_copy: true,
        checks: false,
        ..BASE
    },
    Instance {
        name: "loss.inserter",
        faults: LOSSD,
        fault_count: 2,
        rebuilds: [1, 0],
        ticks: 1,
        inserts: 2,
        ..BASE
    },
    Instance {
        name: "ticks.three",
        faults: &[Restart, Empty, FlushAll, RecentLost, MetaLost, Death],
        fault_count: 2,
        rebuilds: [0, 1],
        ticks: 3,
        fences: false,
        ..BASE
    },
    Instance { name: "lease", expiries: 1, rebuilds: [1, 1], keeps_copy: true, loads: 1, ..BASE },
    Instance { name: "null", nulls: 1, fences: false, checks: false, ticks: 5, inserts: 2, ..BASE },
    Instance {
        name: "null.fault",
        nulls: 1,
        fences: false,
        checks: false,
        ticks: 3,
        inserts: 2,
        faults: INED,
        fault_count: 1,
        rebuilds: [1, 0],
        ..BASE
    },
    Instance {
        name: "settle",
        is_cold: true,
        settling: Some((1, 2)),
        rebuilds: [1, 2],
        keeps_copy: true,
        ticks: 5,
        ..BASE
    },
    Instance {
        name: "settle.fault",
        is_cold: true,
        settling: Some((0, 1)),
        rebuilds: [0, 2],
        keeps_copy: true,
        ticks: 3,
        fences: false,
        faults: &[Empty, FlushAll, Restart, MetaLost, BitsLost, RecentLost],
        fault_count: 1,
        ..BASE
    },
];
