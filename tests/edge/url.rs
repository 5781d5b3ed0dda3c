//! What the URL of a Redis says is honoured, or refused by name.

use bloom_guard::extract::Extraction;
use bloom_guard::{BloomGuard, Builder, SettingError};

const UNKNOWN: [&str; 8] =
    ["database", "password", "username", "ssl", "timeout", "protocol", "ssl_cert_reqs", "DB"];
const SECRET: &str = "hunter2";

fn builder(url: &str) -> Builder {
    BloomGuard::builder("users", |_: &http::request::Parts| Extraction::Unguarded).redis(url)
}

/// Returns why a URL is refused, having seen that no secret is told.
#[track_caller]
fn refused(url: &str) -> String {
    let Err(error) = builder(url).build() else { panic!("{url} is accepted") };
    for told in [format!("{error}"), format!("{:?}", builder(url))] {
        assert!(!told.contains(SECRET), "{url}: {told}");
    }
    match error.problems() {
        [SettingError::Invalid { setting: "redis", reason }] => reason.clone(),
        [SettingError::Combination { reason }] => (*reason).to_owned(),
        _ => panic!("{url}: {error:?}"),
    }
}

/// A form of URL, as the documentation of `Builder::redis` lists it.
struct Form {
    /// Without what may be left out.
    url: String,
    parameters: Vec<&'static str>,
}

/// Returns what is between backticks.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

fn without_options(pattern: &str) -> String {
    let mut depth = 0;
    let is_needed = |letter: &char| {
        depth += i32::from(*letter == '[');
        let is_needed = depth == 0;
        depth -= i32::from(*letter == ']');
        is_needed
    };
    pattern.chars().filter(is_needed).collect()
}

fn documented() -> Vec<Form> {
    let page = include_str!("../../src/builder/place/setters.rs");
    let (_, rows) = page.split_once("/// | URL |").expect("the table");
    let rows = rows.lines().skip(2).map_while(|row| row.trim().strip_prefix("/// |"));
    let form = |row: &'static str| {
        let cells: Vec<_> = row.split('|').collect();
        let [pattern, _, parameters, _] = cells[..] else { panic!("{row}") };
        Form { url: without_options(quoted(pattern)[0]), parameters: quoted(parameters) }
    };
    let forms: Vec<_> = rows.map(form).collect();
    let urls = ["redis://host", "redis+unix:///path", "redis+sentinel://host/name"];
    assert_eq!(forms.iter().map(|form| &*form.url).collect::<Vec<_>>()[..3], urls);
    assert_eq!(forms.len(), 4);
    forms
}

#[test]
fn each_parameter_of_each_form_is_honoured_or_refused_by_name() {
    let forms = documented();
    let known = forms.iter().flat_map(|form| &form.parameters).copied();
    let all: Vec<&str> = known.chain(UNKNOWN).collect();
    for form in &forms {
        for system in ["redis", "rediss", "valkey", "valkeys"] {
            let url = form.url.replacen("redis", system, 1);
            if url.contains("+unix") && system.ends_with('s') && system != "redis" {
                assert!(refused(&url).contains("scheme"));
                continue;
            }
            builder(&url).build().unwrap();
            for name in &all {
                if !form.parameters.contains(name) {
                    let reason = refused(&format!("{url}?{name}={SECRET}"));
                    assert!(reason.contains(&format!("{name:?}")), "{url} {name}: {reason}");
                    continue;
                }
                let beside = match *name {
                    "user" => "&pass=x",
                    "sentinel_username" => "&sentinel_password=x",
                    _ => "",
                };
                let asked = builder(&format!("{url}?{name}=7{beside}"));
                let debug = format!("{asked:?}");
                assert!(*name != "db" || debug.contains("/7") || debug.contains("database 7"));
                asked.build().unwrap();
                for value in [format!("{name}=7&{name}=7"), format!("{name}=")] {
                    let reason = refused(&format!("{url}?{value}"));
                    assert!(reason.contains(&format!("{name:?}")), "{url} {value}: {reason}");
                }
            }
        }
    }
}

