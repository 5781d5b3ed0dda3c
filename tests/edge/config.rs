//! What the builder accepts, and what it says of the rest.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt::Display;
use std::fs;
use std::path::Path;
use std::time::Duration;

use bloom_guard::access::{Credentials, TlsSettings};
use bloom_guard::extract::Extraction;
use bloom_guard::{
    BloomGuard, BoxError, Builder, ConfigError, ForeignFilter, Mode, NegativeCaching, OnInvalid,
    OnUnknown, Schedule, SecretKey, SettingError, Sizing, from_iter,
};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// The setters that say where the filter lives.
const PLACES: [&str; 3] = ["in_process", "redis", "redis_each"];
const NANO: Duration = Duration::from_nanos(1);

fn named(name: &str) -> Builder {
    BloomGuard::builder(name, |_: &http::request::Parts| Extraction::Unguarded)
}

fn builder() -> Builder {
    named("users").in_process()
}

fn in_redis() -> Builder {
    named("users").redis("rediss://localhost")
}

fn in_foreign() -> Builder {
    in_redis().foreign(ForeignFilter::go_zero("key", 1_000))
}

fn caching(caching: NegativeCaching) -> Builder {
    builder().negative_caching(caching)
}

fn scheduled(schedule: Schedule) -> Builder {
    builder().rebuild(schedule, from_iter(|| 0..10_u64))
}

fn with_cron(expression: &str) -> Builder {
    scheduled(Schedule::cron(expression))
}

/// The error of a builder with one wrong setting.
#[track_caller]
fn refused(builder: Builder) -> ConfigError {
    let error = builder.build().unwrap_err();
    assert_eq!(error.problems().len(), 1, "{error:?}");
    error
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
fn a_guard_says_where_its_filter_lives() {
    let url = "redis://127.0.0.1:1";
    assert!(named("users").in_process().build().is_ok());
    assert!(named("users").redis(url).build().is_ok());
    let nowhere = refused(named("users"));
    assert!(matches!(nowhere.problems(), [SettingError::Combination { .. }]), "{nowhere:?}");
    assert_tells(&nowhere, &[&"in_process()", &"redis(url)", &"never has two"]);
    for twice in [named("users").in_process().redis(url), named("users").redis(url).in_process()] {
        let error = refused(twice);
        assert!(matches!(error.problems(), [SettingError::Combination { .. }]), "{error:?}");
    }
    // What the url means to say is known, whatever is wrong with it.
    let error = refused(named("users").redis("localhost"));
    assert!(
        matches!(error.problems(), [SettingError::Invalid { setting: "redis", .. }]),
        "{error:?}"
    );
}

#[test]
fn a_duration_is_within_its_bounds_or_refused_by_name() {
    type Setter = fn(Duration) -> Builder;
    let table: [(&str, Setter, Duration, Duration); 5] = [
        ("negative_caching ttl", |d| caching(NegativeCaching::new().ttl(d)), SECOND, HOUR),
        ("check_deadline", |d| in_redis().check_deadline(d), MS, 10 * SECOND),
        (
            "negative_caching handler_time",
            |d| caching(NegativeCaching::new().handler_time(d)),
            100 * MS,
            HOUR,
        ),
        ("longest_transaction", |d| builder().longest_transaction(d), SECOND, DAY),
        ("rebuild period", |d| scheduled(Schedule::every(d)), SECOND, 31 * DAY),
    ];
    for (name, set, least, greatest) in table {
        set(least).build().unwrap();
        set(greatest).build().unwrap();
        for outside in least.checked_sub(NANO).into_iter().chain([greatest + NANO, Duration::MAX]) {
            let error = refused(set(outside));
            assert_tells(&error, &[&name, &format!("{outside:?}"), &format!("{greatest:?}")]);
            let reason = format!("{outside:?} is not between {least:?} and {greatest:?}");
            let bounded = SettingError::Invalid { setting: name, reason };
            assert_eq!(error.problems(), [bounded]);
        }
    }
}

/// Returns the names of all setters, as the code has them.
fn setters() -> BTreeSet<String> {
    let mut files = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../src/builder")];
    let mut setters = BTreeSet::new();
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(fs::read_dir(path).unwrap().map(|file| file.unwrap().path()));
            continue;
        }
        let code = fs::read_to_string(path).unwrap();
        let lines = code.lines().filter(|line| line.contains("self") && line.contains("-> Self"));
        let names =
            lines.filter_map(|line| line.trim().strip_prefix("pub fn ")?.split_once(['(', '<']));
        setters.extend(names.map(|(name, _)| name.to_owned()));
    }
    setters
}

