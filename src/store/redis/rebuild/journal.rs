//! Reads the journal, and proves that nothing is missing from what was read.
//!
//! Every add appends an entry `k a i <key id> s <seq> p <ms of the entry before> d <digests>` to a
//! stream. A generation that goes live leaves `k g`. Sequence numbers have no gaps, and each entry names the
//! time of the one before. So a reader can prove that it has seen every entry since a moment, even if the
//! stream was trimmed, emptied or lost meanwhile.

use ::redis::Value;

use crate::error::StoreError;
use crate::id::Digest;
use crate::store::link::reply::{Reply, odd};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The stream's own id, `<ms>-<n>`.
    pub(crate) id: String,
    pub(crate) seq: u64,
    /// When the entry before this one was written, ms since the Unix epoch; 0 for the first of all.
    pub(crate) before_ms: u64,
    /// The digests added; none for an entry of another kind.
    pub(crate) digests: Vec<Digest>,
}

impl Entry {
    /// Reads one element of an XRANGE reply.
    /// Fails with an odd reply when it is not an entry of ours.
    pub(crate) fn read(reply: Reply) -> Result<Self, StoreError> {
        let [id, fields] = reply.fields()?;
        let id = id.text()?;
        let odd = || odd("XRANGE", format!("a foreign entry {id}"));
        let (mut kind, mut seq, mut before_ms, mut digests) = (None, None, None, None);
        let mut fields = fields.array()?.into_iter();
        while let Some(name) = fields.next() {
            let value = fields.next().ok_or_else(odd)?;
            let again = match name.bytes()?.as_slice() {
                b"k" => kind.replace(value.bytes()?).is_some(),
                b"s" => seq.replace(value.count()?).is_some(),
                b"p" => before_ms.replace(value.count()?).is_some(),
                b"d" => digests.replace(value.bytes()?).is_some(),
                _ => false,
            };
            if again {
                return Err(odd());
            }
        }
        let digests = match kind.as_deref() {
            Some(b"a") => unpack(&digests.ok_or_else(odd)?).ok_or_else(odd)?,
            Some(b"g") => Vec::new(),
            // A later version's entry may hold ids in a way of its own: they must not be lost.
            _ => return Err(odd()),
        };
        let (seq, before_ms) = seq.zip(before_ms).ok_or_else(odd)?;
        Ok(Self { id, seq, before_ms, digests })
    }

    /// Reads an XRANGE reply.
    /// Fails with an odd reply when an element is not an entry of ours.
    pub(crate) fn read_all(value: Value) -> Result<Vec<Self>, StoreError> {
        Reply::new("XRANGE", value).array()?.into_iter().map(Self::read).collect()
    }
}

/// Takes digests apart that stand one after the other.
fn unpack(bytes: &[u8]) -> Option<Vec<Digest>> {
    let (digests, rest) = bytes.as_chunks::<{ Digest::LEN }>();
    rest.is_empty().then(|| digests.iter().copied().map(Digest::from_bytes).collect())
}

/// The proof that a reader has seen every entry written since a moment.
#[derive(Debug, Clone)]
pub(crate) struct Coverage {
    start_ms: u64,
    last_seq: Option<u64>,
}

impl Coverage {
    /// Begins a proof for all entries since `start_ms`.
    pub(crate) const fn since(start_ms: u64) -> Self {
        Self { start_ms, last_seq: None }
    }

    /// Takes the next entry in.
    /// Fails with a gap when something is missing before it.
    pub(crate) fn extend(&mut self, entry: &Entry) -> Result<(), StoreError> {
        let next = self.last_seq.unwrap_or(0) + 1;
        // What is missing before it may have been written before that moment.
        let sound = entry.seq == next || (entry.seq > next && entry.before_ms < self.start_ms);
        if !sound {
            return Err(StoreError::journal_gap(format_args!(
                "entry {} follows {}",
                entry.seq,
                self.last_seq.map_or_else(|| "a trimmed one".to_owned(), |last| last.to_string())
            )));
        }
        self.last_seq = Some(entry.seq);
        Ok(())
    }

