//! What other systems write passes, what the guard writes they read, and what nobody has written is refused as often as the layout
//! says.

use bloom_guard::{Doubt, ForeignFilter, Refusal, Verdict};
use support::redis_server::RedisServer;

use crate::guarded::{connected, refused, trust};
use crate::writers::Writer;

const IDS: u64 = 20_000;
/// Ids that do not exist.
const STRANGERS: std::ops::Range<u64> = 1 << 40..(1 << 40) + 100_000;

#[tokio::test(flavor = "multi_thread")]
async fn each_system_and_the_guard_read_what_the_other_has_written() {
    let server = RedisServer::start();
    // So few bits that some false positives are met.
    for writer in Writer::all(IDS / 2) {
        let name = writer.name;
        server.run::<()>(&["FLUSHALL"]);
        writer.write(&server, 0..IDS);
        let guard = connected(&server, writer.filter()).await;
        trust(&guard, 0..IDS / 10).await;
        assert_eq!(refused(&guard, 0..IDS).await, [0; 0], "{name}");
        let passed = STRANGERS.count() - refused(&guard, STRANGERS).await.len();
        let (measured, formula) = (passed as f64 / STRANGERS.count() as f64, writer.rate(IDS));
        println!("{name}: {measured:.3e} measured, {formula:?} by the formula");
        let near = formula.is_none_or(|formula| (measured / formula - 1.0).abs() < 0.15);
        assert!(near, "{name}: {measured:e} and not {formula:?}");
        let new = STRANGERS.start..STRANGERS.start + 300;
        guard.insert(&STRANGERS.start).await.unwrap();
        guard.insert_many(new.clone()).await.unwrap();
        assert!(new.clone().all(|id| writer.reads(&server, id)), "{name}");
        assert_eq!(guard.check(&STRANGERS.start).await, Ok(Verdict::Present), "{name}");
        // Not a bit more.
        let written = bits(&server, &writer);
        server.run::<()>(&["FLUSHALL"]);
        writer.write(&server, (0..IDS).chain(new));
        assert!(bits(&server, &writer) == written, "{name}");
    }
}

/// The bits of a filter.
fn bits(server: &RedisServer, writer: &Writer) -> Vec<u8> {
    let mut bits: Vec<u8> = server.run(&["GET", writer.key]);
    bits.resize(writer.bits.div_ceil(8) as usize + 64, 0);
    bits
}

#[tokio::test(flavor = "multi_thread")]
async fn redisbloom_and_the_guard_read_what_the_other_has_written() {
    let writer = Writer::redisbloom();
    let server = writer.server();
    let guard = connected(&server, writer.filter()).await;
    let error = guard.insert(&7).await.expect_err("the guard creates none");
    assert!(format!("{error:?}").contains("not found"), "{error:?}");
    guard.trust_foreign(0..100).await.expect_err("there is none");
    assert_eq!(server.keys(), [""; 0]);
    // It scales twice meanwhile.
    server.run::<()>(&["BF.RESERVE", writer.key, "0.01", "5000"]);
    let half = IDS / 2;
    writer.write(&server, 0..half);
    trust(&guard, 0..100).await;
    for ids in [0..half, half..IDS] {
        writer.write(&server, ids);
        assert_eq!(refused(&guard, 0..half).await, [0; 0]);
        let passed = STRANGERS.count() - refused(&guard, STRANGERS).await.len();
        println!("{:.3e} measured", passed as f64 / STRANGERS.count() as f64);
        assert!(passed < STRANGERS.count() / 50, "{passed}");
    }
    guard.insert_many(IDS..IDS + 300).await.unwrap();
    assert!((IDS..IDS + 300).all(|id| writer.reads(&server, id)));
    // A full one tells that inserts of others may be lost, and refuses nothing.
    server.run::<()>(&["FLUSHALL"]);
    server.run::<()>(&["BF.RESERVE", writer.key, "0.01", "1000", "NONSCALING"]);
    writer.write(&server, 0..900);
    trust(&guard, 0..100).await;
    assert!(refused(&guard, STRANGERS.take(50)).await.len() > 30);
    guard.insert_many(900..1_200).await.expect_err("it is full");
    assert_eq!(refused(&guard, STRANGERS.take(50)).await, [0; 0]);
    assert_eq!(guard.state().live.unwrap_err(), Doubt::Refused(Refusal::FULL));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_system_has_spread_over_two_servers_is_never_refused() {
    let writer = Writer::php_bkdr(IDS / 2);
    let servers = [RedisServer::start(), RedisServer::start()];
    let at = |id: u64| crc32fast::hash(id.to_string().as_bytes()) as usize % servers.len();
    let is_at = |number| move |id: &u64| at(*id) == number;
    for (number, server) in servers.iter().enumerate() {
        writer.write_to("php.0", server, (0..IDS).filter(is_at(number)));
    }
    let url = servers[1].url();
    let filter = ForeignFilter::php_bkdr_sharded("php", writer.bits, writer.hashes, &[&url]);
    let guard = connected(&servers[0], filter).await;
    trust(&guard, 0..IDS).await;
    assert_eq!(refused(&guard, 0..IDS).await, [0; 0]);
    let absent = refused(&guard, STRANGERS).await;
    assert!(absent.len() > STRANGERS.count() * 9 / 10, "{}", absent.len());
    let new: Vec<u64> = absent.iter().copied().take(1_000).collect();
    guard.insert_many(&new).await.unwrap();
    for (number, server) in servers.iter().enumerate() {
        let mut pipeline = redis::Pipeline::new();
        for bit in new.iter().filter(|id| is_at(number)(id)).flat_map(|id| writer.bits_of(*id)) {
            pipeline.cmd("GETBIT").arg("php.0").arg(bit);
        }
        let set: Vec<u8> = pipeline.query(&mut server.connection()).unwrap();
        assert!(set.len() > 1_000 && !set.contains(&0));
    }
    // Where a part is lost, the others still refuse.
    servers[1].run::<()>(&["DEL", "php.0"]);
    assert_eq!(refused(&guard, 0..IDS).await, [0; 0]);
    let refused = refused(&guard, absent[1_000..].iter().copied()).await;
    assert!(refused.len() > 1_000 && refused.iter().all(|id| at(*id) == 0));
}
