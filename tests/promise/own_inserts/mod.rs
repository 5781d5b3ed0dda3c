//! An insert that Redis acknowledged and then lost is not refused when its transaction commits, for as
//! long as the process that made it lives.

mod late;
mod lost;
mod unvouched;

use std::time::Duration;

use bloom_guard::{BloomGuard, Verdict};
use support::model::{Table, get_looked_up, guard, guard_over, live};
use support::{eventually, throughout};

const BITS: &str = "bg:{users}:bits";
const LOG: &str = "bg:{users}:log";
const META: &str = "bg:{users}:meta";
/// The id whose transaction is open while Redis loses it.
const OPEN: u64 = 4_711;
/// How soon after a fault has ended the guard refuses again.
const BACK: Duration = Duration::from_secs(10);

/// A process that rebuilds and one that creates, each with its way to Redis.
async fn rebuilder_and_creator(
    rebuilder: &str,
    creator: &str,
    table: &Table,
) -> (BloomGuard, BloomGuard) {
    let rebuilder = guard_over(rebuilder, table).build().unwrap();
    let creator = guard(creator).build().unwrap();
    live(&rebuilder).await;
    live(&creator).await;
    (rebuilder, creator)
}

/// Waits until a filter of a later generation is trusted.
async fn rebuilt(guard: &BloomGuard, old: i64) {
    eventually("a new filter is trusted", Duration::from_secs(20), || async {
        let verdict = guard.check(&u64::MAX).await.unwrap();
        let state = guard.state();
        let newer = state.live.is_ok_and(|live| live.generation.get() > old);
        match verdict {
            Verdict::Absent(_) if newer => Ok(()),
            other => Err(format!("{other:?}, {:?}, {:?}", guard.state(), guard.rebuild_status())),
        }
    })
    .await;
}

fn generation(guard: &BloomGuard) -> i64 {
    guard.state().live.expect("a live filter").generation.get()
}

/// Neither of the guards refuses the id once it is committed.
async fn never_refused(guards: [&BloomGuard; 2], table: &Table) {
    table.commit(OPEN);
    throughout(Duration::from_secs(2), || async {
        for guard in guards {
            assert_eq!(get_looked_up(guard, table, OPEN).await, 200, "acknowledged, and refused");
        }
    })
    .await;
}
