//! Which script a command runs.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::SCRIPTS;
use crate::model::reply::Reply;

static BY_HASH: LazyLock<BTreeMap<String, &'static str>> = LazyLock::new(|| {
    let hash = |code: &str| redis::Script::new(code).get_hash().to_owned();
    let mut names = BTreeMap::new();
    for (name, code) in SCRIPTS {
        names.insert(hash(code), *name);
        names.insert(hash(&format!("#!lua flags=allow-oom\n{code}")), *name);
    }
    names
});

/// The name of a command: its script's file, or its own.
pub(crate) fn name_of(command: &[Vec<u8>]) -> &'static str {
    let by_hash = |hash: &str| BY_HASH.get(hash).copied();
    match command[0].as_slice() {
        b"EVALSHA" => {
            std::str::from_utf8(&command[1]).ok().and_then(by_hash).unwrap_or("a script of no file")
        }
        b"EVAL" => {
            let code = String::from_utf8_lossy(&command[1]);
            let body = code.strip_prefix("#!lua flags=allow-oom\n").unwrap_or(&code);
            SCRIPTS
                .iter()
                .find(|(_, code)| *code == body)
                .map_or("a script of no file", |(name, _)| name)
        }
        b"BITFIELD" | b"BITFIELD_RO" => "check",
        b"INFO" => "INFO",
        b"ZRANGEBYSCORE" => "ZRANGEBYSCORE",
        b"ZREVRANGE" => "ZREVRANGE",
        b"TIME" => "TIME",
        b"GET" => "GET",
        b"MGET" => "MGET",
        b"GETRANGE" => "GETRANGE",
        b"BITCOUNT" => "BITCOUNT",
        _ => "another command",
    }
}

/// The keys that a script is run with.
pub(crate) fn keys_of(command: &[Vec<u8>]) -> &[Vec<u8>] {
    let [_, _, count, keys @ ..] = command else { return &[] };
    let count = std::str::from_utf8(count).ok().and_then(|count| count.parse().ok());
    count.and_then(|count| keys.get(..count)).unwrap_or_default()
}

/// Whether a code is that of a script of this name.
pub(crate) fn is(code: &str, name: &str) -> bool {
    let body = code.strip_prefix("#!lua flags=allow-oom\n").unwrap_or(code);
    SCRIPTS.iter().any(|(other, text)| *other == name && *text == body)
}

/// A reply in a few words.
pub(crate) fn brief(reply: &Reply) -> String {
    match reply {
        Reply::Status(text) | Reply::Error(text) => text.clone(),
        Reply::Int(number) => number.to_string(),
        Reply::Nil => "nil".to_owned(),
        Reply::Bulk(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) if text.len() <= 40 && !text.contains(char::is_control) => text.to_owned(),
            _ => format!("{} bytes", bytes.len()),
        },
        Reply::Array(items) => {
            let items: Vec<_> = items.iter().take(6).map(brief).collect();
            format!("[{}]", items.join(", "))
        }
    }
}