/// Each setter, and whether it has an effect on a filter in this process, in Redis, and of another system.
#[test]
fn a_setting_without_effect_where_the_filter_lives_is_refused_by_name() {
    const ALL: [bool; 3] = [true; 3];
    const IN_REDIS: [bool; 3] = [false, true, true];
    const OWN: [bool; 3] = [true, true, false];
    const OWN_IN_REDIS: [bool; 3] = [false, true, false];
    type Setter = fn(Builder) -> Builder;
    let rebuild = |builder: Builder| builder.rebuild(Schedule::manual(), from_iter(|| 0..10_u64));
    let credentials = |builder: Builder| {
        builder.credentials(|| async { Err::<Credentials, BoxError>("none".into()) })
    };
    let rows: [(&str, Setter, [bool; 3]); 18] = [
        ("accept_eviction", |b| b.accept_eviction(true), OWN_IN_REDIS),
        ("audits_per_second", |b| b.audits_per_second(2), ALL),
        ("capacity", |b| b.capacity(1_000, 0.01), ALL),
        ("check_deadline", |b| b.check_deadline(SECOND), IN_REDIS),
        ("copy_limit", |b| b.copy_limit(0), OWN_IN_REDIS),
        ("credentials", credentials, IN_REDIS),
        ("foreign", |b| b.foreign(ForeignFilter::go_zero("key", 1_000)), IN_REDIS),
        ("lane", |b| b.lane(1, 1), ALL),
        ("longest_transaction", |b| b.longest_transaction(SECOND), OWN),
        ("methods", |b| b.methods([]), ALL),
        ("negative_caching", |b| b.negative_caching(NegativeCaching::new()), ALL),
        ("on_invalid", |b| b.on_invalid(OnInvalid::Pass), ALL),
        ("on_unknown", |b| b.on_unknown(OnUnknown::Pass), ALL),
        ("rebuild", rebuild, OWN),
        ("secret_key", |b| b.secret_key(SecretKey::new([7; 16])), OWN),
        ("settle", |b| b.settle(Duration::ZERO), OWN_IN_REDIS),
        ("shards", |b| b.shards(1), OWN_IN_REDIS),
        ("tls", |b| b.tls(TlsSettings::new()), IN_REDIS),
    ];
    let named = rows.iter().map(|(name, ..)| *name);
    let named: BTreeSet<_> = named.chain(PLACES).map(str::to_owned).collect();
    assert_eq!(named, setters(), "each setter has a row");
    let places = [
        ("a filter in this process", builder as fn() -> Builder),
        ("a filter in redis", in_redis),
        ("a filter that another system writes", in_foreign),
    ];
    for (setter, set, effects) in rows {
        for ((there, builder), has_effect) in places.into_iter().zip(effects) {
            let built = set(builder()).build();
            if has_effect {
                assert!(built.is_ok(), "{setter} on {there}: {built:?}");
                continue;
            }
            let error = built.unwrap_err();
            let reason = format!("has no effect on {there}: leave it out");
            assert_eq!(error.problems(), [SettingError::Invalid { setting: setter, reason }]);
        }
    }
}

