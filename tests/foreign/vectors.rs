//! Golden vectors: what other implementations compute, the guard writes and the sizing helper says.

use std::collections::BTreeSet;

use bloom_guard::{ForeignFilter, Id};
use serde_json::Value;
use support::redis_server::RedisServer;

use crate::guarded::{connected, insert};

fn vectors() -> Value {
    serde_json::from_str(include_str!("vectors.json")).unwrap()
}

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(digit).collect()
}

/// Of the systems whose numbers are not in Redis.
#[test]
fn sizes_are_those_that_each_library_computes() {
    let vectors = vectors();
    let rows = vectors["sizing"].as_array().unwrap();
    assert!(!rows.is_empty());
    for row in rows {
        let (ids, rate) = (row["n"].as_u64().unwrap(), row["p"].as_f64().unwrap());
        for (filter, bits, hashes) in [
            (ForeignFilter::jedis("users", ids, rate, None), "jedis_int_m", "jedis_k"),
            (ForeignFilter::redis_template("users", ids, rate), "jedis_int_m", "jedis_k"),
            (ForeignFilter::rueidisprob("users", ids, rate), "rueidisprob_m", "rueidisprob_k"),
        ] {
            let size = format!("bits: {}, hashes: {} }}", row[bits], row[hashes]);
            assert!(
                format!("{filter:?}").contains(&size),
                "{ids} at {rate}: {filter:?}, not {size}"
            );
        }
    }
}

/// A layout, and where a vector says that an id's bits are.
struct Case {
    filter: ForeignFilter,
    key: &'static str,
    bits: Vec<u64>,
}

fn cases(vector: &Value) -> Vec<Case> {
    let numbers =
        |at: &Value| at.as_array().unwrap().iter().map(|bit| bit.as_u64().unwrap()).collect();
    let case = |filter, key, bits: &Value| Case { filter, key, bits: numbers(bits) };
    vec![
        case(ForeignFilter::go_zero("go", 20_000_000), "go", &vector["gozero"]["idx"]),
        case(ForeignFilter::redisson("redisson"), "redisson", &vector["redisson"]["idx"]),
        case(
            ForeignFilter::rueidisprob("rueidis", 1_000_000, 0.01),
            "{rueidis}",
            &vector["rueidisprob"]["idx"],
        ),
        case(
            ForeignFilter::jedis("jedis", 1_000_000, 0.01, None),
            "bf:jedis",
            &vector["jedis_mitz64"]["idx"],
        ),
        case(
            ForeignFilter::jedis("small", 3_000, 0.03, None),
            "bf:small",
            &vector["jedis_mitz64"]["idx2"],
        ),
        case(
            ForeignFilter::redis_template("template", 1_000_000, 0.01),
            "template",
            &vector["redistemplate_mitz32"]["idx"],
        ),
        // So many bits that an index is the hash itself.
        case(ForeignFilter::php_bkdr("php", 1 << 31, 16), "php", &vector["php_bkdr"]["hash31"]),
        case(
            ForeignFilter::orestes("orestes"),
            "orestes:bits",
            &vector["orestes_murmur3km"]["idx"],
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_vector_of_every_layout_is_written_bit_for_bit() {
    let server = RedisServer::start();
    let vectors = vectors();
    let ids = vectors["vectors"].as_array().unwrap();
    assert!(ids.len() >= 7);
    for vector in ids {
        let hex = vector["utf8_hex"].as_str().unwrap();
        let id = Id::new(bytes(hex)).unwrap();
        for Case { filter, key, bits } in cases(vector) {
            server.run::<()>(&["FLUSHALL"]);
            begin(&server);
            let guard = connected(&server, filter).await;
            insert(&guard, &id).await;
            let expected: BTreeSet<u64> = bits.into_iter().collect();
            let set: u64 = server.run(&["BITCOUNT", key]);
            assert_eq!(set, expected.len() as u64, "{key} {hex}");
            for bit in expected {
                assert_eq!(server.run::<u8>(&["GETBIT", key, &bit.to_string()]), 1, "{key} {hex}");
            }
        }
    }
}

/// The systems whose numbers are in Redis.
fn begin(server: &RedisServer) {
    let config = "{redisson}:config size 9585058 hashIterations 7 expectedInsertions 1000000 falseProbability 0.01";
    let hset = |words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        server.run::<()>(&[&["HSET"], &*words].concat());
    };
    hset(config);
    hset("orestes p 0.01 m 9585059 k 7 n 1000000 hashmethod Murmur3KirschMitzenmacher");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_of_the_php_article_is_chosen_by_the_vectors_checksum() {
    let servers = [RedisServer::start(), RedisServer::start(), RedisServer::start()];
    let urls = [servers[1].url(), servers[2].url()];
    let others: Vec<&str> = urls.iter().map(String::as_str).collect();
    // Four keys on each of three instances.
    let bits = 12 << 32;
    let filter = ForeignFilter::php_bkdr_sharded("php", bits, 2, &others);
    let guard = connected(&servers[0], filter).await;
    for vector in vectors()["vectors"].as_array().unwrap() {
        let id = Id::new(bytes(vector["utf8_hex"].as_str().unwrap())).unwrap();
        let checksum = vector["php_bkdr"]["crc32"].as_u64().unwrap();
        servers.iter().for_each(|server| server.run::<()>(&["FLUSHALL"]));
        insert(&guard, &id).await;
        for (at, server) in servers.iter().enumerate() {
            let expected = (checksum % 3 == at as u64).then(|| format!("php.{}", checksum % 4));
            assert_eq!(server.keys(), Vec::from_iter(expected), "{checksum}");
        }
    }
}
