//! Numbers other than the writer's are never trusted, and what is never trusted is never written to.

use bloom_guard::{BloomGuard, Doubt, ForeignFilter, Mode, PathPattern, Verdict};
use support::eventually;
use support::model::{Table, foreign_guard, get};
use support::redis_server::RedisServer;

use crate::guarded::{
    KNOWN, SOON, STRANGERS, connected, refused, refuses_strangers, trust, trusting, untrusted,
};
use crate::writers::{RATE, Writer};

const IDS: u64 = 2_000;

/// Filters whose layout or numbers are not those of a writer, each with what is wrong.
fn wrong(writer: &Writer, ids: u64) -> Vec<(String, ForeignFilter)> {
    let (bits, key) = (writer.bits, writer.key);
    let mut wrong = Vec::new();
    let mut add = |what: String, filter| wrong.push((format!("{}, {what}", writer.name), filter));
    let sizes = [bits - 1, bits + 1, bits - 64, bits + 64, bits / 2, bits * 2, bits / 8, bits * 8];
    match writer.name {
        "go-zero" => {
            for bits in sizes {
                add(format!("{bits} bits"), ForeignFilter::go_zero(key, bits));
            }
        }
        "PHP BKDR" => {
            for bits in sizes {
                add(format!("{bits} bits"), ForeignFilter::php_bkdr(key, bits, 4));
            }
            for hashes in [5, 8] {
                add(format!("{hashes} an id"), ForeignFilter::php_bkdr(key, bits, hashes));
            }
        }
        "Jedis" | "rueidisprob" => {
            let rates = [RATE / 10.0, RATE / 2.0, RATE * 1.01, 2.0 * RATE].map(|rate| (ids, rate));
            let counts = [ids - 1, ids + 1, ids / 2, ids * 2].map(|ids| (ids, RATE));
            for (ids, rate) in rates.into_iter().chain(counts) {
                let filter = match writer.name {
                    "Jedis" => ForeignFilter::jedis("users", ids, rate, None),
                    _ => ForeignFilter::rueidisprob("users", ids, rate),
                };
                add(format!("{ids} ids at {rate}"), filter);
            }
        }
        _ => {}
    }
    // Other layouts, where no config says which it is.
    if writer.config.is_none() {
        add("another layout".to_owned(), ForeignFilter::redis_template(key, ids, RATE));
        add("another layout".to_owned(), ForeignFilter::php_bkdr(key, bits, 4));
        add("another layout".to_owned(), ForeignFilter::go_zero(key, bits));
    }
    let same = |filter: &ForeignFilter| format!("{filter:?}") == format!("{:?}", writer.filter());
    wrong.retain(|(what, filter)| !(what.ends_with("another layout") && same(filter)));
    wrong
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_numbers_are_never_trusted_and_nothing_is_written() {
    let server = RedisServer::start();
    for writer in Writer::all(IDS) {
        // None, full, and with so few ids that what lies behind too few bits is clear.
        for ids in [0, IDS, KNOWN.end] {
            server.run::<()>(&["FLUSHALL"]);
            writer.write(&server, 0..ids);
            let dump = || server.run::<Option<Vec<u8>>>(&["DUMP", writer.key]);
            let (whole, keys) = (dump(), server.keys());
            let empty = (ids == 0).then(|| ("nothing".to_owned(), writer.filter()));
            for (what, filter) in wrong(&writer, IDS).into_iter().chain(empty) {
                let guard = connected(&server, filter).await;
                let error = guard.trust_foreign(KNOWN).await.expect_err(&what);
                println!("{what}: {error}");
                assert_eq!(dump(), whole, "{what}");
                assert_eq!(server.keys(), keys, "{what}");
                let verdict = guard.check(&STRANGERS.start).await;
                assert_eq!(verdict, Ok(Verdict::Unknown(Doubt::NoFilter)), "{what}");
            }
        }
        // The right ones are, and the key's life is as it was.
        server.run::<()>(&["PEXPIREAT", writer.key, "4000000000000"]);
        trusting(&server, writer.filter()).await;
        assert_eq!(server.run::<u64>(&["PEXPIRETIME", writer.key]), 4_000_000_000_000);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_speaks_against_a_filter_is_named() {
    let server = RedisServer::start();
    let writer = Writer::jedis(IDS);
    writer.write(&server, 0..IDS);
    let guard = connected(&server, writer.filter()).await;
    let error = guard.trust_foreign(0..4).await.unwrap_err();
    assert!(
        error.to_string().contains("4 ids were given")
            && error.to_string().contains("5 are needed")
    );
    let error = guard.trust_foreign(IDS - 10..IDS + 1).await.unwrap_err();
    assert!(error.to_string().contains("1 of 11 ids that exist are not in it"), "{error}");
    assert!(error.to_string().contains("bf:users"), "{error}");
    // As a codec does that puts quotes around them.
    let quoted = PathPattern::<String>::new("/users/{id}").unwrap();
    let other = BloomGuard::builder("users", quoted).redis(&server.url());
    let other = other.foreign(writer.filter()).build().unwrap();
    let known: Vec<String> = KNOWN.map(|id| format!("\"{id}\"")).collect();
    let error = other.trust_foreign(known).await.unwrap_err();
    assert!(error.to_string().contains("of 100 ids that exist are not in it"), "{error}");
    // Bits behind the last one.
    server.run::<()>(&["COPY", writer.key, "kept"]);
    for offset in [0, 31, 63, 64, 1_000] {
        let bit = (writer.bits + offset).to_string();
        server.run::<()>(&["SETBIT", writer.key, &bit, "1"]);
        let error = guard.trust_foreign(KNOWN).await.unwrap_err();
        assert!(error.to_string().contains("number of bits"), "{error}");
        server.run::<()>(&["COPY", "kept", writer.key, "REPLACE"]);
    }
    trust(&guard, 0..5).await;
    writer.write(&server, IDS..20 * IDS);
    let error = guard.trust_foreign(0..1_000).await.unwrap_err();
    assert!(error.to_string().contains("ids that do not exist are in it"), "{error}");
    let own = support::model::guard(&server.url()).build().unwrap();
    let error = own.trust_foreign(KNOWN).await.unwrap_err();
    assert!(error.to_string().contains("no filter of another system"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_other_numbers_than_those_that_are_stated_nothing_is_stated_nor_inserted() {
    let server = RedisServer::start();
    let writer = Writer::php_bkdr(IDS);
    writer.write(&server, 0..IDS);
    let guard = trusting(&server, writer.filter()).await;
    // With fewer bits an id, all ids that exist are found.
    let other = connected(&server, ForeignFilter::php_bkdr(writer.key, writer.bits, 3)).await;
    let error = other.trust_foreign(0..IDS).await.unwrap_err();
    let trouble = other.state().trouble.unwrap();
    for text in [error.to_string(), trouble] {
        assert!(text.contains("4 an id") && text.contains("3 an id"), "{text}");
    }
    other.insert(&(IDS + 1)).await.expect_err("the other one would refuse it");
    refuses_strangers(&guard, "the first one's trust stays").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_holds_for_later_processes_and_under_other_names() {
    let server = RedisServer::start();
    for writer in [Writer::go_zero(IDS), Writer::rueidisprob(IDS)] {
        writer.write(&server, 0..IDS);
        let first = trusting(&server, writer.filter()).await;
        let pattern = PathPattern::<u64>::new("/people/{id}").unwrap();
        let people = BloomGuard::builder("people", pattern).redis(&server.url());
        let people = people.foreign(writer.filter()).build().unwrap();
        people.ready().await;
        refuses_strangers(&people, "it was stated before").await;
        // Stated anew, by another process, it goes on.
        trust(&people, KNOWN).await;
        refuses_strangers(&first, "it goes by the newer one").await;
        assert_eq!(refused(&first, 0..IDS).await, [0; 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_the_canary_finds_missing_ends_trust_in_all_processes() {
    let server = RedisServer::start();
    let writer = Writer::jedis(10 * IDS);
    writer.write(&server, 0..IDS);
    let build = || foreign_guard(&server.url()).foreign(writer.filter()).build().unwrap();
    let (guard, other, table) = (build(), build(), Table::with(0..IDS));
    trust(&guard, KNOWN).await;
    refuses_strangers(&other, "it is trusted").await;
    guard.set_mode(Mode::Shadow);
    table.commit(1 << 40);
    assert_eq!(get(&guard, &table, 1 << 40).await, 200);
    untrusted(&guard).await;
    guard.set_mode(Mode::Enforce);
    assert_eq!(guard.state().live.unwrap_err(), Doubt::Disproved);
    untrusted(&other).await;
    let next = build();
    eventually("a process that starts then sees that there was a filter", SOON, || async {
        let live = next.state().live;
        if matches!(live, Err(Doubt::Gone)) { Ok(()) } else { Err(format!("{live:?}")) }
    })
    .await;
}
