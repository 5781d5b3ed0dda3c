//! What an instance is made of: which activities there are, how often each happens, and what may befall.

use crate::rules::{Rule, Rules, says};
use crate::state::{Bits, Creation, FilterCopy, Left, Process, State};

says! {
    /// What befalls Redis and processes. An old copy is one of what Redis held at any earlier moment.
    enum Fault {
        Restart = "Redis restarts from an old copy, and connections break",
        Empty = "Redis restarts without data, and connections break",
        FlushAll = "FLUSHALL",
        BitsLost = "the live filter is deleted",
        RecentLost = "the record is deleted",
        MetaLost = "the metadata are deleted",
        NextLost = "the building filter is deleted",
        OldBits = "an old copy of the live filter is put back",
        OldRecent = "an old copy of the record is put back",
        OldMeta = "an old copy of the metadata is put back",
        OldNext = "an old copy of the building filter is put back",
        OldAll = "beyond the promise: old copies of all keys are put back under the same process of Redis",
        ReplyLost = "the reply to an insert is lost",
        Death = "A ends, and its open transactions with it",
    }
}

says! {
    /// A step of a rebuild.
    enum Step {
        Lease = "takes the lease, and allocates its filter",
        Recent = "reads the record",
        ScanX = "looks for the row of x",
        ScanY = "looks for the row of y",
        Outgrown = "has outgrown its filter, and allocates it again under the same lease",
        Upload = "uploads what it has found",
        Swap = "swaps",
        Keep = "keeps what it has found as its copy",
    }
}

says! {
    /// What is noteworthy.
    enum Event {
        FalseAbsence = "is ABSENT, but committed",
        FenceRefuses = "a fence is good, and the copy lacks an id that has no row",
        PageMoves = "a page moves a copy's position",
        CopyLoaded = "a copy is loaded",
        NullStored = "a null is stored",
        SwapAfterLoss = "a rebuild swaps in another incarnation than the first",
        SwapWithoutLease = "a rebuild swaps whose lease has expired",
        NextGone = "a leader finds no filter, and gives up",
        SettlingEnds = "settling ends",
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    Holds,
    /// The promise is broken.
    Broken,
    /// It happens, so that what holds elsewhere is not about nothing.
    Reached(Event),
}

/// A piece of what is read for a question. What is asked for are an id's bits, or what the record has beyond a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    Header,
    Asked,
    Metadata,
}

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
    expected: Expected = Expected::Holds,
    without: &'static [Rule] = &[],
    /// Whether each test run searches it.
    is_quick: bool = true,
    ids: usize = 1,
    ticks: u8 = 2,
    /// Whose process inserts each id, how often at most, and whether one call may insert both.
    inserter: [usize; 2] = [0, 0],
    inserts: u8 = 1,
    has_calls_of_two: bool = false,
    /// If set, a transaction begins with the acknowledgement, which counts within so many ticks. Else it began before the insert.
    deadline: Option<u8> = None,
    /// For how many ticks the record and a process keep an insert; whether either may forget it at any age.
    kept: u8 = 2,
    drops_early: bool = false,
    forgets_early: bool = false,
    rebuilds: [u8; 2] = [0, 0],
    order: &'static [Step] = &[Step::Lease, Step::Recent, Step::ScanX, Step::ScanY, Step::Upload, Step::Swap, Step::Keep],
    keeps_copy: bool = false,
    /// How often a lease may expire while its leader works.
    expiries: u8 = 0,
    faults: &'static [Fault] = &[],
    fault_count: u8 = 1,
    /// There is no filter yet; or only no copy of it.
    is_cold: bool = false,
    has_copy: bool = true,
    loads: u8 = 0,
    fences: bool = true,
    checks: bool = true,
    pages: u8 = 0,
    /// How many members of the record one read gives.
    page: usize = usize::MAX,
    nulls: u8 = 0,
    /// As the crate does: checks and fences read no first header, as it is known from before, and a fence is stricter.
    is_header_known: bool = false,
    /// A process that does not insert creates x until the first moment; settling lasts until the second.
    settling: Option<(u8, u8)> = None,
    /// Beyond so many states the search gives up.
    limit: usize = 20_000_000,
}

