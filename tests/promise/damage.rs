//! Whatever happens to the keys in Redis, an id that exists is not refused.

use std::time::Duration;

use bloom_guard::{BloomGuard, Doubt, Verdict};
use http::StatusCode;
use support::eventually;
use support::model::{Table, brief, get, get_looked_up, guard, guard_over, live};
use support::redis_server::RedisServer;

const BITS: &str = "bg:{users}:bits";

/// Builds a filter over 1,000 ids, hands the server to `damage`, and proves that nothing is refused
/// afterwards, by an instance that knew the filter and by one that starts now.
async fn nothing_is_refused_after(damage: impl FnOnce(&RedisServer), doubt: Doubt) {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let builder = guard_over(&redis.url(), &table).build().unwrap();
    live(&builder).await;
    drop(builder);
    let witness = guard(&redis.url()).build().unwrap();
    live(&witness).await;

    damage(&redis);

    let newcomer = guard(&redis.url()).build().unwrap();
    doubts(&newcomer, doubt).await;
    for guard in [&witness, &newcomer] {
        for id in (0..1_000).step_by(7) {
            assert_eq!(get_looked_up(guard, &table, id).await, StatusCode::OK, "{id}");
        }
        assert_eq!(get(guard, &table, 5_000).await, StatusCode::NOT_FOUND);
    }
    assert_eq!(newcomer.stats().absent_by_filter, 0);
    if doubt != Doubt::NoFilter {
        let trouble = newcomer.state().trouble.expect("a doubt has words");
        assert!(trouble.contains(BITS), "the key is named: {trouble}");
    }

    let before = stateless(&redis);
    newcomer.insert(&7_000).await.expect("an insert is journalled all the same");
    assert_eq!(stateless(&redis), before, "an insert writes nothing else into the damaged key");

    heals(&redis, &table, &[&witness, &newcomer]).await;
}

