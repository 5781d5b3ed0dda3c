//! RESP2 as it is sent: commands packed into bytes, and replies read where they lie.
//!
//! A batch of checks has hundreds of words and replies. To make a value of each would take longer than all the rest.

use std::ops::Range;

use ::redis::{Parser, Pipeline, RedisResult, Value};

use crate::error::StoreError;
use crate::store::link::reply::odd;

/// Commands that leave in one go.
#[derive(Default)]
pub(crate) struct Packed {
    pub(crate) bytes: Vec<u8>,
    /// How many replies are due.
    pub(crate) commands: usize,
    /// How many bytes they may take beyond what is usual.
    more: usize,
}

impl Packed {
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), ..Self::default() }
    }

    /// Allows the replies `more` bytes beyond what is usual.
    pub(crate) fn for_long_replies(self, more: usize) -> Self {
        Self { more, ..self }
    }

    /// Returns the most bytes that the replies may take: a process does not keep more, whatever comes. An INFO fits, an
    /// error for each command, a number for each that is named, and a block of the filter.
    pub(crate) fn room(&self) -> usize {
        LINE + self.commands * SHORT + self.bytes.len() + self.more
    }

    /// Begins a command of `words` words, its name among them.
    pub(crate) fn begin(&mut self, words: usize) {
        self.line(b'*', words);
        self.commands += 1;
    }

    /// Adds a word of the command that was begun. It may come in parts.
    pub(crate) fn word(&mut self, parts: &[&[u8]]) {
        self.line(b'$', parts.iter().map(|part| part.len()).sum());
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Adds a number as a word.
    pub(crate) fn number(&mut self, number: usize) {
        self.word(&[itoa::Buffer::new().format(number).as_bytes()]);
    }

    fn line(&mut self, kind: u8, number: usize) {
        self.bytes.push(kind);
        self.bytes.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        self.bytes.extend_from_slice(b"\r\n");
    }
}

impl From<&Pipeline> for Packed {
    fn from(commands: &Pipeline) -> Self {
        Self { bytes: commands.get_packed_pipeline(), commands: commands.len(), more: 0 }
    }
}

/// What came is no reply to what was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unfit {
    NotResp,
    TooLong,
}

/// What came is not RESP2.
#[derive(Debug, PartialEq, Eq)]
struct NotResp;

impl From<NotResp> for Unfit {
    fn from(NotResp: NotResp) -> Self {
        Self::NotResp
    }
}

/// The longest first line of a reply: Redis sends no error that is longer.
pub(crate) const LINE: usize = 64 << 10;
/// The longest string: Redis takes none that is longer (`proto-max-bulk-len`), so there is none.
const STRING: usize = 512 << 20;
/// The bytes that each reply may take, however short its command.
const SHORT: usize = 512;

/// Finds where replies begin and end while their bytes come in.
#[derive(Default)]
pub(crate) struct Ends {
    /// Where the reply at hand begins.
    begin: usize,
    /// What lies before this has been looked at.
    at: usize,
    /// How many values the reply at hand still lacks, the reply itself counted; 0 between replies.
    open: usize,
}

impl Ends {
    /// Returns where the next reply lies, if all of it has come.
    ///
    /// # Errors
    ///
    /// It is no reply, or does not end before `limit`.
    pub(crate) fn next(
        &mut self,
        input: &[u8],
        limit: usize,
    ) -> Result<Option<Range<usize>>, Unfit> {
        loop {
            let Some(line) = Line::read(&input[self.at..])? else { return Ok(None) };
            let after = self.at + line.len;
            if after > limit {
                return Err(Unfit::TooLong);
            }
            let Some(value) = input.get(self.at..after) else { return Ok(None) };
            if !value.ends_with(b"\r\n") {
                return Err(Unfit::NotResp);
            }
            self.at = after;
            let missing = self.open.saturating_sub(1);
            self.open = missing.checked_add(line.items).ok_or(NotResp)?;
            if self.open == 0 {
                return Ok(Some(std::mem::replace(&mut self.begin, after)..after));
            }
        }
    }

    /// The first bytes, whole replies, have been taken away.
    pub(crate) fn taken(&mut self, bytes: usize) {
        self.begin -= bytes;
        self.at -= bytes;
    }
}

/// A reply's first line, and how much follows.
struct Line<'a> {
    kind: u8,
    text: &'a [u8],
    /// The bytes of the value without its items, this line among them.
    len: usize,
    /// The values that follow as its items.
    items: usize,
}

