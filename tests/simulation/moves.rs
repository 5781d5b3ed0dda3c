//! A move from one filter to another: which version of the program each process runs, and what the guide lets happen when.
//!
//! | version | has | may begin |
//! |---|---|---|
//! | `Old` | the former filter | until a hand-over is called; and while the former says that it was left, when it creates nothing |
//! | `Moving` | both | at any time |
//! | `New` | the new one | when a hand-over has returned |

use std::cell::RefCell;
use std::collections::BTreeSet;

use crate::BloomGuard;
use crate::model::keyspace::{Bytes, Value};
use crate::model::node::Node;
use crate::plan::{Flavour, Former};
use crate::{cluster, net, oracle, shards};

/// What a filter begins with that was left for another one.
const LEFT: &[u8] = b"BLMGUARD\xff\xff";

/// How late a hand-over's last step can be answered, ms.
const LATE: u64 = 2_000;

thread_local! {
    static MOVES: RefCell<Moves> = RefCell::default();
}

/// What a process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    Old,
    Moving,
    New,
}

#[derive(Default)]
struct Moves {
    former: Option<Former>,
    /// Whether transactions go on whose process has ended: where Redis loses nothing.
    outlive: bool,
    versions: Vec<Version>,
    /// A hand-over was called, and one has returned.
    called: bool,
    handed_over: bool,
    /// The processes of Redis with which the run began, and the metadata that were there.
    first: Vec<u64>,
    made: BTreeSet<(u64, Bytes)>,
    /// When something befell Redis last, ms since the run began.
    befell: u64,
}

fn with<T>(see: impl FnOnce(&mut Moves) -> T) -> T {
    MOVES.with_borrow_mut(see)
}

/// Begins a run with so many processes.
pub(crate) fn begin(former: Option<Former>, flavour: Flavour, processes: usize) {
    let first = if former.is_some() { Version::Old } else { Version::New };
    let outlive =
        former.is_some() && matches!(flavour, Flavour::Calm | Flavour::Lossy | Flavour::Zombies);
    let versions = vec![first; processes];
    with(|moves| *moves = Moves { former, outlive, versions, ..Moves::default() });
}

/// The filter that the guard moves away from.
pub(crate) fn former() -> Option<Former> {
    with(|moves| moves.former)
}

/// What a process runs.
pub(crate) fn version(instance: usize) -> Version {
    with(|moves| moves.versions[instance])
}

/// From now on, a process runs another version.
pub(crate) fn run(instance: usize, version: Version) {
    with(|moves| moves.versions[instance] = version);
}

/// Whether a transaction goes on when its process ends.
pub(crate) fn outlives() -> bool {
    with(|moves| moves.outlive)
}

/// Whether the former filter says in all its shards that it was left.
pub(crate) fn is_left() -> bool {
    let Some(site) = with(|moves| moves.former.map(|former| former.site())) else { return false };
    net::with(|net| {
        shards::of_former().all(|shard| {
            let at = if cluster::is() { cluster::site_of(net, shard) } else { site };
            let (node, bits) = (net.primaries[at], format!("{}bits", shards::prefix(shard)));
            says_left(&mut net.nodes[node], bits.as_bytes())
        })
    })
}

/// Whether a live filter's key says that it was left.
pub(crate) fn says_left(node: &mut Node, bits: &[u8]) -> bool {
    matches!(node.keys.get(bits), Some(Value::Text(text)) if text.starts_with(LEFT))
}

/// Whether a process may begin that runs this version instead of its own.
pub(crate) fn may_run(instance: usize, version: Version) -> bool {
    let (from, called, handed_over) =
        with(|moves| (moves.versions[instance], moves.called, moves.handed_over));
    match (from, version) {
        (Version::Old, Version::Moving) => true,
        (Version::Moving, Version::Old) => !called || handed_over && is_left(),
        (Version::Moving, Version::New) => handed_over,
        _ => false,
    }
}

/// Whether all processes run one of these.
pub(crate) fn all_run(versions: &[Version]) -> bool {
    with(|moves| moves.versions.iter().all(|version| versions.contains(version)))
}

/// Whether the former filter's keys may be deleted: nothing hangs on them once it was left.
pub(crate) fn may_drop_former() -> bool {
    with(|moves| moves.handed_over) && all_run(&[Version::Moving, Version::New])
}

/// Whether the former filter has to stay as it is: processes may go by it that know no other.
pub(crate) fn keeps_former(site: usize, befalls: &[u32]) -> bool {
    with(|moves| {
        let is_mixed = moves.called && moves.versions.contains(&Version::Old);
        let is_there = moves.former.is_some_and(|former| cluster::is() || former.site() == site);
        is_mixed && is_there && befalls.iter().any(|shard| shards::of_former().contains(shard))
    })
}

/// A process joins a filter's metadata, which are there or not: says whether they are made for the first time, in a run that
/// moves.
pub(crate) fn are_new(node: u64, meta: &[u8], are_there: bool) -> bool {
    with(|moves| {
        if are_there {
            moves.made.insert((node, meta.to_vec()));
        }
        moves.former.is_some()
            && moves.first.contains(&node)
            && !moves.made.contains(&(node, meta.to_vec()))
    })
}

/// The processes of Redis with which a run begins.
pub(crate) fn begin_on(nodes: &[Node]) {
    with(|moves| moves.first = nodes.iter().map(|node| node.run_id).collect());
}

/// Something befalls Redis.
pub(crate) fn befallen() {
    let now = net::now_ms();
    with(|moves| moves.befell = now);
}

/// Calls a hand-over, if the last process is gone that does not know both filters.
pub(crate) async fn hand_over(guard: BloomGuard, instance: usize) -> bool {
    if version(instance) != Version::Moving || !all_run(&[Version::Moving, Version::New]) {
        return false;
    }
    with(|moves| moves.called = true);
    crate::fleet::step_begins();
    let ended = guard.hand_over().await;
    crate::trace::line(|| format!("{:>6} the hand-over: {ended:?}", net::now_ms()));
    let is_left = is_left();
    // What is lost after the last step is beyond that call.
    let is_lost = !is_left && net::now_ms() < with(|moves| moves.befell) + LATE;
    if ended.is_err() || is_lost {
        return false;
    }
    if !is_left {
        let now = net::now_ms();
        oracle::violated(format!("{now} ms: a hand-over has returned, and the filter is not left"));
    }
    with(|moves| moves.handed_over = true);
    crate::fleet::handed_over();
    oracle::note(|findings| findings.handed_over += 1);
    true
}
