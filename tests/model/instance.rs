//! What an instance is made of: which activities there are, how often each happens, and what may befall.

use crate::rules::{Rule, Rule::*};
use crate::state::Reading::{self, Asked, Header, Metadata};
use crate::state::{Fault, Filter, Meta, Process, Recent, Redis, State, Step};

/// What an instance is expected to end with: a step that says this, or that no step breaks the promise.
pub(crate) const HOLDS: &str = "holds";
pub(crate) const ABSENT: &str = "is ABSENT, but committed";

/// The settings, each with what it is where an instance does not say.
macro_rules! settings {
    ($($(#[$doc:meta])* $field:ident: $kind:ty = $value:expr,)*) => {
        /// What is searched.
        #[derive(Debug, Clone, Copy)]
        pub(crate) struct Instance { $($(#[$doc])* pub(crate) $field: $kind),* }

        /// One id that A inserts, a copy at B, and requests at B that are answered by fences and by id.
        pub(crate) const BASE: Instance = Instance { $($field: $value),* };
    };
}

settings! {
    name: &'static str = "",
    says: &'static str = "",
    expected: &'static str = HOLDS,
    without: &'static [Rule] = &[],
    /// Whether each test run searches it.
    is_quick: bool = true,
    ids: usize = 1,
    ticks: u8 = 2,
    /// Whose process inserts each id, how often at most, and whether one call may insert both.
    inserter: [usize; 2] = [0, 0],
    inserts: u8 = 1,
    has_calls_of_two: bool = false,
    /// If set, a transaction begins with its acknowledgement, which counts for so many ticks; else before the insert.
    deadline: u8 = 0,
    /// For how many ticks the record and a process keep an insert; whether either may forget it at any age.
    kept: u8 = 2,
    drops_early: bool = false,
    forgets_early: bool = false,
    rebuilds: [u8; 2] = [0, 0],
    order: &'static [Step] = &[Step::Lease, Step::Recent, Step::Scan, Step::Upload, Step::Swap],
    /// How often a lease may expire while its leader works.
    expiries: u8 = 0,
    faults: &'static [Fault] = &[],
    fault_count: u8 = 1,
    has_copy: bool = true,
    loads: u8 = 0,
    fences: bool = true,
    checks: bool = true,
    pages: u8 = 0,
    /// How many members of the record one read gives.
    page: usize = usize::MAX,
    nulls: u8 = 0,
    /// Another process creates x until the first moment, and inserts nothing; a new filter settles until the second.
    settling: Option<(u8, u8)> = None,
}

/// The process at which requests arrive.
pub(crate) const ASKED: usize = 1;
/// The longest transaction, and how long a handler may take, in ticks.
pub(crate) const L: u8 = 1;
pub(crate) const HANDLER: u8 = 1;

impl Instance {
    pub(crate) fn title(&self) -> String {
        format!("{} {:?}: {}", self.name, self.without, self.expected).replace(" []", "")
    }

    pub(crate) fn has(&self, rule: Rule) -> bool {
        !self.without.contains(&rule)
    }

    /// What is read for a question. The header is known from before; who loads a copy has read it first.
    pub(crate) fn readings(&self) -> &'static [Reading] {
        match (self.has(R15Metadata), self.has(R15Between), self.has(R15SecondHeader)) {
            (true, true, true) => &[Asked, Metadata, Header],
            (false, _, true) => &[Asked, Header],
            (false, _, false) => &[Asked],
            (_, false, _) => &[Metadata, Asked, Header],
            (_, _, false) => &[Asked, Metadata],
        }
    }

    /// How long an insert may be without a row.
    pub(crate) fn window(&self) -> u8 {
        L + self.deadline
    }

    pub(crate) fn first(&self) -> State {
        let filter = Filter { token: 1, nonce: 1, incarnation: 1, stamp: 1, ..Filter::default() };
        let bits = self.settling.is_none().then_some(filter);
        let live = u8::from(bits.is_some());
        let meta = Meta { incarnation: 1, run: 1, last: 1, epoch: 1, live, ..Meta::default() };
        let recent = Recent { floor: 1, ..Recent::default() };
        let mut state = State { run: 1, incarnations: 1, nonces: 1, clock: 1, ..State::default() };
        state.redis = Redis { meta, recent, bits, ..Redis::default() };
        state.faults_left = if self.faults.is_empty() { 0 } else { self.fault_count };
        state.expiries_left = self.expiries;
        for creation in &mut state.creations[..self.ids] {
            creation.inserts_left = self.inserts;
        }
        let new = Process { is_connected: true, incarnation: 1, ..Process::default() };
        state.processes = self.rebuilds.map(|rebuilds| Process { rebuilds, ..new });
        let asked = &mut state.processes[ASKED];
        asked.copy = bits.filter(|_| self.has_copy);
        (asked.loads, asked.pages, asked.nulls) = (self.loads, self.pages, self.nulls);
        state
    }
}
