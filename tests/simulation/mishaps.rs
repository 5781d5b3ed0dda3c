//! What befalls Redis.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use crate::cluster;
use crate::database;
use crate::fleet;
use crate::model::keyspace::{Bytes, Keyspace, Slot, Value};
use crate::model::node::Node;
use crate::model::reply::Reply;
use crate::net::{self, Net};
use crate::plan::{Mishap, Old};
use crate::{scripts, shards};

/// How long processes have to say their inserts again, ms.
const SAID_AGAIN: u64 = 5_000;

/// When processes say their inserts again while Redis takes no writes.
const NOT_YET: u64 = u64::MAX / 2;

/// How long processes may take to notice that data have gone back in time: until their next polls, ms.
const NOTICED: u64 = 2_000;

/// How long they may take to notice that the clock was set forward, which each poll shows, ms.
const CLOCK_READ: u64 = 1_100;

/// Keys, and what each held.
type Aside = Vec<(Bytes, Option<Slot>)>;

thread_local! {
    /// When the data of each shard last went back in time, and the incarnation before where all of it did.
    static REWOUND: RefCell<BTreeMap<u32, (u64, Option<Bytes>)>> = const { RefCell::new(BTreeMap::new()) };
    /// When Redis last began a new life, ms since the run began.
    static FORGOT: Cell<Option<u64>> = const { Cell::new(None) };
    /// When Redis's clock was set forward, and which ids were being created then.
    static SET_FORWARD: RefCell<Vec<(u64, BTreeSet<u64>)>> = const { RefCell::new(Vec::new()) };
    /// When a key was last put back as an old copy of itself.
    static PUT_BACK: Cell<Option<u64>> = const { Cell::new(None) };
    /// The address of the Redis that something befalls.
    static SITE: Cell<usize> = const { Cell::new(0) };
    static SITES: RefCell<[Site; cluster::NODES.len()]> = RefCell::default();
}

/// What is known of one Redis.
#[derive(Default)]
struct Site {
    /// The last dump, which is also how far a stalled replica has come.
    dump: Option<Keyspace>,
    /// The process that the name led to before it went astray.
    home: Option<usize>,
    /// The keys that lie aside.
    aside: Option<Aside>,
}

/// Looks at the Redis that something befalls.
fn site<T>(see: impl FnOnce(&mut Site) -> T) -> T {
    SITES.with_borrow_mut(|sites| see(&mut sites[SITE.get()]))
}

/// Begins a run.
pub(crate) fn begin() {
    SITES.take();
    FORGOT.set(None);
    PUT_BACK.set(None);
    REWOUND.take();
    SET_FORWARD.take();
}

/// Whether the clock was set forward while an id was being created, so lately that no process need have noticed: a new process takes
/// its insert for an old one.
pub(crate) fn set_forward_lately(id: u64) -> bool {
    let is_late =
        |(at, ids): &(u64, BTreeSet<_>)| net::now_ms() < at + CLOCK_READ && ids.contains(&id);
    SET_FORWARD.with_borrow(|jumps| jumps.iter().any(is_late))
}

/// Whether an id's data have gone back in time so lately that a process need not have noticed.
pub(crate) fn rewound_lately(id: u64) -> bool {
    let is_late = |(at, _): &(u64, _)| net::now_ms() < at + NOTICED;
    REWOUND.with_borrow(|rewound| rewound.get(&shards::of(id)).is_some_and(is_late))
}

/// Notes that an id was inserted. If its shard's keys have just gone back together, and no incarnation began, they agree with each other
/// and have a newer number than all before: nobody can notice any more, which is beyond the promise.
pub(crate) fn note_inserted(id: u64) {
    let shard = shards::of(id);
    if rewound_lately(id) && !cluster::is() {
        let now = incarnation(shard);
        REWOUND.with_borrow_mut(|rewound| match rewound.get_mut(&shard) {
            Some((at, before)) if before.is_some() && *before == now => *at = NOT_YET,
            _ => {}
        });
    }
}

/// What the metadata of a shard name as their incarnation.
fn incarnation(shard: u32) -> Option<Bytes> {
    let key = keys_of(&[shard], &["fleet"]).into_iter().next()?;
    net::with(|net| match primary(net).keys.get(&key) {
        Some(Value::Hash(fields)) => fields.get(b"inc".as_slice()).cloned(),
        _ => None,
    })
}

