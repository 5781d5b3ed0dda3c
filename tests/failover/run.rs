//! One failover, from the first add that is lost to the last transaction's end.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bloom_guard::BloomGuard;
use tokio::time::sleep;

use crate::ledger::False;
use crate::network::Weather;
use crate::topology::{NAME, Topology};
use crate::traffic::{Application, LONGEST_TRANSACTION, PATIENCE};
use support::eventually;
use support::model::{Table, guard_over, live};

/// Adds that must have been acknowledged behind the replica's back before the primary fails.
const TAIL: usize = 60;

/// How the primary fails, and how the instances find the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Its process stands still until another one has been promoted.
    Paused,
    /// It is severed from Sentinels and replica, and goes on serving the application until it has no replica any more.
    Severed,
    /// An operator has a Sentinel promote the replica.
    Planned,
}

/// An old primary stops when it has no replica any more.
const STOPS: [&str; 4] = ["--min-replicas-to-write", "1", "--min-replicas-max-lag", "1"];

impl Kind {
    /// How Redis is configured, and the Sentinels' patience. A primary notices within 2 s and a little
    /// that its replica is silent, so that is how long Sentinels must wait.
    fn configuration(self) -> (&'static [&'static str], Duration) {
        match self {
            Self::Paused => (&[], Duration::from_millis(500)),
            _ => (&STOPS, Duration::from_secs(4)),
        }
    }

    fn fail(self, topology: &Topology) {
        match self {
            Self::Paused => topology.old.server.pause(),
            Self::Severed => topology.old.network.set(Weather::Cut),
            Self::Planned => {
                // It may have heard nothing of the replica for a moment.
                let fail_over = || topology.sentinels[0].run::<()>(&["SENTINEL", "FAILOVER", NAME]);
                let begun = Instant::now();
                while let Err(error) = fail_over() {
                    assert!(begun.elapsed() < Duration::from_secs(5), "{error}");
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        }
    }

    fn heal(self, topology: &Topology) {
        topology.old.network.set(Weather::Clear);
        if self == Self::Paused {
            topology.old.server.resume();
        }
    }
}

/// What a run saw.
pub struct Outcome {
    kind: Kind,
    promoted: f64,
    requests: u64,
    adds: u64,
    pub lost: u64,
    pub refusals: u64,
    rebuilds: u64,
    pub false_refusals: Vec<False>,
    /// From the primary's failure until absent ids are refused by the new one, s.
    recovery: f64,
    took: f64,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<18} {:>6} requests {:>5} refused {:>3} rebuilds {:>5} adds {:>4} lost {:>3} false 404s, \
             promoted after {:.1} s, refusing after {:.1} s, {:.1} s in all",
            format!("{:?}", self.kind),
            self.requests,
            self.refusals,
            self.rebuilds,
            self.adds,
            self.lost,
            self.false_refusals.len(),
            self.promoted,
            self.recovery,
            self.took
        )
    }
}

/// Carries one failover through.
pub async fn run(kind: Kind) -> Outcome {
    let (arguments, patience) = kind.configuration();
    let topology = Topology::start(arguments, patience).await;
    let table = Table::with((0..4_000).map(|index| index * 0x0010_0000_0001_0002));
    let first = instance(&topology.url(), &table);
    live(&first).await;
    // Two processes look at Redis at different moments.
    sleep(Duration::from_millis(500)).await;
    let guards = [first, instance(&topology.url(), &table)];
    live(&guards[1]).await;
    let application = Application::new(guards, table);
    let ledger = &application.ledger;
    let traffic = application.start();
    application.adds(TAIL).await;

    topology.old.network.set(Weather::ReplicasBehind);
    application.adds(TAIL).await;
    let kept = recorded(&topology);
    let failed = ledger.elapsed();
    let acknowledged = Cell::new(ledger.adds());
    kind.fail(&topology);
    eventually("the replica is promoted", PATIENCE, || async {
        let promoted = topology.is_promoted();
        if kind != Kind::Paused && !promoted {
            acknowledged.set(ledger.adds());
        }
        if promoted { Ok(()) } else { Err("it is not".to_owned()) }
    })
    .await;
    let promoted = ledger.elapsed() - failed;
    kind.heal(&topology);
    let recovery = recovered(&application, &topology).await - failed;
    topology.old.reports("role:slave").await;
    application.adds(TAIL).await;
    application.ended().await;
    drop(traffic);
    application.ask_for_all().await;
    Outcome {
        kind,
        promoted,
        requests: application.requests.load(Ordering::SeqCst),
        adds: ledger.adds() as u64,
        lost: acknowledged.get().saturating_sub(kept) as u64,
        refusals: application.refusals.load(Ordering::SeqCst),
        rebuilds: application.rebuilds.load(Ordering::SeqCst),
        false_refusals: ledger.false_refusals(),
        recovery,
        took: ledger.elapsed(),
    }
}

fn instance(url: &str, table: &Table) -> BloomGuard {
    guard_over(url, table)
        .longest_transaction(LONGEST_TRANSACTION)
        // Small filters are rebuilt often, and a false positive would hide that an id was lost.
        .capacity(20_000, 1e-6)
        .build()
        .unwrap()
}

/// How many ids the replica's record of recent inserts has. Whatever was acknowledged beyond that is lost.
fn recorded(topology: &Topology) -> usize {
    // The floor is one of its members.
    topology.new.server.run::<usize>(&["ZCARD", "bg:{users}:recent"]) - 1
}

/// Waits until nobody talks to the old primary, and the new one's word refuses; returns when.
async fn recovered(application: &Arc<Application>, topology: &Topology) -> f64 {
    eventually("both instances refuse by the new primary", PATIENCE, || async {
        let behind = topology.old.network.clients();
        if behind == 0 && application.refuses().await {
            return Ok(application.ledger.elapsed());
        }
        let [one, other] = &application.guards;
        Err(format!("{behind} connections to the old one, {:?}, {:?}", one.state(), other.state()))
    })
    .await
}