#[test]
fn a_number_is_within_its_bounds_or_refused_by_name() {
    type Setter = fn(u64) -> Builder;
    let table: [(&str, Setter, u64, u64); 3] = [
        ("lane concurrency", |n| builder().lane(n as u32, 1), 1, 100_000),
        ("lane rate", |n| builder().lane(1, n as u32), 1, 1_000_000),
        ("audits_per_second", |n| builder().audits_per_second(n as u32), 0, 10_000),
    ];
    for (name, set, least, greatest) in table {
        set(least).build().unwrap();
        set(greatest).build().unwrap();
        for outside in least.checked_sub(1).into_iter().chain([greatest + 1]) {
            let error = refused(set(outside));
            assert_tells(&error, &[&name, &outside, &least, &greatest]);
            let reason = format!("{outside} is not between {least} and {greatest}");
            let bounded = SettingError::Invalid { setting: name, reason };
            assert_eq!(error.problems(), [bounded]);
        }
    }
}

#[test]
fn a_filter_of_another_system_is_in_no_cluster() {
    let filter = ForeignFilter::go_zero("key", 1_000);
    let clustered = named("users").redis("redis+cluster://localhost").foreign(filter);
    let error = clustered.build().unwrap_err();
    assert!(matches!(error.problems(), [SettingError::Combination { .. }]), "{error:?}");
}

#[test]
fn servers_that_shards_are_spread_over_are_no_more_than_those_and_no_cluster() {
    let over = |urls: &[&'static str], shards| {
        let spread = named("users").redis_each(urls.to_vec()).secret_key(SecretKey::new([7; 16]));
        spread.shards(shards).build()
    };
    let (one, other) = ("redis://a", "rediss://b");
    assert!(over(&[one, "redis://b", "redis+sentinel://c/users"], 4).is_ok());
    for (urls, shards, told) in [
        (&[][..], 4, "no server"),
        (&[one, "redis://b"], 1, "as many"),
        (&[one, "redis+cluster://b"], 4, "cluster"),
        (&[one, "b"], 4, "another scheme, or none"),
    ] {
        assert_tells(&over(urls, shards).unwrap_err(), &[&told]);
    }
    assert!(over(&[one, other], 4).is_ok());
}

#[test]
fn shards_are_a_power_of_two_with_a_secret_key_in_redis() {
    let key = || SecretKey::new([7; 16]);
    let on = |url: &str| named("users").redis(url).secret_key(key());
    for shards in [1, 2, 64, 1_024] {
        on("redis://localhost").shards(shards).build().unwrap();
        on("redis+cluster://localhost").shards(shards).build().unwrap();
    }
    for wrong in [0, 3, 1_000, 1_025, 2_048, u32::MAX] {
        let error = on("redis://localhost").shards(wrong).build().unwrap_err();
        assert_tells(&error, &[&wrong, &1_024]);
        let told = error.problems();
        assert!(matches!(told, [SettingError::Invalid { setting: "shards", .. }]), "{error:?}");
    }
    let error = named("users").redis("redis://localhost").shards(2).build().unwrap_err();
    assert!(matches!(error.problems(), [SettingError::Combination { .. }]), "{error:?}");
    // A set that is too large for one string fits many, whichever is said first.
    let billion = || on("redis://localhost");
    assert!(billion().capacity(1_000_000_000, 0.01).build().is_err());
    billion().capacity(1_000_000_000, 0.01).shards(256).build().unwrap();
    billion().shards(256).capacity(1_000_000_000, 0.01).build().unwrap();
}

#[test]
fn all_that_is_wrong_is_told_at_once_and_what_was_put_right_is_not() {
    let wrong = named("us ers")
        .capacity(0, 0.01)
        .negative_caching(NegativeCaching::new().ttl(Duration::ZERO))
        .redis("http://localhost")
        .lane(0, 0)
        .check_deadline(Duration::ZERO)
        .check_deadline(SECOND);
    let error = wrong.build().unwrap_err();
    let [name, ttl, url, concurrency, rate, sizing] = error.problems() else { panic!("{error:?}") };
    assert!(matches!(name, SettingError::Invalid { setting: "builder", .. }), "{name:?}");
    assert!(matches!(sizing, SettingError::Invalid { setting: "capacity", .. }), "{sizing:?}");
    assert!(
        matches!(ttl, SettingError::Invalid { setting: "negative_caching ttl", .. }),
        "{ttl:?}"
    );
    assert!(matches!(url, SettingError::Invalid { setting: "redis", .. }), "{url:?}");
    for lane in [concurrency, rate] {
        assert!(matches!(lane, SettingError::Invalid { .. }), "{lane:?}");
    }
    for problem in error.problems() {
        assert_tells(&error, &[problem]);
    }
}

