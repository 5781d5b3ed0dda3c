//! What befalls Redis.

use std::cell::{Cell, RefCell};

use crate::database;
use crate::fleet;
use crate::model::keyspace::{Keyspace, Slot, Value};
use crate::model::node::Node;
use crate::model::reply::Reply;
use crate::net::{self, Net};
use crate::plan::{Mishap, OPEN_TRANSACTIONS_OUTLIVE_LOSSES};

/// How long processes have to say their inserts again, ms.
const SAID_AGAIN: u64 = 5_000;

/// How long processes may take to notice that data have gone back in time: until their next polls, ms.
const NOTICED: u64 = 2_000;

/// Keys by their parts of the name, and what each held.
type Aside = Vec<(&'static str, Option<Slot>)>;

thread_local! {
    /// When Redis's data last went back in time.
    static REWOUND: Cell<Option<u64>> = const { Cell::new(None) };
    /// When Redis last began a new life, ms since the run began.
    static FORGOT: Cell<Option<u64>> = const { Cell::new(None) };
    /// The last dump, which is also how far a stalled replica has come.
    static DUMP: RefCell<Option<Keyspace>> = const { RefCell::new(None) };
    /// The process that the name led to before it went astray.
    static HOME: Cell<Option<usize>> = const { Cell::new(None) };
    /// The keys that lie aside.
    static ASIDE: RefCell<Option<Aside>> = const { RefCell::new(None) };
}

/// Begins a run.
pub(crate) fn begin() {
    DUMP.set(None);
    ASIDE.take();
    HOME.set(None);
    FORGOT.set(None);
    REWOUND.set(None);
}

/// Whether Redis's data have gone back in time so lately that a process need not have noticed.
pub(crate) fn rewound_lately() -> bool {
    REWOUND.get().is_some_and(|at| net::now_ms() < at + NOTICED)
}

/// Lets it happen.
pub(crate) fn befall(mishap: &Mishap) {
    if mishap.loses_the_mode() && !fleet::may_lose() {
        return;
    }
    if mishap.loses_inserts() && !OPEN_TRANSACTIONS_OUTLIVE_LOSSES {
        database::roll_back_all();
    }
    let rewinds = matches!(mishap, Mishap::Rewind | Mishap::Swap(_));
    let elsewhere = matches!(
        mishap,
        Mishap::Restart { .. } | Mishap::FailOver { .. } | Mishap::Astray { .. } | Mishap::Back
    );
    if rewinds || elsewhere {
        FORGOT.set(Some(net::now_ms()));
    }
    if rewinds {
        REWOUND.set(Some(net::now_ms()));
    }
    // Nobody says anything again while Redis stands still.
    if let (true, &Mishap::StandStill(for_ms)) = (forgot_lately(), mishap) {
        FORGOT.set(Some(net::now_ms() + for_ms));
    }
    net::with(|net| match *mishap {
        Mishap::Restart { from_dump, loading } => restart(net, from_dump, loading),
        Mishap::FailOver { from_dump, old_stays } => fail_over(net, from_dump, old_stays),
        Mishap::Astray { from_dump } => go_astray(net, from_dump),
        Mishap::Back => go_back(net),
        Mishap::Dump => DUMP.set(Some(primary(net).keys.clone())),
        Mishap::Rewind => {
            if let Some(dump) = DUMP.with_borrow(Clone::clone) {
                primary(net).keys = dump;
            }
        }
        Mishap::Clock(by) => net.clock_skew_us += by * 1000,
        Mishap::FlushAll => operate(net, &[b"FLUSHALL"]),
        Mishap::Swap(ref parts) => put_aside_or_back(primary(net), parts),
        Mishap::Delete(ref parts) => {
            for part in parts {
                operate(net, &[b"DEL", &key(part)]);
            }
        }
        Mishap::Trim(len) => {
            operate(net, &[b"XTRIM", &key("log"), b"MAXLEN", len.to_string().as_bytes()]);
        }
        Mishap::Expire(part, life) => {
            operate(net, &[b"PEXPIRE", &key(part), life.to_string().as_bytes()]);
        }
        Mishap::CutShort(part) => cut_short(net, &key(part)),
        Mishap::FlushScripts => operate(net, &[b"SCRIPT", b"FLUSH"]),
        Mishap::Room(more) => {
            let node = primary(net);
            node.limit = more.map(|more| node.keys.bytes() + more as usize);
        }
        Mishap::Misconfigured(is) => primary(net).misconfigured = is,
        Mishap::Lonely(is) => primary(net).lonely = is,
        Mishap::Loading(for_ms) => primary(net).loading_until = net.now_ms() + for_ms,
        Mishap::StandStill(for_ms) => primary(net).still_until = net.now_ms() + for_ms,
    });
}

/// Looks at an enrolment that is about to make the metadata anew.
pub(crate) fn watch(node: &mut Node, name: &str, now_ms: u64) {
    if name != "join.lua" || node.keys.run(&[b"HGET", &key("meta"), b"inc"]) != Reply::Nil {
        return;
    }
    FORGOT.set(Some(now_ms));
    // Where no journal is left either, what it held is forgotten.
    if !OPEN_TRANSACTIONS_OUTLIVE_LOSSES && node.keys.stream_len(&key("log")) == 0 {
        database::roll_back_all();
    }
}

/// Whether Redis has forgotten inserts so lately that their processes may have to say them again yet.
pub(crate) fn forgot_lately() -> bool {
    FORGOT.get().is_some_and(|at| net::now_ms() < at + SAID_AGAIN)
}

pub(crate) fn key(part: &str) -> Vec<u8> {
    format!("bg:{{sim}}:{part}").into_bytes()
}

fn primary(net: &mut Net) -> &mut Node {
    let primary = net.primary;
    &mut net.nodes[primary]
}

/// Runs an operator's command.
fn operate(net: &mut Net, words: &[&[u8]]) {
    let (run_ms, clock_us) = (net.now_ms(), net.clock_us());
    primary(net).execute(words, run_ms, clock_us);
}

/// What a process finds that starts from the last dump, or from none.
fn found(net: &Net, from_dump: bool) -> Keyspace {
    let node_entries = net.nodes[net.primary].keys.node_entries;
    let dump = DUMP.with_borrow(|dump| dump.clone().filter(|_| from_dump));
    dump.unwrap_or_else(|| Keyspace::new(node_entries))
}

/// Puts keys aside; or, where some lie aside, puts those back in the place of what is there by now.
fn put_aside_or_back(node: &mut Node, parts: &[&'static str]) {
    let Some(aside) = ASIDE.take() else {
        let aside = parts.iter().map(|part| (*part, node.keys.take(&key(part)))).collect();
        ASIDE.set(Some(aside));
        return;
    };
    for (part, slot) in aside {
        node.keys.put_back(&key(part), slot);
    }
}

/// Executes something while the live filter is put aside.
pub(crate) fn without_filter<T>(node: &mut Node, execute: impl FnOnce(&mut Node) -> T) -> T {
    let bits = key("bits");
    let slot = node.keys.take(&bits);
    let result = execute(node);
    node.keys.put_back(&bits, slot);
    result
}

/// Cuts a string's second half off.
fn cut_short(net: &mut Net, key: &[u8]) {
    let Some(Value::Text(text)) = primary(net).keys.get(key) else { return };
    let half = text[..text.len() / 2].to_vec();
    operate(net, &[b"SET", key, &half]);
}

fn restart(net: &mut Net, from_dump: bool, loading: u64) {
    ASIDE.take();
    HOME.take();
    let keys = found(net, from_dump);
    let (run_id, history) = (net.rng.next(), net.rng.next());
    let primary = net.primary;
    let mut node = Node::start(net.nodes[primary].version, run_id, history, keys);
    node.loading_until = net.now_ms() + loading;
    net.nodes[primary] = node;
    net.break_node(primary);
}

/// Another process answers, and the old one lives on by itself.
fn go_astray(net: &mut Net, from_dump: bool) {
    let old = net.primary;
    if HOME.get().is_some() {
        return;
    }
    ASIDE.take();
    let keys = if from_dump { found(net, true) } else { net.nodes[old].keys.clone() };
    let (run_id, history) = (net.rng.next(), net.rng.next());
    let node = Node::start(net.nodes[old].version, run_id, history, keys);
    net.nodes.push(node);
    net.primary = net.nodes.len() - 1;
    net.break_node(old);
    HOME.set(Some(old));
}

/// The old process answers again, with what it had.
fn go_back(net: &mut Net) {
    if let Some(home) = HOME.take() {
        let other = net.primary;
        net.primary = home;
        net.break_node(other);
        net.nodes[other].run_id = 0;
    }
}

/// A replica takes over, with all there is or as far as it had come when its link stalled.
fn fail_over(net: &mut Net, from_dump: bool, old_stays: bool) {
    ASIDE.take();
    HOME.take();
    let old = net.primary;
    let keys = if from_dump { found(net, true) } else { net.nodes[old].keys.clone() };
    let (run_id, history) = (net.rng.next(), net.rng.next());
    let node = Node::start(net.nodes[old].version, run_id, history, keys);
    net.nodes.push(node);
    net.primary = net.nodes.len() - 1;
    if old_stays {
        // Demoted: its connections stay open, and what it holds grows old.
        net.nodes[old].replica = true;
        net.nodes[old].history = history;
    } else {
        net.break_node(old);
        net.nodes[old].run_id = 0;
    }
}
