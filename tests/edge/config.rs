//! What the builder accepts, and what it says of the rest.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::error::Error;
use std::fmt::Display;
use std::time::Duration;

use bloom_guard::filter::{Sizing, SizingError};
use bloom_guard::{BloomGuard, Builder, ConfigError, Extraction, Schedule};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const NANO: Duration = Duration::from_nanos(1);

fn named(name: &str) -> Result<Builder, ConfigError> {
    BloomGuard::builder(name, |_: &http::request::Parts| Extraction::Unguarded)
}

fn builder() -> Builder {
    named("users").unwrap()
}

/// An error and its causes in one line.
fn told(error: &dyn Error) -> String {
    let cause = error.source().map(|cause| format!(": {}", told(cause)));
    format!("{error}{}", cause.unwrap_or_default())
}

#[track_caller]
fn assert_tells(error: &dyn Error, parts: &[&dyn Display]) {
    let told = told(error);
    for part in parts {
        assert!(told.contains(&part.to_string()), "{told:?} does not tell {part}");
    }
}

#[test]
fn a_duration_is_within_its_bounds_or_refused_by_name() {
    type Setter = fn(Duration) -> Result<(), ConfigError>;
    let table: [(&str, Setter, Duration, Duration); 7] = [
        ("negative_ttl", |d| builder().negative_ttl(d).map(drop), SECOND, HOUR),
        ("removed_ttl", |d| builder().removed_ttl(d).map(drop), SECOND, 31 * DAY),
        ("check_deadline", |d| builder().check_deadline(d).map(drop), MS, 10 * SECOND),
        ("handler_time", |d| builder().handler_time(d).map(drop), 100 * MS, HOUR),
        ("longest_transaction", |d| builder().longest_transaction(d).map(drop), SECOND, DAY),
        ("longest_rebuild", |d| builder().longest_rebuild(d).map(drop), MINUTE, DAY),
        ("rebuild period", |d| Schedule::every(d).map(drop), SECOND, 31 * DAY),
    ];
    for (name, set, least, greatest) in table {
        set(least).unwrap();
        set(greatest).unwrap();
        for outside in least.checked_sub(NANO).into_iter().chain([greatest + NANO, Duration::MAX]) {
            let error = set(outside).unwrap_err();
            assert_tells(&error, &[&name, &format!("{outside:?}"), &format!("{greatest:?}")]);
            let ConfigError::Duration { setting, value, min, max } = error else {
                panic!("{name}: {error:?}")
            };
            assert_eq!((setting, value, min, max), (name, outside, least, greatest));
        }
    }
}

#[test]
fn a_number_is_within_its_bounds_or_refused_by_name() {
    type Setter = fn(f64) -> Result<(), ConfigError>;
    let table: [(&str, Setter, f64, f64, &[f64]); 4] = [
        (
            "checks_in_flight",
            |n| builder().checks_in_flight(n as u32).map(drop),
            1.0,
            65_536.0,
            &[0.0, 65_537.0],
        ),
        (
            "journal_entries",
            |n| builder().journal_entries(n as u64).map(drop),
            1e3,
            1e9,
            &[0.0, 999.0, 1e9 + 1.0],
        ),
        (
            "null_cache_bytes",
            |n| builder().null_cache_bytes(n as u64).map(drop),
            65_536.0,
            4_294_967_296.0,
            &[0.0, 65_535.0, 4_294_967_297.0],
        ),
        (
            "shrink_limit",
            |n| builder().shrink_limit(n).map(drop),
            0.0,
            1.0,
            &[-0.001, 1.001, f64::NAN, f64::INFINITY, f64::NEG_INFINITY],
        ),
    ];
    for (name, set, least, greatest, outside) in table {
        set(least).unwrap();
        set(greatest).unwrap();
        for &outside in outside {
            let error = set(outside).unwrap_err();
            assert_tells(&error, &[&name, &outside, &least, &greatest]);
            let ConfigError::Number { setting, value, min, max } = error else {
                panic!("{name}: {error:?}")
            };
            assert_eq!((setting, min, max), (name, least, greatest));
            assert_eq!(value.to_bits(), outside.to_bits());
        }
    }
}

#[test]
fn a_filter_that_cannot_be_is_refused_with_its_limits() {
    let refused = |capacity, rate| match builder().capacity(capacity, rate).unwrap_err() {
        ConfigError::Sizing(error) => error,
        other => panic!("{other:?}"),
    };
    for capacity in [0, 1 << 32, u64::MAX] {
        let error = refused(capacity, 0.01);
        assert!(matches!(error, SizingError::Capacity { .. }), "{error:?}");
        assert_tells(&ConfigError::Sizing(error), &[&capacity, &1, &u32::MAX]);
    }
    for rate in [0.0, -0.01, 0.9e-9, 0.500_001, 1.0, 100.0, f64::NAN, f64::INFINITY] {
        let error = refused(1_000, rate);
        assert!(matches!(error, SizingError::Rate { .. }), "{error:?}");
        assert_tells(&ConfigError::Sizing(error), &[&rate, &0.5]);
    }
    // 512 MiB, the longest string Redis holds.
    let limit = 512 << 20;
    let error = refused(u32::MAX.into(), 0.01);
    assert!(matches!(error, SizingError::TooLarge { .. }), "{error:?}");
    assert_tells(&ConfigError::Sizing(error), &[&u32::MAX, &limit]);
    for (capacity, rate) in [(1, 0.5), (1, 1e-9), (430_000_000, 0.01)] {
        assert!(builder().capacity(capacity, rate).is_ok());
        assert!(Sizing::new(capacity, rate).unwrap().bytes() <= limit);
    }
}