/// Lets it happen.
pub(crate) fn befall(mishap: &Mishap) {
    match mishap {
        Mishap::AtNode(at, mishap) => {
            SITE.set(*at);
            let shards = net::with(|net| cluster::shards_at(net, *at));
            befall_shards(mishap, &shards);
            SITE.set(0);
        }
        Mishap::OfShard(shard, mishap) => befall_somewhere(mishap, &[*shard]),
        mishap => befall_somewhere(mishap, &shards::all()),
    }
}

/// Lets it happen wherever these shards are.
fn befall_somewhere(mishap: &Mishap, shards: &[u32]) {
    if !cluster::is() || mishap.is_of_a_cluster() {
        return befall_shards(mishap, shards);
    }
    cluster::each_node(shards, |at, here| {
        // A clock is that of all.
        if !here.is_empty() && (at == 0 || !matches!(mishap, Mishap::Clock(_))) {
            SITE.set(at);
            befall_shards(mishap, here);
        }
    });
    SITE.set(0);
}

/// Lets it happen to the keys of these shards, or to the process.
fn befall_shards(mishap: &Mishap, shards: &[u32]) {
    if mishap.loses_the_mode() && !fleet::may_lose() {
        return;
    }
    let now = net::now_ms();
    let puts_back = matches!(mishap, Mishap::PutBack(_));
    let before = if puts_back { PUT_BACK.replace(Some(now)) } else { None };
    // Two keys of one dump may agree with each other: that is beyond the promise until a process has polled between them, which a full
    // Redis refuses.
    let unpolled = |before| before < now && (is_full() || now < before + NOTICED);
    if before.is_some_and(unpolled) {
        return;
    }
    let rewinds = matches!(mishap, Mishap::Rewind | Mishap::Swap(_)) || before == Some(now);
    let elsewhere = matches!(
        mishap,
        Mishap::Restart { .. } | Mishap::FailOver { .. } | Mishap::Astray { .. } | Mishap::Back
    );
    // Old metadata are noticed, and what was inserted is said again.
    if rewinds || elsewhere || matches!(mishap, Mishap::PutBack("fleet")) {
        let refuses = !elsewhere && net::with(|net| primary(net).refuses_writes().is_some());
        FORGOT.set(Some(if refuses { NOT_YET } else { net::now_ms() }));
    }
    if rewinds {
        // What lies aside may be of other shards, and comes back with these.
        let comes_back = matches!(mishap, Mishap::Swap(_)) && site(|site| site.aside.is_some());
        let gone_back = if comes_back { shards::all() } else { shards.to_vec() };
        let is_whole = matches!(mishap, Mishap::Rewind);
        let of = |shard| is_whole.then(|| incarnation(shard)).flatten();
        let gone_back = gone_back.into_iter().map(|shard| (shard, (now, of(shard))));
        let gone_back: Vec<_> = gone_back.collect();
        REWOUND.with_borrow_mut(|rewound| rewound.extend(gone_back));
    }
    // Nobody says anything again while Redis stands still.
    if let (true, &Mishap::StandStill(for_ms)) = (forgot_lately(), mishap) {
        FORGOT.set(Some(net::now_ms() + for_ms));
    }
    net::with(|net| match *mishap {
        Mishap::Restart { from_dump, loading } => restart(net, from_dump, loading),
        Mishap::FailOver { from_dump, old } => fail_over(net, from_dump, old),
        Mishap::Astray { from_dump } => go_astray(net, from_dump),
        Mishap::Back => go_back(net),
        Mishap::Dump => site(|site| site.dump = Some(primary(net).keys.clone())),
        Mishap::Rewind => {
            if let Some(dump) = site(|site| site.dump.clone()) {
                rewind(primary(net), dump, shards);
            }
        }
        Mishap::PutBack(part) => {
            let mut dump = found(true);
            for key in keys_of(shards, &[part]) {
                if let copy @ Some(_) = dump.take(&key) {
                    primary(net).keys.put_back(&key, copy);
                }
            }
        }
        Mishap::Clock(by) => {
            net.clock_skew_us += by * 1000;
            if by > 0 {
                SET_FORWARD.with_borrow_mut(|jumps| jumps.push((now, database::being_created())));
            }
        }
        Mishap::FlushAll => flush(net, shards),
        Mishap::Swap(ref parts) => put_aside_or_back(primary(net), keys_of(shards, parts)),
        Mishap::Delete(ref parts) => {
            for key in keys_of(shards, parts) {
                operate(net, &[b"DEL", &key]);
            }
        }
        Mishap::Expire(part, life) => {
            for key in keys_of(shards, &[part]) {
                operate(net, &[b"PEXPIRE", &key, life.to_string().as_bytes()]);
            }
        }
        Mishap::CutShort(part) => {
            for key in keys_of(shards, &[part]) {
                cut_short(net, &key);
            }
        }
        Mishap::FlushScripts => operate(net, &[b"SCRIPT", b"FLUSH"]),
        Mishap::Room(more) => {
            let node = primary(net);
            if node.is_full() {
                PUT_BACK.set(PUT_BACK.get().map(|_| now));
            }
            node.limit = more.map(|more| node.keys.bytes() + more as usize);
        }
        Mishap::Misconfigured(is) => {
            primary(net).misconfigured = is;
            let refuses = primary(net).refuses_writes().is_some();
            nobody_says_again_while(refuses, net.now_ms());
        }
        Mishap::Lonely(is) => {
            primary(net).lonely = is;
            let refuses = primary(net).refuses_writes().is_some();
            nobody_says_again_while(refuses, net.now_ms());
        }
        Mishap::Loading(for_ms) => primary(net).loading_until = net.now_ms() + for_ms,
        Mishap::StandStill(for_ms) => primary(net).still_until = net.now_ms() + for_ms,
        Mishap::BeginToLeave(shard, to) => cluster::begin_to_leave(net, shard, to),
        Mishap::Leave(shard, to) => cluster::leave(net, shard, to),
        Mishap::Stay(shard) => cluster::stay(net, shard),
        Mishap::Lie { at, shard, to } => cluster::lie(net, at, shard, to),
        Mishap::Gossip => cluster::gossip(net),
        Mishap::OfShard(..) | Mishap::AtNode(..) => {
            unreachable!("it befalls one shard of one")
        }
    });
    if cluster::is() && forgot_lately() {
        net::with(cluster::leave_one_wrong);
    }
}

