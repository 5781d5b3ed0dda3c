//! One moment: what Redis holds, what each process knows, and how far each activity is.
//!
//! A number, token, nonce or incarnation of 0 is none.

use std::fmt;

/// The ids and the processes, by their places.
pub(crate) const IDS: [&str; 2] = ["x", "y"];
pub(crate) const PROCESSES: [&str; 2] = ["A", "B"];

/// A set of ids.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Ids(pub(crate) u8);

impl Ids {
    pub(crate) fn has(self, id: usize) -> bool {
        self.0 >> id & 1 == 1
    }

    pub(crate) fn add(&mut self, id: usize) {
        self.0 |= 1 << id;
    }

    pub(crate) fn remove(&mut self, id: usize) {
        self.0 &= !(1 << id);
    }
}

impl fmt::Debug for Ids {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(["-", "x", "y", "xy"][usize::from(self.0)])
    }
}

/// Plain values.
macro_rules! plain {
    ($($(#[$doc:meta])* struct $name:ident { $($field:ident: $kind:ty),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
        pub(crate) struct $name { $(pub(crate) $field: $kind),* }
    )*};
}

plain! {
    /// `last` is the last number, `epoch` the newest token, `live` the live filter's; `unvouched` one more than the
    /// moment until which inserts may become visible that nobody can repeat.
    struct Meta { incarnation: u8, run: u8, last: u8, epoch: u8, live: u8, unvouched: u8, is_settled: bool }
    /// The record of recent inserts. A floor counts that rose within the incarnation, and does not only mark where
    /// that began.
    struct Recent { numbers: [u8; 2], times: [u8; 2], floor: u8, floor_time: u8, floor_counts: bool }
    /// The live filter, the one that is built, or a copy. A copy has all inserts up to its stamp, its position.
    struct Filter {
        token: u8, nonce: u8, incarnation: u8, stamp: u8, ids: Ids, is_uploaded: bool, is_disproved: bool,
    }
    /// A Redis. `lease` is the nonce of the filter that is built under it, `nulls_of` the token of the one that was
    /// live at the nulls.
    struct Redis {
        meta: Meta, recent: Recent, bits: Option<Filter>, next: Option<Filter>, lease: u8, nulls: Ids, nulls_of: u8,
    }
    /// The creation of one id: the insert, and the transaction that commits it.
    struct Creation { stage: Stage, inserts_left: u8, begun: u8, incarnation: u8 }
    /// `at` is its place in the order of steps, `own` what it found so far, `leased` when, and
    /// `waits_until` until when its scan has to wait.
    struct Rebuild { at: u8, own: Filter, leased: u8, waits_until: u8 }
    /// A question about a filter: how many of its readings were made, and what they gave. `last` is the metadata's
    /// last number; `greatest` and `has_floor` are of the record beyond `since`.
    struct Question {
        kind: Kind, read: u8, of: Filter, last: u8, id: u8, since: u8, greatest: u8, has_floor: bool,
    }
    /// A request that passed, and whose handler found no row.
    struct Unfound { id: u8, asked: u8, incarnation: u8 }
    /// `own` are inserts that were acknowledged, `repeats` those it has to repeat, `forgotten` is one more than the
    /// time of the youngest that it has forgotten. The last four say how often an activity may yet begin.
    struct Process {
        is_connected: bool, knows_settled: bool, incarnation: u8,
        own: Ids, own_times: [u8; 2], repeats: Ids, forgotten: u8, copy: Option<Filter>,
        rebuild: Option<Rebuild>, questions: [Option<Question>; 4], unfound: Option<Unfound>,
        rebuilds: u8, loads: u8, pages: u8, nulls: u8,
    }
    /// `rows` are in the database; `run` is the process of Redis that answers; `incarnations` and `nonces` say how
    /// many there were; Redis's clock is beyond `clock`. `old` is an old copy of what Redis held.
    struct State {
        now: u8, rows: Ids, run: u8, incarnations: u8, nonces: u8, clock: u8, redis: Redis, old: Option<Redis>,
        faults_left: u8, expiries_left: u8, creations: [Creation; 2], processes: [Process; 2],
    }
}

/// Choices, of which the first is the default.
macro_rules! choices {
    ($($(#[$doc:meta])* enum $name:ident { $first:ident $(, $other:ident)* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
        pub(crate) enum $name { #[default] $first $(, $other)* }

        impl From<$name> for &'static str {
            fn from(of: $name) -> Self {
                match of { $name::$first => stringify!($first) $(, $name::$other => stringify!($other))* }
            }
        }
    )*};
}

choices! {
    /// How far a creation is. It is over when it is committed, or never will be.
    enum Stage { Idle, Executed, Acknowledged, Over }
    /// What is asked. Each process has one of a kind under way at most.
    enum Kind { Fence, Page, Check, Load }
    /// A piece of what is read for a question. What is asked for are an id's bits, all bits, or the record.
    enum Reading { Asked, Metadata, Header }
    /// A step of a rebuild. A filter that is outgrown is made anew, as it must not be.
    enum Step { Lease, Recent, Scan, Outgrown, Upload, Swap, Keep }
    /// What befalls Redis, a reply, or the process A. Redis restarts with an old copy of what it held, or empty, and
    /// connections break. `OldAll` is beyond the promise: that is put back under the same process of Redis.
    enum Fault {
        Restart, Empty, FlushAll, BitsLost, RecentLost, MetaLost, NextLost,
        OldBits, OldRecent, OldMeta, OldNext, OldAll, ReplyLost, Death,
    }
}

impl Creation {
    pub(crate) fn to(&mut self, stage: Stage) {
        *self = Self { stage, inserts_left: self.inserts_left, ..Self::default() };
    }
}

impl Recent {
    pub(crate) fn greatest(&self) -> u8 {
        self.floor.max(self.numbers[0]).max(self.numbers[1])
    }

    pub(crate) fn raise_floor(&mut self, number: u8, time: u8, counts: bool) {
        (self.floor, self.floor_time, self.floor_counts) = (number, time, counts);
    }
}

impl Redis {
    /// What it holds, for a trace.
    pub(crate) fn facts(&self) -> String {
        let Meta { incarnation, last, .. } = self.meta;
        let Recent { numbers: [x, y], floor, .. } = self.recent;
        let says = |of: Filter| format!("#{} {:?} at {}", of.token, of.ids, of.stamp);
        let live = self.bits.filter(|bits| !bits.is_disproved).map_or("-".to_owned(), says);
        let next = self.next.map_or("-".to_owned(), says);
        format!(
            "in {incarnation}: last {last}, x {x}, y {y}, floor {floor}, live {live}, next {next}"
        )
    }
}
