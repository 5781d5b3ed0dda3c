//! Whatever happens to the keys in Redis, an id that exists is not refused.

use std::time::Duration;

use bloom_guard::{BloomGuard, Doubt, Verdict};
use futures_util::future::join_all;
use http::StatusCode;
use support::eventually;
use support::model::{
    Table, brief, get, get_looked_up, guard, guard_over, inserted, live, says, told,
};
use support::redis_server::RedisServer;

const BITS: &str = "bg:{users}:bits";
const META: &str = "bg:{users}:fleet";
const SOON: Duration = Duration::from_secs(10);

/// What happens to the live filter, and what a check says of it then.
type Damage = (&'static str, fn(&RedisServer), Doubt);

const DAMAGES: [Damage; 9] = [
    ("missing", |redis| redis.run(&["DEL", BITS]), Doubt::Gone),
    ("all is gone", |redis| redis.run(&["FLUSHALL"]), Doubt::Gone),
    (
        "metadata of before the swap",
        |redis| redis.run(&["HINCRBY", META, "live", "-1"]),
        Doubt::Damaged,
    ),
    ("another type", retype, Doubt::Damaged),
    ("truncated", truncate, Doubt::Damaged),
    ("an empty string", |redis| redis.run(&["SET", BITS, ""]), Doubt::Damaged),
    ("foreign bytes", |redis| redis.run(&["SET", BITS, &"x".repeat(5_000)]), Doubt::Damaged),
    // The generation grows absurdly large: neither the checksum nor the fencing may be fooled.
    ("a damaged header", |redis| redis.run(&["SETBIT", BITS, "130", "1"]), Doubt::Damaged),
    ("an older format", |redis| write(redis, "SETRANGE", &[b"8", &[0, 0]]), Doubt::Damaged),
];

fn retype(redis: &RedisServer) {
    redis.run::<()>(&["DEL", BITS]);
    redis.run::<()>(&["HSET", BITS, "somebody", "else"]);
}

fn truncate(redis: &RedisServer) {
    let whole: Vec<u8> = redis.run(&["GET", BITS]);
    write(redis, "SET", &[&whole[..whole.len() - 8]]);
}

fn write(redis: &RedisServer, command: &str, words: &[&[u8]]) {
    redis::cmd(command).arg(BITS).arg(words).exec(&mut redis.connection()).unwrap();
}

/// Nothing is refused after a damage, by a process that knew the filter and by one that starts now, until
/// a rebuild puts all right.
#[tokio::test]
async fn a_damaged_filter_never_refuses() {
    join_all(DAMAGES.map(nothing_is_refused_after)).await;
}

async fn nothing_is_refused_after((what, damage, doubt): Damage) {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let builder = guard_over(&redis.url(), &table).build().unwrap();
    live(&builder).await;
    drop(builder);
    let witness = guard(&redis.url()).build().unwrap();
    live(&witness).await;

    damage(&redis);
    // Who was there tells Redis that there was a filter.
    eventually("the witness has joined again", SOON, || async {
        if redis.run::<bool>(&["EXISTS", META]) { Ok(()) } else { Err(String::new()) }
    })
    .await;

    let newcomer = guard(&redis.url()).build().unwrap();
    says(&newcomer, 1, Verdict::Unknown(doubt)).await;
    for guard in [&witness, &newcomer] {
        for id in (0..1_000).step_by(7) {
            assert_eq!(get_looked_up(guard, &table, id).await, StatusCode::OK, "{what}: {id}");
        }
        assert_eq!(get(guard, &table, 5_000).await, StatusCode::NOT_FOUND, "the handler's");
    }
    assert_eq!(newcomer.stats().absent_by_filter, 0);
    told(&newcomer, doubt, BITS).await;

    let before = stateless(&redis);
    newcomer.insert(&7_000).await.expect("an insert is recorded all the same");
    assert_eq!(stateless(&redis), before, "{what}: an insert writes nothing else into the key");
    table.commit(7_000);
    heals(&redis, &table, &[&witness, &newcomer]).await;
}

/// A rebuild puts everything right.
async fn heals(redis: &RedisServer, table: &Table, guards: &[&BloomGuard]) {
    let builder = guard_over(&redis.url(), table).build().unwrap();
    live(&builder).await;
    for guard in guards {
        live(guard).await;
        for id in table.snapshot().into_iter().step_by(7).chain([7_000]) {
            // On a busy machine an answer may be late.
            let found = guard.check(&id).await.unwrap();
            assert!(!matches!(found, Verdict::Absent(_)), "{id}: {found:?}");
        }
    }
}

/// What the key holds, but for the state: an insert may say there that this is no filter any more.
fn stateless(redis: &RedisServer) -> Option<Vec<u8>> {
    if redis.run::<String>(&["TYPE", BITS]) != "string" {
        return redis.run(&["DUMP", BITS]);
    }
    let mut bytes: Vec<u8> = redis.run(&["GET", BITS]);
    if let Some(state) = bytes.get_mut(11).filter(|state| **state == 0x55) {
        *state = 0;
    }
    Some(bytes)
}

/// The record of inserts, metadata and lease, each of another type: inserts and rebuilds go on, and nothing is destroyed.
#[tokio::test]
async fn keys_of_another_type_are_put_aside_and_what_they_held_counts_as_lost() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let guard = brief(guard_over(&redis.url(), &table)).build().unwrap();
    for (number, part) in (2_000_u64..).zip(["recent", "fleet", "lock"]) {
        live(&guard).await;
        guard.insert(&number).await.unwrap();
        let key = format!("bg:{{users}}:{part}");
        redis.run::<()>(&["DEL", &key]);
        redis.run::<()>(&["SADD", &key, "somebody else's"]);
        let again = number + 100;
        eventually("inserts work again", SOON, || async {
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
        eventually("rebuilds work again", SOON, || async {
            guard.rebuild_now().await.map(drop).map_err(|error| error.to_string())
        })
        .await;
        assert_eq!(get(&guard, &table, 5_000).await, StatusCode::NOT_FOUND, "{part}");
        assert_eq!(get_looked_up(&guard, &table, number).await, StatusCode::OK, "{part}");
    }
}

/// An insert finds no filter to set bits in, and is acknowledged; an instance that read the header when
/// it was whole must not go on with it.
#[tokio::test]
async fn an_id_inserted_beside_a_damaged_filter_is_refused_by_nobody() {
    let redis = RedisServer::start();
    let builder = guard_over(&redis.url(), &Table::with(0..1_000)).build().unwrap();
    live(&builder).await;
    drop(builder);
    let table = Table::with([5_000]);
    // Each byte of the header, and one byte more than there is.
    for byte in (0..64).map(Some).chain([None]) {
        let witness = guard(&redis.url()).build().unwrap();
        live(&witness).await;
        let mut whole: Vec<u8> = redis.run(&["GET", BITS]);
        let mut damaged = whole.clone();
        match byte {
            Some(byte) => damaged[byte] ^= 1,
            None => damaged.push(b'x'),
        }
        write(&redis, "SET", &[&damaged]);
        // A newer format's filter takes no inserts.
        if guard(&redis.url()).build().unwrap().insert(&5_000).await.is_ok() {
            assert_eq!(get_looked_up(&witness, &table, 5_000).await, StatusCode::OK, "{byte:?}");
        }
        // As it was, for the next damage; but for its stamp, or it would be an older copy.
        let last: u64 = redis.run(&["HGET", "bg:{users}:fleet", "last"]);
        whole[64..72].copy_from_slice(&last.to_be_bytes());
        write(&redis, "SET", &[&whole]);
    }
}

/// What the guard never writes into the metadata, it takes for metadata that were lost.
#[tokio::test]
async fn garbage_in_the_metadata_stops_inserts_for_a_poll_at_most_and_refuses_nothing() {
    let garbage = [
        ("reach", "99999999999"),
        ("last", "99999999999999999999"),
        ("began", ""),
        ("settles", "-1"),
        ("mode", "enforce"),
        ("mode_at", "0x1f"),
        ("asked", "soon"),
        ("run", "1"),
        ("kid", "no key id"),
    ];
    join_all(garbage.map(|(field, value)| async move {
        let redis = RedisServer::start();
        let table = Table::with(0..1_000);
        let guard = guard_over(&redis.url(), &table).build().unwrap();
        live(&guard).await;
        redis.run::<()>(&["HSET", "bg:{users}:fleet", field, value]);
        inserted(&guard, [5_000]).await;
        table.commit(5_000);
        assert_eq!(get_looked_up(&guard, &table, 5_000).await, StatusCode::OK, "{field}");
        live(&guard).await;
        for id in (0..1_000).step_by(97).chain([5_000]) {
            assert_eq!(get_looked_up(&guard, &table, id).await, StatusCode::OK, "{field} {id}");
        }
    }))
    .await;
}