/// Looks at an enrolment that is about to make a shard's metadata anew.
pub(crate) fn watch(node: &mut Node, command: &[Bytes], now_ms: u64) {
    if scripts::name_of(command) != "join.lua" {
        return;
    }
    let [meta, ..] = scripts::keys_of(command) else { return };
    if node.keys.run(&[b"HGET", meta, b"inc"]) != Reply::Nil {
        return;
    }
    FORGOT.set(Some(if node.refuses_writes().is_some() { NOT_YET } else { now_ms }));
}

/// Nobody can say anything again while Redis refuses writes; what was forgotten before is said after that.
fn nobody_says_again_while(refuses: bool, now_ms: u64) {
    match FORGOT.get() {
        Some(NOT_YET) if !refuses => FORGOT.set(Some(now_ms)),
        Some(at) if refuses && now_ms < at + SAID_AGAIN => FORGOT.set(Some(NOT_YET)),
        _ => {}
    }
}

/// Whether Redis has forgotten inserts so lately that their processes may have to say them again yet.
pub(crate) fn forgot_lately() -> bool {
    FORGOT.get().is_some_and(|at| net::now_ms() < at + SAID_AGAIN)
}

/// The keys of all shards of which these are parts of the names.
pub(crate) fn keys(parts: &[&str]) -> Vec<Bytes> {
    keys_of(&shards::all(), parts)
}

fn keys_of(shards: &[u32], parts: &[&str]) -> Vec<Bytes> {
    let of = |shard: &u32| {
        let prefix = shards::prefix(*shard);
        parts.iter().map(move |part| format!("{prefix}{part}").into_bytes())
    };
    shards.iter().flat_map(of).collect()
}

/// The process that something befalls.
fn at(net: &Net) -> usize {
    net.primaries[SITE.get()]
}

/// Has its name lead to another process.
fn lead_to(net: &mut Net, node: usize) {
    let old = at(net);
    let here = |primary: &&mut usize| **primary == old;
    net.primaries.iter_mut().filter(here).for_each(|primary| *primary = node);
}

fn is_full() -> bool {
    net::with(|net| primary(net).is_full())
}

fn primary(net: &mut Net) -> &mut Node {
    let primary = at(net);
    &mut net.nodes[primary]
}

/// Runs an operator's command.
fn operate(net: &mut Net, words: &[&[u8]]) {
    let (run_ms, clock_us) = (net.now_ms(), net.clock_us());
    primary(net).execute(words, run_ms, clock_us);
}

/// Whether a key is one of these shards', and not of all.
fn is_of_some(key: &[u8], shards: &[u32]) -> bool {
    shards.iter().any(|shard| key.starts_with(shards::prefix(*shard).as_bytes()))
}

