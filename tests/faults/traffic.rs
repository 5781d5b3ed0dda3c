//! Readers and creators, two instances' worth.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::account::About;
use crate::site::{ABSENT, GONE, NEW, People, ROWS};
use support::model::Strangers;

/// Readers of one instance, and how often each reads.
const READERS: u64 = 12;
const READ_EVERY: Duration = Duration::from_millis(30);
/// Creators of one instance; each waits for the answers about its last record.
const CREATORS: u64 = 4;
const CREATE_EVERY: Duration = Duration::from_millis(20);
/// How long the last answers may take: more than any deadline there is.
const LAST_ANSWERS: Duration = Duration::from_secs(10);

/// Traffic that runs until it is stopped.
pub(crate) struct Traffic {
    tasks: JoinSet<()>,
    stop: watch::Sender<bool>,
}

impl Traffic {
    pub(crate) fn start(people: &Arc<People>) -> Self {
        let stop = watch::Sender::new(false);
        let mut tasks = JoinSet::new();
        for instance in 0..people.guards.len() {
            for reader in 0..READERS {
                let dice = Strangers(instance as u64 * READERS + reader);
                tasks.spawn(read(Arc::clone(people), instance, dice, stop.subscribe()));
            }
            for creator in 0..CREATORS {
                let first = instance as u64 * CREATORS + creator;
                tasks.spawn(create(Arc::clone(people), instance, first, stop.subscribe()));
            }
        }
        Self { tasks, stop }
    }

    /// Stops the traffic and waits for the last answers.
    ///
    /// # Errors
    ///
    /// How many tasks panicked, or still had no answer.
    pub(crate) async fn end(mut self) -> Result<(), String> {
        self.stop.send_replace(true);
        let mut panicked = 0;
        let all = async {
            while let Some(ended) = self.tasks.join_next().await {
                panicked += usize::from(ended.is_err());
            }
        };
        let ended = timeout(LAST_ANSWERS, all).await.is_ok();
        match (ended, panicked) {
            (true, 0) => Ok(()),
            (true, panicked) => Err(format!("{panicked} tasks panicked")),
            (false, _) => Err(format!("{} tasks never had an answer", self.tasks.len())),
        }
    }
}

type Stop = watch::Receiver<bool>;

async fn read(people: Arc<People>, instance: usize, mut dice: Strangers, stop: Stop) {
    let mut below = |bound: u64| dice.next().expect("there is no end") % bound;
    let mut tick = interval(READ_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // Out of step with the others.
    tick.reset_after(READ_EVERY.mul_f64(below(1_000) as f64 / 1_000.0));
    while !*stop.borrow() {
        tick.tick().await;
        let (about, id) = match below(100) {
            0..40 => (About::Existing, below(ROWS)),
            40..50 => match people.table.newest(64).as_slice() {
                [] => continue,
                newest => (About::Existing, newest[below(newest.len() as u64) as usize]),
            },
            50..55 => (About::Gone, ROWS + below(GONE)),
            _ => (About::Absent, ABSENT + below(1 << 20)),
        };
        people.visit(instance, about, id).await;
    }
}

/// Creates records, and asks every instance for each at once: ids that nobody had before, and every
/// fourth time one that was there before, has been deleted, and may be remembered as missing.
async fn create(people: Arc<People>, instance: usize, first: u64, stop: Stop) {
    // No two creators ever have the same id.
    let creators = people.guards.len() as u64 * CREATORS;
    let mut tick = interval(CREATE_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for turn in 0_u64.. {
        if *stop.borrow() {
            return;
        }
        tick.tick().await;
        let again = turn % 4 == 3;
        let id = if again {
            ROWS + (first + turn / 4 * creators) % (GONE / creators * creators)
        } else {
            NEW + first + turn * creators
        };
        if !people.create(instance, id).await {
            continue;
        }
        join_all((0..people.guards.len()).map(|i| people.visit(i, About::Existing, id))).await;
        if again {
            people.table.delete(id);
        }
    }
}
