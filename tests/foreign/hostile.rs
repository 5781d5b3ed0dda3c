//! Whatever becomes of a key, no id that exists is refused.

use bloom_guard::{BloomGuard, Doubt, ForeignFilter, Verdict};
use support::eventually;
use support::redis_server::RedisServer;

use crate::guarded::{
    KNOWN, SOON, STRANGERS, connected, refused, refuses, refuses_strangers, trust, trust_by,
    trusting, untrusted,
};
use crate::writers::Writer;

const IDS: u64 = 1_000;

/// A filter of each system, with ids in it and a guard that refuses what it lacks.
async fn each(test: impl AsyncFn(&RedisServer, &Writer, BloomGuard)) {
    let server = RedisServer::start();
    for writer in Writer::all(2 * IDS) {
        println!("{}", writer.name);
        server.run::<()>(&["FLUSHALL"]);
        writer.write(&server, 0..IDS);
        let guard = trusting(&server, writer.filter()).await;
        refuses_strangers(&guard, "the guard refuses").await;
        test(&server, &writer, guard).await;
    }
}

/// Nothing is refused, neither by a process that has seen the filter nor by one that starts now.
async fn nothing_is_refused(server: &RedisServer, writer: &Writer, guard: &BloomGuard) {
    let all = || (0..IDS).chain(STRANGERS);
    assert_eq!(refused(guard, all()).await, [0; 0], "{}", writer.name);
    let other = connected(server, writer.filter()).await;
    assert_eq!(refused(&other, all()).await, [0; 0], "{}, another process", writer.name);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_refused_before_the_filter_was_said_to_be_whole() {
    let server = RedisServer::start();
    for writer in Writer::all(IDS) {
        server.run::<()>(&["FLUSHALL"]);
        writer.write(&server, 0..IDS / 2);
        let guard = connected(&server, writer.filter()).await;
        let verdict = guard.check(&STRANGERS.start).await;
        assert_eq!(verdict, Ok(Verdict::Unknown(Doubt::NoFilter)), "{}", writer.name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_filter_cannot_be_said_to_be_whole() {
    let server = RedisServer::start();
    for writer in Writer::all(IDS) {
        server.run::<()>(&["FLUSHALL"]);
        writer.write(&server, []);
        let guard = connected(&server, writer.filter()).await;
        let foreign = guard.foreign().unwrap();
        let inspected = foreign.inspect().await.unwrap();
        assert_eq!(inspected.ids, 0);
        assert!(foreign.trust_after(&inspected, KNOWN).await.is_err(), "{}", writer.name);
        assert_eq!(refused(&guard, STRANGERS).await, [0; 0], "{}", writer.name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_said_holds_for_processes_that_start_later() {
    each(async |server, writer, first| {
        drop(first);
        let next = connected(server, writer.filter()).await;
        next.ready().await;
        refuses_strangers(&next, writer.name).await;
        assert_eq!(refused(&next, 0..IDS).await, [0; 0]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_key_refuses_nothing() {
    each(async |server, writer, guard| {
        server.run::<()>(&["DEL", writer.key]);
        nothing_is_refused(server, writer, &guard).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_another_type_refuses_nothing() {
    each(async |server, writer, guard| {
        server.run::<()>(&["DEL", writer.key]);
        server.run::<()>(&["LPUSH", writer.key, "x"]);
        nothing_is_refused(server, writer, &guard).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_was_emptied_and_is_filled_again_refuses_nothing() {
    each(async |server, writer, guard| {
        server.run::<()>(&["DEL", writer.key]);
        writer.write(server, IDS / 100..IDS);
        nothing_is_refused(server, writer, &guard).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_took_the_other_ones_place_refuses_nothing() {
    each(async |server, writer, guard| {
        writer.write_to("other", server, IDS / 2..IDS);
        server.run::<()>(&["RENAME", "other", writer.key]);
        nothing_is_refused(server, writer, &guard).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_was_away_for_a_moment_refuses_nothing_then_and_later() {
    each(async |server, writer, guard| {
        server.run::<()>(&["RENAME", writer.key, "away"]);
        assert_eq!(refused(&guard, 0..IDS).await, [0; 0]);
        // What others insert meanwhile is lost.
        writer.write(server, IDS..IDS + 1);
        server.run::<()>(&["RENAME", "away", writer.key]);
        assert_eq!(refused(&guard, IDS..IDS + 1).await, [0; 0], "{}", writer.name);
        nothing_is_refused(server, writer, &guard).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_insert_that_another_key_took_is_not_hidden_by_the_next_one() {
    each(async |server, writer, guard| {
        server.run::<()>(&["RENAME", writer.key, "away"]);
        guard.insert(&STRANGERS.start).await.unwrap();
        server.run::<()>(&["RENAME", "away", writer.key]);
        guard.insert(&(STRANGERS.start + 1)).await.unwrap();
        assert_eq!(refused(&guard, [STRANGERS.start]).await, [0; 0], "{}", writer.name);
        nothing_is_refused(server, writer, &guard).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loss_is_remembered_also_where_the_statement_cannot_be_taken_back() {
    let server = RedisServer::start();
    let writer = Writer::go_zero(2 * IDS);
    writer.write(&server, 0..IDS);
    let guard = trusting(&server, writer.filter()).await;
    refuses_strangers(&guard, "the guard refuses").await;
    server.run::<()>(&["ACL", "SETUSER", "default", "-eval"]);
    server.run::<()>(&["RENAME", writer.key, "away"]);
    assert_eq!(refused(&guard, 0..IDS).await, [0; 0]);
    writer.write(&server, IDS..IDS + 1);
    server.run::<()>(&["RENAME", "away", writer.key]);
    assert_eq!(refused(&guard, (0..IDS + 1).chain(STRANGERS)).await, [0; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_is_shorter_than_it_was_refuses_nothing() {
    each(async |server, writer, guard| {
        let whole: Vec<u8> = server.run(&["GET", writer.key]);
        let mut set = redis::cmd("SET");
        set.arg(writer.key).arg(&whole[..whole.len() * 9 / 10]);
        set.exec(&mut server.connection()).unwrap();
        nothing_is_refused(server, writer, &guard).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_copy_that_is_put_back_hides_no_insert_of_this_process() {
    each(async |server, writer, guard| {
        server.run::<()>(&["COPY", writer.key, "copy"]);
        guard.insert(&IDS).await.unwrap();
        assert_eq!(refused(&guard, [IDS]).await, [0; 0]);
        server.run::<()>(&["COPY", "copy", writer.key, "REPLACE"]);
        assert_eq!(refused(&guard, [IDS]).await, [0; 0], "{}", writer.name);
        assert_eq!(refused(&guard, STRANGERS).await, [0; 0], "{}", writer.name);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flush_refuses_nothing_whatever_is_written_after_it() {
    each(async |server, writer, guard| {
        server.run::<()>(&["FLUSHALL"]);
        writer.write(server, 10..IDS);
        nothing_is_refused(server, writer, &guard).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flush_between_two_processes_refuses_nothing() {
    each(async |server, writer, guard| {
        drop(guard);
        server.run::<()>(&["FLUSHALL"]);
        writer.write(server, 10..IDS);
        let next = connected(server, writer.filter()).await;
        assert_eq!(refused(&next, 0..IDS).await, [0; 0], "{}", writer.name);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_was_emptied_between_two_processes_refuses_nothing() {
    each(async |server, writer, guard| {
        drop(guard);
        server.run::<()>(&["DEL", writer.key]);
        writer.write(server, IDS / 10..IDS);
        let next = connected(server, writer.filter()).await;
        assert_eq!(refused(&next, 0..IDS).await, [0; 0], "{}", writer.name);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_dump_refuses_nothing_neither_to_an_old_process_nor_to_a_new_one() {
    for writer in Writer::all(2 * IDS) {
        let mut server = RedisServer::start();
        writer.write(&server, 0..IDS);
        let guard = trusting(&server, writer.filter()).await;
        server.run::<()>(&["SAVE"]);
        writer.write(&server, IDS..IDS + 1);
        guard.insert(&(IDS + 1)).await.unwrap();
        server.restart();
        writer.write(&server, IDS + 2..IDS + 3);
        reconnected(&guard).await;
        assert_eq!(refused(&guard, (0..IDS + 3).chain(STRANGERS)).await, [0; 0], "{}", writer.name);
        nothing_is_refused(&server, &writer, &guard).await;
        // By hand, when it is known to be whole again.
        writer.write(&server, IDS..IDS + 2);
        trust(&guard).await;
        refuses_strangers(&guard, writer.name).await;
        assert_eq!(refused(&guard, 0..IDS + 3).await, [0; 0], "{}", writer.name);
    }
}

/// Waits until a guard asks Redis again.
async fn reconnected(guard: &BloomGuard) {
    eventually("a connection", SOON, || async {
        match guard.check(&0).await.unwrap() {
            Verdict::Unknown(Doubt::Disconnected | Doubt::Timeout | Doubt::Changing) => {
                Err("not connected".to_owned())
            }
            _ => Ok(()),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_refuses_nothing() {
    let primary = RedisServer::start();
    each(async |server, writer, guard| {
        server.run::<()>(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()]);
        assert_eq!(refused(&guard, 0..IDS).await, [0; 0], "{}", writer.name);
        server.run::<()>(&["REPLICAOF", "NO", "ONE"]);
        writer.write(server, 1..IDS);
        reconnected(&guard).await;
        nothing_is_refused(server, writer, &guard).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_that_change_refuse_nothing_then_and_later() {
    each(async |server, writer, guard| {
        let Some((config, fields)) = &writer.config else { return };
        let hset = |words: &[&str]| server.run::<()>(&[&["HSET", *config], words].concat());
        let fields: Vec<&str> = fields.iter().flat_map(|(field, value)| [*field, value]).collect();
        let (size, bits) =
            if writer.name == "Orestes" { ("m", writer.bits) } else { ("size", writer.bits) };
        hset(&[size, &(bits - 1).to_string()]);
        assert_eq!(refused(&guard, 0..IDS).await, [0; 0], "{}", writer.name);
        hset(&fields);
        nothing_is_refused(server, writer, &guard).await;
        trust(&guard).await;
        refuses_strangers(&guard, "the guard refuses").await;
        server.run::<()>(&["DEL", config]);
        assert_eq!(refused(&guard, 0..IDS).await, [0; 0], "{}", writer.name);
        guard.insert(&7).await.expect_err("no client would find it");
        hset(&fields);
        nothing_is_refused(server, writer, &guard).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_size_than_the_one_that_was_trusted_refuses_nothing() {
    let server = RedisServer::start();
    Writer::go_zero(IDS).write(&server, 0..IDS);
    let key = Writer::go_zero(IDS).key;
    let _guard = trusting(&server, Writer::go_zero(IDS).filter()).await;
    let wrong = connected(&server, ForeignFilter::go_zero(key, 20 * IDS + 1)).await;
    assert_eq!(refused(&wrong, 0..IDS).await, [0; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_process_finds_lost_no_other_trusts() {
    each(async |server, writer, guard| {
        let others =
            [connected(server, writer.filter()).await, connected(server, writer.filter()).await];
        for other in &others {
            other.ready().await;
        }
        server.run::<()>(&["RENAME", writer.key, "away"]);
        assert_eq!(refused(&guard, 0..IDS).await, [0; 0], "{}", writer.name);
        server.run::<()>(&["RENAME", "away", writer.key]);
        // All is as it was but for the statement.
        for other in &others {
            assert!(!refuses(other).await, "{}", writer.name);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_was_lost_after_it_was_inspected_is_not_trusted() {
    each(async |server, writer, guard| {
        let foreign = guard.foreign().unwrap();
        let inspected = foreign.inspect().await.unwrap();
        server.run::<()>(&["DEL", writer.key]);
        writer.write(server, IDS / 2..IDS);
        assert!(foreign.trust_after(&inspected, KNOWN).await.is_err(), "{}", writer.name);
        nothing_is_refused(server, writer, &guard).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_that_is_lost_refuses_nothing_of_its_own() {
    let servers = [RedisServer::start(), RedisServer::start()];
    let url = servers[1].url();
    // The whole of PHP's hash, so that there are hardly any false positives.
    let filter = || ForeignFilter::php_bkdr_sharded("php", 1 << 31, 3, &[&url]);
    let guard = connected(&servers[0], filter()).await;
    guard.insert_many(0..IDS).await.unwrap();
    // The hashes of shorter ids would be the same under any number of bits.
    let long = 5_000_000..5_000_100;
    guard.insert_many(long.clone()).await.unwrap();
    trust_by(&guard, long).await;
    let absent = refused(&guard, STRANGERS).await;
    assert_eq!(absent.len(), STRANGERS.count());
    let (here, there): (Vec<u64>, Vec<u64>) =
        absent.into_iter().partition(|id| crc32fast::hash(id.to_string().as_bytes()) & 1 == 0);
    servers[1].run::<()>(&["DEL", "php.0"]);
    assert_eq!(refused(&guard, 0..IDS).await, [0; 0]);
    assert_eq!(refused(&guard, here.clone()).await, here);
    assert_eq!(refused(&guard, there).await, [0; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_without_room_for_a_seal_cannot_be_said_to_be_whole() {
    let server = RedisServer::start();
    let guard = connected(&server, ForeignFilter::go_zero("full", 1 << 32)).await;
    // Its bits are all in the first bytes.
    server.run::<()>(&["SETBIT", "full", "7", "1"]);
    let foreign = guard.foreign().unwrap();
    let inspected = foreign.inspect().await.unwrap();
    assert!(foreign.trust_after(&inspected, KNOWN).await.is_err());
    assert_eq!(refused(&guard, STRANGERS).await, [0; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn bits_that_are_cleared_are_noticed() {
    each(async |server, writer, guard| {
        let half = "\0".repeat(writer.bits as usize / 16);
        server.run::<()>(&["SETRANGE", writer.key, "0", &half]);
        eventually("nothing is refused", SOON, || async {
            if refuses(&guard).await { Err("something is".to_owned()) } else { Ok(()) }
        })
        .await;
        nothing_is_refused(server, writer, &guard).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_begins_when_trust_has_ended_lets_no_flood_pass() {
    each(async |server, writer, guard| {
        server.run::<()>(&["DEL", writer.key]);
        assert_eq!(refused(&guard, STRANGERS).await, [0; 0]);
        untrusted(&guard).await;
        let newcomer = connected(server, writer.filter()).await;
        // As for the process that has seen it: there was a filter, and what is unknown shares the lane.
        let verdicts = newcomer.check_many(STRANGERS).await.unwrap();
        let gone = verdicts.iter().all(|verdict| *verdict == Verdict::Unknown(Doubt::Gone));
        assert!(gone, "{}: {verdicts:?}", writer.name);
    })
    .await;
}
