//! What an instance is made of: which activities there are, how often each happens, and what may befall.

use crate::rules::{Rule, Rules};
use crate::state::{Bits, Creation, FilterCopy, Left, Process, State};

/// What befalls. The keys are bits, recent (the record), meta and next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Redis restarts from an old copy; connections break.
    Restart,
    /// Redis restarts without data; connections break.
    Empty,
    FlushAll,
    BitsLost,
    RecentLost,
    MetaLost,
    NextLost,
    /// The old copy of one key is put in its place.
    OldBits,
    OldRecent,
    OldMeta,
    OldNext,
    /// Beyond the promise: the old copies of all keys, under the same process of Redis.
    OldAll,
    /// Beyond the promise: open connections lead to another Redis, which holds the old copy.
    OtherRedis,
    /// The reply to an insert is lost.
    ReplyLost,
    /// Process A ends, and its open transactions with it.
    Death,
    /// Process A stands still, for as long as it likes.
    Standstill,
}

/// A step of a rebuild.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Takes the lease, and allocates the filter in one script.
    Lease,
    /// Takes the lease only.
    LeaseOnly,
    Allocate,
    /// Reads the record.
    Recent,
    /// Looks for the row of an id.
    Scan(usize),
    /// The scan fitted into the filter, or outgrew it.
    Fits,
    Upload,
    Swap,
    /// Keeps what it has scanned as its copy.
    Keep,
}

/// The right order, for one id and for two.
pub(crate) const ONE_ID: &[Step] =
    &[Step::Lease, Step::Recent, Step::Scan(0), Step::Upload, Step::Swap, Step::Keep];
pub(crate) const TWO_IDS: &[Step] = &[
    Step::Lease,
    Step::Recent,
    Step::Scan(0),
    Step::Scan(1),
    Step::Upload,
    Step::Swap,
    Step::Keep,
];

/// A piece of what is read for one question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    Header,
    /// What is asked for: an id's bits, or what the record has beyond a position.
    Asked,
    Metadata,
}

/// What is noteworthy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// A committed id is called absent: the promise is broken.
    FalseAbsence,
    /// A fence is good, and says "absent" of an id that has no row.
    FenceRefuses,
    /// A page moves a copy's position.
    PageMoves,
    CopyLoaded,
    NullStored,
    /// A swap in another incarnation than the first.
    SwapAfterLoss,
    SwapWithoutLease,
    /// A leader finds that its filter is gone.
    NextGone,
    SettlingEnds,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    Holds,
    /// The promise is broken.
    Broken,
    /// It happens, so that what holds elsewhere is not about nothing.
    Reached(Event),
}

/// A process that does not insert creates `x` until one moment; settling lasts until another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settling {
    pub(crate) outsider_stops: u8,
    pub(crate) settles: u8,
}

/// What is searched. L is one tick.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Instance {
    pub(crate) name: &'static str,
    pub(crate) says: &'static str,
    pub(crate) expected: Expected,
    pub(crate) without: &'static [Rule],
    /// Whether it is searched in each test run.
    pub(crate) is_quick: bool,
    pub(crate) ids: usize,
    pub(crate) ticks: u8,
    /// For how many ticks the record and a process keep an insert.
    pub(crate) kept: u8,
    /// Whether either may forget at any age.
    pub(crate) drops_early: bool,
    pub(crate) forgets_early: bool,
    /// Whose process inserts each id, and how often at most.
    pub(crate) inserter: [usize; 2],
    pub(crate) inserts: u8,
    /// Whether one call may insert both ids.
    pub(crate) has_calls_of_two: bool,
    /// If set, a transaction begins with the acknowledgement, which counts within so many ticks. Else it began before the insert.
    pub(crate) deadline: Option<u8>,
    pub(crate) rebuilds: [u8; 2],
    pub(crate) order: &'static [Step],
    pub(crate) keeps_copy: bool,
    /// How often a lease may expire while its leader works.
    pub(crate) expiries: u8,
    pub(crate) faults: &'static [Fault],
    pub(crate) fault_count: u8,
    /// There is no filter yet.
    pub(crate) is_cold: bool,
    /// B has a copy from the beginning.
    pub(crate) has_copy: bool,
    pub(crate) loads: u8,
    pub(crate) fences: bool,
    pub(crate) checks: bool,
    pub(crate) pages: u8,
    /// How many members of the record one read gives; 0 is all.
    pub(crate) page: usize,
    pub(crate) nulls: u8,
    /// A check and a fence read no first header, as the crate does: it is known from before.
    pub(crate) is_header_known: bool,
    pub(crate) settling: Option<Settling>,
    /// Beyond so many states the search gives up.
    pub(crate) limit: usize,
}