#[test]
fn a_filter_that_cannot_be_is_refused_with_its_limits() {
    let refused = |capacity, rate| {
        let error = refused(builder().capacity(capacity, rate));
        (error.problems()[0].clone(), error)
    };
    for capacity in [0, 1 << 32, u64::MAX] {
        let (sizing, error) = refused(capacity, 0.01);
        assert!(matches!(sizing, SettingError::Invalid { setting: "capacity", .. }), "{error:?}");
        assert_tells(&error, &[&capacity, &1, &u32::MAX]);
    }
    for rate in [0.0, -0.01, 0.9e-9, 0.500_001, 1.0, 100.0, f64::NAN, f64::INFINITY] {
        let (sizing, error) = refused(1_000, rate);
        assert!(matches!(sizing, SettingError::Invalid { .. }), "{error:?}");
        assert_tells(&error, &[&format!("{rate:?}"), &0.5]);
    }
    // 512 MiB, the longest string Redis holds.
    let limit = 512 << 20;
    let (sizing, error) = refused(u32::MAX.into(), 0.01);
    assert!(matches!(sizing, SettingError::Invalid { setting: "capacity", .. }), "{error:?}");
    assert_tells(&error, &[&u32::MAX, &limit, &"shards"]);
    for (capacity, rate) in [(1, 0.5), (1, 1e-9), (430_000_000, 0.01)] {
        named("users").capacity(capacity, rate).redis("redis://localhost").build().unwrap();
        assert!(Sizing::new(capacity, rate).unwrap().bytes() <= limit);
    }
}

#[test]
fn a_mode_is_read_as_it_is_written() {
    for mode in [Mode::Enforce, Mode::Shadow, Mode::Off] {
        for text in [mode.to_string(), format!("{mode:?}")] {
            assert_eq!(text.parse(), Ok(mode), "{text}");
        }
    }
    for text in ["", "of", " off", "enforce,"] {
        let error = text.parse::<Mode>().unwrap_err().to_string();
        assert_eq!(error, format!("mode: {text:?} is none of enforce, shadow, off"));
    }
}

#[test]
fn a_schedule_is_one_that_can_be_read() {
    for expression in ["30 3 * * *", "*/10 * * * *", "0 30 3 * * *", "0 4 * * SUN"] {
        assert!(with_cron(expression).build().is_ok(), "{expression}");
    }
    for expression in ["", "daily", "* * * *", "61 * * * *", "30 25 * * *", "* * * * * * * *"] {
        let error = refused(with_cron(expression));
        let SettingError::Invalid { reason, .. } = &error.problems()[0] else {
            panic!("{error:?}")
        };
        assert!(!reason.ends_with(": "), "{expression}: the reason is given");
        assert_tells(&error, &[&format!("{expression:?}"), reason]);
        assert!(error.problems()[0].source().is_none(), "{expression}: and given once");
    }
    for expression in ["0 0 31 2 *", "0 0 31 4,6,9,11 *"] {
        assert_tells(&refused(with_cron(expression)), &[&format!("{expression:?}"), &"ten years"]);
    }
    assert!(with_cron("0 0 29 2 *").build().is_ok(), "leap days come");
}

#[test]
fn the_documented_sizes_are_those_of_the_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let pages = ["README.md", "src/guide/rebuilds.md"].map(|page| root.join(page));
    let pages: Vec<_> = pages.iter().filter_map(|page| fs::read_to_string(page).ok()).collect();
    for (name, rate) in [("3 %", 0.03), ("1 %", 0.01), ("0.1 %", 0.001), ("0.01 %", 0.0001)] {
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
        assert!(pages.iter().any(|page| page.contains(&row)), "is nowhere: {row}");
    }
}
