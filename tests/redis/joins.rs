//! Each rule by which a process joins the metadata holds by itself: who may say what of the fleet.

use redis::{RedisResult, Value};
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
    /// The incarnation that it knows.
    known: &'static str,
    /// What it knows of settling, and when it was told.
    rest: &'static str,
    told: u64,
}

const NEWCOMER: Caller = Caller { key_id: KEY_ID, known: "", rest: "", told: 0 };
/// One that comes from a Redis before, where the filter had settled.
const SETTLED: Caller = Caller { known: "before", rest: "0", ..NEWCOMER };

struct Site(RedisServer);

impl Site {
    /// Metadata of long ago that say nothing of the fleet.
    fn new() -> Self {
        let site = Self(RedisServer::start());
        site.set(&[("kid", KEY_ID), ("inc", "first"), ("run", "00000001"), ("since", "1")]);
        site.set(&[("began", "1"), ("last", "5"), ("reach", REACH)]);
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
        assert_eq!(self.ask(caller, "sixteen bytes ok").unwrap().len(), 15);
    }

    fn ask(&self, caller: &Caller, incarnation: &str) -> RedisResult<Vec<Value>> {
        let Caller { key_id, known, rest, told } = caller;
        let (settle, told) = (SETTLE.to_string(), told.to_string());
        let known = [known, "1", "5", ""];
        let mut command = redis::cmd("EVAL");
        command.arg(JOIN).arg(KEYS.len()).arg(&KEYS);
        command.arg(*key_id).arg("").arg(incarnation).arg(REACH).arg("00000001");
        command.arg("").arg("2000").arg(&known).arg(settle).arg(*rest).arg("").arg("0").arg(told);
        command.query(&mut self.0.connection())
    }
}

/// A process that was away may know only that an earlier filter had settled.
#[test]
fn who_was_away_while_others_looked_ends_no_settling() {
    for (away, ends) in [(61_000, false), (54_000, true)] {
        let site = Site::new();
        let now = site.now();
        site.set_moment("polled", now);
        site.set_moment("settles", now + SETTLE);
        site.join(&Caller { told: now - away, ..SETTLED });
        assert_eq!(site.get("settles") == 0, ends, "away for {away} ms");
    }
}

/// As where Redis was away, and all that it had is still there.
#[test]
fn who_was_told_when_anybody_last_was_still_knows_that_a_filter_has_settled() {
    let site = Site::new();
    let then = site.now() - HOUR;
    site.set_moment("polled", then);
    site.join(&Caller { told: then - 1_000, ..SETTLED });
    assert_eq!(site.get("settles"), 0);
}

/// What contradicts it was told to the metadata since.
#[test]
fn who_knows_this_incarnation_ends_and_shortens_no_settling() {
    for rest in ["0", "1000"] {
        let site = Site::new();
        let now = site.now();
        site.set_moment("polled", now);
        site.set_moment("settles", now + SETTLE);
        site.join(&Caller { known: "first", rest, told: now, ..NEWCOMER });
        assert_eq!(site.get("settles"), now + SETTLE);
    }
}

/// The data went back to before the filter began to settle anew; another process may have come before that knew nothing of it.
#[test]
fn who_knows_that_a_filter_settles_has_it_do_so_in_data_that_went_back() {
    for (known, since, goes_on) in
        [("before", 0, true), ("before", HOUR, true), ("first", HOUR, true), ("first", 0, false)]
    {
        for rest in ["1", "500000"] {
            let site = Site::new();
            let now = site.now();
            site.set_moment("polled", now - since);
            site.join(&Caller { known, rest, told: now, ..NEWCOMER });
            let (ends, rest) = (site.get("settles"), rest.parse::<u64>().unwrap());
            let is_told = (now + rest..=site.now() + rest).contains(&ends);
            assert_eq!(if goes_on { is_told } else { ends != 0 }, goes_on, "{known}, {since}");
        }
    }
}

/// A process that has stated it before is gone, and an operator says so.
#[test]
fn the_longest_transaction_rises_and_its_heir_only_while_it_is_asked_for() {
    for (reach, heir, then) in
        [("500", "0", (1_000, 0)), ("5000", "1", (5_000, 1_000)), ("5000", "3000", (5_000, 3_000))]
    {
        let site = Site::new();
        site.set(&[("reach", reach), ("heir", heir)]);
        site.join(&NEWCOMER);
        assert_eq!((site.get("reach"), site.get("heir")), then);
    }
}

/// Nor does one fail where it finds a record of another type, which a process that joins would put aside.
#[test]
fn an_observer_writes_nothing() {
    let site = Site::new();
    site.set_moment("settles", site.now() + 30 * 24 * HOUR);
    site.0.run::<i64>(&["SADD", KEYS[1], "mine"]);
    let before = site.0.run::<Vec<String>>(&["HGETALL", META]);
    assert_eq!(site.ask(&NEWCOMER, "").unwrap().len(), 15);
    assert_eq!(site.0.run::<Vec<String>>(&["HGETALL", META]), before);
    assert_eq!(site.0.keys(), [META, KEYS[1]]);
    site.0.run::<i64>(&["DEL", META]);
    assert!(site.ask(&NEWCOMER, "").unwrap_err().to_string().contains("no filter of this name"));
    assert_eq!(site.0.keys(), [KEYS[1]]);
}

/// As where Redis came back without its data, and a process began meanwhile. Where it was away for long, and has its data still, who
/// comes first decides.
#[test]
fn a_newcomer_that_joins_first_has_no_filter_settle_of_which_others_know_better() {
    for (was_there, told_before, settled) in
        [(false, 1_000, true), (false, 2 * MINUTE, false), (true, 5 * MINUTE, false)]
    {
        let site = if was_there { Site::new() } else { Site(RedisServer::start()) };
        if was_there {
            site.set_moment("polled", site.now() - 5 * MINUTE);
        }
        site.join(&NEWCOMER);
        assert!(site.get("settles") > site.now(), "it knows nothing");
        site.join(&Caller { told: site.now() - told_before, ..SETTLED });
        assert_eq!(site.get("settles") == 0, settled, "{was_there}, told {told_before} ms before");
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

/// As where a clock was years ahead, and a process goes on that knows for how long it is.
#[test]
fn no_filter_settles_for_more_than_a_week() {
    for (caller, rest) in [(NEWCOMER, SETTLE), (Caller { rest: "500000", ..SETTLED }, 500_000)] {
        let site = Site::new();
        let now = site.now();
        site.set_moment("polled", now);
        site.set_moment("settles", now + 400 * 24 * HOUR);
        site.join(&Caller { told: now, ..caller });
        assert!((now + rest..=site.now() + rest).contains(&site.get("settles")), "{rest}");
    }
}

#[test]
fn a_moment_from_before_the_clock_was_set_back_says_that_nobody_looked() {
    let site = Site::new();
    site.set_moment("polled", site.now() + HOUR);
    site.join(&NEWCOMER);
    assert!(site.get("settles") > site.now(), "it settles");
    assert!(site.is_now(site.get("polled")), "it is told anew");
}

#[test]
fn a_process_with_another_secret_key_has_no_say() {
    let site = Site::new();
    let before = site.now() - HOUR;
    for field in ["polled", "settles"] {
        site.set_moment(field, before);
    }
    site.join(&Caller { key_id: "0000002b", told: site.now(), ..SETTLED });
    for field in ["polled", "settles"] {
        assert_eq!(site.get(field), before, "{field}");
    }
}