impl<'a> Line<'a> {
    fn read(input: &'a [u8]) -> Result<Option<Self>, NotResp> {
        let Some(end) = input.iter().position(|byte| *byte == b'\n') else {
            return if input.len() < LINE { Ok(None) } else { Err(NotResp) };
        };
        let [kind, text @ .., b'\r'] = &input[..end] else { return Err(NotResp) };
        let mut line = Self { kind: *kind, text, len: end + 1, items: 0 };
        match kind {
            b'+' | b'-' | b':' => {}
            b'$' => {
                let Some(bytes) = line.count()? else { return Ok(Some(line)) };
                line.len += 2 + Some(bytes).filter(|bytes| *bytes <= STRING).ok_or(NotResp)?;
            }
            b'*' => line.items = line.count()?.unwrap_or_default(),
            _ => return Err(NotResp),
        }
        Ok(Some(line))
    }

    /// Returns the number in it, or none for a nil.
    fn count(&self) -> Result<Option<usize>, NotResp> {
        let number = self.number().ok_or(NotResp)?;
        if number == -1 { Ok(None) } else { usize::try_from(number).map(Some).map_err(|_| NotResp) }
    }

    /// Returns the number that the line is: decimal digits, with or without a sign.
    fn number(&self) -> Option<i64> {
        let (negative, digits) = match self.text {
            [sign @ (b'+' | b'-'), digits @ ..] => (*sign == b'-', digits),
            digits => (false, digits),
        };
        // Counted downwards, so that `i64::MIN` can be read.
        let less = |number: i64, digit: &u8| {
            let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
            number.checked_mul(10)?.checked_sub(digit.into())
        };
        let number = digits.iter().try_fold(0, less).filter(|_| !digits.is_empty())?;
        if negative { Some(number) } else { number.checked_neg() }
    }
}

/// Replies of which all bytes have come, read one after the other. A reply of the wrong shape is an error, never a
/// default.
pub(crate) struct Replies<'a> {
    step: &'static str,
    rest: &'a [u8],
}

impl<'a> Replies<'a> {
    pub(crate) fn new(step: &'static str, bytes: &'a [u8]) -> Self {
        Self { step, rest: bytes }
    }

    fn next(&mut self, kind: u8) -> Result<Line<'a>, StoreError> {
        let line = Line::read(self.rest).ok().flatten().filter(|line| line.kind == kind);
        line.ok_or_else(|| self.odd())
    }

    /// Returns an integer.
    pub(crate) fn int(&mut self) -> Result<i64, StoreError> {
        let line = self.next(b':')?;
        let number = line.number().ok_or_else(|| self.odd())?;
        self.rest = &self.rest[line.len..];
        Ok(number)
    }

    /// Returns the bytes of a string, or none for a nil.
    pub(crate) fn bytes(&mut self) -> Result<Option<&'a [u8]>, StoreError> {
        let line = self.next(b'$')?;
        let Some((value, rest)) = self.rest.split_at_checked(line.len) else {
            return Err(self.odd());
        };
        self.rest = rest;
        // A nil has nothing behind its first line.
        Ok(value.get(line.text.len() + 3..).and_then(|bytes| bytes.strip_suffix(b"\r\n")))
    }

    /// Begins to read an array of `items` elements.
    pub(crate) fn array(&mut self, items: usize) -> Result<(), StoreError> {
        let begins = self.rest;
        let is = self.items()? == items;
        if is { Ok(()) } else { Err(Self { rest: begins, ..*self }.odd()) }
    }

    /// Begins to read an array, and returns how many elements it has.
    pub(crate) fn items(&mut self) -> Result<usize, StoreError> {
        let line = self.next(b'*')?;
        self.rest = &self.rest[line.len..];
        Ok(line.items)
    }

    /// Ends the reading: nothing may be left.
    pub(crate) fn end(self) -> Result<(), StoreError> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.odd()) }
    }

    fn odd(&self) -> StoreError {
        let kind = match self.rest.first() {
            None => "too few replies",
            Some(b':') => "an integer",
            Some(b'$') => "a string of another length, or a nil",
            Some(b'*') => "an array of another length",
            Some(_) => "a value of another kind",
        };
        odd(self.step, kind)
    }
}

/// Makes a value of each reply.
///
/// # Errors
///
/// One of them cannot be read.
pub(crate) fn values(replies: &[u8], count: usize) -> Result<Vec<Value>, StoreError> {
    let (mut parser, mut rest) = (Parser::new(), replies);
    let values: RedisResult<_> = (0..count).map(|_| parser.parse_value(&mut rest)).collect();
    values.map_err(|error| odd("a reply", error.to_string()))
}

#[cfg(test)]
mod tests {
    use ::redis::pipe;

    use super::*;

    const REPLIES: &[u8] = b"*2\r\n:7\r\n*3\r\n$3\r\na\r\n\r\n$-1\r\n*0\r\n+OK\r\n$0\r\n\r\n*-1\r\n:-12\r\n-ERR no\r\n";

