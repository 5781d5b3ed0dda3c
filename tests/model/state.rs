//! One moment: what Redis holds, what each process knows, and how far each activity is.
//!
//! A number, a token, a nonce or an incarnation of 0 is none.

/// The ids: `x`, and in some instances `y`.
pub(crate) const IDS: [&str; 2] = ["x", "y"];
pub(crate) const PROCESSES: [&str; 2] = ["A", "B"];

/// A set of ids.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Ids(u8);

impl Ids {
    pub(crate) fn only(id: usize) -> Self {
        Self(1 << id)
    }

    pub(crate) fn has(self, id: usize) -> bool {
        self.0 >> id & 1 == 1
    }

    pub(crate) fn add(&mut self, id: usize) {
        self.0 |= 1 << id;
    }

    pub(crate) fn add_all(&mut self, ids: Self) {
        self.0 |= ids.0;
    }

    pub(crate) fn remove(&mut self, id: usize) {
        self.0 &= !(1 << id);
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn and(self, ids: Self) -> Self {
        Self(self.0 & ids.0)
    }

    pub(crate) fn without(self, ids: Self) -> Self {
        Self(self.0 & !ids.0)
    }

    pub(crate) fn first(self) -> &'static str {
        IDS[usize::from(!self.has(0))]
    }
}

impl std::fmt::Display for Ids {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = (0..2).filter(|id| self.has(*id)).map(|id| IDS[id]);
        write!(to, "{{{}}}", names.collect::<Vec<_>>().join(", "))
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Meta {
    pub(crate) incarnation: u8,
    pub(crate) run: u8,
    /// The last number.
    pub(crate) last: u8,
    /// The newest token.
    pub(crate) epoch: u8,
    /// The live filter's token.
    pub(crate) live: u8,
    /// One more than the moment until which inserts may become visible that nobody can repeat.
    pub(crate) unvouched: u8,
    pub(crate) is_settled: bool,
}

/// The record of recent inserts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Recent {
    pub(crate) numbers: [u8; 2],
    pub(crate) times: [u8; 2],
    pub(crate) floor: u8,
    pub(crate) floor_time: u8,
    /// Whether it rose within the incarnation, and does not only mark where that began.
    pub(crate) floor_counts: bool,
}

impl Recent {
    pub(crate) fn greatest(&self) -> u8 {
        self.floor.max(self.numbers[0]).max(self.numbers[1])
    }

    pub(crate) fn raise_floor(&mut self, number: u8, time: u8, counts: bool) {
        (self.floor, self.floor_time, self.floor_counts) = (number, time, counts);
    }
}

/// The live filter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Bits {
    pub(crate) token: u8,
    pub(crate) nonce: u8,
    pub(crate) is_disproved: bool,
    pub(crate) stamp: u8,
    pub(crate) run: u8,
    pub(crate) incarnation: u8,
    pub(crate) ids: Ids,
}

/// The filter that is built.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Next {
    pub(crate) token: u8,
    pub(crate) nonce: u8,
    pub(crate) stamp: u8,
    pub(crate) is_uploaded: bool,
    pub(crate) ids: Ids,
}

/// What a Redis holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Redis {
    pub(crate) meta: Meta,
    pub(crate) recent: Recent,
    pub(crate) bits: Option<Bits>,
    pub(crate) next: Option<Next>,
    /// The nonce of the building filter under lease.
    pub(crate) lease: u8,
    pub(crate) nulls: Ids,
    /// The token of the filter under which they were found.
    pub(crate) nulls_of: u8,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    #[default]
    Idle,
    Executed,
    Acknowledged,
    Committed,
    /// It was not committed within L.
    Over,
}

/// The creation of one id: the insert, and the transaction that commits it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Creation {
    pub(crate) stage: Stage,
    pub(crate) inserts_left: u8,
    pub(crate) executed: u8,
    pub(crate) acknowledged: u8,
    pub(crate) incarnation: u8,
}

