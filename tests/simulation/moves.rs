//! A move from one filter to another: which version of the program each process runs, and what the guide lets happen when.
//!
//! | version | has | may begin |
//! |---|---|---|
//! | `Old` | the former filter | until a hand-over is called; and while the former says that it was left, when it creates nothing |
//! | `Moving` | both | at any time |
//! | `New` | the new one | when a hand-over has returned, and the former says that it was left |

use std::cell::RefCell;
use std::collections::BTreeSet;

use crate::BloomGuard;
use crate::model::keyspace::{Bytes, Value};
use crate::model::node::Node;
use crate::plan::{Flavour, Former};
use crate::{net, oracle, shards};

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
    /// Processes that have inserted since, and so know of it.
    aware: BTreeSet<usize>,
    /// Counts what has befallen Redis, and when the last did, ms since the run began.
    befallen: u64,
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
    with(|moves| {
        moves.versions[instance] = version;
        moves.aware.remove(&instance);
    });
}

/// A process has begun anew.
pub(crate) fn began_anew(instance: usize) {
    with(|moves| moves.aware.remove(&instance));
}

/// Whether a transaction goes on when its process ends.
pub(crate) fn outlives() -> bool {
    with(|moves| moves.outlive)
}

/// Whether the former filter says in all its shards that it was left.
pub(crate) fn is_left() -> bool {
    let Some(site) = with(|moves| moves.former.map(|former| former.site())) else { return false };
    net::with(|net| {
        let node = net.primaries[site];
        let mut bits = shards::of_former().map(|shard| format!("{}bits", shards::prefix(shard)));
        bits.all(|bits| says_left(&mut net.nodes[node], bits.as_bytes()))
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
        (Version::Moving, Version::New) => handed_over && is_left(),
        _ => false,
    }
}

/// Whether all processes run one of these.
pub(crate) fn all_run(versions: &[Version]) -> bool {
    with(|moves| moves.versions.iter().all(|version| versions.contains(version)))
}

/// Whether the former filter has to stay as it is: some do not insert into both, and others may go by it.
pub(crate) fn keeps_former(site: usize, befalls: &[u32]) -> bool {
    with(|moves| {
        let has = |version| moves.versions.contains(&version);
        let is_mixed =
            has(Version::Old) && moves.called || has(Version::New) && has(Version::Moving);
        let is_there = moves.former.is_some_and(|former| former.site() == site);
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
    with(|moves| (moves.befallen, moves.befell) = (moves.befallen + 1, now));
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
    oracle::note(|findings| findings.handed_over += 1);
    true
}

/// An insert that is under way.
pub(crate) struct Insert {
    instance: usize,
    was_left: bool,
    befallen: u64,
}

/// A process is about to insert.
pub(crate) fn insert(instance: usize) -> Option<Insert> {
    let (is_watched, befallen) = with(|moves| {
        (moves.handed_over && moves.versions[instance] == Version::Moving, moves.befallen)
    });
    is_watched.then(|| Insert { instance, was_left: is_left(), befallen })
}

impl Insert {
    /// It was acknowledged: the former filter says that it was left, whatever had befallen it before. The process knows of
    /// that, if it has inserted before.
    pub(crate) fn acknowledged(self) {
        let is_left = is_left();
        let befallen = with(|moves| moves.befallen);
        let knows = with(|moves| moves.aware.contains(&self.instance));
        if knows && !self.was_left && !is_left && befallen == self.befallen {
            let instance = self.instance;
            oracle::violated(format!(
                "instance {instance} does not write anew that a filter was left"
            ));
        }
        if self.was_left {
            with(|moves| moves.aware.insert(self.instance));
        }
    }
}