/// One id that A inserts, a copy at B, and requests at B that are answered by fences and by id.
pub(crate) const BASE: Instance = Instance {
    name: "",
    says: "",
    expected: Expected::Holds,
    without: &[],
    is_quick: true,
    ids: 1,
    ticks: 2,
    kept: 2,
    drops_early: false,
    forgets_early: false,
    inserter: [0, 0],
    inserts: 1,
    has_calls_of_two: false,
    deadline: None,
    rebuilds: [0, 0],
    order: ONE_ID,
    keeps_copy: false,
    expiries: 0,
    faults: &[],
    fault_count: 0,
    is_cold: false,
    has_copy: true,
    loads: 0,
    fences: true,
    checks: true,
    pages: 0,
    page: 0,
    nulls: 0,
    is_header_known: false,
    settling: None,
    limit: 20_000_000,
};

/// The process at which requests arrive.
pub(crate) const ASKED: usize = 1;
/// The longest transaction.
pub(crate) const L: u8 = 1;
/// How long a handler may take.
pub(crate) const HANDLER: u8 = 1;

/// An instance, with its rules at hand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Model {
    pub(crate) of: &'static Instance,
    rules: Rules,
    /// What is read for a question, in order.
    pub(crate) readings: &'static [Reading],
    /// For the load of a copy, which always reads the first header.
    pub(crate) load_readings: &'static [Reading],
}

impl Model {
    pub(crate) fn new(of: &'static Instance) -> Self {
        use Reading::{Asked, Header, Metadata};
        let rules = Rules::all_but(of.without);
        let full: &[Reading] = if !rules.has(Rule::R15Metadata) {
            &[Header, Asked, Header]
        } else if !rules.has(Rule::R15Between) {
            &[Metadata, Header, Asked, Header]
        } else if !rules.has(Rule::R15SecondHeader) {
            &[Header, Asked, Metadata]
        } else {
            &[Header, Asked, Metadata, Header]
        };
        let readings = if of.is_header_known { &[Asked, Metadata, Header] } else { full };
        Self { of, rules, readings, load_readings: full }
    }

    pub(crate) fn has(&self, rule: Rule) -> bool {
        self.rules.has(rule)
    }

    /// L, and the deadline of an insert.
    pub(crate) fn window(&self) -> u8 {
        L + self.of.deadline.unwrap_or(0)
    }

    pub(crate) fn first(&self) -> State {
        let of = self.of;
        let mut state = State {
            run: 1,
            runs: 1,
            incarnations: 1,
            nonces: 1,
            clock: 1,
            old_left: u8::from(of.fault_count > 0),
            faults_left: of.fault_count,
            expiries_left: of.expiries,
            ..State::default()
        };
        let meta = &mut state.redis.meta;
        (meta.incarnation, meta.run, meta.last, meta.epoch) = (1, 1, 1, 1);
        state.redis.recent.floor = 1;
        let (mut live, mut copy) = (None, None);
        if !of.is_cold {
            meta.live = 1;
            let bits =
                Bits { token: 1, nonce: 1, stamp: 1, run: 1, incarnation: 1, ..Bits::default() };
            live = Some(bits);
            copy = Some(FilterCopy { token: 1, nonce: 1, position: 1, ..FilterCopy::default() });
        }
        state.redis.bits = live;
        let creation = Creation { inserts_left: of.inserts, ..Creation::default() };
        state.creations[..of.ids].fill(creation);
        for (me, process) in state.processes.iter_mut().enumerate() {
            let is_asked = me == ASKED;
            let of_asked = |count: u8| if is_asked { count } else { 0 };
            *process = Process {
                is_alive: true,
                is_connected: true,
                run: 1,
                incarnation: 1,
                copy: copy.filter(|_| is_asked && of.has_copy),
                left: Left {
                    rebuilds: of.rebuilds[me],
                    loads: of_asked(of.loads),
                    pages: of_asked(of.pages),
                    nulls: of_asked(of.nulls),
                },
                ..Process::default()
            };
        }
        state
    }
}
