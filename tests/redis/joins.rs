//! Each rule by which a process joins the metadata holds by itself: who may say what of the fleet.

use redis::Value;
use support::redis_server::RedisServer;

const META: &str = "bg:{users}:fleet";
const JOIN: &str = include_str!("../../src/store/redis/incarnation/join.lua");
const KEYS: [&str; 5] =
    [META, "bg:{users}:recent", "bg:{users}:bits", "bg:{users}:next", "bg:{users}:lock"];
const KEY_ID: &str = "0000002a";
const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
/// For how long the callers of these tests have a new filter settle.
const SETTLE: u64 = 1_000_000;
/// How far back they have the record of inserts reach.
const REACH: &str = "1000";

/// What a process tells that joins.
struct Caller {
    key_id: &'static str,
    /// What it knows of settling, and when it was told.
    rest: &'static str,
    told: u64,
}

const NEWCOMER: Caller = Caller { key_id: KEY_ID, rest: "", told: 0 };

struct Site(RedisServer);

impl Site {
    /// Metadata of long ago that say nothing of the fleet.
    fn new() -> Self {
        let site = Self(RedisServer::start());
        site.set(&[("kid", KEY_ID), ("inc", "first"), ("run", "00000001"), ("since", "1")]);
        site.set(&[("life", "1"), ("last", "5"), ("reach", REACH)]);
        site
    }

    fn set(&self, fields: &[(&str, &str)]) {
        for (field, value) in fields {
            self.0.run::<i64>(&["HSET", META, field, value]);
        }
    }

    fn set_moment(&self, field: &str, moment: u64) {
        self.set(&[(field, &moment.to_string())]);
    }

    fn get(&self, field: &str) -> u64 {
        self.0.run::<Option<u64>>(&["HGET", META, field]).unwrap_or(0)
    }

    fn now(&self) -> u64 {
        let (seconds, micros): (u64, u64) = self.0.run(&["TIME"]);
        seconds * 1_000 + micros / 1_000
    }

    /// Whether this moment was just now.
    fn is_now(&self, moment: u64) -> bool {
        moment <= self.now() && moment + MINUTE / 2 > self.now()
    }

    fn join(&self, caller: &Caller) {
        let Caller { key_id, rest, told } = caller;
        let (settle, told) = (SETTLE.to_string(), told.to_string());
        let known = ["first", "1", "5", ""];
        let mut command = redis::cmd("EVAL");
        command.arg(JOIN).arg(KEYS.len()).arg(&KEYS);
        command.arg(*key_id).arg("").arg("sixteen bytes ok").arg(REACH).arg("00000001");
        command.arg("").arg("2000").arg(&known).arg(settle).arg(*rest).arg("").arg("0").arg(told);
        let reply: Vec<Value> = command.query(&mut self.0.connection()).unwrap();
        assert_eq!(reply.len(), 15);
    }
}

/// A process that was away may know only that an earlier filter had settled.
#[test]
fn who_was_away_while_others_looked_ends_no_settling() {
    for (away, ends) in [(61_000, false), (55_000, true)] {
        let site = Site::new();
        let now = site.now();
        site.set_moment("polled", now);
        site.set_moment("settles", now + SETTLE);
        site.join(&Caller { rest: "0", told: now - away, ..NEWCOMER });
        assert_eq!(site.get("settles") == 0, ends, "away for {away} ms");
    }
}

/// As where Redis was away, and all that it had is still there.
#[test]
fn who_was_told_when_anybody_last_was_still_knows_that_a_filter_has_settled() {
    let site = Site::new();
    let then = site.now() - HOUR;
    site.set_moment("polled", then);
    site.join(&Caller { rest: "0", told: then - 1_000, ..NEWCOMER });
    assert_eq!(site.get("settles"), 0);
}

/// As where Redis was away for some minutes, with or without its data after, and a process began meanwhile.
#[test]
fn a_newcomer_that_joins_first_has_no_settled_filter_settle() {
    for (was_there, told_before, later, settled) in [
        (true, 1_000, 0, true),
        (false, 1_000, 0, true),
        (true, 2 * MINUTE, 0, false),
        (true, 1_000, 2 * MINUTE, false),
    ] {
        let site = if was_there { Site::new() } else { Site(RedisServer::start()) };
        let then = site.now() - 5 * MINUTE;
        if was_there {
            site.set_moment("polled", then);
        }
        site.join(&NEWCOMER);
        assert!(site.get("settles") > site.now(), "it knows nothing");
        site.set_moment("lapse", site.get("lapse") - later);
        site.join(&Caller { rest: "0", told: then - told_before, ..NEWCOMER });
        let what = "told before anybody last was, and comes later by ms";
        assert_eq!(site.get("settles") == 0, settled, "{was_there}, {told_before} {what}: {later}");
    }
}

/// As where the time to settle was taken out of the settings, and all processes are replaced at once.
#[test]
fn who_knows_nothing_ends_no_settling_sooner() {
    const WEEK: u64 = 7 * 24 * HOUR;
    for (rest, goes_on) in [(2 * SETTLE, true), (SETTLE / 2, false), (WEEK + HOUR, false)] {
        let site = Site::new();
        let (now, until) = (site.now(), site.now() + rest);
        site.set_moment("polled", now - 2 * MINUTE);
        site.set_moment("settles", until);
        site.join(&NEWCOMER);
        let ends = site.get("settles");
        assert_eq!(ends == until, goes_on, "{rest} ms");
        assert!(ends >= now + SETTLE && ends <= site.now() + 2 * SETTLE, "{rest} ms");
    }
}

#[test]
fn a_moment_from_before_the_clock_was_set_back_says_that_nobody_looked() {
    for field in ["polled", "stated"] {
        let site = Site::new();
        site.set_moment(field, site.now() + HOUR);
        site.join(&NEWCOMER);
        assert!(site.get("settles") > site.now(), "{field}: it settles");
        assert!(site.is_now(site.get(field)), "{field} is told anew");
    }
}

#[test]
fn a_process_with_another_secret_key_has_no_say() {
    let site = Site::new();
    let before = site.now() - HOUR;
    for field in ["polled", "stated"] {
        site.set_moment(field, before);
    }
    site.set_moment("settles", before);
    site.join(&Caller { key_id: "0000002b", rest: "0", told: site.now() });
    for field in ["polled", "stated", "settles"] {
        assert_eq!(site.get(field), before, "{field}");
    }
}
