//! A filter of the version before: nobody believes it, its processes insert no more, and it is rebuilt.

use bloom_guard::{Doubt, Verdict};
use http::StatusCode;
use support::model::{Table, get, get_looked_up, guard, guard_over, left, live, told};
use support::redis_server::RedisServer;

const BITS: &str = "bg:{users}:bits";
const FLEET: &str = "bg:{users}:fleet";
/// Where the version before had its metadata.
const META: &str = "bg:{users}:meta";

/// Puts what is there as the version before would have it: its header, its metadata, a stamp that counts entries of a journal.
fn as_before(redis: &RedisServer) {
    redis.run::<()>(&["RENAME", FLEET, META]);
    redis.run::<i64>(&["HDEL", META, "last", "began"]);
    redis.run::<i64>(&["HSET", META, "seq", "7"]);
    redis.run::<i64>(&["DEL", "bg:{users}:recent"]);
    redis.run::<String>(&["XADD", "bg:{users}:log", "7-0", "d", "an id's digest..."]);
    let mut bits: Vec<u8> = redis.run(&["GET", BITS]);
    bits[9] = 1;
    let mut covered = bits[..60].to_vec();
    covered[11] = 0;
    bits[60..64].copy_from_slice(&crc32fast::hash(&covered).to_be_bytes());
    bits[64..72].copy_from_slice(&7_u64.to_be_bytes());
    redis::cmd("SET").arg(BITS).arg(bits).exec(&mut redis.connection()).unwrap();
}

#[tokio::test]
async fn a_filter_of_the_version_before_is_never_believed_and_is_rebuilt() {
    let redis = RedisServer::start();
    let table = Table::with(0..1_000);
    let before = guard_over(&redis.url(), &table).build().unwrap();
    live(&before).await;
    drop(before);
    left(&redis).await;
    as_before(&redis);
    let their_meta: Vec<Vec<u8>> = redis.run(&["HGETALL", META]);
    // What it lacks may have been inserted by processes of either version.
    table.commit(5_000);

    let reader = guard(&redis.url()).build().unwrap();
    told(&reader, Doubt::Damaged, BITS).await;
    // Code of before reads a later version here, and then neither checks, inserts nor rebuilds.
    let head: Vec<u8> = redis.run(&["GETRANGE", BITS, "0", "11"]);
    assert_eq!(head, b"BLMGUARD\0\x02\x01\0");
    for id in [1, 5_000] {
        assert_eq!(reader.check(&id).await.unwrap(), Verdict::Unknown(Doubt::Damaged));
        assert_eq!(get_looked_up(&reader, &table, id).await, StatusCode::OK);
    }
    reader.insert(&6_000).await.unwrap();

    let guard = guard_over(&redis.url(), &table).build().unwrap();
    for guard in [&guard, &reader] {
        live(guard).await;
        for id in table.snapshot().into_iter().step_by(7).chain([5_000]) {
            assert_eq!(get_looked_up(guard, &table, id).await, StatusCode::OK, "{id}");
        }
        assert_eq!(guard.check(&6_000).await.unwrap(), Verdict::Present, "not committed yet");
        assert_eq!(get(guard, &table, 7_000).await, StatusCode::NOT_FOUND);
    }
    assert_eq!(redis.run::<Vec<u8>>(&["GETRANGE", BITS, "8", "11"]), b"\0\x02\x01\x55");
    assert_eq!(redis.run::<Vec<Vec<u8>>>(&["HGETALL", META]), their_meta, "theirs is let alone");
}
