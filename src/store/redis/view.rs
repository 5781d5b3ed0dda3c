//! What the live and the building key hold, and the metadata beside them.

use std::time::Duration;

use crate::error::StoreError;
use crate::filter::format::STATE_OFFSET;
use crate::filter::{Header, State};
use crate::store::link::reply::Reply;
use crate::verdict::Doubt;

/// One key's first bytes and length, as Redis showed them in one piece.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Seen {
    /// The first 64 bytes, or fewer; none of a key that is missing or not a string.
    pub(crate) head: Vec<u8>,
    /// The whole key's length; 0 of a key that is missing or not a string.
    pub(crate) len: u64,
    pub(crate) filter: Result<Header, Doubt>,
}

impl Seen {
    fn new(kind: &str, head: Vec<u8>, len: u64) -> Self {
        let filter = match kind {
            "none" => Err(Doubt::NoFilter),
            "string" => match Header::decode(&head) {
                Ok(header) if header.string_len() != len => Err(Doubt::Damaged),
                decoded => decoded,
            },
            _ => Err(Doubt::Damaged),
        };
        Self { head, len, filter }
    }

    /// Returns the header if the key holds a whole filter in this state.
    pub(crate) fn in_state(&self, state: State) -> Option<&Header> {
        self.filter.as_ref().ok().filter(|header| header.state == state)
    }

    /// Returns how many ids a filter was built from, also if it was put out of use: its state is not in the checksum.
    pub(crate) fn items(&self) -> Option<u64> {
        let mut head = self.head.clone();
        *head.get_mut(STATE_OFFSET)? = State::Live.as_byte();
        Header::decode(&head).ok().map(|header| header.items.into())
    }
}

#[derive(Debug, Clone)]
pub(crate) struct View {
    pub(crate) live: Seen,
    pub(crate) next: Seen,
    /// Redis's clock, µs since the Unix epoch.
    pub(crate) now_us: i64,
    pub(crate) incarnation: Vec<u8>,
    pub(crate) mode_number: i64,
    /// The longest transaction that any process has stated.
    pub(crate) longest: Duration,
    /// When a rebuild was asked for last, µs.
    pub(crate) asked_us: i64,
    pub(crate) token: i64,
    pub(crate) is_leased: bool,
}

impl View {
    pub(crate) fn read(reply: Reply) -> Result<Self, StoreError> {
        let [kind, head, len, next_kind, next_head, next_len, rest @ ..] = reply.fields::<14>()?;
        let [seconds, micros, incarnation, number, reach, asked, token, leased] = rest;
        Ok(Self {
            live: Seen::new(&kind.text()?, head.bytes()?, len.count()?),
            next: Seen::new(&next_kind.text()?, next_head.bytes()?, next_len.count()?),
            now_us: Reply::time(&seconds, &micros)?,
            incarnation: incarnation.bytes()?,
            mode_number: number.int()?,
            // The record reaches back for twice the longest transaction, and farther.
            longest: Duration::from_millis(reach.count()? / 2),
            asked_us: asked.int()?,
            token: token.int()?,
            is_leased: leased.count()? > 0,
        })
    }

    pub(crate) fn live(&self) -> Result<Header, Doubt> {
        let header = self.live.filter?;
        match header.state {
            State::Live => Ok(header),
            State::Disproved => Err(Doubt::Disproved),
            State::DisprovedTwice => Err(Doubt::DisprovedTwice),
            State::Building => Err(Doubt::Damaged),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use ::redis::Value;

    use super::*;
    use crate::filter::{Generation, Sizing};

    /// Returns what `view.lua` says at a moment, µs, where this filter is live; `leased` is 1 while a rebuild has the lease.
    pub(crate) fn reply(live: &Header, now_us: i64, leased: i64) -> Value {
        let text = |bytes: &[u8]| Value::BulkString(bytes.into());
        let len = live.string_len().cast_signed();
        let live_key = [text(b"string"), text(&live.encode()), Value::Int(len)];
        let no_key = [text(b"none"), text(b""), Value::Int(0)];
        let time = [now_us / 1_000_000, now_us % 1_000_000].map(Value::Int);
        // The mode's number, the reach, when a rebuild was asked for, and the token.
        let rest = [0, 0, 0, live.generation.get(), leased].map(Value::Int);
        let fields = live_key.into_iter().chain(no_key).chain(time);
        Value::Array(fields.chain([text(b"first")]).chain(rest).collect())
    }

    fn header() -> Header {
        let sizing = Sizing::new(100, 0.01).unwrap();
        Header::new(Generation::new(5).unwrap(), 6, &sizing, 7).with_state(State::Live)
    }

    #[test]
    fn only_a_whole_string_is_a_filter() {
        let header = header();
        let head = header.encode().to_vec();
        let seen = |kind, head: &[u8], len| Seen::new(kind, head.to_vec(), len).filter;
        assert_eq!(seen("string", &head, header.string_len()), Ok(header));
        assert_eq!(seen("none", b"", 0), Err(Doubt::NoFilter));
        assert_eq!(seen("hash", b"", 0), Err(Doubt::Damaged));
        assert_eq!(seen("string", &head, header.string_len() - 1), Err(Doubt::Damaged));
        assert_eq!(seen("string", &head[..63], 63), Err(Doubt::Damaged));
        assert_eq!(seen("string", b"", 0), Err(Doubt::Damaged));
        let mut other = head.clone();
        other[9] = 3;
        assert_eq!(seen("string", &other, header.string_len()), Err(Doubt::Damaged));
        let mut damaged = head;
        damaged[30] ^= 1;
        assert_eq!(seen("string", &damaged, header.string_len()), Err(Doubt::Damaged));
    }
}
