//! The rights that a guard needs, each tried on keys of its own.

use std::time::{SystemTime, UNIX_EPOCH};

use bloom_guard::StoreError;
use bloom_guard::inspect::Server;

use crate::findings::Findings;

/// The script `return 1`, and its hash.
const SCRIPT: &str = "return 1";
const HASH: &str = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";

/// Each right of the guide's list by a command that uses it, in an order in which each finds what it needs. Of the keys `a` to `c`
/// are strings, `h` is a hash, `z` a sorted set and `x` a stream.
const PROBES: [&[&str]; 43] = [
    &["INFO", "server"],
    &["TIME"],
    &["EVAL", SCRIPT, "0"],
    &["EVALSHA", HASH, "0"],
    &["SET", "/a", "x", "PX", "10000"],
    &["GET", "/a"],
    &["EXISTS", "/a"],
    &["TYPE", "/a"],
    &["STRLEN", "/a"],
    &["GETRANGE", "/a", "0", "0"],
    &["SETRANGE", "/a", "0", "y"],
    &["BITCOUNT", "/a"],
    &["BITFIELD", "/a", "GET", "u8", "0"],
    &["BITOP", "OR", "/b", "/a", "/a"],
    &["PEXPIRE", "/b", "10000"],
    &["MGET", "/a", "/b"],
    &["PTTL", "/a"],
    &["PERSIST", "/a"],
    &["PEXPIRE", "/a", "10000"],
    &["RENAME", "/b", "/c"],
    &["HSET", "/h", "f", "1"],
    &["PEXPIRE", "/h", "10000"],
    &["HGET", "/h", "f"],
    &["HMGET", "/h", "f"],
    &["HINCRBY", "/h", "f", "1"],
    &["HDEL", "/h", "f"],
    &["ZADD", "/z", "1", "m"],
    &["PEXPIRE", "/z", "10000"],
    &["ZCARD", "/z"],
    &["ZCOUNT", "/z", "-inf", "+inf"],
    &["ZRANGEBYSCORE", "/z", "-inf", "+inf"],
    &["ZSCORE", "/z", "m"],
    &["ZREM", "/z", "none"],
    &["ZREMRANGEBYRANK", "/z", "0", "-1"],
    &["XADD", "/x", "MINID", "~", "0", "*", "f", "v"],
    &["PEXPIRE", "/x", "10000"],
    &["XLEN", "/x"],
    &["XRANGE", "/x", "-", "+"],
    &["XREVRANGE", "/x", "+", "-"],
    &["XTRIM", "/x", "MAXLEN", "0"],
    // The last offset of a string that may be as long as Redis's default allows; nothing is made.
    &["BITFIELD", "/a", "GET", "u8", "4294967280"],
    &["DEL", "/a", "/b", "/c", "/h", "/z", "/x"],
    &["EXISTS", "/a"],
];

/// What the probes met.
#[derive(Debug, Default)]
struct Met {
    denied: Vec<String>,
    unknown: Vec<String>,
    keys: bool,
    others: Vec<StoreError>,
}

/// Tries each right on keys of a name that nobody else has, which a pattern allows; returns whether the user has all. The keys are
/// deleted, and end within ten seconds should that fail.
pub(crate) async fn probe(
    server: &Server,
    (prefix, pattern): (&str, &str),
    user: &str,
    findings: &mut Findings,
) -> bool {
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let own = format!("{prefix}{}-{nanos}:", std::process::id());
    let (mut met, mut tried) = (Met::default(), 0);
    for probe in PROBES {
        let words: Vec<String> = probe.iter().map(|word| key_of(word, &own)).collect();
        tried += 1;
        if let Err(error) = server.ask(&words).await {
            met.note(probe[0], error);
        }
    }
    met.tell(pattern, user, tried, findings)
}

fn key_of(word: &str, own: &str) -> String {
    word.strip_prefix('/').map_or_else(|| word.to_owned(), |key| format!("{own}{key}"))
}

impl Met {
    fn note(&mut self, command: &str, error: StoreError) {
        let reason = match &error {
            StoreError::Refused { reason, .. } => reason.to_lowercase(),
            _ => String::new(),
        };
        let name = command.to_lowercase();
        let fresh = |names: &Vec<String>| !names.contains(&name);
        if reason.starts_with("noscript") || reason.contains("no such key") {
            // What the command needs was not there, as another right is missing.
        } else if reason.starts_with("noperm") && !reason.contains("run the") {
            self.keys = true;
        } else if reason.starts_with("noperm") {
            if fresh(&self.denied) {
                self.denied.push(name);
            }
        } else if reason.contains("unknown command") {
            if fresh(&self.unknown) {
                self.unknown.push(name);
            }
        } else if self.others.iter().all(|other| other.to_string() != error.to_string()) {
            self.others.push(error);
        }
    }

    fn tell(self, pattern: &str, user: &str, tried: usize, findings: &mut Findings) -> bool {
        let Self { denied, unknown, keys, others } = self;
        let is_sound = denied.is_empty() && unknown.is_empty() && !keys && others.is_empty();
        if is_sound {
            findings.sound(format!("rights: all that a guard needs, tried by {tried} commands"));
        }
        if !denied.is_empty() {
            let list: Vec<String> = denied.iter().map(|name| format!("+{name}")).collect();
            findings.wrong(
                format!("rights: this user may not run {}", denied.join(", ")),
                format!("ACL SETUSER {user} {}", list.join(" ")),
            );
        }
        if keys {
            findings.wrong(
                format!("rights: this user may not use the keys {pattern}"),
                format!("ACL SETUSER {user} ~{pattern}; or give name and --shards of a filter whose keys it may use"),
            );
        }
        if !unknown.is_empty() {
            let list: Vec<String> = unknown.iter().map(|name| name.to_uppercase()).collect();
            findings.wrong(
                format!("commands: Redis does not know {}", list.join(", ")),
                "Take their rename-command out of redis.conf, or have the proxy let them pass; a guard needs them.",
            );
        }
        for error in &others {
            findings.refused(error);
        }
        is_sound
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::PROBES;

    const GUIDE: &str = include_str!("../../guide/redis.md");

    #[test]
    fn the_rights_that_are_tried_are_those_that_the_guide_lists() {
        let begins = GUIDE.find("ACL SETUSER ").unwrap();
        let list = GUIDE[begins..].split("```").next().unwrap();
        let listed: BTreeSet<String> = list
            .split_whitespace()
            .filter_map(|word| word.strip_prefix('+'))
            .map(str::to_owned)
            .collect();
        assert!(listed.len() > 30, "{listed:?}");
        let tried: BTreeSet<String> = PROBES.iter().map(|probe| probe[0].to_lowercase()).collect();
        assert_eq!(tried, listed);
    }
}
