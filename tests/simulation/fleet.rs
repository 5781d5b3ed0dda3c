//! Programs of the application that do not insert, and for how long they may create rows: while a filter settles, or while
//! no process refuses.

use std::cell::RefCell;

use crate::net;

/// How long it may take until the one knows the mode that the other told, ms.
const TOLD: u64 = 5_000;
/// The longest transaction and the most that a replica lags, in any run, ms: what is created later than so long before the
/// end of settling may be seen too late.
const VISIBLE: u64 = 6_500;

thread_local! {
    static FLEET: RefCell<Fleet> = RefCell::default();
}

#[derive(Default)]
struct Fleet {
    /// For how long new filters settle, ms.
    settle: u64,
    /// Until when strangers may create rows because a filter settles.
    settling: u64,
    /// From when on no process refuses.
    watching: Option<u64>,
    /// Steps that have begun.
    steps: u64,
    /// A milder mode was set, and no step has ended it yet.
    milder: bool,
    /// When a process last began anew, which has to ask Redis for the mode, and when Redis last lost data, which has to be
    /// told it. Of the two only one at a time, or nothing may know the mode any more.
    began_anew: Option<u64>,
    lost: Option<u64>,
}

fn with<T>(see: impl FnOnce(&mut Fleet) -> T) -> T {
    FLEET.with_borrow_mut(see)
}

/// Begins a run: all processes are new, and so is the filter.
pub(crate) fn begin(settle: u64) {
    with(|fleet| {
        *fleet = Fleet { settle, settling: settle.saturating_sub(VISIBLE), ..Fleet::default() }
    });
}

/// Whether a program that does not insert may begin to create a row now.
pub(crate) fn takes_strangers() -> bool {
    let now = net::now_ms();
    with(|fleet| now < fleet.settling || fleet.watching.is_some_and(|from| from <= now))
}

/// All processes have been gone for minutes.
pub(crate) fn came_back() {
    let now = net::now_ms();
    with(|fleet| fleet.settling = now + fleet.settle.saturating_sub(VISIBLE));
}

/// A milder mode is about to be set; returns how many steps have begun.
pub(crate) fn sets_milder() -> u64 {
    with(|fleet| {
        fleet.milder = true;
        fleet.steps
    })
}

/// A milder mode was acknowledged, for which so many steps had begun before. One that has begun since may have ended it.
pub(crate) fn set_milder(steps: u64) {
    // It is acknowledged when all processes follow.
    let from = net::now_ms();
    with(|fleet| {
        if fleet.steps == steps {
            fleet.milder = true;
            fleet.watching.get_or_insert(from);
        }
    });
}

/// The step begins: programs that do not insert are gone.
pub(crate) fn step_begins() {
    with(|fleet| {
        fleet.steps += 1;
        fleet.watching = None;
        fleet.settling = 0;
    });
}

/// The step has ended as it should: no mode is set that a process has to know.
pub(crate) fn stepped() {
    with(|fleet| fleet.milder = fleet.watching.is_some());
}

/// Whether a process may begin anew: it asks Redis for the mode, which has to know it.
pub(crate) fn may_begin_anew() -> bool {
    let now = net::now_ms();
    with(|fleet| {
        let may = !fleet.milder || fleet.lost.is_none_or(|at| at + TOLD <= now);
        if may {
            fleet.began_anew = Some(now);
        }
        may
    })
}

/// Whether Redis may lose data: processes tell it the mode, which all of them have to know.
pub(crate) fn may_lose() -> bool {
    let now = net::now_ms();
    with(|fleet| {
        let all_know = fleet.began_anew.is_none_or(|at| at + TOLD <= now);
        let may = all_know || !fleet.milder;
        if may {
            fleet.lost = Some(now);
        }
        may
    })
}