#[test]
fn a_database_is_a_number_that_is_named_once() {
    for (url, database) in [
        ("redis://h", ""),
        ("redis://h/", ""),
        ("redis://h/0", ""),
        ("redis://h/3", "/3"),
        ("redis://h/?db=3", "/3"),
        (" redis://h/3\n", "/3"),
        ("redis+unix:///path?db=3", "/path/3"),
        ("redis+sentinel://h/name/3", "database 3"),
        ("redis+sentinel://h/name/?db=3", "database 3"),
    ] {
        let builder = builder(url);
        assert!(format!("{builder:?}").contains(database), "{url}: {builder:?}");
        builder.build().unwrap();
    }
    for (url, words) in [
        ("redis://h/1?db=1", "`db`"),
        ("redis+sentinel://h/name/1?db=2", "`db`"),
        ("redis://h/-1", "database is no number"),
        ("redis://h/+1", "database is no number"),
        ("redis://h/1/2", "database is no number"),
        ("redis://h/users", "database is no number"),
        ("redis://h/99999999999", "database is no number"),
        ("redis://h?db=-1", "database is no number"),
        ("redis+unix:///path?db=hunter2", "database is no number"),
        ("redis+sentinel://h/name/first", "database is no number"),
        ("redis+cluster://h/0", "one database"),
        ("redis://h/1#2", "fragment"),
        ("redis://h#hunter2", "fragment"),
        ("rediss://h/#insecure", "fragment"),
    ] {
        let reason = refused(url);
        assert!(reason.contains(words), "{url}: {reason}");
    }
}

#[test]
fn a_url_is_refused_with_the_reason_and_without_its_password() {
    for (url, words) in [
        ("", "scheme"),
        ("h:6379", "scheme"),
        ("unix:///path", "scheme"),
        ("http://:hunter2@h", "scheme"),
        ("redis://", "host"),
        ("redis://:hunter2@", "host"),
        ("redis://:hunter2#@h", "fragment"),
        ("redis://:hunter2@h:port", "port"),
        ("redis://h:0", "port"),
        ("redis://h:99999", "1 to 65535"),
        ("redis://::1:21003", "brackets"),
        ("redis://2001:db8::ffff/3", "brackets"),
        ("redis://[::1", "host"),
        ("redis://h,i", "several hosts"),
        ("redis://user@h", "a user without a password"),
        ("redis+unix:///path?user=guard", "a user without a password"),
        ("redis+unix://", "a path and no host"),
        ("redis+unix://h/path", "a path and no host"),
        ("redis+unix://:hunter2@/path", "a path and no host"),
        ("redis://u:x?hunter2@h", "without a value"),
        ("redis://h/?x%3D=hunter2", "parameter \"?\""),
        ("redis+sentinel://:hunter2@h", "it lacks the name"),
        ("redis+sentinel://h/", "it lacks the name"),
        ("redis+sentinel:///name", "it lacks a host"),
        ("redis+sentinel://h,,i/name", "it lacks a host"),
        ("redis+sentinel://h:port/name", "port"),
        ("redis+sentinel://a,b,a:26379/name", "it names a:26379 twice"),
        ("redis+sentinel://h/name?sentinel_username=guard", "no sentinel_password"),
        ("redis+sentinel://u:hunter2/ret@h/name", "port"),
        ("redis+sentinel://h/name?sentinel_password=x&hunter2", "without a value"),
        ("redis+cluster://:hunter2@", "it lacks a host"),
        ("redis+cluster://h,h:6379", "it names h:6379 twice"),
    ] {
        let reason = refused(url);
        assert!(reason.contains(words), "{url}: {reason}");
        // Of a password speaks only what is said of a URL that may have one.
        let may_have = url.contains(['@', '#', '?']);
        assert!(may_have || !reason.contains("percent-encoded"), "{url}: {reason}");
    }
    for url in [
        "redis://u:a/b@h",
        "redis://u:a?b@h",
        "redis://u:a#b@h",
        "redis://u:a@b#c@h",
        "redis+unix:///p?pass=a&b",
    ] {
        let reason = refused(url);
        assert!(reason.contains("percent-encoded"), "{url}: {reason}");
    }
    for url in [
        "redis+sentinel://[::1],[::2]:7/name/3",
        "rediss+sentinel://:s%2F@h,i:1/a%20b?sentinel_password=a+b",
        "redis+cluster://[::1],h",
        "redis+cluster://user:p%40ss@h:7000",
    ] {
        assert!(builder(url).build().is_ok(), "{url}");
    }
}
