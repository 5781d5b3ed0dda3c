//! The journal: whatever Redis answers, reading it never panics, and no digest is lost or invented
//! without an error.

use redis::Value;

use crate::id::Digest;
use crate::replies;
use crate::source::Source;
use crate::values;

/// Reads the bytes as a journal that is written, damaged and replayed, as a reply of any shape, or as
/// what Redis sends over the wire.
pub fn run(data: &[u8]) {
    let mut source = Source::new(data);
    match source.below(3) {
        0 => damaged(&mut source),
        1 => any(values::arbitrary(&mut source, 0)),
        _ => {
            if let Ok(value) = redis::parse_redis_value(source.rest()) {
                any(value);
            }
        }
    }
}

/// A journal as the scripts write it.
struct Written {
    ms: u64,
    seq: u64,
    before_ms: u64,
    kind: &'static [u8],
    digests: Vec<Digest>,
}

impl Written {
    fn fields(&self) -> Vec<Vec<u8>> {
        let text = |number: u64| number.to_string().into_bytes();
        let digests = self.digests.iter().flat_map(Digest::as_bytes).copied().collect();
        let held = if self.kind == b"g" { vec![0xd5; 16] } else { digests };
        [
            (b"k", self.kind.to_vec()),
            (b"i", b"0badf00d".to_vec()),
            (b"s", text(self.seq)),
            (b"p", text(self.before_ms)),
            (b"d", held),
        ]
        .into_iter()
        .flat_map(|(name, value)| [name.to_vec(), value])
        .collect()
    }
}

fn written(source: &mut Source<'_>) -> Vec<Written> {
    let mut last_ms = 0;
    (1..=source.below(24) as u64)
        .map(|seq| {
            let choice = source.byte();
            let ms = last_ms + u64::from(choice >> 5) + u64::from(seq == 1);
            let added = if choice.is_multiple_of(8) { 0 } else { u64::from(choice % 8) };
            let digests = (0..added)
                .map(|n| Digest::from_bytes((u128::from(seq) << 64 | u128::from(n)).to_be_bytes()))
                .collect();
            let kind = if added == 0 { b"g" as &[u8] } else { b"a" };
            let entry = Written { ms, seq, before_ms: last_ms, kind, digests };
            last_ms = ms;
            entry
        })
        .collect()
}

/// A rebuild replays a journal from which entries are missing, or in which one is twice, out of place or
/// not what was written: it gets all digests of its interval, or an error; and from a sound one it gets
/// them.
fn damaged(source: &mut Source<'_>) {
    let journal = written(source);
    let start_ms = u64::from(source.byte() % 64);
    let stand = journal.last().map_or((0, 0), |last| (last.seq, last.ms));
    let interval: Vec<_> = journal.iter().filter(|entry| entry.ms >= start_ms).collect();
    let expected: Vec<_> = interval.iter().flat_map(|entry| &entry.digests).copied().collect();

    let mut entries: Vec<_> = interval.iter().map(|entry| (entry.ms, entry.fields())).collect();
    let mut harm = false;
    while !source.is_empty() && !entries.is_empty() {
        harm |= damage(&mut entries, source);
    }
    let size = 1 + source.below(5);
    let pieces = entries.chunks(size).map(values::reply).collect();
    match replies::replay(start_ms, pieces, stand) {
        Ok(read) => assert_eq!(read, expected, "a digest was lost or invented"),
        Err(error) => assert!(harm, "a sound journal was refused: {error}"),
    }
}

type Fields = (u64, Vec<Vec<u8>>);

/// Does one damage; returns whether anything is another than before.
fn damage(entries: &mut Vec<Fields>, source: &mut Source<'_>) -> bool {
    let how = source.byte();
    let at = usize::from(source.byte()) % entries.len();
    let field = source.below(5) * 2;
    let fields = &mut entries[at].1;
    if fields.len() < 10 && how % 9 > 2 {
        return false;
    }
    match how % 9 {
        0 => drop(entries.remove(at)),
        1 => entries.insert(at, entries[at].clone()),
        2 => {
            let other = source.below(24) % entries.len();
            entries.swap(at, other);
            return at != other;
        }
        // A key id is not read.
        3 if field == 2 => return false,
        3 => drop(fields.drain(field..field + 2)),
        4 => {
            fields.pop();
        }
        5 => fields[0].push(source.byte()),
        6 => fields[1] = vec![source.byte().max(b'h')],
        7 => {
            let extra = [fields[field].clone(), fields[field + 1].clone()];
            fields.extend(extra);
            return field != 2;
        }
        _ => {
            let name = fields.iter().step_by(2).position(|name| name == b"d");
            let Some(held) = name.and_then(|at| fields.get_mut(2 * at + 1)) else { return false };
            // Where all of a digest is cut off, nothing can tell.
            if !held.len().is_multiple_of(16) {
                return false;
            }
            let rest = held.len().saturating_sub(1 + source.below(15));
            held.truncate(rest);
        }
    }
    true
}

/// An answer is read whole or refused: of the digests in it, none is left behind.
fn any(reply: Value) {
    let expected = values::journal(&reply);
    let read = replies::entries(reply.clone()).ok();
    assert_eq!(read, expected);
    // A journal's reply is none of the other readers'.
    if read.is_some() {
        assert!(replies::live(reply).is_err());
    } else {
        let _ = replies::live(reply);
    }
}
