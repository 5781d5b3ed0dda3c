//! One failover, from the first add that is lost to the last transaction's end.

use std::cell::Cell;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bloom_guard::{BloomGuard, Verdict};

use crate::front::{Existing, Front};
use crate::ledger::False;
use crate::network::Weather;
use crate::topology::{PATIENCE, Topology};
use crate::traffic::{Application, LONGEST_TRANSACTION};
use support::eventually;
use support::model::{Table, guard_over, live};

/// Adds that must have been acknowledged behind the replica's back before the primary fails.
const TAIL: usize = 60;

/// How the primary fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Its process stands still until another one has been promoted. Connections are cut then.
    Paused,
    /// The same, and connections stay open: whoever kept one finds the old primary again.
    PausedAndKept,
    /// It is severed from Sentinels and replica, and goes on serving until connections are cut.
    Severed,
    /// It is severed, and goes on serving until it is demoted: connections stay open.
    SeveredAndKept,
    /// It is severed, and one instance keeps its connections while the other goes with the Sentinels:
    /// two primaries at once, unless the old one stops when it has no replica any more.
    Split,
}

impl Kind {
    /// What becomes of each instance's connections.
    const fn existing(self) -> [Existing; 2] {
        match self {
            Self::Paused | Self::Severed => [Existing::Cut; 2],
            Self::PausedAndKept | Self::SeveredAndKept => [Existing::Kept; 2],
            Self::Split => [Existing::Kept, Existing::Cut],
        }
    }

    /// How Redis is configured, and the Sentinels' patience. A primary notices within 2 s and a little
    /// that its replica is silent, so that is how long Sentinels must wait.
    const fn configuration(self) -> (&'static [&'static str], Duration) {
        match self {
            Self::Split => (
                &["--min-replicas-to-write", "1", "--min-replicas-max-lag", "1"],
                Duration::from_secs(4),
            ),
            _ => (&[], Duration::from_millis(500)),
        }
    }

    const fn pauses(self) -> bool {
        matches!(self, Self::Paused | Self::PausedAndKept)
    }

    fn fail(self, topology: &Topology) {
        if self.pauses() {
            topology.old.server.pause();
        } else {
            topology.old.network.set(Weather::Cut);
        }
    }

    fn heal(self, topology: &Topology) {
        topology.old.network.set(Weather::Clear);
        if self.pauses() {
            topology.old.server.resume();
        }
    }
}

/// What a run saw.
pub struct Outcome {
    kind: Kind,
    promoted: f64,
    pub requests: u64,
    pub adds: u64,
    pub lost: u64,
    pub refusals: u64,
    pub rebuilds: u64,
    pub false_refusals: Vec<False>,
    /// From the primary's failure until absent ids are refused by the new one, s.
    pub recovery: f64,
    took: f64,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<15} {:>6} requests {:>5} refused {:>3} rebuilds {:>5} adds {:>4} lost {:>3} false 404s, \
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
    let [one, other] = kind.existing();
    let fronts = [Front::start(&topology, one).await, Front::start(&topology, other).await];
    let table = Table::with((0..4_000).map(|index| index * 0x0010_0000_0001_0002));
    let guards = fronts.each_ref().map(|front| instance(front, &table));
    for guard in &guards {
        live(guard).await;
    }
    let application = Application::new(guards, table);
    let ledger = &application.ledger;
    let traffic = application.start();
    adds(&application, TAIL).await;

    topology.old.network.set(Weather::ReplicasBehind);
    adds(&application, TAIL).await;
    let kept = journalled(&topology);
    let failed = ledger.elapsed();
    let acknowledged = Cell::new(ledger.adds());
    kind.fail(&topology);
    eventually("the replica is promoted", PATIENCE, || async {
        let promoted = fronts.iter().all(|front| front.primary() == topology.new.server.port());
        if !kind.pauses() && !promoted {
            acknowledged.set(ledger.adds());
        }
        if promoted { Ok(()) } else { Err("it is not".to_owned()) }
    })
    .await;
    let promoted = ledger.elapsed() - failed;
    if kind == Kind::Split {
        refused_by_the_new(&application).await;
    }
    kind.heal(&topology);
    let recovery = recovered(&application, &topology, &fronts).await - failed;
    topology.old.reports("role:slave").await;
    adds(&application, TAIL).await;
    ended(&application).await;
    drop(traffic);
    for id in ledger.all() {
        for instance in 0..2 {
            application.ask_for(instance, id).await;
        }
    }
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

fn instance(front: &Front, table: &Table) -> BloomGuard {
    guard_over(&front.url(), table)
        .longest_transaction(LONGEST_TRANSACTION)
        // Small filters are rebuilt often, and a false positive would hide that an id was lost.
        .capacity(20_000, 1e-6)
        .build()
        .unwrap()
}

/// Waits for so many more adds to be acknowledged.
async fn adds(application: &Application, count: usize) {
    let before = application.ledger.adds();
    eventually("adds are acknowledged", PATIENCE, || async {
        let adds = application.ledger.adds() - before;
        if adds >= count { Ok(()) } else { Err(format!("{adds} of {count}")) }
    })
    .await;
}

/// How many ids the replica's journal knows. Whatever was acknowledged beyond that is lost.
fn journalled(topology: &Topology) -> usize {
    type Entry = (String, Vec<Vec<u8>>);
    let entries: Vec<Entry> = topology.new.server.run(&["XRANGE", "bg:{users}:log", "-", "+"]);
    let mut digests = HashSet::new();
    for (_, fields) in entries {
        let mut fields = fields.chunks_exact(2);
        if let Some(packed) = fields.find(|field| field[0] == b"d") {
            digests.extend(packed[1].chunks(16).map(<[u8]>::to_vec));
        }
    }
    digests.len()
}

/// Waits until the instance that went with the Sentinels refuses, and more has been created since.
async fn refused_by_the_new(application: &Application) {
    eventually("the new primary's word refuses", PATIENCE, || async {
        let verdict = application.guards[1].check(&u64::MAX).await.unwrap();
        let refuses = matches!(verdict, Verdict::Absent(_));
        if refuses { Ok(()) } else { Err(format!("{verdict:?}")) }
    })
    .await;
    adds(application, TAIL).await;
}

/// Waits until nobody talks to the old primary, and the new one's word refuses; returns when.
async fn recovered(
    application: &Arc<Application>,
    topology: &Topology,
    fronts: &[Front; 2],
) -> f64 {
    eventually("both instances refuse by the new primary", PATIENCE, || async {
        let old = topology.old.server.port();
        let behind: usize = fronts.iter().map(|front| front.open_to(old)).sum();
        if behind == 0 && application.refuses().await {
            return Ok(application.ledger.elapsed());
        }
        let [one, other] = &application.guards;
        Err(format!("{behind} connections to the old one, {:?}, {:?}", one.state(), other.state()))
    })
    .await
}

/// Begins no further transaction, and waits for the last one's end.
async fn ended(application: &Application) {
    application.close();
    eventually("all transactions end", PATIENCE, || async {
        let open = application.ledger.still_open();
        if open == 0 { Ok(()) } else { Err(format!("{open} open")) }
    })
    .await;
}
