//! A filter is put out of use by who has disproved that one, and not by who has disproved another; one goes live only if it has
//! all inserts; and a mode that comes too late is none.

use support::redis_server::RedisServer;

const META: &str = "bg:{users}:fleet";
const BITS: &str = "bg:{users}:bits";
const NEXT: &str = "bg:{users}:next";
const SWAP: &str = include_str!("../../src/store/redis/rebuild/swap.lua");
const DISTRUST: &str = include_str!("../../src/store/redis/distrust.lua");
const CHANGE_FLEET: &str = include_str!("../../src/store/redis/change_fleet.lua");
const LIVE: u8 = 0x55;
const DISPROVED: u8 = 0x66;
const DISPROVED_TWICE: u8 = 0x69;

/// The header of a filter of generation 8; all that the script looks at.
fn filter() -> Vec<u8> {
    let mut bytes = vec![0; 256];
    bytes[..12].copy_from_slice(b"BLMGUARD\0\x02\x01\x55");
    bytes[16..24].copy_from_slice(&8_u64.to_be_bytes());
    bytes
}

#[test]
fn each_rule_of_distrust_leaves_the_filter_in_use() {
    let redis = RedisServer::start();
    let mut connection = redis.connection();
    let mut begin_anew = |rebuilt: &str| {
        redis.run::<()>(&["HSET", META, "rebuilt", rebuilt]);
        redis::cmd("SET").arg(BITS).arg(filter()).exec(&mut connection).unwrap();
    };
    let distrust = |generation: u64, unless: &str, digest: u8| {
        let mut command = redis::cmd("EVAL");
        command.arg(DISTRUST).arg(2).arg(BITS).arg(META).arg(&generation.to_be_bytes());
        command.arg(&[DISPROVED]).arg(unless).arg(&[digest; 16]);
        command.arg(&[LIVE]).arg(&[DISPROVED_TWICE]);
        let done: i64 = command.query(&mut redis.connection()).unwrap();
        (done, redis.run::<Vec<u8>>(&["GET", BITS])[11])
    };
    begin_anew("");
    assert_eq!(distrust(7, "7", 1), (0, LIVE), "another generation");
    begin_anew("8");
    for _ in 0..2 {
        assert_eq!(distrust(8, "8", 1), (0, LIVE), "it took the place of a disproved one");
    }
    assert_eq!(distrust(8, "8", 2), (2, DISPROVED_TWICE), "and lacks another id");
    assert_eq!(distrust(8, "8", 3), (0, DISPROVED_TWICE), "once");
    begin_anew("7 1111111111111111");
    assert_eq!(distrust(8, "8", 1), (1, DISPROVED), "that was of another generation");
    assert_eq!(distrust(8, "8", 2), (0, DISPROVED), "once");
}

/// One that was away as an id was inserted has the number before that one behind its header. It would answer nothing, so what
/// is live stays so.
#[test]
fn a_filter_that_lacks_an_insert_or_a_block_takes_no_place() {
    let redis = RedisServer::start();
    let mut connection = redis.connection();
    let mut swap = |stamp: u8, blocks: u8| {
        let mut next = filter();
        (next[71], next[75]) = (stamp, blocks);
        redis.run::<()>(&["HSET", META, "inc", "first", "last", "7"]);
        redis.run::<()>(&["SET", BITS, "before"]);
        redis::cmd("SET").arg(NEXT).arg(&next).exec(&mut connection).unwrap();
        let mut command = redis::cmd("EVAL");
        command.arg(SWAP).arg(3).arg(NEXT).arg(BITS).arg(META).arg(&next[..64]).arg(&next[..64]);
        command.arg(next.len()).arg(1).arg(8).arg(&[DISPROVED]);
        let answer: String = command.query(&mut connection).unwrap();
        (answer, redis.run::<Vec<u8>>(&["GET", BITS]) == b"before")
    };
    assert_eq!(swap(6, 1), ("LOST".to_owned(), true), "an insert");
    assert_eq!(swap(7, 0), ("LOST".to_owned(), true), "a block");
    assert_eq!(swap(7, 1), ("OK".to_owned(), false));
}

/// Its caller was told that it failed, and another has set a mode since.
#[test]
fn a_change_of_the_mode_that_was_held_up_undoes_nothing() {
    let redis = RedisServer::start();
    redis
        .run::<()>(&["HSET", META, "kid", "00000001", "inc", "first", "mode", "o", "mode_at", "5"]);
    let enforce = |latest_us: u64| {
        let mut command = redis::cmd("EVAL");
        command.arg(CHANGE_FLEET).arg(1).arg(META).arg("00000001").arg("e");
        command.arg(&[""; 5]).arg(latest_us);
        let said: Vec<String> = command.query(&mut redis.connection()).unwrap();
        (said[0].clone(), redis.run::<String>(&["HGET", META, "mode"]))
    };
    let (seconds, _): (u64, u64) = redis.run(&["TIME"]);
    assert_eq!(enforce(seconds * 1_000_000 - 1), ("LATE".to_owned(), "o".to_owned()));
    assert_eq!(enforce((seconds + 60) * 1_000_000), ("OK".to_owned(), "e".to_owned()));
}
