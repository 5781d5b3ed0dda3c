//! Things happen between two commands of one pipeline: before the bits are read or set, and behind them.

use std::sync::{Arc, Mutex};

use bloom_guard::{BloomGuard, Id, Verdict};
use support::proxy::Proxy;
use tokio::runtime::Handle;

use crate::guarded::{
    KNOWN, STRANGERS, connected_at, insert, refused, refuses_strangers, trust, trusting,
};
use crate::writers::Writer;

const IDS: u64 = 2_000;
/// The evidence behind the bits.
const BEHIND: &str = "*2\r\n$5\r\nGETEX";
const EXISTS: u64 = 7;

async fn through(proxy: &Proxy, writer: &Writer) -> BloomGuard {
    let guard = connected_at(&proxy.url(), writer.filter()).await;
    trust(&guard, KNOWN).await;
    refuses_strangers(&guard, "it is trusted").await;
    guard
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happens_within_a_check_refuses_nothing() {
    for writer in [Writer::go_zero(2 * IDS), Writer::redisson(2 * IDS), Writer::redisbloom()] {
        let server = Arc::new(writer.server());
        let proxy = Proxy::start(server.port()).await;
        // It reads the bits of one id, and only a check of one does.
        let bits = match writer.name {
            "RedisBloom" => "*3\r\n$10\r\nBF.MEXISTS".to_owned(),
            _ => format!("*{}\r\n$8\r\nBITFIELD", 2 + 3 * writer.hashes),
        };
        let (key, statement) = (writer.key, writer.statement());
        let mut happens = vec![
            vec!["DEL", key],
            vec!["RENAME", "other", key],
            vec!["COPY", "list", key, "REPLACE"],
            vec!["FLUSHALL"],
            vec!["DEL", &statement],
        ];
        if writer.bits > 0 {
            happens.push(vec!["SETRANGE", key, "20000", "x"]);
        }
        if let Some((config, _)) = &writer.config {
            happens.push(vec!["DEL", config]);
            happens.push(vec!["HSET", config, "size", "1000"]);
        }
        for (words, at) in happens.iter().flat_map(|words| [(words, &*bits), (words, BEHIND)]) {
            let what = format!("{}: {words:?} ahead of {at:?}", writer.name);
            server.run::<()>(&["FLUSHALL"]);
            writer.write(&server, 0..IDS);
            writer.write_to("other", &server, IDS / 2..IDS - 1);
            server.run::<()>(&["LPUSH", "list", "x"]);
            let guard = through(&proxy, &writer).await;
            let server = Arc::clone(&server);
            let words: Vec<String> = words.iter().copied().map(str::to_owned).collect();
            proxy.between(&bits, at, move || {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                server.run::<()>(&words);
            });
            // Behind the bits, nothing has become of them: an absence rests on what is read there.
            let id = if at == BEHIND { STRANGERS.start } else { EXISTS };
            let verdict = guard.check(&id).await.unwrap();
            proxy.fired().await;
            assert!(!matches!(verdict, Verdict::Absent(_)), "{what}: {verdict:?}");
            assert_eq!(refused(&guard, STRANGERS).await, [0; 0], "{what}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_insert_during_which_another_filter_is_trusted_goes_to_that_one() {
    let writer = Writer::go_zero(2 * IDS);
    let server = Arc::new(writer.server());
    writer.write(&server, 0..IDS);
    let proxy = Proxy::start(server.port()).await;
    let guard = through(&proxy, &writer).await;
    let job = trusting(&server, writer.filter()).await;
    refuses_strangers(&guard, "it goes by the newer statement").await;
    // A nightly job: what others insert meanwhile, it does not have.
    writer.write_to("next", &server, 0..IDS);
    let (at, key, runtime) = (Arc::clone(&server), writer.key, Handle::current());
    proxy.between("\r\nSET\r\n", BEHIND, move || {
        at.run::<()>(&["RENAME", "next", key]);
        runtime.block_on(job.trust_foreign(KNOWN)).unwrap();
    });
    insert(&guard, &Id::display(&STRANGERS.start).unwrap()).await;
    proxy.fired().await;
    assert!(writer.reads(&server, STRANGERS.start));
    refuses_strangers(&guard, "it is trusted").await;
    assert_eq!(refused(&guard, (0..IDS).chain([STRANGERS.start])).await, [0; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_insert_that_another_string_took_ends_trust_before_it_is_acknowledged() {
    let writer = Writer::go_zero(2 * IDS);
    let server = Arc::new(writer.server());
    writer.write(&server, 0..IDS);
    let proxy = Proxy::start(server.port()).await;
    let guard = through(&proxy, &writer).await;
    let other = trusting(&server, writer.filter()).await;
    refuses_strangers(&guard, "it goes by the newer statement").await;
    // Away while the bits are set, and back before anybody looks again.
    let at = Arc::clone(&server);
    let key = writer.key;
    proxy.between("\r\nSET\r\n", "$8\r\nBITFIELD", move || at.run::<()>(&["RENAME", key, "away"]));
    guard.insert(&STRANGERS.start).await.unwrap();
    server.run::<()>(&["RENAME", "away", writer.key]);
    for guard in [&guard, &other] {
        assert_eq!(refused(guard, [STRANGERS.start]).await, [0; 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_insert_during_which_redis_restarts_from_an_old_dump_is_in_the_filter_or_nobody_relies_on_it()
 {
    for at in ["$8\r\nBITFIELD", BEHIND] {
        let writer = Writer::go_zero(2 * IDS);
        let server = Arc::new(Mutex::new(writer.server()));
        let port = server.lock().unwrap().port();
        writer.write(&server.lock().unwrap(), 0..IDS);
        let proxy = Proxy::start(port).await;
        let guard = through(&proxy, &writer).await;
        server.lock().unwrap().run::<()>(&["SAVE"]);
        let restarted = Arc::clone(&server);
        proxy.between("\r\nSET\r\n", at, move || restarted.lock().unwrap().restart());
        let inserted = guard.insert(&STRANGERS.start).await;
        println!("{at:?}: {inserted:?}");
        for _ in 0..50 {
            assert_eq!(refused(&guard, [STRANGERS.start, EXISTS]).await, [0; 0]);
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
}