    fn ends_of(pieces: &[&[u8]]) -> Result<Vec<Range<usize>>, Unfit> {
        let (mut ends, mut input, mut found) = (Ends::default(), Vec::new(), Vec::new());
        for piece in pieces {
            input.extend_from_slice(piece);
            while let Some(end) = ends.next(&input, 1 << 20)? {
                found.push(end);
            }
        }
        Ok(found)
    }

    #[test]
    fn replies_end_in_the_same_places_however_they_come_in() {
        let whole = ends_of(&[REPLIES]).unwrap();
        assert_eq!(whole, [0..30, 30..35, 35..41, 41..46, 46..52, 52..61]);
        for first in 0..REPLIES.len() {
            for second in first..REPLIES.len() {
                let pieces = [&REPLIES[..first], &REPLIES[first..second], &REPLIES[second..]];
                assert_eq!(ends_of(&pieces).as_ref(), Ok(&whole), "{first} {second}");
            }
        }
        assert_eq!(values(REPLIES, whole.len()).unwrap().len(), whole.len());
    }

    #[test]
    fn what_is_not_resp2_is_no_reply() {
        for input in [
            "\n",
            "\r\n",
            "HTTP/1.1 400 Bad Request\r\n",
            "%1\r\n",
            "_\r\n",
            "$x\r\n",
            "$-2\r\n",
            "*\r\n",
            ":1\n",
            "*9223372036854775807\r\n*9223372036854775807\r\n*9223372036854775807\r\n",
            "$9223372036854775808\r\n",
            "$536870913\r\n",
            "$2\r\nabXX",
            &"+".repeat(LINE),
        ] {
            assert_eq!(ends_of(&[input.as_bytes()]), Err(Unfit::NotResp), "{input:?}");
        }
    }

    #[test]
    fn a_number_is_what_the_standard_library_reads() {
        let signs = ["", "+", "-", "--", "+-"];
        let digits = [
            "",
            "0",
            "00",
            "7",
            "007",
            "1x",
            "x",
            " 1",
            "/",
            ":",
            "9223372036854775807",
            "9223372036854775808",
            "9223372036854775809",
            "92233720368547758070",
        ];
        for text in signs.iter().flat_map(|sign| digits.map(|digits| format!("{sign}{digits}"))) {
            let line = Line { kind: b':', text: text.as_bytes(), len: 0, items: 0 };
            assert_eq!(line.number(), text.parse().ok(), "{text:?}");
        }
    }

    #[test]
    fn a_reply_of_another_shape_is_an_error() {
        fn read(bytes: &[u8]) -> Replies<'_> {
            Replies::new("a test", bytes)
        }
        assert_eq!(read(b":-12\r\n").int().unwrap(), -12);
        assert_eq!(read(b"$3\r\na\r\n\r\n").bytes().unwrap(), Some(&b"a\r\n"[..]));
        assert_eq!(read(b"$0\r\n\r\n").bytes().unwrap(), Some(&b""[..]));
        assert_eq!(read(b"$-1\r\n").bytes().unwrap(), None);
        for bytes in
            [&b""[..], b":1", b":\r\n", b":x\r\n", b"+1\r\n", b"$1\r\n1\r\n", b"*1\r\n:1\r\n"]
        {
            assert!(read(bytes).int().is_err(), "{bytes:?}");
        }
        for bytes in
            [&b""[..], b"$3\r\nab\r\n", b"$3\r\nabc", b"+abc\r\n", b"-ERR no\r\n", b"*-1\r\n"]
        {
            assert!(read(bytes).bytes().is_err(), "{bytes:?}");
        }
        for bytes in [&b""[..], b"*1\r\n", b"*3\r\n", b"*-1\r\n", b"$2\r\n  \r\n", b":2\r\n"] {
            assert!(read(bytes).array(2).is_err(), "{bytes:?}");
        }
        assert!(read(b"").end().is_ok() && read(b":1\r\n").end().is_err());
    }

    #[test]
    fn commands_are_packed_as_the_client_packs_them() {
        let mut packed = Packed::default();
        packed.begin(1);
        packed.word(&[b"PING"]);
        packed.begin(4);
        packed.word(&[b"GETRANGE"]);
        packed.word(&[b"bg:{", b"", b"users}"]);
        packed.number(0);
        packed.number(1_234_567);
        let mut expected = pipe();
        expected.cmd("PING").cmd("GETRANGE").arg("bg:{users}").arg(0).arg(1_234_567);
        let expected = Packed::from(&expected);
        assert_eq!((packed.bytes, packed.commands), (expected.bytes, expected.commands));
    }
}
