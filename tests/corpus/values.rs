//! Replies as a fuzzer chooses them, and what a journal's reply says.

use redis::{PushKind, Value, VerbatimFormat};

use crate::id::Digest;
use crate::source::Source;

/// Returns a reply of any kind, most often one that looks like a part of a journal.
pub fn arbitrary(source: &mut Source<'_>, depth: u8) -> Value {
    let several = |source: &mut Source<'_>| -> Vec<Value> {
        let count = if depth < 5 { source.below(12) } else { 0 };
        (0..count).map(|_| arbitrary(source, depth + 1)).collect()
    };
    match source.below(20) {
        0 => Value::Nil,
        1 => Value::Int(i64::from_be_bytes(source.array())),
        2 => Value::Okay,
        3 => Value::SimpleString(text(source)),
        4 => Value::Double(f64::from_bits(u64::from_be_bytes(source.array()))),
        5 => Value::Boolean(source.byte() > 127),
        6 => Value::VerbatimString { format: VerbatimFormat::Text, text: text(source) },
        7 => Value::Set(several(source)),
        8 => Value::Push { kind: PushKind::Message, data: several(source) },
        9 => {
            let pairs = several(source).into_iter();
            Value::Map(pairs.map(|value| (value, Value::Nil)).collect())
        }
        10 | 11 => Value::Array(several(source)),
        12 => bulk(source.byte().to_string().as_bytes()),
        13 | 14 => bulk(&[b"kispdag"[source.below(7)]]),
        15 => entry(source),
        16 => Value::Array((0..source.below(6)).map(|_| entry(source)).collect()),
        _ => {
            let len = source.below(66);
            bulk(source.take(len))
        }
    }
}

fn text(source: &mut Source<'_>) -> String {
    let len = source.below(40);
    String::from_utf8_lossy(source.take(len)).into_owned()
}

fn bulk(bytes: &[u8]) -> Value {
    Value::BulkString(bytes.to_vec())
}

/// Returns nearly an entry.
fn entry(source: &mut Source<'_>) -> Value {
    let fields = (0..source.below(7)).flat_map(|_| {
        let name = [b"k", b"s", b"p", b"d", b"i", b"x"][source.below(6)];
        let value = match (name, source.below(8)) {
            (_, 0) => arbitrary(source, 4),
            (b"k", 1..=5) => bulk(b"a"),
            (b"k", 6) => bulk(b"g"),
            (b"s" | b"p", 1..=6) => bulk(source.byte().to_string().as_bytes()),
            (b"d", 1..=6) => {
                let count = source.below(4);
                bulk(source.take(16 * count))
            }
            _ => {
                let len = source.below(20);
                bulk(source.take(len))
            }
        };
        [bulk(name), value]
    });
    let fields = Value::Array(fields.collect());
    Value::Array(vec![bulk(b"60-0"), fields])
}

/// Returns the `XRANGE` reply with these entries, each a time and its fields.
pub fn reply(entries: &[(u64, Vec<Vec<u8>>)]) -> Value {
    let entries = entries.iter().map(|(ms, fields)| {
        let fields = Value::Array(fields.iter().map(|field| bulk(field)).collect());
        Value::Array(vec![bulk(format!("{ms}-0").as_bytes()), fields])
    });
    Value::Array(entries.collect())
}

/// Returns what a journal's reply says, entry by entry, if that is what it is: number, predecessor's time
/// and digests. Written once more, without a look at the crate's reader.
pub fn journal(reply: &Value) -> Option<Vec<(u64, u64, Vec<Digest>)>> {
    let Value::Array(entries) = reply else { return None };
    entries.iter().map(journal_entry).collect()
}

fn journal_entry(entry: &Value) -> Option<(u64, u64, Vec<Digest>)> {
    let Value::Array(parts) = entry else { return None };
    let [id, Value::Array(fields)] = parts.as_slice() else { return None };
    std::str::from_utf8(string(id)?).ok()?;
    let (pairs, odd) = fields.as_chunks::<2>();
    let names: Option<Vec<_>> = pairs.iter().map(|[name, _]| string(name)).collect();
    let (names, true) = (names?, odd.is_empty()) else { return None };
    let field = |wanted: &[u8]| {
        let mut found = (0..pairs.len()).filter(|at| names[*at] == wanted);
        match (found.next(), found.next()) {
            (Some(at), None) => Some(&pairs[at][1]),
            _ => None,
        }
    };
    let (seq, before_ms) = (number(field(b"s")?)?, number(field(b"p")?)?);
    let digests = match string(field(b"k")?)? {
        b"a" => {
            let (digests, []) = string(field(b"d")?)?.as_chunks() else { return None };
            digests.iter().copied().map(Digest::from_bytes).collect()
        }
        // It says which generation went live, in the field that holds digests otherwise.
        b"g" if names.iter().any(|name| *name == b"d") => {
            string(field(b"d")?)?;
            Vec::new()
        }
        b"g" => Vec::new(),
        _ => return None,
    };
    Some((seq, before_ms, digests))
}

fn string(value: &Value) -> Option<&[u8]> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text.as_bytes()),
        Value::Okay => Some(b"OK"),
        _ => None,
    }
}

fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        Value::BulkString(text) => {
            u64::try_from(std::str::from_utf8(text).ok()?.parse::<i64>().ok()?).ok()
        }
        _ => None,
    }
}
