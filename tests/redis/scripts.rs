//! Each rule of a script holds by itself: one thing is wrong at a time, and all that would hide it is right.

use redis::Value;
use support::redis_server::RedisServer;

const META: &str = "bg:{users}:meta";
const LOG: &str = "bg:{users}:log";
const BITS: &str = "bg:{users}:bits";
const NEXT: &str = "bg:{users}:next";
const MARKS: &str = "bg:{users}:marks";
const BLOCKS: &str = "bg:{users}:blocks";
const MASKS: &str = "bg:{users}:masks";
const NULL: &str = "bg:{users}:null:x";

const ADD: &str = include_str!("../../src/store/redis/add.lua");
const DISTRUST: &str = include_str!("../../src/store/redis/distrust.lua");
const STORE_NULL: &str = include_str!("../../src/store/redis/null.lua");
const ALLOCATE: &str = include_str!("../../src/store/redis/rebuild/allocate.lua");
const CATCH_UP: &str = include_str!("../../src/store/redis/rebuild/catch_up.lua");
const SWAP: &str = include_str!("../../src/store/redis/rebuild/swap.lua");

const LOADING: u8 = 0x0F;
const CATCHING_UP: u8 = 0x33;
const LIVE: u8 = 0x55;
const DISPROVED: u8 = 0x66;
const DIGEST: &[u8] = &[7; 16];
const KEY_ID: &[u8] = b"0000002a";
const INCARNATION: &[u8] = b"first";

/// What is wrong.
type Wrong = fn(&Site);

struct Site(RedisServer);

impl Site {
    fn new() -> Self {
        Self(RedisServer::start())
    }

    /// Empties the server, and makes metadata of before of which nothing is doubted.
    fn begin_anew(&self) {
        self.0.run::<()>(&["FLUSHALL"]);
        self.meta(&[("kid", "0000002a"), ("inc", "first"), ("since", "1"), ("reach", "1000")]);
        self.meta(&[("seq", "5"), ("last", "1"), ("settled", "first")]);
    }

    fn meta(&self, fields: &[(&str, &str)]) {
        for (field, value) in fields {
            self.0.run::<i64>(&["HSET", META, field, value]);
        }
    }

    fn field(&self, field: &str) -> Option<String> {
        self.0.run(&["HGET", META, field])
    }

    fn now_ms(&self) -> u64 {
        let (seconds, micros): (u64, u64) = self.0.run(&["TIME"]);
        seconds * 1_000 + micros / 1_000
    }

    /// A moment that is still to come.
    fn later(&self) -> String {
        (self.now_ms() + 60_000).to_string()
    }

    fn set(&self, key: &str, bytes: &[u8]) {
        redis::cmd("SET").arg(key).arg(bytes).exec(&mut self.0.connection()).unwrap();
    }

    fn get(&self, key: &str) -> Vec<u8> {
        self.0.run::<Option<Vec<u8>>>(&["GET", key]).unwrap_or_default()
    }

    /// Runs a script; returns the first word of its answer.
    fn eval(&self, script: &str, keys: &[&str], args: &[&[u8]]) -> String {
        let mut command = redis::cmd("EVAL");
        command.arg(script).arg(keys.len()).arg(keys);
        args.iter().for_each(|arg| {
            command.arg(*arg);
        });
        let reply: Value = command.query(&mut self.0.connection()).unwrap();
        let first = match reply {
            Value::Array(fields) => fields.into_iter().next().unwrap(),
            reply => reply,
        };
        match first {
            Value::Okay => "OK".to_owned(),
            first => redis::from_redis_value(first).unwrap(),
        }
    }
}

/// A filter of one block: header, the number of the last insert, block, trailer.
fn filter(state: u8, generation: u64, nonce: u64, stamp: u64) -> Vec<u8> {
    let mut bytes = vec![0; 256];
    bytes[..12].copy_from_slice(b"BLMGUARD\0\x01\x01\0");
    bytes[11] = state;
    bytes[16..24].copy_from_slice(&generation.to_be_bytes());
    bytes[24..32].copy_from_slice(&nonce.to_be_bytes());
    bytes[35] = 1;
    bytes[64..72].copy_from_slice(&stamp.to_be_bytes());
    bytes
}

/// The same filter's first bytes.
fn head(state: u8, generation: u64) -> Vec<u8> {
    filter(state, generation, 1, 0)[..64].to_vec()
}

