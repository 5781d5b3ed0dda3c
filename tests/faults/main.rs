//! A table of faults: what a service behind the guard sees while Redis, or the way to it, breaks.
//!
//! Each row is one fault on a redis-server of its own, under live traffic through two instances of a
//! service: ids that exist, ids that do not, ids that were deleted, and records created all the while.
//! Some rows run at the same time, as each mostly waits. `FAULTS=word,word` runs the rows whose names contain one of the words.

mod account;
mod data;
mod memory;
mod network;
mod process;
mod recovery;
mod refusal;
mod site;
mod table;
mod traffic;

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use account::Phase;
use bloom_guard::Verdict;
use futures_util::future::join_all;
use site::Site;

use table::{Filter, Row, print};
use traffic::Traffic;

/// How long a fault lasts that does not end by itself.
const LASTS: Duration = Duration::from_secs(2);
/// How long the traffic runs before a fault and after the recovery.
const BEFORE: Duration = Duration::from_millis(300);
const AFTER: Duration = Duration::from_millis(500);
/// Rows that run at the same time.
const AT_ONCE: usize = 4;

/// Something that goes wrong, and ends.
struct Fault {
    name: &'static str,
    filter: Filter,
    server: &'static [&'static str],
    /// `user:password@`, where a row needs other rights than all.
    credentials: &'static str,
    happens: for<'a> fn(&'a mut Site) -> Happening<'a>,
}

/// Lasts as long as the fault.
type Happening<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

impl Fault {
    const fn new(
        name: &'static str,
        filter: Filter,
        happens: for<'a> fn(&'a mut Site) -> Happening<'a>,
    ) -> Self {
        Self { name, filter, server: &[], credentials: "", happens }
    }

    const fn on(self, server: &'static [&'static str]) -> Self {
        Self { server, ..self }
    }

    const fn with(self, credentials: &'static str) -> Self {
        Self { credentials, ..self }
    }

    async fn row(&self) -> Row {
        let mut site = Site::open(self.server, self.credentials).await;
        let people = site.people.clone();
        let account = &people.account;
        let traffic = Traffic::start(&people);
        tokio::time::sleep(BEFORE).await;

        account.enter(Phase::During);
        (self.happens)(&mut site).await;
        let recovery = recovery::recovered(&people).await;
        account.enter(Phase::After);
        tokio::time::sleep(AFTER).await;

        let ended = traffic.end().await;
        sweep(&site).await;
        drop(site);
        let load = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
        Row {
            fault: self.name,
            filter: self.filter,
            sums: account.sums(),
            inserts: (load(&account.inserts), load(&account.inserts_failed)),
            recovery,
            trouble: ended.err().into_iter().collect(),
        }
    }
}

/// Asks every instance for every record there is.
async fn sweep(site: &Site) {
    let people = &site.people;
    for (instance, guard) in people.guards.iter().enumerate() {
        for ids in people.table.snapshot().chunks(64) {
            let verdicts = join_all(ids.iter().map(|id| guard.check(id))).await;
            for (id, verdict) in ids.iter().zip(verdicts) {
                if let Ok(Verdict::Absent(proof)) = verdict {
                    let what = format!("{id} by instance {instance} in the end, {proof:?}");
                    people.account.false_404(what);
                }
            }
        }
    }
}

/// Counts panics, wherever they are caught.
fn count_panics() -> Arc<AtomicU64> {
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        counted.fetch_add(1, Ordering::SeqCst);
        print(panic);
    }));
    count
}

fn chosen(fault: &Fault) -> bool {
    let words = std::env::var("FAULTS").unwrap_or_default();
    words.split(',').any(|word| fault.name.contains(word.trim()))
}

#[test]
fn no_fault_refuses_what_exists_or_outlasts_its_end() {
    let panics = count_panics();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let faults = [process::FAULTS, data::FAULTS, memory::FAULTS, refusal::FAULTS, network::FAULTS];
    let chosen: Vec<&Fault> = faults.into_iter().flatten().filter(|fault| chosen(fault)).collect();
    assert!(!chosen.is_empty(), "FAULTS names none of the rows");
    let (next, rows) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(fault) = chosen.get(next.fetch_add(1, Ordering::SeqCst)) {
                    // The faults are made on this thread, which may block: the traffic runs on others.
                    let row = runtime.block_on(fault.row());
                    print(&row);
                    rows.lock().unwrap().push(row);
                }
            });
        }
    });
    let rows = rows.into_inner().unwrap();
    let broken: Vec<_> = rows
        .iter()
        .flat_map(|row| row.broken().into_iter().map(move |what| (row.fault, what)))
        .collect();
    assert!(broken.is_empty(), "{broken:#?}");
    assert_eq!(panics.load(Ordering::SeqCst), 0, "wherever they were caught");
}
