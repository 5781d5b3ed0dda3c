//! One fault, from the first record to the last transaction's end.

use std::fmt;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bloom_guard::{BloomGuard, Schedule, SecretKey};
use tokio::time::sleep;

use crate::ledger::False;
use crate::nodes::Nodes;
use crate::traffic::{Application, LONGEST_TRANSACTION, PATIENCE};
use support::eventually;
use support::model::{Table, guard_over, live};

/// Adds that are acknowledged before and after a fault.
const TAIL: usize = 60;
const HOUR: Duration = Duration::from_secs(3_600);
const TIMEOUT: Duration = Duration::from_millis(1_000);

/// What becomes of the node that serves the filter's slot, or of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It is killed; its replica lacks what was acknowledged last.
    Killed,
    /// The slot moves to another node, key by key.
    Moved,
    /// It stands still until its replica has taken over, and goes on.
    Paused,
    /// No other node reaches it, and guards do, until its replica has taken over and a while longer.
    CutOff,
    /// The slot moves to another node, loses its data there, and comes back to what was left of before.
    ThereAndBack,
    /// The replica takes over by agreement with its primary.
    Failover,
}

pub const KINDS: [Kind; 6] =
    [Kind::Killed, Kind::CutOff, Kind::Moved, Kind::ThereAndBack, Kind::Paused, Kind::Failover];

/// What a run saw.
pub struct Outcome {
    kind: Kind,
    shards: u32,
    requests: u64,
    adds: u64,
    pub refusals: u64,
    rebuilds: u64,
    pub false_refusals: Vec<False>,
    /// From the fault until absent ids are refused by whoever serves the slot then, s.
    recovery: f64,
    took: f64,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<12} {:>2} shards {:>6} requests {:>5} refused {:>3} rebuilds {:>5} adds {:>3} false 404s, refusing after {:.1} s, \
             {:.1} s in all",
            format!("{:?}", self.kind),
            self.shards,
            self.requests,
            self.refusals,
            self.rebuilds,
            self.adds,
            self.false_refusals.len(),
            self.recovery,
            self.took
        )
    }
}

/// Carries one fault through.
pub async fn run(kind: Kind, shards: u32) -> Outcome {
    let mut nodes = if kind == Kind::CutOff {
        Nodes::start_behind_doors(TIMEOUT, shards).await
    } else {
        Nodes::start(TIMEOUT, true, shards).await
    };
    let table = Table::with((0..4_000).map(|index| index * 0x0010_0000_0001_0002));
    let first = instance(&nodes, &table, shards);
    live(&first).await;
    // Two processes look at Redis at different moments.
    sleep(Duration::from_millis(500)).await;
    let second = instance(&nodes, &table, shards);
    live(&second).await;
    let application = Application::new([first, second], table);
    let traffic = application.start();
    application.adds(TAIL).await;
    let begun = application.ledger.elapsed();
    let primary = nodes.primary(0).expect("it is served");
    match kind {
        Kind::Killed => killed(&application, &mut nodes, primary).await,
        Kind::Paused => paused(&nodes, primary).await,
        Kind::CutOff => cut_off(&application, &nodes, primary).await,
        Kind::Failover => taken_over(&nodes, primary).await,
        Kind::Moved => moved(&nodes, primary),
        Kind::ThereAndBack => there_and_back(&application, &nodes, primary).await,
    }
    eventually("both instances refuse", PATIENCE, || async {
        let [one, other] = &application.guards;
        let state = || format!("{:?}, {:?}", one.state(), other.state());
        // Of each shard some.
        for _ in 0..4 * shards {
            if !application.refuses().await {
                return Err(state());
            }
        }
        Ok(())
    })
    .await;
    let recovery = application.ledger.elapsed() - begun;
    application.adds(TAIL).await;
    application.ended().await;
    drop(traffic);
    application.ask_for_all().await;
    Outcome {
        kind,
        shards,
        requests: application.requests.load(Ordering::SeqCst),
        adds: application.ledger.adds() as u64,
        refusals: application.refusals.load(Ordering::SeqCst),
        rebuilds: application.rebuilds.load(Ordering::SeqCst),
        false_refusals: application.ledger.false_refusals(),
        recovery,
        took: application.ledger.elapsed(),
    }
}

fn instance(nodes: &Nodes, table: &Table, shards: u32) -> BloomGuard {
    instance_with(nodes, table, shards, Schedule::manual())
}

fn instance_with(nodes: &Nodes, table: &Table, shards: u32, schedule: Schedule) -> BloomGuard {
    let hosts: Vec<_> =
        (0..nodes.each.len()).map(|node| format!("127.0.0.1:{}", nodes.port(node))).collect();
    guard_over(&format!("redis+cluster://{}", hosts.join(",")), table)
        .longest_transaction(LONGEST_TRANSACTION)
        // Small filters are rebuilt often, and a false positive would hide that an id was lost.
        .capacity(20_000, 1e-6)
        .rebuild(schedule, table.clone())
        .shards(shards)
        .secret_key(SecretKey::new([7; 16]))
        .build()
        .unwrap()
}