/// Stores a null for a 404, or for a removal.
fn store_null(site: &Site, removal: &[u8], latest_us: u64) -> String {
    let latest = latest_us.to_string();
    let args: [&[u8]; 5] = [b"e7", b"60000", latest.as_bytes(), DIGEST, removal];
    site.eval(STORE_NULL, &[NULL, MARKS, META], &args)
}

#[test]
fn each_doubt_about_marks_withholds_a_null() {
    let site = Site::new();
    let store = |removal: &[u8]| store_null(&site, removal, (site.now_ms() + 60_000) * 1_000);
    let doubts: [(&str, Wrong); 4] = [
        ("a mark", |site| {
            let mut mark = redis::cmd("ZADD");
            mark.arg(MARKS).arg(site.later()).arg(DIGEST);
            mark.exec(&mut site.0.connection()).unwrap();
        }),
        ("no metadata", |site| site.0.run::<()>(&["DEL", META])),
        ("marks are gone", |site| site.meta(&[("marked", &site.later())])),
        ("marks were dropped early", |site| site.meta(&[("blind", &site.later())])),
    ];
    for (what, wrong) in doubts {
        for removal in [&b""[..], b"1"] {
            site.begin_anew();
            wrong(&site);
            assert_eq!(store(removal), "CREATED", "{what}");
            assert_eq!(site.get(NULL), b"", "{what}");
        }
    }
    for removal in [&b""[..], b"1"] {
        site.begin_anew();
        assert_eq!((store(removal), site.get(NULL)), ("OK".to_owned(), b"e7".to_vec()));
    }
    site.begin_anew();
    site.meta(&[("since", &site.now_ms().to_string()), ("reach", "60000")]);
    assert_eq!(store(b"1"), "CREATED", "marks of before this life of Redis may be missing");
    assert_eq!(store(b""), "OK");
    assert_eq!(store_null(&site, b"", (site.now_ms() - 1) * 1_000), "LATE");
}

/// Swaps a filter of generation 9 in.
fn swap(site: &Site) -> String {
    let next = head(CATCHING_UP, 9);
    let live = head(LIVE, 9);
    let args: [&[u8]; 10] =
        [&next, &live, b"256", INCARNATION, b"", b"1000", b"2000", b"1000", b"9", &[DISPROVED]];
    site.eval(SWAP, &[NEXT, BITS, META, LOG], &args)
}

/// All is ready for a swap.
fn ready_to_swap(site: &Site) {
    site.begin_anew();
    site.set(NEXT, &filter(CATCHING_UP, 9, 1, 0));
    site.set(BITS, &filter(LIVE, 8, 1, 5));
    // A RENAME would carry it over.
    site.0.run::<i64>(&["PEXPIRE", NEXT, "60000"]);
}

#[test]
fn each_rule_of_a_swap_holds_it_back() {
    let site = Site::new();
    let rules: [(&str, Wrong); 10] = [
        ("LOST", |site| site.set(NEXT, &filter(CATCHING_UP, 9, 2, 0))),
        ("LOST", |site| site.set(NEXT, &filter(LOADING, 9, 1, 0))),
        ("LOST", |site| site.set(NEXT, &filter(CATCHING_UP, 9, 1, 0)[..255])),
        ("LOST", |site| site.meta(&[("not_in_next", "5")])),
        ("GAP", |site| site.meta(&[("inc", "second")])),
        ("UNVOUCHED", |site| site.meta(&[("unvouched", "1000")])),
        ("FENCED", |site| site.set(BITS, &filter(LIVE, 9, 2, 5))),
        ("FENCED", |site| site.set(BITS, &filter(LIVE, 10, 2, 5))),
        ("HELD", |site| site.meta(&[("hold", &site.later())])),
        ("HELD", |site| site.meta(&[("settled", "none")])),
    ];
    for (expected, wrong) in rules {
        ready_to_swap(&site);
        wrong(&site);
        let before = site.get(BITS);
        assert_eq!(swap(&site), expected);
        assert_eq!(site.get(BITS), before, "{expected}");
    }
    for (worked, expected) in [(1_999, "HELD"), (2_000, "OK")] {
        ready_to_swap(&site);
        let noted = format!("first {worked} {}", site.now_ms());
        site.meta(&[("settled", "none"), ("worked", &noted)]);
        assert_eq!(swap(&site), expected, "{worked}");
    }
    for worked in ["second 2000 {now}", "first 2000 {before}", "first 2000 {after}"] {
        ready_to_swap(&site);
        let now = site.now_ms();
        let worked = worked.replace("{now}", &now.to_string());
        let worked = worked.replace("{before}", &(now - 1_500).to_string());
        let worked = worked.replace("{after}", &(now + 60_000).to_string());
        site.meta(&[("settled", "none"), ("worked", &worked)]);
        assert_eq!(swap(&site), "HELD", "{worked}");
    }
}