/// Removes all keys of these shards.
fn flush(net: &mut Net, shards: &[u32]) {
    if shards == shards::all() {
        return operate(net, &[b"FLUSHALL"]);
    }
    for key in primary(net).keys.keys() {
        if is_of_some(&key, shards) {
            operate(net, &[b"DEL", &key]);
        }
    }
}

/// Puts the data of these shards back that there were as of a dump.
fn rewind(node: &mut Node, mut dump: Keyspace, shards: &[u32]) {
    if shards == shards::all() {
        node.keys = dump;
        return;
    }
    for key in node.keys.keys().into_iter().chain(dump.keys()) {
        if is_of_some(&key, shards) {
            node.keys.put_back(&key, dump.take(&key));
        }
    }
}

/// What a process finds that starts from the last dump, or from none.
fn found(from_dump: bool) -> Keyspace {
    let dump = site(|site| site.dump.clone().filter(|_| from_dump));
    dump.unwrap_or_default()
}

/// Puts keys aside; or, where some lie aside, puts those back in the place of what is there by now.
fn put_aside_or_back(node: &mut Node, keys: Vec<Bytes>) {
    let Some(aside) = site(|site| site.aside.take()) else {
        let aside = take_all(node, keys);
        site(|site| site.aside = Some(aside));
        return;
    };
    for (key, slot) in aside {
        node.keys.put_back(&key, slot);
    }
}

fn take_all(node: &mut Node, keys: Vec<Bytes>) -> Aside {
    let take = |key: Bytes| {
        let slot = node.keys.take(&key);
        (key, slot)
    };
    keys.into_iter().map(take).collect()
}

/// Executes something while the live filter is put aside.
pub(crate) fn without_filter<T>(node: &mut Node, execute: impl FnOnce(&mut Node) -> T) -> T {
    let aside = take_all(node, keys(&["bits"]));
    let result = execute(node);
    for (key, slot) in aside {
        node.keys.put_back(&key, slot);
    }
    result
}

/// Cuts a string's second half off.
fn cut_short(net: &mut Net, key: &[u8]) {
    let Some(Value::Text(text)) = primary(net).keys.get(key) else { return };
    let half = text[..text.len() / 2].to_vec();
    operate(net, &[b"SET", key, &half]);
}

fn restart(net: &mut Net, from_dump: bool, loading: u64) {
    site(|site| (site.aside, site.home) = (None, None));
    let keys = found(from_dump);
    let (run_id, history) = (net.rng.next(), net.rng.next());
    let primary = at(net);
    let mut node = net.nodes[primary].succeed(run_id, history, keys);
    node.loading_until = net.now_ms() + loading;
    net.nodes[primary] = node;
    net.break_node(primary);
}

/// Another process answers, and the old one lives on by itself.
fn go_astray(net: &mut Net, from_dump: bool) {
    let old = at(net);
    if site(|site| site.home).is_some() {
        return;
    }
    site(|site| (site.aside, site.home) = (None, Some(old)));
    let keys = if from_dump { found(true) } else { net.nodes[old].keys.clone() };
    let (run_id, history) = (net.rng.next(), net.rng.next());
    let node = net.nodes[old].succeed(run_id, history, keys);
    net.nodes.push(node);
    lead_to(net, net.nodes.len() - 1);
    net.break_node(old);
}

/// The old process answers again, with what it had.
fn go_back(net: &mut Net) {
    if let Some(home) = site(|site| site.home.take()) {
        let other = at(net);
        lead_to(net, home);
        net.break_node(other);
        net.nodes[other].run_id = 0;
    }
}

/// A replica takes over, with all there is or as far as it had come when its link stalled.
fn fail_over(net: &mut Net, from_dump: bool, becomes: Old) {
    site(|site| (site.aside, site.home) = (None, None));
    let old = at(net);
    let keys = if from_dump { found(true) } else { net.nodes[old].keys.clone() };
    let (run_id, history) = (net.rng.next(), net.rng.next());
    let node = net.nodes[old].succeed(run_id, history, keys);
    net.nodes.push(node);
    lead_to(net, net.nodes.len() - 1);
    let now = net.now_ms();
    match becomes {
        Old::Demoted => net.nodes[old].demote(history),
        Old::Alone(for_ms) => {
            net.nodes[old].lonely = true;
            net.nodes[old].demoted = Some((now + for_ms, history));
        }
        Old::Ends => {
            net.break_node(old);
            net.nodes[old].run_id = 0;
        }
    }
}