    /// Ends the proof: the journal stood at `seq`, whose entry was written at `last_ms`.
    /// Fails with a gap when entries up to `seq` have not been seen.
    pub(crate) fn reaches(&self, seq: u64, last_ms: u64) -> Result<(), StoreError> {
        let sound = match self.last_seq {
            Some(last) => last >= seq,
            None => seq == 0 || last_ms < self.start_ms,
        };
        if sound {
            return Ok(());
        }
        Err(StoreError::journal_gap(format_args!(
            "it stands at {seq}, its readable entries end at {}",
            self.last_seq.unwrap_or(0)
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(seq: u64, before_ms: u64) -> Entry {
        Entry { id: format!("{seq}-0"), seq, before_ms, digests: Vec::new() }
    }

    fn proof(start_ms: u64, entries: &[(u64, u64)], seq: u64, last_ms: u64) -> bool {
        let mut coverage = Coverage::since(start_ms);
        entries.iter().all(|&(seq, before)| coverage.extend(&entry(seq, before)).is_ok())
            && coverage.reaches(seq, last_ms).is_ok()
    }

    #[test]
    fn an_unbroken_journal_is_proven() {
        assert!(proof(100, &[], 0, 0), "nothing was ever added");
        assert!(proof(100, &[(1, 0), (2, 150)], 2, 160), "the journal begins here");
        assert!(proof(100, &[(8, 90), (9, 150)], 9, 160), "what is trimmed is older");
        assert!(proof(100, &[(1, 0), (3, 90), (4, 150)], 4, 160), "what is lost is older");
        assert!(proof(100, &[], 9, 90), "everything is older");
    }

    #[test]
    fn a_gap_anywhere_is_found() {
        assert!(!proof(100, &[(8, 100), (9, 150)], 9, 160), "trimmed too early");
        assert!(!proof(100, &[(1, 0), (3, 150)], 3, 160), "a hole");
        assert!(!proof(100, &[(1, 0), (2, 150)], 3, 160), "the end is missing");
        assert!(!proof(100, &[], 9, 100), "the stream is gone");
        assert!(!proof(100, &[(1, 0), (1, 150)], 1, 160), "the numbers began anew");
        assert!(!proof(100, &[(8, 90), (8, 90)], 8, 150), "an entry is there twice");
    }

    #[test]
    fn entries_are_read_or_refused() {
        let bulk = |bytes: &[u8]| Value::BulkString(bytes.to_vec());
        let make = |digests: &[u8]| {
            let fields = [b"k" as &[u8], b"a", b"s", b"7", b"p", b"50", b"d", digests];
            let fields = fields.into_iter().map(bulk).collect();
            Value::Array(vec![Value::Array(vec![bulk(b"60-0"), Value::Array(fields)])])
        };
        let read = Entry::read_all(make(&[3; 32])).unwrap();
        let digests = vec![Digest::from_bytes([3; 16]); 2];
        assert_eq!(read, [Entry { id: "60-0".to_owned(), seq: 7, before_ms: 50, digests }]);
        assert!(Entry::read_all(make(&[3; 31])).is_err());
        assert!(Entry::read_all(Value::Array(vec![Value::Int(1)])).is_err());
    }

    #[test]
    fn no_digest_is_passed_over_because_its_entry_is_not_understood() {
        let bulk = |bytes: &[u8]| Value::BulkString(bytes.to_vec());
        let read = |fields: &[&[u8]]| {
            let fields = Value::Array(fields.iter().map(|field| bulk(field)).collect());
            Entry::read_all(Value::Array(vec![Value::Array(vec![bulk(b"60-0"), fields])]))
        };
        let numbers: [&[u8]; 4] = [b"s", b"7", b"p", b"50"];
        let with = |more: &[&[u8]]| read(&[&numbers, more].concat());
        let generation = with(&[b"k", b"g", b"d", &[3; 16]]).unwrap();
        assert_eq!(generation[0].digests, [], "a generation went live: it is no digest");
        assert!(with(&[b"k", b"b", b"d", &[3; 16]]).is_err(), "a kind to come");
        assert!(with(&[b"k", b"a", b"d", &[3; 16], b"d", &[4; 16]]).is_err(), "two lists");
        assert!(with(&[b"k", b"a", b"d", &[3; 16], b"s", b"8"]).is_err(), "two numbers");
        assert!(with(&[b"k", b"a", b"d", &[3; 16], b"d"]).is_err(), "a field without a value");
    }
}
