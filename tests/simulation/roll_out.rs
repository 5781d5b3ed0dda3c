//! A move to another filter that takes hours, by the guide's page `fleet`: two guards, one inside the other.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::kept::CONFIG;
use crate::plan::{Caller, Config, Flavour, NEVER};
use crate::{BloomGuard, Mode, Verdict, database, oracle, pauses, world};

const SEED: u64 = 1 << 41;
/// How long it takes until all processes have both guards, and until all have the new one only.
const ROLL_OUT: Duration = Duration::from_secs(2 * 60 * 60);
const PROCESSES: usize = 3;
/// How often each process creates a row.
const ROUND: Duration = Duration::from_secs(10);

const MOVES: Config = Config {
    flavour: Flavour::Calm,
    settle: 7 * 24 * 60 * 60 * 1000,
    period: Some(20 * 60 * 1000),
    ..CONFIG
};

/// A process, with the guards it has.
#[derive(Default)]
struct Process {
    old: Option<BloomGuard>,
    new: Option<BloomGuard>,
}

impl Process {
    fn start(number: usize, has_old: bool, has_new: bool) -> Self {
        let settled = Config { settle: 0, ..MOVES };
        let build = |config, name| {
            let builder = world::builder(config, number, name);
            pauses::start(number, || builder.build().expect("settings within bounds"))
        };
        let old = has_old.then(|| build(&settled, "old"));
        Self { old, new: has_new.then(|| build(&MOVES, "new")) }
    }

    fn guards(&self) -> impl Iterator<Item = &BloomGuard> {
        self.old.iter().chain(&self.new)
    }

    async fn create(&self, id: u64) {
        let transaction = database::lock(id, false).expect("nobody else creates it");
        for guard in self.guards() {
            if guard.insert(&id).await.is_err() {
                return;
            }
        }
        transaction.commit(true, Caller::Anybody);
    }

    /// Whether one of its guards refuses an id.
    async fn refuses(&self, id: u64) -> bool {
        let mut refuses = false;
        for guard in self.guards().filter(|guard| guard.mode() == Mode::Enforce) {
            refuses |= matches!(guard.check(&id).await, Ok(Verdict::Absent(_)));
        }
        refuses
    }
}

/// Processes of a service, and the rows that they have created.
struct Service {
    processes: Vec<Process>,
    created: u64,
    /// How many ids that do not exist passed.
    passed: u64,
}

impl Service {
    /// Has each process create a row, and all be asked for it at once, and for others.
    async fn goes_on(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until {
            for creator in 0..PROCESSES {
                let id = self.created;
                self.created += 1;
                self.processes[creator].create(id).await;
                for (number, process) in self.processes.iter().enumerate() {
                    for id in [id, id / 2, id.saturating_sub(PROCESSES as u64)] {
                        if database::ids().contains(&id) && process.refuses(id).await {
                            oracle::violated(format!(
                                "process {number} refuses {id} in a roll-out"
                            ));
                        }
                    }
                    self.passed += u64::from(!process.refuses(NEVER + id).await);
                }
            }
            sleep(ROUND).await;
        }
    }

    /// Puts one process after the other in the place of those that there are.
    async fn roll_out(&mut self, has_old: bool, has_new: bool) {
        for number in 0..PROCESSES {
            self.goes_on(ROLL_OUT / PROCESSES as u32).await;
            self.processes[number] = Process::start(number, has_old, has_new);
            for guard in self.processes[number].guards() {
                guard.ready().await;
            }
        }
    }
}

/// Plays it; returns what was broken.
pub(crate) fn two_hours() -> Vec<String> {
    let played = world::run_in(&MOVES, SEED, false, async {
        let processes: Vec<_> = (0..PROCESSES).map(|n| Process::start(n, true, false)).collect();
        let mut service = Service { processes, created: 0, passed: 0 };
        service.processes[0].create(0).await;
        for guard in service.processes.iter().flat_map(Process::guards) {
            while guard.rebuild_accepting_loss().await.is_err() {}
        }
        service.roll_out(true, true).await;
        let (old, new) = (service.processes[0].old.clone(), service.processes[0].new.clone());
        let (old, new) = (old.expect("it has both"), new.expect("it has both"));
        new.enforce_everywhere().await.expect("nothing fails");
        old.set_fleet_mode(Mode::Off).await.expect("nothing fails");
        service.roll_out(false, true).await;
        let Service { created, passed, .. } = service;
        println!(
            "a roll-out of two hours, and one of two more: {created} rows, {passed} absent ids passed"
        );
        if passed > created / 20 {
            oracle::violated(format!("{passed} absent ids passed in a roll-out"));
        }
    });
    played.findings.violations
}
