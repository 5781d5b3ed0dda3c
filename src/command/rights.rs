//! The rights that a guard needs, each tried on keys of its own.

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use super::target::Server;
use crate::error::StoreError;
use crate::store::redis::keys::Keys;

/// Each right of the guide's list by a command that uses it, in an order in which each finds what it needs. Of the keys `/a` to `/c`
/// are strings, `/h` is a hash and `/z` a sorted set.
const PROBES: &str = "
    INFO server | TIME | EVAL return(1) 0 | EVALSHA 0000000000000000000000000000000000000000 0
    SET /a x PX 10000 | GET /a | EXISTS /a | TYPE /a | STRLEN /a | GETRANGE /a 0 0 | SETRANGE /a 0 y | BITCOUNT /a
    BITFIELD /a GET u8 0 | BITOP OR /b /a /a | PEXPIRE /b 10000 | MGET /a /b | PTTL /a | PERSIST /a | PEXPIRE /a 10000
    RENAME /b /c | HSET /h f 1 | PEXPIRE /h 10000 | HGET /h f | HMGET /h f
    ZADD /z 1 m | PEXPIRE /z 10000 | ZCARD /z | ZCOUNT /z -inf +inf | ZRANGE /z 0 0 | ZREVRANGE /z 0 0
    ZRANGEBYSCORE /z -inf +inf | ZSCORE /z m | ZREMRANGEBYRANK /z 0 -1
    BITFIELD /a GET u8 4294967280
    DEL /a /b /c /h /z";

fn probes() -> impl Iterator<Item = Vec<&'static str>> {
    PROBES
        .split(['|', '\n'])
        .map(|probe| probe.split_whitespace().collect())
        .filter(|probe: &Vec<_>| !probe.is_empty())
}

/// Tries each right on keys of its own, which expire within ten seconds if they cannot be deleted. Returns the commands that this user
/// may not run, and what else was refused.
pub(super) async fn probe(server: &Server, keys: &Keys) -> (BTreeSet<String>, Vec<StoreError>) {
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let beside = keys.meta.trim_end_matches("fleet");
    let own = format!("{beside}doctor:{}-{nanos}:", std::process::id());
    let (mut denied, mut refused) = (BTreeSet::new(), Vec::new());
    for probe in probes() {
        let own_key = |word: &str| word.strip_prefix('/').map(|key| format!("{own}{key}"));
        let words = probe.iter().map(|word| own_key(word).unwrap_or_else(|| (*word).to_owned()));
        let Err(error) = server.ask(&words.collect::<Vec<_>>()).await else { continue };
        let text = error.to_string();
        if text.contains("NOSCRIPT") || text.contains("no such key") {
            // What the command needs was not there, as another right is missing.
        } else if text.contains("NOPERM") && text.contains("run the") {
            denied.insert(probe[0].to_lowercase());
        } else {
            refused.push(error);
        }
    }
    (denied, refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUIDE: &str = include_str!("../guide/redis.md");

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
        let tried: BTreeSet<String> = probes().map(|probe| probe[0].to_lowercase()).collect();
        assert_eq!(tried, listed);
    }
}