#[test]
fn a_swap_leaves_a_filter_that_is_stamped_and_lasts() {
    let site = Site::new();
    for (state, rebuilt) in [(LIVE, None), (DISPROVED, Some("9"))] {
        ready_to_swap(&site);
        site.set(BITS, &filter(state, 8, 1, 5));
        assert_eq!(swap(&site), "OK");
        assert_eq!(site.get(BITS), filter(LIVE, 9, 1, 6), "the swap is the sixth entry");
        assert_eq!(site.0.run::<i64>(&["PTTL", BITS]), -1);
        assert_eq!(site.field("rebuilt").as_deref(), rebuilt);
        let fields = ["live", "settled", "seq"].map(|field| site.field(field).unwrap());
        assert_eq!(fields, ["9", "first", "6"]);
    }
}

/// Adds one id to a live filter of generation 8 and a filter being built of generation 9, with bits for both.
fn add(site: &Site) -> String {
    let mask = [&0x80_u32.to_be_bytes()[..], &[0xF0; 64]].concat();
    let (live, next) = (head(LIVE, 8), head(CATCHING_UP, 9));
    let args: [&[u8]; 13] = [
        KEY_ID, b"60000", b"1000", b"1000", DIGEST, &live, b"256", &mask, &next, b"256", &mask,
        b"", b"1000",
    ];
    site.eval(ADD, &[META, LOG, BITS, NEXT, MARKS, BLOCKS, MASKS, NULL], &args)
}

fn ready_to_add(site: &Site) {
    site.begin_anew();
    site.set(BITS, &filter(LIVE, 8, 1, 5));
    site.set(NEXT, &filter(CATCHING_UP, 9, 1, 0));
}

#[test]
fn each_rule_of_an_insert_sends_the_caller_back_and_writes_no_entry() {
    let site = Site::new();
    let rules: [(&str, Wrong); 7] = [
        ("KEY", |site| site.meta(&[("kid", "0000002b")])),
        ("STALE", |site| site.set(BITS, &filter(LIVE, 8, 2, 5))),
        ("STALE", |site| site.set(BITS, &filter(LIVE, 8, 1, 5)[..255])),
        ("STALE", |site| site.set(BITS, &filter(LIVE, 8, 1, 4))),
        ("STALE", |site| site.set(BITS, &filter(LIVE, 8, 1, 6))),
        ("STALE", |site| site.set(NEXT, &filter(CATCHING_UP, 9, 2, 0))),
        ("STALE", |site| site.set(NEXT, &filter(CATCHING_UP, 9, 1, 0)[..255])),
    ];
    for (expected, wrong) in rules {
        ready_to_add(&site);
        wrong(&site);
        assert_eq!(add(&site), expected);
        assert_eq!(site.0.run::<i64>(&["EXISTS", LOG, MARKS]), 0, "{expected}");
    }
}

#[test]
fn a_filter_with_another_stamp_is_out_of_use_after_an_insert() {
    let site = Site::new();
    for stamp in [4, 6] {
        ready_to_add(&site);
        site.set(BITS, &filter(LIVE, 8, 1, stamp));
        add(&site);
        assert_eq!(site.get(BITS)[11], 0, "{stamp}");
    }
}

