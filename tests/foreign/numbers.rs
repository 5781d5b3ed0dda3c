//! Numbers other than the writer's are never trusted, and what is never trusted is never written to.

use std::ops::Range;

use bloom_guard::{BloomGuard, ForeignFilter, PathPattern, TrustError};
use support::model::foreign_guard;
use support::redis_server::RedisServer;

use crate::guarded::{KNOWN, STRANGERS, connected, refused, refuses_strangers, trust, trusting};
use crate::writers::{RATE, Writer};

const IDS: u64 = 2_000;

/// Filters whose layout or numbers are not those of a writer, each with what is wrong.
pub(crate) fn wrong(writer: &Writer, ids: u64) -> Vec<(String, ForeignFilter)> {
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
    wrong.retain(|(what, filter)| !(what.ends_with("another layout") && same(writer, filter)));
    wrong
}

/// Whether a filter is the writer's own.
fn same(writer: &Writer, filter: &ForeignFilter) -> bool {
    format!("{filter:?}") == format!("{:?}", writer.filter())
}

async fn tried(guard: &BloomGuard, known: Range<u64>) -> Result<(), TrustError> {
    let foreign = guard.foreign().unwrap();
    let inspected = foreign.inspect().await.unwrap();
    foreign.trust_after(&inspected, known).await
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_numbers_are_never_trusted_and_nothing_is_written() {
    let server = RedisServer::start();
    for writer in Writer::all(IDS) {
        // Full, and with so few ids that what lies behind too few bits is clear.
        for ids in [IDS, KNOWN.end] {
            server.run::<()>(&["FLUSHALL"]);
            writer.write(&server, 0..ids);
            let whole: Vec<u8> = server.run(&["DUMP", writer.key]);
            let keys = server.keys();
            for (what, filter) in wrong(&writer, IDS) {
                let guard = connected(&server, filter).await;
                let error = tried(&guard, KNOWN).await.expect_err(&what);
                println!("{what}: {error}");
                assert_eq!(server.run::<Vec<u8>>(&["DUMP", writer.key]), whole, "{what}");
                assert_eq!(server.keys(), keys, "{what}");
                assert_eq!(refused(&guard, (0..ids).chain(STRANGERS)).await, [0; 0], "{what}");
            }
            // And the right ones are.
            trusting(&server, writer.filter()).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_written_in_another_form_are_not_taken_for_proof() {
    let server = RedisServer::start();
    for writer in Writer::all(IDS) {
        server.run::<()>(&["FLUSHALL"]);
        writer.write(&server, 0..IDS);
        let guard = foreign_guard(&server.url()).foreign(writer.filter()).build().unwrap();
        // As a codec does that puts quotes around them.
        let quoted = PathPattern::<String>::new("/users/{id}").unwrap();
        let other = BloomGuard::builder("users", quoted).redis(&server.url());
        let other = other.foreign(writer.filter()).build().unwrap();
        let foreign = other.foreign().unwrap();
        let inspected = foreign.inspect().await.unwrap();
        let known: Vec<String> = KNOWN.map(|id| format!("\"{id}\"")).collect();
        let error = foreign.trust_after(&inspected, known).await.expect_err(writer.name);
        let is_named = matches!(error, TrustError::Missing { missing: 50.., given: 100, .. });
        assert!(is_named, "{error}");
        trust(&guard).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn five_ids_show_the_numbers_of_a_filter_in_which_one_in_a_hundred_is_found_by_chance() {
    let server = RedisServer::start();
    let writer = Writer::jedis(IDS);
    writer.write(&server, 0..IDS);
    let guard = connected(&server, writer.filter()).await;
    let error = tried(&guard, 0..4).await.unwrap_err();
    assert!(matches!(error, TrustError::TooFew { given: 4, needed: 5, .. }), "{error}");
    assert!(error.to_string().contains("5 are needed"), "{error}");
    tried(&guard, 0..5).await.unwrap();
    refuses_strangers(&guard, "it is trusted").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_id_that_is_missing_keeps_a_filter_from_being_trusted() {
    let server = RedisServer::start();
    let writer = Writer::go_zero(IDS);
    writer.write(&server, 0..IDS);
    let guard = connected(&server, writer.filter()).await;
    let error = tried(&guard, IDS - 10..IDS + 1).await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, TrustError::Missing { missing: 1, given: 11, .. }), "{error}");
    assert!(text.contains("bloom:users") && text.contains("40000 bits"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_seal_is_written_over_nothing_but_clear_bits_and_seals() {
    let server = RedisServer::start();
    let writer = Writer::go_zero(IDS);
    for inspected_before in [false, true] {
        for offset in [0, 31, 63, 64, 1_000] {
            server.run::<()>(&["FLUSHALL"]);
            writer.write(&server, 0..IDS);
            let guard = connected(&server, writer.filter()).await;
            let foreign = guard.foreign().unwrap();
            let mut inspected = foreign.inspect().await.unwrap();
            let bit = (writer.bits.next_multiple_of(64) + offset).to_string();
            server.run::<()>(&["SETBIT", writer.key, &bit, "1"]);
            if !inspected_before {
                inspected = foreign.inspect().await.unwrap();
            }
            let whole: Vec<u8> = server.run(&["DUMP", writer.key]);
            let error = foreign.trust_after(&inspected, KNOWN).await.unwrap_err();
            let is_named = matches!(error, TrustError::Behind { .. } | TrustError::Length { .. });
            assert!(is_named && error.to_string().contains("number of bits"), "{error}");
            assert_eq!(server.run::<Vec<u8>>(&["DUMP", writer.key]), whole, "{offset}");
            assert_eq!(server.keys(), [writer.key]);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_in_which_everything_is_found_is_not_trusted() {
    let server = RedisServer::start();
    let writer = Writer::jedis(IDS);
    writer.write(&server, 0..20 * IDS);
    let guard = connected(&server, writer.filter()).await;
    let error = tried(&guard, 0..1_000).await.unwrap_err();
    assert!(matches!(error, TrustError::Full { limit: 0.9, .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_creates_a_key_of_the_filter_and_nothing_changes_its_life() {
    let server = RedisServer::start();
    for writer in Writer::all(IDS) {
        server.run::<()>(&["FLUSHALL"]);
        writer.write(&server, []);
        let keys = server.keys();
        let guard = connected(&server, writer.filter()).await;
        tried(&guard, KNOWN).await.expect_err("there is none");
        assert_eq!(server.keys(), keys, "{}", writer.name);
        writer.write(&server, 0..IDS);
        server.run::<()>(&["PEXPIREAT", writer.key, "4000000000000"]);
        trust(&guard).await;
        refuses_strangers(&guard, writer.name).await;
        crate::copies::turned_over(&server, &writer, 2).await;
        let at: u64 = server.run(&["PEXPIRETIME", writer.key]);
        assert_eq!(at, 4_000_000_000_000, "{}", writer.name);
        server.run::<()>(&["DEL", writer.key]);
        assert_eq!(refused(&guard, 0..IDS).await, [0; 0]);
        crate::guarded::untrusted(&guard).await;
        assert!(!server.keys().contains(&writer.key.to_owned()), "{}", writer.name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_trusted_with_other_numbers_is_an_error_that_names_both() {
    let server = RedisServer::start();
    let writer = Writer::php_bkdr(IDS);
    writer.write(&server, 0..IDS);
    let guard = trusting(&server, writer.filter()).await;
    // With fewer bits an id, all ids that exist are found.
    let fewer = ForeignFilter::php_bkdr(writer.key, writer.bits, 3);
    let other = connected(&server, fewer).await;
    let error = tried(&other, 0..IDS).await.unwrap_err();
    assert!(matches!(error, TrustError::Other { .. }), "{error}");
    for text in [error.to_string(), other.state().trouble.unwrap()] {
        assert!(text.contains("40000 bits, 4 an id"), "{text}");
        assert!(text.contains("40000 bits, 3 an id") || text.contains("at the same key"), "{text}");
    }
    refuses_strangers(&guard, "the first one's trust stays").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_filters_of_one_name_and_two_names_on_one_filter_keep_their_trust() {
    let server = RedisServer::start();
    let writers = [Writer::go_zero(IDS), Writer::rueidisprob(IDS)];
    let mut guards = Vec::new();
    for writer in &writers {
        writer.write(&server, 0..IDS);
        guards.push(trusting(&server, writer.filter()).await);
    }
    let pattern = PathPattern::<u64>::new("/people/{id}").unwrap();
    let people = BloomGuard::builder("people", pattern).redis(&server.url());
    let people = people.foreign(writers[0].filter()).build().unwrap();
    refuses_strangers(&people, "what was stated under another name holds").await;
    trust(&people).await;
    guards.push(people);
    for guard in &guards {
        refuses_strangers(guard, "all are trusted").await;
        assert_eq!(refused(guard, 0..IDS).await, [0; 0]);
    }
}
