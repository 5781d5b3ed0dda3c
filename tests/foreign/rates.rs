//! What other systems have written passes, and what nobody has is refused as often as the layout says.

use bloom_guard::{ForeignFilter, Verdict};
use support::redis_server::RedisServer;

use crate::guarded::{connected, refused, trust_by};
use crate::writers::Writer;

const IDS: u64 = 100_000;
/// Ids that do not exist.
const STRANGERS: std::ops::Range<u64> = 1 << 40..(1 << 40) + 200_000;

#[tokio::test(flavor = "multi_thread")]
async fn what_another_system_has_written_is_never_refused_and_what_is_absent_is() {
    let server = RedisServer::start();
    // So many bits that some false positives are met.
    for writer in Writer::all(IDS / 2) {
        let name = writer.name;
        server.run::<()>(&["FLUSHALL"]);
        writer.write(&server, 0..IDS);
        let guard = connected(&server, writer.filter()).await;
        trust_by(&guard, 0..IDS / 10).await;
        assert_eq!(refused(&guard, 0..IDS).await, [0; 0], "{name}");
        let passed = STRANGERS.count() - refused(&guard, STRANGERS).await.len();
        let (measured, formula) = (passed as f64 / STRANGERS.count() as f64, writer.rate(IDS));
        println!("{name}: {measured:.3e} measured, {formula:?} by the formula");
        let near = formula.is_none_or(|formula| (measured / formula - 1.0).abs() < 0.1);
        assert!(near, "{name}: {measured:e} and not {formula:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_system_has_spread_over_two_servers_is_never_refused() {
    let writer = Writer::php_bkdr(IDS / 2);
    let servers = [RedisServer::start(), RedisServer::start()];
    let at = |id: u64| crc32fast::hash(id.to_string().as_bytes()) as usize % servers.len();
    for (number, server) in servers.iter().enumerate() {
        writer.write_to("php.0", server, (0..IDS).filter(|id| at(*id) == number));
    }
    let others = [&*servers[1].url()];
    let filter = || ForeignFilter::php_bkdr_sharded("php", writer.bits, writer.hashes, &others);
    let guard = connected(&servers[0], filter()).await;
    trust_by(&guard, 0..IDS).await;
    assert_eq!(refused(&guard, 0..IDS).await, [0; 0]);
    let passed = STRANGERS.count() - refused(&guard, STRANGERS).await.len();
    println!("{:.3e} measured", passed as f64 / STRANGERS.count() as f64);
    assert!(passed < STRANGERS.count() / 10, "{passed}");
    guard.insert_many(IDS..IDS + 1_000).await.unwrap();
    for (number, server) in servers.iter().enumerate() {
        let here = (IDS..IDS + 1_000).filter(|id| at(*id) == number);
        let bits: Vec<u64> = here.flat_map(|id| writer.bits_of(id)).collect();
        assert!(bits.len() > 1_000);
        let mut pipeline = redis::Pipeline::new();
        for bit in bits {
            pipeline.cmd("GETBIT").arg("php.0").arg(bit);
        }
        let set: Vec<u8> = pipeline.query(&mut server.connection()).unwrap();
        assert!(!set.contains(&0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_guard_writes_another_system_reads() {
    let server = RedisServer::start();
    for writer in Writer::all(IDS) {
        let name = writer.name;
        server.run::<()>(&["FLUSHALL"]);
        writer.write(&server, 0..1_000);
        let guard = connected(&server, writer.filter()).await;
        trust_by(&guard, 0..1_000).await;
        guard.insert(&1_170).await.unwrap();
        assert!(writer.reads(&server, 1_170), "{name}");
        assert_eq!(guard.check(&1_170).await, Ok(Verdict::Present), "{name}");
        guard.insert_many(2_000..3_000_u64).await.unwrap();
        assert!((2_000..3_000).all(|id| writer.reads(&server, id)), "{name}");
        // Not a bit more, but for the seal behind the last one.
        let written = bits(&server, &writer);
        server.run::<()>(&["FLUSHALL"]);
        writer.write(&server, (0..1_000).chain([1_170]).chain(2_000..3_000));
        assert!(bits(&server, &writer) == written, "{name}");
    }
}

/// The bits of a filter.
fn bits(server: &RedisServer, writer: &Writer) -> Vec<u8> {
    let last = (writer.bits.div_ceil(8) - 1).to_string();
    let mut bits: Vec<u8> = server.run(&["GETRANGE", writer.key, "0", &last]);
    bits.resize(writer.bits.div_ceil(8) as usize, 0);
    bits
}
