//! One promise at a time.

use std::sync::Arc;
use std::time::Duration;

use bloom_guard::{BloomGuard, Builder, Proof, RebuildError, RebuildReport, Removed, Verdict};
use tokio::task::JoinHandle;

use crate::api::{Answer, Api, HOMES};
use crate::scan::{Reading, Scan};
use crate::users::{Users, draw};
use support::eventually;

const READINGS: [Reading; 2] = [Reading::Pages, Reading::Snapshot];

type Rebuilding = JoinHandle<Result<RebuildReport, Arc<RebuildError>>>;

fn rebuild(guard: &BloomGuard) -> Rebuilding {
    let guard = guard.clone();
    tokio::spawn(async move { guard.rebuild_now().await })
}

#[tokio::test]
async fn a_transaction_open_across_a_rebuild_is_never_refused() {
    for (home, reading) in HOMES.into_iter().flat_map(|home| READINGS.map(|it| (home, it))) {
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
async fn an_id_drawn_before_and_committed_after_its_successor_is_kept() {
    for home in HOMES {
        let users = Users::with(1_000).await;
        let scan = Scan::new(&users, Reading::Pages);
        let halt = scan.halt();
        let api = Api::start(home, &users, &scan, |builder| builder).await;
        let (slow, quick) = (users.connect().await.unwrap(), users.connect().await.unwrap());
        slow.batch_execute("begin").await.unwrap();
        let early = draw(&slow).await;
        api.guards[0].insert(&early).await.unwrap();
        quick.batch_execute("begin").await.unwrap();
        let late = draw(&quick).await;
        assert_eq!(late, early + 1);
        api.guards[0].insert(&late).await.unwrap();
        quick.batch_execute("commit").await.unwrap();
        // The scan has passed both and seen the later one only.
        halt.after(11);
        let rebuilding = rebuild(&api.guards[0]);
        halt.arrived().await;
        slow.batch_execute("commit").await.unwrap();
        halt.go();
        assert_eq!(rebuilding.await.unwrap().unwrap().ids, 1_001);
        assert_eq!(api.get(early).await, Answer::Found, "{home:?}");
        assert_eq!(api.get(late).await, Answer::Found, "{home:?}");
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

/// What a scan that broke off must leave behind: the filter that was live, and a way on.
async fn nothing_changed(api: &Api, error: &RebuildError, created: i64) {
    assert!(matches!(error, RebuildError::Source(_)), "{error:?}");
    assert_eq!(api.get(1_000).await, Answer::Found, "behind the place where it broke off");
    assert_eq!(api.get(created).await, Answer::Found);
    assert_eq!(api.get(created + 1).await, Answer::Refused, "the live filter still refuses");
}

#[tokio::test]
async fn a_scan_whose_server_process_dies_midway_swaps_nothing() {
    for (home, reading) in HOMES.into_iter().flat_map(|home| READINGS.map(|it| (home, it))) {
        let users = Users::with(1_000).await;
        let scan = Scan::new(&users, reading);
        let halt = scan.halt();
        let api = Api::start(home, &users, &scan, |builder| builder).await;
        let live = api.guards[0].state().live.unwrap().generation;
        halt.after(3);
        let rebuilding = rebuild(&api.guards[0]);
        let process = halt.arrived().await;
        let client = users.connect().await.unwrap();
        client.batch_execute("begin").await.unwrap();
        let id = draw(&client).await;
        api.guards[0].insert(&id).await.unwrap();
        client.batch_execute("commit").await.unwrap();
        users.terminate(process).await;
        halt.go();
        let error = rebuilding.await.unwrap().unwrap_err();
        nothing_changed(&api, &error, id).await;
        assert_eq!(api.guards[0].state().live.unwrap().generation, live);
        assert_eq!(api.guards[0].rebuild_now().await.unwrap().ids, 1_001);
        assert_eq!(api.get(id).await, Answer::Found);
    }
}

#[tokio::test]
async fn a_scan_that_the_server_fails_midway_swaps_nothing() {
    for home in HOMES {
        let users = Users::with(1_000).await;
        let scan = Scan::new(&users, Reading::Pages);
        let api = Api::start(home, &users, &scan, |builder| builder).await;
        let live = api.guards[0].state().live.unwrap().generation;
        users.poison(450, true).await;
        let client = users.connect().await.unwrap();
        client.batch_execute("begin").await.unwrap();
        let id = draw(&client).await;
        api.guards[0].insert(&id).await.unwrap();
        let error = api.guards[0].rebuild_now().await.unwrap_err();
        client.batch_execute("commit").await.unwrap();
        assert!(format!("{error:?}").contains("E22012"), "division by zero, {error:?}");
        nothing_changed(&api, &error, id).await;
        assert_eq!(api.guards[0].state().live.unwrap().generation, live);
        users.poison(450, false).await;
        assert_eq!(api.guards[0].rebuild_now().await.unwrap().ids, 1_001);
        assert_eq!(api.get(id).await, Answer::Found);
    }
}

#[tokio::test]
async fn a_deleted_user_is_refused_once_removed_and_found_once_recreated() {
    for home in HOMES {
        let users = Users::with(1_000).await;
        let scan = Scan::new(&users, Reading::Pages);
        let brief = |builder: Builder| {
            let brief = builder.longest_transaction(Duration::from_secs(2));
            brief.handler_time(Duration::from_millis(100))
        };
        let api = Api::start(home, &users, &scan, brief).await;
        let client = users.connect().await.unwrap();
        client.execute("delete from users where id = 500", &[]).await.unwrap();
        eventually("the removal is remembered", Duration::from_secs(30), || async {
            match api.guards[0].remove(&500_i64).await.unwrap() {
                Removed::Remembered => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        api.may_pass_once(500).await;
        let lookups = users.lookups();
        assert_eq!(api.get(500).await, Answer::Refused);
        assert_eq!(users.lookups(), lookups, "the database is spared");
        client.batch_execute("begin").await.unwrap();
        client.execute("insert into users (id) values (500)", &[]).await.unwrap();
        api.guards[0].insert(&500_i64).await.unwrap();
        assert_eq!(api.get(500).await, Answer::Missing, "not committed yet");
        client.batch_execute("commit").await.unwrap();
        assert_eq!(api.get(500).await, Answer::Found);
    }
}

/// A delete that is told in time, and a create that overtakes it.
#[tokio::test]
async fn a_late_removal_does_not_hide_a_recreated_user() {
    for home in HOMES {
        let users = Users::with(1_000).await;
        let scan = Scan::new(&users, Reading::Pages);
        let api = Api::start(home, &users, &scan, |builder| builder).await;
        let client = users.connect().await.unwrap();
        client.execute("delete from users where id = 500", &[]).await.unwrap();
        client.batch_execute("begin").await.unwrap();
        client.execute("insert into users (id) values (500)", &[]).await.unwrap();
        api.guards[0].insert(&500_i64).await.unwrap();
        let removed = api.guards.last().unwrap().remove(&500_i64).await.unwrap();
        assert_eq!(removed, Removed::Withheld);
        client.batch_execute("commit").await.unwrap();
        assert_eq!(api.get(500).await, Answer::Found);
    }
}

#[tokio::test]
async fn a_rolled_back_transaction_costs_look_ups_and_no_more() {
    for home in HOMES {
        let users = Users::with(1_000).await;
        let scan = Scan::new(&users, Reading::Pages);
        let brief = |builder: Builder| {
            let brief = builder.longest_transaction(Duration::from_secs(1));
            // What was inserted is told apart from what is gone for this much longer.
            brief.handler_time(Duration::from_millis(100))
        };
        let api = Api::start(home, &users, &scan, brief).await;
        let client = users.connect().await.unwrap();
        client.batch_execute("begin").await.unwrap();
        let id = draw(&client).await;
        api.guards[0].insert(&id).await.unwrap();
        client.batch_execute("rollback").await.unwrap();
        assert_eq!(api.guards[0].check(&id).await.unwrap(), Verdict::Present);
        assert_eq!(api.get(id).await, Answer::Missing);
        eventually("it is forgotten", Duration::from_secs(30), || async {
            api.guards[0].rebuild_now().await.map_err(|error| error.to_string())?;
            let verdict = api.guards[0].check(&id).await.unwrap();
            let forgotten = verdict == Verdict::Absent(Proof::Filter);
            if forgotten { Ok(()) } else { Err(format!("{verdict:?}")) }
        })
        .await;
        api.may_pass_once(id).await;
        assert_eq!(api.get(id).await, Answer::Refused);
    }
}