/// The process at which requests arrive.
pub(crate) const ASKED: usize = 1;
/// The longest transaction, and how long a handler may take, in ticks.
pub(crate) const L: u8 = 1;
pub(crate) const HANDLER: u8 = 1;

/// An instance, its rules, and what is read for a question.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Model {
    pub(crate) of: Instance,
    rules: Rules,
    readings: &'static [Reading],
    load_readings: &'static [Reading],
}

impl Model {
    pub(crate) fn new(of: Instance) -> Self {
        use Reading::{Asked, Header, Metadata};
        let rules = Rules::all_but(of.without);
        let has = |rule| rules.has(rule);
        let full: &[Reading] =
            match (has(Rule::R15Metadata), has(Rule::R15Between), has(Rule::R15SecondHeader)) {
                (true, true, true) => &[Header, Asked, Metadata, Header],
                (false, _, true) => &[Header, Asked, Header],
                (false, _, false) => &[Header, Asked],
                (_, false, _) => &[Metadata, Header, Asked, Header],
                (_, _, false) => &[Header, Asked, Metadata],
            };
        let readings = if of.is_header_known { &[Asked, Metadata, Header] } else { full };
        Self { of, rules, readings, load_readings: full }
    }

    pub(crate) fn has(&self, rule: Rule) -> bool {
        self.rules.has(rule)
    }

    /// What is read for a question; who loads a copy does not know its header.
    pub(crate) fn readings(&self, is_load: bool) -> &'static [Reading] {
        if is_load { self.load_readings } else { self.readings }
    }

    /// L, and the deadline of an insert.
    pub(crate) fn window(&self) -> u8 {
        L + self.of.deadline.unwrap_or(0)
    }

    pub(crate) fn first(&self) -> State {
        let of = &self.of;
        let mut state =
            State { run: 1, runs: 1, incarnations: 1, nonces: 1, clock: 1, ..State::default() };
        state.faults_left = if of.faults.is_empty() { 0 } else { of.fault_count };
        (state.old_left, state.expiries_left) = (u8::from(state.faults_left > 0), of.expiries);
        let (meta, none) = (&mut state.redis.meta, Bits::default());
        (meta.incarnation, meta.run, meta.last, meta.epoch) = (1, 1, 1, 1);
        state.redis.recent.floor = 1;
        let live = (!of.is_cold).then_some(Bits {
            token: 1,
            nonce: 1,
            stamp: 1,
            run: 1,
            incarnation: 1,
            ..none
        });
        meta.live = u8::from(live.is_some());
        let copy =
            live.map(|_| FilterCopy { token: 1, nonce: 1, position: 1, ..FilterCopy::default() });
        state.redis.bits = live;
        state.creations[..of.ids]
            .fill(Creation { inserts_left: of.inserts, ..Creation::default() });
        let rebuilds = |me: usize| Left { rebuilds: of.rebuilds[me], ..Left::default() };
        let process = Process {
            is_alive: true,
            is_connected: true,
            run: 1,
            incarnation: 1,
            ..Process::default()
        };
        let left = Left { loads: of.loads, pages: of.pages, nulls: of.nulls, ..rebuilds(ASKED) };
        let copy = copy.filter(|_| of.has_copy);
        state.processes =
            [Process { left: rebuilds(0), ..process }, Process { left, copy, ..process }];
        state
    }
}

impl Instance {
    /// Its name, what is left out, and what is expected.
    pub(crate) fn title(&self) -> String {
        format!("{} {:?} {:?}", self.name, self.without, self.expected).replace("[] ", "")
    }
}
