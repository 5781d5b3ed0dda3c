//! A filter is put out of use by who has disproved that one, and not by who has disproved another.

use support::redis_server::RedisServer;

const META: &str = "bg:{users}:meta";
const BITS: &str = "bg:{users}:bits";
const DISTRUST: &str = include_str!("../../src/store/redis/distrust.lua");
const LIVE: u8 = 0x55;
const DISPROVED: u8 = 0x66;

/// The header of a filter of generation 8; all that the script looks at.
fn filter() -> Vec<u8> {
    let mut bytes = vec![0; 256];
    bytes[..12].copy_from_slice(b"BLMGUARD\0\x01\x01\x55");
    bytes[16..24].copy_from_slice(&8_u64.to_be_bytes());
    bytes
}

#[test]
fn each_rule_of_distrust_leaves_the_filter_in_use() {
    let redis = RedisServer::start();
    let distrust = |rebuilt: &str, generation: u64, unless: &str| {
        redis.run::<()>(&["HSET", META, "rebuilt", rebuilt]);
        let mut connection = redis.connection();
        redis::cmd("SET").arg(BITS).arg(filter()).exec(&mut connection).unwrap();
        let mut command = redis::cmd("EVAL");
        command.arg(DISTRUST).arg(2).arg(BITS).arg(META).arg(&generation.to_be_bytes()).arg(16);
        command.arg(&[DISPROVED]).arg(11).arg(unless);
        let done: i64 = command.query(&mut connection).unwrap();
        (done, redis.run::<Vec<u8>>(&["GET", BITS])[11])
    };
    assert_eq!(distrust("", 7, "7"), (0, LIVE), "another generation");
    assert_eq!(distrust("8", 8, "8"), (0, LIVE), "it took the place of a disproved one");
    assert_eq!(distrust("8", 8, ""), (1, DISPROVED), "it is damaged");
    assert_eq!(distrust("7", 8, "8"), (1, DISPROVED));
}