/// Waits until another node than before serves the slot, as one of the rest says.
async fn replaced(nodes: &Nodes, before: usize) {
    let asked = (before + 1) % 3;
    eventually("another node serves the slot", PATIENCE, || async {
        let now = nodes.primary(asked);
        if now.is_some_and(|now| now != before) { Ok(()) } else { Err(format!("{now:?}")) }
    })
    .await;
}

async fn killed(application: &Application, nodes: &mut Nodes, primary: usize) {
    // Shorter than it takes to be given up.
    nodes.each[primary + 3].pause();
    application.adds(TAIL / 2).await;
    nodes.each[primary].kill();
    nodes.each[primary + 3].resume();
    replaced(nodes, primary).await;
}

async fn paused(nodes: &Nodes, primary: usize) {
    nodes.each[primary].pause();
    replaced(nodes, primary).await;
    // Until an instance is about to connect to it again.
    sleep(Duration::from_millis(300)).await;
    nodes.each[primary].resume();
    nodes.reports(primary, &["INFO", "replication"], "role:slave").await;
}

/// What it acknowledges when its replica hears no more of it is lost with it.
async fn cut_off(application: &Application, nodes: &Nodes, primary: usize) {
    let doors = nodes.doors.as_ref().expect("it was started so");
    doors.cut_off(primary);
    application.adds(TAIL / 2).await;
    replaced(nodes, primary).await;
    sleep(TIMEOUT).await;
    let on_itself = nodes.primary(primary);
    assert!(on_itself.is_none_or(|node| node == primary), "it was told by {on_itself:?}");
    doors.heal();
    nodes.reports(primary, &["INFO", "replication"], "role:slave").await;
}

async fn taken_over(nodes: &Nodes, primary: usize) {
    nodes.each[primary + 3].run::<()>(&["CLUSTER", "FAILOVER"]);
    replaced(nodes, primary).await;
}

fn moved(nodes: &Nodes, primary: usize) {
    let to = (primary + 1) % 3;
    nodes.begin_move(primary, to);
    nodes.move_keys(primary, to);
    nodes.end_move(primary, to);
}

async fn there_and_back(application: &Application, nodes: &Nodes, primary: usize) {
    let to = (primary + 1) % 3;
    let keys: Vec<String> =
        nodes.each[primary].run(&["CLUSTER", "GETKEYSINSLOT", &nodes.slot, "10000"]);
    let dump = |key: &String| -> Vec<u8> { nodes.each[primary].run(&["DUMP", key]) };
    let dumps: Vec<_> = keys.iter().map(dump).collect();
    moved(nodes, primary);
    application.adds(TAIL).await;
    // The slot comes back, and not what was acknowledged meanwhile.
    nodes.begin_move(to, primary);
    let there: Vec<String> =
        nodes.each[to].run(&["CLUSTER", "GETKEYSINSLOT", &nodes.slot, "10000"]);
    for key in &there {
        nodes.each[to].run::<()>(&["DEL", key]);
    }
    for (key, dump) in keys.iter().zip(&dumps) {
        // On a busy machine the node may just have missed the others, and serves no slot for half a second.
        eventually("a key is restored", PATIENCE, || async {
            let mut restore = redis::pipe();
            restore.cmd("ASKING").ignore();
            restore.cmd("RESTORE").arg(key).arg(0).arg(dump).arg("REPLACE").ignore();
            let restored = restore.exec(&mut nodes.each[primary].connection());
            restored.map_err(|error| error.to_string())
        })
        .await;
    }
    nodes.end_move(to, primary);
    application.adds(TAIL).await;
}

/// A node that is gone keeps no other node's shards from being rebuilt.
pub async fn rebuilt_beside() {
    const SHARDS: u32 = 16;
    let mut nodes = Nodes::start(TIMEOUT, false, SHARDS).await;
    let guard = instance_with(&nodes, &Table::with(0..4_000), SHARDS, Schedule::every(HOUR));
    guard.ready().await;
    let primary = nodes.primary(0).expect("it is served");
    let other = (primary + 1) % 3;
    nodes.each[other].kill();
    nodes.each[other + 3].kill();
    let live = || guard.state().shards.expect("it is in shards").live;
    let fewer = |than| {
        eventually("some are not live", PATIENCE, move || async move {
            if live() < than { Ok(()) } else { Err(format!("{} are", live())) }
        })
    };
    fewer(u64::from(SHARDS)).await;
    let away = format!(":{}: ", nodes.port(other));
    eventually("the node is named", PATIENCE, || async {
        let trouble = guard.state().trouble.unwrap_or_default();
        if trouble.contains(&away) { Ok(()) } else { Err(trouble) }
    })
    .await;
    sleep(Duration::from_secs(1)).await;
    let left = live();
    let bits = format!("bg:{{users#0/{SHARDS}}}:bits");
    nodes.each[primary].run::<i64>(&["DEL", &bits]);
    fewer(left).await;
    eventually("it is rebuilt", PATIENCE, || async {
        if live() == left { Ok(()) } else { Err(guard.state().to_string()) }
    })
    .await;
}