#[test]
fn an_insert_leaves_a_trace_wherever_it_is_needed() {
    let site = Site::new();
    ready_to_add(&site);
    site.set(NULL, b"e8");
    assert_eq!(add(&site), "OK");
    let set = |key| site.get(key)[128..192] == [0xF0; 64];
    assert!(set(BITS) && set(NEXT), "the bits");
    assert_eq!(site.get(BITS)[64..72], 6_u64.to_be_bytes(), "the stamp");
    assert_eq!(site.field("not_in_next"), None);
    assert_eq!(site.0.run::<i64>(&["EXISTS", NULL]), 0, "the null");
    assert_eq!(site.0.run::<i64>(&["XLEN", LOG]), 1, "the journal");
    let marked: u64 = site.field("marked").unwrap().parse().unwrap();
    assert!(marked > site.now_ms() + 50_000, "the mark's end");
    let mut score = redis::cmd("ZSCORE");
    let mark: f64 = score.arg(MARKS).arg(DIGEST).query(&mut site.0.connection()).unwrap();
    assert_eq!(mark as u64, marked);

    ready_to_add(&site);
    site.set(NEXT, &filter(LOADING, 9, 1, 0));
    assert_eq!(add(&site), "OK");
    assert_eq!(site.field("not_in_next").as_deref(), Some("6"), "the swap must know");
    assert!(!set(NEXT), "the upload owns it");

    ready_to_add(&site);
    site.meta(&[("marked", &site.later())]);
    assert_eq!(add(&site), "OK");
    assert!(site.field("blind") >= Some(site.now_ms().to_string()), "marks were lost");
}

#[test]
fn each_rule_of_distrust_leaves_the_filter_in_use() {
    let site = Site::new();
    let distrust = |generation: u64, unless: &str| {
        let args: [&[u8]; 5] =
            [&generation.to_be_bytes(), b"16", &[DISPROVED], b"11", unless.as_bytes()];
        let mut command = redis::cmd("EVAL");
        command.arg(DISTRUST).arg(2).arg(BITS).arg(META);
        args.iter().for_each(|arg| {
            command.arg(*arg);
        });
        let done: i64 = command.query(&mut site.0.connection()).unwrap();
        (done, site.get(BITS)[11])
    };
    ready_to_add(&site);
    assert_eq!(distrust(7, "7"), (0, LIVE), "another generation");
    site.meta(&[("rebuilt", "8")]);
    assert_eq!(distrust(8, "8"), (0, LIVE), "it took the place of a disproved one");
    assert_eq!(distrust(8, ""), (1, DISPROVED), "it is damaged");
    ready_to_add(&site);
    site.meta(&[("rebuilt", "7")]);
    assert_eq!(distrust(8, "8"), (1, DISPROVED));
}

#[test]
fn a_rebuild_gives_way_to_a_newer_one_and_catches_up_in_its_own_incarnation_only() {
    let site = Site::new();
    let allocate = || {
        let trailer = &filter(LOADING, 9, 1, 0)[192..];
        site.eval(ALLOCATE, &[NEXT], &[&head(LOADING, 9), trailer, b"256", b""])
    };
    for (generation, nonce, expected) in
        [(10, 1, "FENCED"), (9, 2, "FENCED"), (9, 1, "OK"), (8, 2, "OK")]
    {
        site.begin_anew();
        site.set(NEXT, &filter(LOADING, generation, nonce, 0));
        assert_eq!(allocate(), expected, "{generation} {nonce}");
    }
    let catch_up = || {
        let (loading, catching_up) = (head(LOADING, 9), head(CATCHING_UP, 9));
        let args: [&[u8]; 4] = [&loading, &catching_up, b"256", INCARNATION];
        site.eval(CATCH_UP, &[NEXT, META], &args)
    };
    let rules: [(&str, Wrong); 3] = [
        ("LOST", |site| site.set(NEXT, &filter(LOADING, 9, 2, 0))),
        ("LOST", |site| site.set(NEXT, &filter(LOADING, 9, 1, 0)[..255])),
        ("GAP", |site| site.meta(&[("inc", "second")])),
    ];
    for (expected, wrong) in rules {
        site.begin_anew();
        site.set(NEXT, &filter(LOADING, 9, 1, 0));
        wrong(&site);
        assert_eq!(catch_up(), expected);
    }
    for (state, left) in [(LOADING, None), (CATCHING_UP, Some("5"))] {
        site.begin_anew();
        site.set(NEXT, &filter(state, 9, 1, 0));
        site.meta(&[("not_in_next", "5")]);
        assert_eq!(catch_up(), "OK");
        assert_eq!(site.field("not_in_next").as_deref(), left, "only the first time");
        assert_eq!(site.get(NEXT), filter(CATCHING_UP, 9, 1, 0));
    }
}
