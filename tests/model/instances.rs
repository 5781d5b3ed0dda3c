//! The instances.
use crate::instance::{BASE, Fault::*, Instance, TWO_IDS};
const M: Instance = Instance { fault_count: 1, ids: 2, order: TWO_IDS, rebuilds: [1, 0], ticks: 0, checks: false, ..BASE };
const N: Instance = Instance { fault_count: 2, rebuilds: [0, 1], ticks: 0, checks: false, ..BASE };
pub(crate) const INSTANCES: &[Instance] = &[
    Instance { name: "1", faults: &[Restart], ..M },
    Instance { name: "2", faults: &[FlushAll], ..M },
    Instance { name: "3", faults: &[BitsLost], ..M },
    Instance { name: "4", faults: &[RecentLost], ..M },
    Instance { name: "5", faults: &[MetaLost], ..M },
    Instance { name: "6", faults: &[OldBits], ..M },
    Instance { name: "7", faults: &[OldRecent], ..M },
    Instance { name: "8", faults: &[OldMeta], ..M },
    Instance { name: "9", faults: &[Empty], ..M },
    Instance { name: "10", faults: &[Death], ..M },
    Instance { name: "11", faults: &[Restart, Empty], ..N },
    Instance { name: "12", faults: &[Restart, FlushAll], fences: false, ..N },
    Instance { name: "12", faults: &[Restart, MetaLost], fences: false, ..N },
];
