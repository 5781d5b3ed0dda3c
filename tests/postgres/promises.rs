//! One promise at a time.

use std::sync::Arc;

use bloom_guard::rebuild::RebuildReport;
use bloom_guard::{BloomGuard, RebuildError};
use tokio::task::JoinHandle;

use crate::api::{Answer, Api, HOMES, Home};
use crate::scan::{Reading, Scan};
use crate::users::{Users, draw};

/// Each home with one of the readings.
const BOTH: [(Home, Reading); 2] =
    [(Home::Redis, Reading::Pages), (Home::Process, Reading::Snapshot)];

type Rebuilding = JoinHandle<Result<RebuildReport, Arc<RebuildError>>>;

fn rebuild(guard: &BloomGuard) -> Rebuilding {
    let guard = guard.clone();
    tokio::spawn(async move { guard.rebuild_now().await })
}

#[tokio::test]
async fn a_transaction_open_across_a_rebuild_is_never_refused() {
    for (home, reading) in BOTH {
        let users = Users::with(1_000).await;
        let api = Api::start(home, &users, &Scan::new(&users, reading), |builder| builder).await;
        let client = users.connect().await.unwrap();
        client.batch_execute("begin").await.unwrap();
        let id = draw(&client).await;
        api.guards[0].insert(&id).await.unwrap();
        for _ in 0..2 {
            let report = api.guards[0].rebuild_now().await.unwrap();
            assert_eq!(report.ids, 1_000, "the scan cannot see it");
            assert_eq!(api.get(id).await, Answer::Missing, "nor can the handler");
        }
        client.batch_execute("commit").await.unwrap();
        assert_eq!(api.get(id).await, Answer::Found, "{home:?} {reading:?}");
        assert_eq!(api.get(id + 1).await, Answer::Refused);
    }
}

#[tokio::test]
async fn a_scan_snapshot_older_than_a_commit_is_made_up_for() {
    for home in HOMES {
        let users = Users::with(1_000).await;
        let scan = Scan::new(&users, Reading::Snapshot);
        let halt = scan.halt();
        let api = Api::start(home, &users, &scan, |builder| builder).await;
        let client = users.connect().await.unwrap();
        client.batch_execute("begin").await.unwrap();
        let before = draw(&client).await;
        api.guards[0].insert(&before).await.unwrap();
        halt.after(1);
        let rebuilding = rebuild(&api.guards[0]);
        halt.arrived().await;
        // The snapshot is taken. One commits that was inserted before it, one is created as a whole.
        client.batch_execute("commit; begin").await.unwrap();
        let during = draw(&client).await;
        api.guards.last().unwrap().insert(&during).await.unwrap();
        client.batch_execute("commit").await.unwrap();
        halt.go();
        assert_eq!(rebuilding.await.unwrap().unwrap().ids, 1_000, "the snapshot holds");
        assert_eq!(api.get(before).await, Answer::Found, "{home:?}");
        assert_eq!(api.get(during).await, Answer::Found, "{home:?}");
    }
}