#[test]
fn a_name_is_one_that_a_key_can_hold() {
    for name in ["u", "users", "v1:users.eu-west_2", &"x".repeat(64)] {
        assert!(named(name).is_ok(), "{name}");
    }
    for name in ["", "us ers", "us{e}rs", "users\r\nFLUSHALL", "benützer", "a/b", &"x".repeat(65)]
    {
        let error = named(name).unwrap_err();
        assert_tells(&error, &[&format!("{name:?}"), &"1 to 64"]);
        assert!(matches!(error, ConfigError::Name { .. }), "{error:?}");
    }
}

#[test]
fn a_schedule_is_one_that_can_be_read() {
    for expression in ["30 3 * * *", "*/10 * * * *", "0 30 3 * * *", "0 4 * * SUN"] {
        assert!(Schedule::cron(expression).is_ok(), "{expression}");
    }
    for expression in ["", "daily", "* * * *", "61 * * * *", "30 25 * * *", "* * * * * * * *"] {
        let error = Schedule::cron(expression).unwrap_err();
        let ConfigError::Cron { source, .. } = &error else { panic!("{error:?}") };
        assert!(!source.to_string().is_empty(), "{expression}: the reason is given");
        assert_tells(&error, &[&format!("{expression:?}"), source]);
        assert!(error.source().is_none(), "{expression}: and given once");
    }
}

#[test]
fn a_schedule_that_never_comes_is_no_schedule() {
    for expression in ["0 0 31 2 *", "0 0 30 2 *", "0 0 31 4,6,9,11 *"] {
        let Err(error) = Schedule::cron(expression) else { panic!("{expression} has a time") };
        assert_tells(&error, &[&format!("{expression:?}"), &"ten years"]);
    }
    assert!(Schedule::cron("0 0 29 2 *").is_ok(), "leap days come");
}

#[test]
fn a_redis_url_is_refused_with_the_reason_and_without_its_password() {
    for (url, reason) in [
        ("", "scheme"),
        ("localhost:6379", "scheme"),
        ("http://:hunter2@localhost", "scheme"),
        ("redis://:hunter2@", "no url"),
        ("redis://:hunter2#@localhost", "no url"),
        ("redis://:hunter2@localhost:port", "no url"),
        ("redis://:hunter2@localhost/users", "database number"),
        ("redis://:hunter2@localhost/?protocol=hunter2", "protocol version"),
    ] {
        let error = builder().redis(url).unwrap_err();
        assert_tells(&error, &[&reason, &"redis://[user][:password@]host[:port][/db]"]);
        for told in [told(&error), format!("{error:?}")] {
            assert!(!told.contains("hunter2"), "{url}: {told}");
        }
    }
}

#[tokio::test]
async fn an_insert_that_fails_says_why() {
    let guard = builder().redis("redis://127.0.0.1:1").unwrap().build();
    let error = guard.insert(&1).await.unwrap_err();
    assert!(error.to_string().contains("no connection to redis"), "{error}");
    assert!(error.source().is_none(), "and says it once");
    let error = guard.insert(&"x".repeat(10_000)).await.unwrap_err();
    assert!(error.to_string().starts_with("the id is invalid: "), "{error}");
}

#[test]
fn the_sizes_in_the_readme_are_those_of_the_code() {
    let readme = include_str!("../../README.md");
    for (name, rate) in
        [("3 %", 0.03), ("1 %", 0.01), ("0.1 %", 0.001), ("0.01 %", 0.0001), ("1e-6", 1e-6)]
    {
        let million = Sizing::new(1_000_000, rate).unwrap();
        let megabytes = |millions: u64| match Sizing::new(millions * 1_000_000, rate) {
            Ok(sizing) if millions == 1 => format!("{:.2} MB", sizing.bytes() as f64 / 1e6),
            Ok(sizing) => format!("{:.0} MB", sizing.bytes() as f64 / 1e6),
            Err(error) => panic!("{error}"),
        };
        let row = format!(
            "| {name} | {:.2} | {} | {} | {} | {} |",
            million.bits_per_id(),
            million.hashes(),
            megabytes(1),
            megabytes(10),
            megabytes(100),
        );
        assert!(readme.contains(&row), "not in the README: {row}");
    }
}
