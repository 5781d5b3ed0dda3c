//! What the canary finds ends trust once between two statements, where the handler answers for ids that do not exist.

use bloom_guard::{BloomGuard, Doubt, Mode};
use support::eventually;
use support::model::{Table, foreign_guard, get};
use support::redis_server::RedisServer;

use crate::guarded::{SOON, refuses_strangers, trust, untrusted};
use crate::writers::Writer;

const IDS: u64 = 2_000;

/// Has the canary find one more record that the filter lacks.
async fn found(guard: &BloomGuard, table: &Table, id: u64) {
    let before = guard.stats().false_negatives;
    guard.set_mode(Mode::Shadow);
    table.commit(id);
    assert_eq!(get(guard, table, id).await, 200);
    eventually("the canary has looked into it", SOON, || async {
        if guard.stats().false_negatives > before { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await;
    guard.set_mode(Mode::Enforce);
}

#[tokio::test(flavor = "multi_thread")]
async fn records_that_no_program_inserts_end_trust_once_between_two_statements() {
    let server = RedisServer::start();
    let writer = Writer::go_zero(10 * IDS);
    writer.write(&server, 0..IDS);
    let build = || foreign_guard(&server.url()).foreign(writer.filter()).build().unwrap();
    let (guard, table) = (build(), Table::with(0..IDS));
    let other = build();
    for round in 0..2 {
        trust(&guard).await;
        refuses_strangers(&guard, "it is trusted").await;
        refuses_strangers(&other, "it is trusted").await;
        found(&guard, &table, (1 << 40) + round * 10).await;
        for guard in [&guard, &other] {
            untrusted(guard).await;
        }
        // Stated again, it stays: each such id ends no trust in any process, is counted, and is inserted.
        trust(&guard).await;
        refuses_strangers(&other, "it is trusted again").await;
        for (number, guard) in [(1, &guard), (2, &other), (3, &guard)] {
            let id = (1 << 40) + round * 10 + number;
            found(guard, &table, id).await;
            assert!(guard.state().live.is_ok(), "{:?}", guard.state());
            eventually("it is inserted", SOON, || async {
                if writer.reads(&server, id) { Ok(()) } else { Err("not yet".to_owned()) }
            })
            .await;
        }
        refuses_strangers(&guard, "it stays").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_the_filter_lacks_ends_trust_in_all_processes_and_says_why() {
    let server = RedisServer::start();
    let writer = Writer::jedis(10 * IDS);
    writer.write(&server, 0..IDS);
    let build = || foreign_guard(&server.url()).foreign(writer.filter()).build().unwrap();
    let (guard, other, table) = (build(), build(), Table::with(0..IDS));
    trust(&guard).await;
    refuses_strangers(&guard, "it is trusted").await;
    refuses_strangers(&other, "it is trusted").await;
    found(&guard, &table, 1 << 40).await;
    untrusted(&guard).await;
    assert_eq!(guard.state().live.unwrap_err(), Doubt::Disproved);
    untrusted(&other).await;
}