impl Creation {
    pub(crate) fn to(&mut self, stage: Stage) {
        *self = Self { stage, inserts_left: self.inserts_left, ..Self::default() };
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct FilterCopy {
    pub(crate) token: u8,
    pub(crate) nonce: u8,
    pub(crate) ids: Ids,
    pub(crate) position: u8,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Rebuild {
    /// Its place in the order of steps.
    pub(crate) at: u8,
    pub(crate) token: u8,
    pub(crate) nonce: u8,
    pub(crate) incarnation: u8,
    pub(crate) leased: u8,
    pub(crate) ids: Ids,
    /// The last number at the lease, and the position that its own filter has as a copy.
    pub(crate) lease_number: u8,
    pub(crate) position: u8,
    /// One more than the moment since which the scan has to wait for L.
    pub(crate) waits_since: u8,
}

/// What was read around a question, by which its answer is believed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Evidence {
    /// How many of its readings were made.
    pub(crate) read: u8,
    pub(crate) incarnation: u8,
    pub(crate) token: u8,
    pub(crate) nonce: u8,
    /// Of the first header, and the metadata.
    pub(crate) stamp: u8,
    pub(crate) last: u8,
}

/// The load of a copy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Load {
    pub(crate) evidence: Evidence,
    pub(crate) pieces: u8,
    pub(crate) ids: Ids,
}

/// A read of the record beyond a copy's position: a fence, or a page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Fence {
    pub(crate) evidence: Evidence,
    pub(crate) id: u8,
    pub(crate) since: u8,
    pub(crate) ids: Ids,
    pub(crate) greatest: u8,
    pub(crate) has_floor: bool,
}

/// A check by id, which found no bits if it goes on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Check {
    pub(crate) evidence: Evidence,
    pub(crate) id: u8,
}

/// A request that passed, and whose handler found no row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Unfound {
    pub(crate) id: u8,
    pub(crate) asked: u8,
    pub(crate) incarnation: u8,
}

/// How often an activity may yet begin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Left {
    pub(crate) rebuilds: u8,
    pub(crate) loads: u8,
    pub(crate) pages: u8,
    pub(crate) nulls: u8,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    pub(crate) is_alive: bool,
    /// Its tasks stand still; an open transaction may commit.
    pub(crate) is_paused: bool,
    pub(crate) is_connected: bool,
    pub(crate) knows_settled: bool,
    /// The process of Redis and the incarnation that it has joined.
    pub(crate) run: u8,
    pub(crate) incarnation: u8,
    /// Own inserts, when they were acknowledged, and those that are to be repeated.
    pub(crate) own: Ids,
    pub(crate) own_times: [u8; 2],
    pub(crate) repeats: Ids,
    /// One more than the time of the youngest own insert that it has forgotten.
    pub(crate) forgotten: u8,
    pub(crate) copy: Option<FilterCopy>,
    pub(crate) rebuild: Option<Rebuild>,
    pub(crate) load: Option<Load>,
    pub(crate) fence: Option<Fence>,
    pub(crate) page: Option<Fence>,
    pub(crate) check: Option<Check>,
    pub(crate) unfound: Option<Unfound>,
    pub(crate) left: Left,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) now: u8,
    /// The rows of the database.
    pub(crate) rows: Ids,
    /// The process of Redis that answers.
    pub(crate) run: u8,
    /// How many of each there were.
    pub(crate) runs: u8,
    pub(crate) incarnations: u8,
    pub(crate) nonces: u8,
    /// The greatest number ever given: Redis's clock is beyond it.
    pub(crate) clock: u8,
    pub(crate) redis: Redis,
    /// An old copy of what Redis held.
    pub(crate) old: Option<Redis>,
    pub(crate) old_left: u8,
    pub(crate) faults_left: u8,
    pub(crate) expiries_left: u8,
    pub(crate) creations: [Creation; 2],
    pub(crate) processes: [Process; 2],
}
