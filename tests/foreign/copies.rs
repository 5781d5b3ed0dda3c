//! An old copy of a filter that is put back within one Redis process hides nothing, whatever program inserted it.

use std::time::Duration;

use bloom_guard::{BloomGuard, Doubt, Verdict};
use support::eventually;
use support::redis_server::RedisServer;

use crate::guarded::{
    KNOWN, SOON, STRANGERS, connected, refused, refuses_strangers, trust, trusting, untrusted,
};
use crate::writers::Writer;

const IDS: u64 = 2_000;

/// The key of the statement.
pub(crate) fn statement(writer: &Writer) -> String {
    let is_tagged = writer.key.contains('{');
    if is_tagged {
        format!("{}:bg:trust", writer.key)
    } else {
        format!("{{{}}}:bg:trust", writer.key)
    }
}

/// The last two seals.
fn seals(server: &RedisServer, writer: &Writer) -> Vec<Vec<u8>> {
    server.run(&["HMGET", &statement(writer), "seal", "before"])
}

/// Waits until a seal was turned over so many times.
pub(crate) async fn turned_over(server: &RedisServer, writer: &Writer, times: usize) {
    for _ in 0..times {
        let before = seals(server, writer);
        eventually("the seal is turned over", SOON, || async {
            if seals(server, writer)[0] == before[0] { Err("not yet".to_owned()) } else { Ok(()) }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_copy_that_is_put_back_hides_no_insert_of_another_program() {
    let server = RedisServer::start();
    for writer in Writer::all(IDS) {
        server.run::<()>(&["FLUSHALL"]);
        writer.write(&server, 0..IDS);
        let guard = trusting(&server, writer.filter()).await;
        refuses_strangers(&guard, writer.name).await;
        server.run::<()>(&["COPY", writer.key, "copy"]);
        writer.write(&server, STRANGERS.take(5));
        turned_over(&server, &writer, 2).await;
        server.run::<()>(&["COPY", "copy", writer.key, "REPLACE"]);
        let all = || (0..IDS).chain(STRANGERS);
        assert_eq!(refused(&guard, all()).await, [0; 0], "{}", writer.name);
        let other = connected(&server, writer.filter()).await;
        assert_eq!(refused(&other, all()).await, [0; 0], "{}, another process", writer.name);
        // With what was missing it is trusted again, though its seal is an old one.
        writer.write(&server, STRANGERS.take(5));
        trust(&guard).await;
        assert_eq!(refused(&guard, (0..IDS).chain(STRANGERS.take(5))).await, [0; 0]);
        refuses_strangers(&guard, writer.name).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_with_the_seal_before_the_last_is_noticed_when_the_seal_is_turned_over() {
    let server = RedisServer::start();
    let writer = Writer::go_zero(IDS);
    writer.write(&server, 0..IDS);
    let guard = trusting(&server, writer.filter()).await;
    server.run::<()>(&["COPY", writer.key, "copy"]);
    turned_over(&server, &writer, 1).await;
    server.run::<()>(&["COPY", "copy", writer.key, "REPLACE"]);
    untrusted(&guard).await;
    assert_eq!(refused(&guard, STRANGERS).await, [0; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn turning_a_seal_over_leaves_no_check_unknown_and_is_done_once_a_second_by_all_together() {
    let server = RedisServer::start();
    let writer = Writer::go_zero(IDS);
    writer.write(&server, 0..IDS);
    let mut guards = vec![trusting(&server, writer.filter()).await];
    for _ in 0..3 {
        let guard = connected(&server, writer.filter()).await;
        guard.ready().await;
        guards.push(guard);
    }
    let begun = std::time::Instant::now();
    let (mut turns, mut last) = (0, seals(&server, &writer));
    while begun.elapsed() < Duration::from_secs(4) {
        for guard in &guards {
            let known = KNOWN.chain(STRANGERS);
            for verdict in guard.check_many(known).await.unwrap() {
                let is_known =
                    !matches!(verdict, Verdict::Unknown(doubt) if doubt != Doubt::Timeout);
                assert!(is_known, "{verdict:?}: {:?}", guard.state());
            }
        }
        let now = seals(&server, &writer);
        turns += u32::from(now != last);
        last = now;
    }
    assert!((2..=5).contains(&turns), "{turns} turns in four seconds");
    guards.iter().for_each(|guard: &BloomGuard| assert!(guard.state().live.is_ok()));
}

#[tokio::test(flavor = "multi_thread")]
async fn bits_that_are_set_after_the_statement_are_watched_too() {
    let server = RedisServer::start();
    let writer = Writer::go_zero(IDS);
    writer.write(&server, KNOWN);
    let guard = trusting(&server, writer.filter()).await;
    let few: Vec<u8> =
        server.run(&["GETRANGE", writer.key, "0", &(writer.bits / 8 - 1).to_string()]);
    writer.write(&server, 0..IDS);
    turned_over(&server, &writer, 2).await;
    assert!(guard.state().live.is_ok());
    // Back to what there was, but for the seal.
    let mut set = redis::cmd("SETRANGE");
    set.arg(writer.key).arg(0).arg(few).exec(&mut server.connection()).unwrap();
    untrusted(&guard).await;
    assert_eq!(refused(&guard, STRANGERS).await, [0; 0]);
}

/// Without them a look would find nothing wrong, and an old copy would not show.
#[tokio::test(flavor = "multi_thread")]
async fn a_statement_whose_witnesses_were_taken_away_is_not_relied_on() {
    let server = RedisServer::start();
    let writer = Writer::go_zero(IDS);
    writer.write(&server, 0..IDS);
    let guard = trusting(&server, writer.filter()).await;
    refuses_strangers(&guard, "it is trusted").await;
    server.run::<()>(&["HDEL", &statement(&writer), "witnesses"]);
    untrusted(&guard).await;
    trust(&guard).await;
    refuses_strangers(&guard, "it is trusted again").await;
}