/// Waits until a guard is connected and says this of the filter.
async fn doubts(guard: &BloomGuard, doubt: Doubt) {
    support::eventually("the guard knows why", Duration::from_secs(5), || async {
        match guard.check(&1).await.unwrap() {
            Verdict::Unknown(found) if found == doubt => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

/// A rebuild puts everything right.
async fn heals(redis: &RedisServer, table: &Table, guards: &[&BloomGuard]) {
    table.commit(7_000);
    let builder = guard_over(&redis.url(), table).build().unwrap();
    live(&builder).await;
    for guard in guards {
        live(guard).await;
        for id in table.snapshot() {
            assert_eq!(guard.check(&id).await.unwrap(), Verdict::Present, "{id}");
        }
    }
}

fn dump(redis: &RedisServer) -> Option<Vec<u8>> {
    redis.run(&["DUMP", BITS])
}

/// What the key holds, but for the state: an insert may say there that this is no filter any more.
fn stateless(redis: &RedisServer) -> Option<Vec<u8>> {
    if redis.run::<String>(&["TYPE", BITS]) != "string" {
        return dump(redis);
    }
    let mut bytes: Vec<u8> = redis.run(&["GET", BITS]);
    if let Some(state) = bytes.get_mut(11).filter(|state| **state == 0x55) {
        *state = 0;
    }
    Some(bytes)
}

#[tokio::test]
async fn a_missing_filter_never_refuses() {
    let delete = |redis: &RedisServer| assert_eq!(redis.run::<i64>(&["DEL", BITS]), 1);
    nothing_is_refused_after(delete, Doubt::NoFilter).await;
}

#[tokio::test]
async fn an_emptied_redis_never_refuses() {
    let flush = |redis: &RedisServer| redis.run::<()>(&["FLUSHALL"]);
    nothing_is_refused_after(flush, Doubt::NoFilter).await;
}

#[tokio::test]
async fn an_evicted_filter_never_refuses() {
    let evict = |redis: &RedisServer| {
        redis.run::<()>(&["CONFIG", "SET", "maxmemory-policy", "allkeys-random"]);
        redis.run::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
        while redis.run::<i64>(&["EXISTS", BITS]) == 1 {
            // Every command evicts until the limit is kept, which it never is.
        }
        redis.run::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
    };
    nothing_is_refused_after(evict, Doubt::NoFilter).await;
}

#[tokio::test]
async fn a_key_of_another_type_never_refuses_and_is_left_alone() {
    let retype = |redis: &RedisServer| {
        redis.run::<()>(&["DEL", BITS]);
        redis.run::<()>(&["HSET", BITS, "somebody", "else"]);
    };
    nothing_is_refused_after(retype, Doubt::WrongType).await;
}

/// Journal, marks, metadata and lease, each of another type: inserts and rebuilds go on, and nothing is destroyed.
#[tokio::test]
async fn keys_of_another_type_are_put_aside_and_what_they_held_counts_as_lost() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = brief(guard_over(&redis.url(), &table)).build().unwrap();
    for (number, part) in (2_000_u64..).zip(["log", "marks", "meta", "lock"]) {
        live(&guard).await;
        guard.insert(&number).await.unwrap();
        let key = format!("bg:{{users}}:{part}");
        redis.run::<()>(&["DEL", &key]);
        redis.run::<()>(&["SADD", &key, "somebody else's"]);
        let again = number + 100;
        eventually("inserts work again", Duration::from_secs(10), || async {
            guard.insert(&again).await.map_err(|error| error.to_string())?;
            let aside: Vec<String> = redis.run(&["SMEMBERS", &format!("{key}:aside")]);
            if aside == ["somebody else's"] { Ok(()) } else { Err(format!("{part}: {aside:?}")) }
        })
        .await;
        table.commit(number);
        table.commit(again);
        for id in [number, again] {
            assert_eq!(get_looked_up(&guard, &table, id).await, StatusCode::OK, "{part}");
        }
        eventually("rebuilds work again", Duration::from_secs(10), || async {
            guard.rebuild_now().await.map(drop).map_err(|error| error.to_string())
        })
        .await;
        assert_eq!(get(&guard, &table, 5_000).await, StatusCode::NOT_FOUND, "{part}");
        assert_eq!(get_looked_up(&guard, &table, number).await, StatusCode::OK, "{part}");
    }
}

#[tokio::test]
async fn a_truncated_filter_never_refuses() {
    let truncate = |redis: &RedisServer| {
        let whole: Vec<u8> = redis.run(&["GET", BITS]);
        redis::cmd("SET")
            .arg(BITS)
            .arg(&whole[..whole.len() - 8])
            .exec(&mut redis.connection())
            .unwrap();
    };
    nothing_is_refused_after(truncate, Doubt::Truncated).await;
}

#[tokio::test]
async fn an_empty_string_never_refuses() {
    nothing_is_refused_after(|redis| redis.run(&["SET", BITS, ""]), Doubt::Foreign).await;
}

#[tokio::test]
async fn foreign_bytes_never_refuse_and_are_left_alone() {
    let foreign = "x".repeat(5_000);
    nothing_is_refused_after(|redis| redis.run(&["SET", BITS, &foreign]), Doubt::Foreign).await;
}

#[tokio::test]
async fn a_damaged_header_never_refuses() {
    // The generation grows absurdly large: neither the checksum nor the fencing may be fooled.
    let damage = |redis: &RedisServer| {
        redis.run::<i64>(&["SETBIT", BITS, "130", "1"]);
    };
    nothing_is_refused_after(damage, Doubt::Foreign).await;
}

/// An insert finds no filter to set bits in, and is acknowledged; an instance that read the header when
/// it was whole must not go on with it.
async fn an_id_inserted_after_is_refused_by_nobody(
    redis: &RedisServer,
    damage: impl FnOnce(&RedisServer),
    what: &str,
) {
    let table = Table::with([5_000]);
    let witness = guard(&redis.url()).build().unwrap();
    live(&witness).await;
    let mut whole: Vec<u8> = redis.run(&["GET", BITS]);
    damage(redis);
    // A newer format's filter takes no inserts.
    if guard(&redis.url()).build().unwrap().insert(&5_000).await.is_ok() {
        assert_eq!(get_looked_up(&witness, &table, 5_000).await, StatusCode::OK, "{what}");
    }
    // As it was, for the next damage; but for its stamp, or it would be an older copy.
    let seq: u64 = redis.run(&["HGET", "bg:{users}:meta", "seq"]);
    whole[64..72].copy_from_slice(&seq.to_be_bytes());
    redis::cmd("SET").arg(BITS).arg(whole).exec(&mut redis.connection()).unwrap();
}

#[tokio::test]
async fn an_id_inserted_beside_a_damaged_filter_is_refused_by_nobody() {
    let redis = RedisServer::start();
    let builder = guard_over(&redis.url(), &Table::with(0..1_000)).build().unwrap();
    live(&builder).await;
    drop(builder);
    for byte in 0..64 {
        let flip = |redis: &RedisServer| {
            let bit = (byte * 8 + 7).to_string();
            let is: u8 = redis.run(&["GETBIT", BITS, &bit]);
            redis.run::<u8>(&["SETBIT", BITS, &bit, &(1 - is).to_string()]);
        };
        let what = format!("byte {byte} of the header");
        an_id_inserted_after_is_refused_by_nobody(&redis, flip, &what).await;
    }
    let grow = |redis: &RedisServer| redis.run(&["APPEND", BITS, "x"]);
    an_id_inserted_after_is_refused_by_nobody(&redis, grow, "one byte more").await;
}

#[tokio::test]
async fn an_older_format_never_refuses() {
    let age = |redis: &RedisServer| {
        redis::cmd("SETRANGE")
            .arg(BITS)
            .arg(8)
            .arg(&[0_u8, 0])
            .exec(&mut redis.connection())
            .unwrap();
    };
    nothing_is_refused_after(age, Doubt::Version).await;
}

#[tokio::test]
async fn a_newer_format_is_never_replaced() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let builder = guard_over(&redis.url(), &table).build().unwrap();
    live(&builder).await;
    redis::cmd("SETRANGE").arg(BITS).arg(8).arg(&[0_u8, 9]).exec(&mut redis.connection()).unwrap();
    let before = dump(&redis);
    let error = builder.rebuild_now().await.unwrap_err();
    let cause = std::error::Error::source(&*error).unwrap().to_string();
    assert_eq!(
        cause,
        format!("key {BITS:?}: holds a filter of format version 9, newer than this crate")
    );
    assert_eq!(dump(&redis), before);
}

/// What the guard never writes into the metadata, it takes for metadata that were lost.
#[tokio::test]
async fn garbage_in_the_metadata_stops_inserts_for_a_poll_at_most_and_refuses_nothing() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = guard_over(&redis.url(), &table).build().unwrap();
    live(&guard).await;
    let garbage = [
        ("reach", "x"),
        ("reach", "99999999999"),
        ("seq", "99999999999999999999"),
        ("blind", ""),
        ("settles", "-1"),
        ("mode", "enforce"),
        ("mode_at", "0x1f"),
        ("asked", "soon"),
        ("run", "1"),
        ("kid", "no key id"),
    ];
    for (new, (field, value)) in (5_000..).zip(garbage) {
        redis.run::<()>(&["HSET", "bg:{users}:meta", field, value]);
        eventually(
            &format!("an insert after {field} = {value:?}"),
            Duration::from_secs(5),
            || async { guard.insert(&new).await.map_err(|error| error.to_string()) },
        )
        .await;
        table.commit(new);
        assert_eq!(get_looked_up(&guard, &table, new).await, StatusCode::OK, "{field} = {value:?}");
        live(&guard).await;
        for id in (0..1_000).step_by(97).chain([new]) {
            assert_eq!(get_looked_up(&guard, &table, id).await, StatusCode::OK, "{field} {id}");
        }
    }
}
