//! What Redis is asked, what it says, and what that means.
//!
//! One check is one BITFIELD and a GET. More than one are a GETRANGE each for their blocks and an MGET of their nulls,
//! between two BITFIELDs of the header: if these are equal, they vouch for what lies between.
//!
//! Of a shard that has vouched for itself so within the last second, two GETRANGEs behind the blocks read the same at both ends of
//! the string, which takes less than half of Redis's time. They vouch as well, unless another filter was put there by hand since,
//! and taken away again between the blocks and them.
//!
//! BITFIELD is flagged as a write even where it only reads, so a demoted or isolated primary refuses it instead of
//! answering from stale bits; its GET form creates nothing. So one follows a batch that reads ends by GETRANGE.

use crate::error::StoreError;
use crate::filter::format::{
    GENERATION_OFFSET, STAMP_FROM_END, STATE_OFFSET, TRAILER_NUMBER_FROM_END,
};
use crate::filter::lengths::BLOCK_LEN;
use crate::filter::{Header, Membership, Position, Span, State};
use crate::id::Digest;
use crate::nulls::scope::Scope;
use crate::store::link::resp::{Packed, Replies};
use crate::store::redis::incarnation::identity::Connection;
use crate::store::redis::keys::Keys;
use crate::store::redis::shard::trusted;
use crate::verdict::{Doubt, Proof, Verdict};

/// How many numbers a [`Head`] has.
const HEAD: usize = 4;
/// How many bytes there are from the state to the generation's end.
const START: usize = GENERATION_OFFSET + 8 - STATE_OFFSET;
/// Roughly how many bytes the commands take, for an id and for the header.
pub(crate) const BYTES_AN_ID: usize = 192;
pub(crate) const BYTES_A_HEAD: usize = 256;

/// What Redis said to a batch.
pub(crate) struct BatchReply {
    pub(crate) head: Head,
    ids: Vec<IdReply>,
}

/// The numbers by which a filter vouches for its bits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    pub(crate) generation: i64,
    state: i64,
    trailer_number: i64,
    pub(crate) stamp: i64,
}

/// Where the header is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heads {
    /// With the bits of one id, in one command; with more than one before the blocks and behind them.
    Whole,
    /// Behind the blocks, by the bytes at both ends of the string.
    Ends,
}

/// What there is of one id.
struct IdReply {
    bits: Membership,
    null: Option<Vec<u8>>,
}

/// Adds the commands for these digests, whose bits are at these positions.
pub(crate) fn commands(
    packed: &mut Packed,
    keys: &Keys,
    header: &Header,
    positions: &[Position],
    digests: &[Digest],
    heads: Heads,
) {
    if let (Heads::Whole, [position], [digest]) = (heads, positions, digests) {
        let spans: Vec<Span> = position.spans().collect();
        ask_numbers(packed, keys, header, &spans);
        packed.begin(2);
        packed.word(&[b"GET"]);
        packed.word(&keys.null_parts(&digest.hex()));
        return;
    }
    if heads == Heads::Whole {
        ask_numbers(packed, keys, header, &[]);
    }
    for position in positions {
        ask_bytes(packed, keys, position.byte_offset() as usize, BLOCK_LEN);
    }
    packed.begin(digests.len() + 1);
    packed.word(&[b"MGET"]);
    for digest in digests {
        packed.word(&keys.null_parts(&digest.hex()));
    }
    match heads {
        Heads::Whole => ask_numbers(packed, keys, header, &[]),
        Heads::Ends => {
            ask_bytes(packed, keys, STATE_OFFSET, START);
            ask_bytes(packed, keys, header.string_len() as usize - STAMP_FROM_END, STAMP_FROM_END);
        }
    }
}

/// Adds the command that reads so many bytes of the filter.
fn ask_bytes(packed: &mut Packed, keys: &Keys, first: usize, bytes: usize) {
    packed.begin(4);
    packed.word(&[b"GETRANGE"]);
    packed.word(&[keys.bits.as_bytes()]);
    packed.number(first);
    packed.number(first + bytes - 1);
}

/// Adds a command that only a primary takes. It reads the filter's first byte.
pub(crate) fn ask_primary(packed: &mut Packed, keys: &Keys) {
    begin_bitfield(packed, keys, 1);
    packed.word(&[b"GET"]);
    packed.word(&[b"u8"]);
    packed.number(0);
}

/// Reads the reply to [`ask_primary`].
pub(crate) fn read_primary(replies: &mut Replies<'_>) -> Result<(), StoreError> {
    replies.array(1)?;
    replies.int().map(drop)
}

/// Adds the command that reads the numbers of [`Head`], and behind them these bits.
fn ask_numbers(packed: &mut Packed, keys: &Keys, header: &Header, spans: &[Span]) {
    let from_end = |bytes| (header.string_len() as usize - bytes) * 8;
    let head: [(&[u8], usize); HEAD] = [
        (b"i64", GENERATION_OFFSET * 8),
        (b"u8", STATE_OFFSET * 8),
        (b"i64", from_end(TRAILER_NUMBER_FROM_END)),
        (b"i64", from_end(STAMP_FROM_END)),
    ];
    begin_bitfield(packed, keys, HEAD + spans.len());
    for (kind, offset) in head {
        packed.word(&[b"GET"]);
        packed.word(&[kind]);
        packed.number(offset);
    }
    for span in spans {
        packed.word(&[b"GET"]);
        packed.word(&[b"u", itoa::Buffer::new().format(span.width).as_bytes()]);
        packed.number(span.offset as usize);
    }
}

/// Begins the command that reads so many numbers of the filter.
fn begin_bitfield(packed: &mut Packed, keys: &Keys, numbers: usize) {
    packed.begin(2 + 3 * numbers);
    packed.word(&[b"BITFIELD"]);
    packed.word(&[keys.bits.as_bytes()]);
}

impl BatchReply {
    /// Reads the replies to [`commands`].
    pub(crate) fn read(
        replies: &mut Replies<'_>,
        positions: &[Position],
        heads: Heads,
    ) -> Result<Result<Self, Doubt>, StoreError> {
        match positions {
            [position] if heads == Heads::Whole => Self::read_one(replies, position).map(Ok),
            positions => Self::read_many(replies, positions, heads),
        }
    }

    fn read_one(replies: &mut Replies<'_>, position: &Position) -> Result<Self, StoreError> {
        replies.array(HEAD + position.spans().count())?;
        let head = Head::read(replies)?;
        let mut bits = Membership::Possible;
        for span in position.spans() {
            if span.is_in(replies.unsigned(span.width)?) == Membership::Never {
                bits = Membership::Never;
            }
        }
        let null = replies.bytes()?.map(<[u8]>::to_vec);
        Ok(Self { head, ids: vec![IdReply { bits, null }] })
    }

    fn read_many(
        replies: &mut Replies<'_>,
        positions: &[Position],
        heads: Heads,
    ) -> Result<Result<Self, Doubt>, StoreError> {
        let mut before = None;
        if heads == Heads::Whole {
            replies.array(HEAD)?;
            before = Some(Head::read(replies)?);
        }
        let mut ids = Vec::with_capacity(positions.len());
        let mut whole = true;
        for position in positions {
            let words = replies.bytes()?.and_then(words);
            whole &= words.is_some();
            let bits = position.is_in(&words.unwrap_or_default());
            ids.push(IdReply { bits, null: None });
        }
        replies.array(positions.len())?;
        for id in &mut ids {
            id.null = replies.bytes()?.map(<[u8]>::to_vec);
        }
        let last = match heads {
            Heads::Whole => {
                replies.array(HEAD)?;
                Some(Head::read(replies)?)
            }
            Heads::Ends => {
                let (start, end) = (replies.bytes()?, replies.bytes()?);
                start.zip(end).and_then(|(start, end)| Head::of_ends(start, end))
            }
        };
        let Some(last) = last else { return Ok(Err(Doubt::Changing)) };
        let head = before.unwrap_or(last);
        if !head.is_of_one_filter_with(last) {
            return Ok(Err(Doubt::Changing));
        }
        // The string was cut short, or was away for a moment.
        Ok(if whole { Ok(Self { head, ids }) } else { Err(Doubt::Truncated) })
    }

    /// Returns what there is to say of each id, in the order of their digests, and for which requests.
    pub(crate) fn verdicts(&self, header: &Header) -> Vec<(Verdict, Scope)> {
        let generation = header.generation.get().to_string();
        self.ids.iter().map(|id| id.verdict(generation.as_bytes())).collect()
    }
}

impl Head {
    fn read(replies: &mut Replies<'_>) -> Result<Self, StoreError> {
        let mut next = || replies.int();
        Ok(Self { generation: next()?, state: next()?, trailer_number: next()?, stamp: next()? })
    }

    /// Reads the bytes from the state to the generation, and those from the stamp to the end. They are missing where the string
    /// is another one.
    fn of_ends(start: &[u8], end: &[u8]) -> Option<Self> {
        let (&state, start) = start.split_first()?;
        let (stamp, number) = end.split_first_chunk()?;
        Some(Self {
            generation: i64::from_be_bytes(*start.last_chunk()?),
            state: i64::from(state),
            trailer_number: i64::from_be_bytes(number.try_into().ok()?),
            stamp: i64::from_be_bytes(*stamp),
        })
    }

    /// Whether a later one shows the same filter. Inserts may have come between the two.
    fn is_of_one_filter_with(self, later: Self) -> bool {
        let of = |head: Self| (head.generation, head.state, head.trailer_number);
        of(self) == of(later) && self.stamp <= later.stamp
    }

    /// Whether the filter of the generation that was asked for is live, whole and to be believed.
    pub(super) fn vouches_for(&self, header: &Header, live: &Connection) -> Result<(), Doubt> {
        self.is_live_and_whole(header)?;
        trusted(*header, live).map(drop)
    }

    /// Whether it is live and whole, by whatever key and on whatever Redis process.
    pub(crate) fn is_live_and_whole(&self, header: &Header) -> Result<(), Doubt> {
        if self.state == i64::from(State::Disproved.as_byte()) {
            return Err(Doubt::Disproved);
        }
        if self.state != i64::from(State::Live.as_byte()) {
            return Err(Doubt::NotLive);
        }
        if self.trailer_number != header.generation.trailer_number() {
            return Err(Doubt::Truncated);
        }
        Ok(())
    }
}

/// Reads a block; nothing where the filter's string ends before it does.
fn words(bytes: &[u8]) -> Option<[u64; 8]> {
    let (words, rest) = bytes.as_chunks::<8>();
    let words = <[[u8; 8]; 8]>::try_from(words).ok().filter(|_| rest.is_empty())?;
    Some(words.map(u64::from_be_bytes))
}

impl IdReply {
    fn verdict(&self, generation: &[u8]) -> (Verdict, Scope) {
        if self.bits == Membership::Never {
            return (Verdict::Absent(Proof::Filter), Scope::Everyone);
        }
        // A null counts for the generation it was found under: with the filter its claim may be lost.
        if let Some([scope, of @ ..]) = self.null.as_deref()
            && let Some(scope) = Scope::from_byte(*scope)
            && of == generation
        {
            return (Verdict::Absent(Proof::Null), scope);
        }
        (Verdict::Present, Scope::Everyone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::{Generation, Sizing};
    use crate::verdict::Proof;

    /// A header's numbers: generation, the trailer's number and stamp.
    fn head(generation: i64, trailer_number: i64, stamp: i64) -> Vec<u8> {
        let state = State::Live.as_byte();
        format!("*4\r\n:{generation}\r\n:{state}\r\n:{trailer_number}\r\n:{stamp}\r\n").into_bytes()
    }

    fn string(bytes: &[u8]) -> Vec<u8> {
        [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
    }

    fn block(byte: u8, len: usize) -> Vec<u8> {
        string(&vec![byte; len])
    }

    fn nulls<const N: usize>(of: [&[u8]; N]) -> Vec<u8> {
        let null =
            |bytes: &[u8]| if bytes.is_empty() { b"$-1\r\n".to_vec() } else { string(bytes) };
        [format!("*{N}\r\n").into_bytes(), of.map(null).concat()].concat()
    }

    /// A filter, and two ids that it is asked for.
    fn asked() -> (Header, [Digest; 2], [Position; 2]) {
        let header = Header::new(Generation::new(7).unwrap(), 1, &Sizing::DEFAULT, 1);
        let digests = [1, 2].map(|byte| Digest::from_bytes([byte; 16]));
        let positions = digests.map(|digest| header.geometry.position(&digest));
        (header, digests, positions)
    }

    /// Reads replies of which nothing may be left.
    fn read_all(
        replies: &[u8],
        positions: &[Position],
    ) -> Result<Result<BatchReply, Doubt>, StoreError> {
        let mut replies = Replies::new("a check", replies);
        let reply = BatchReply::read(&mut replies, positions, Heads::Whole)?;
        replies.end()?;
        Ok(reply)
    }

    /// What is made of the replies for two ids.
    fn read(replies: &[Vec<u8>]) -> Result<Vec<(Verdict, Scope)>, Option<Doubt>> {
        let (header, _, positions) = asked();
        match read_all(&replies.concat(), &positions) {
            Ok(Ok(answer)) => Ok(answer.verdicts(&header)),
            Ok(Err(doubt)) => Err(Some(doubt)),
            Err(_) => Err(None),
        }
    }

    fn whole() -> [Vec<u8>; 5] {
        let null = [&[Scope::Anonymous.as_byte()], b"7".as_slice()].concat();
        let (full, empty) = (block(0xff, BLOCK_LEN), block(0, BLOCK_LEN));
        [head(7, 7, 3), full, empty, nulls([&null, &[]]), head(7, 7, 4)]
    }

    #[test]
    fn each_id_has_its_own_block_and_its_own_null() {
        let expected = [
            (Verdict::Absent(Proof::Null), Scope::Anonymous),
            (Verdict::Absent(Proof::Filter), Scope::Everyone),
        ];
        assert_eq!(read(&whole()).unwrap(), expected);
    }

    #[test]
    fn a_short_block_says_nothing() {
        for len in [0, 1, BLOCK_LEN - 8, BLOCK_LEN - 1, BLOCK_LEN + 8] {
            let mut replies = whole();
            replies[2] = block(0, len);
            assert_eq!(read(&replies), Err(Some(Doubt::Truncated)), "{len}");
        }
    }

    #[test]
    fn what_lies_between_two_different_headers_says_nothing() {
        for last in [head(8, 7, 3), head(7, 8, 3), head(7, 7, 2)] {
            let mut replies = whole();
            replies[4] = last;
            assert_eq!(read(&replies), Err(Some(Doubt::Changing)));
        }
    }

    #[test]
    fn both_ends_of_a_filter_say_what_its_header_does() {
        let (header, digests, positions) = asked();
        let read = |replies: &[u8]| {
            let mut replies = Replies::new("a check", replies);
            let reply = BatchReply::read(&mut replies, &positions, Heads::Ends)?;
            replies.end()?;
            Ok::<_, StoreError>(reply.map(|reply| reply.head))
        };
        let with = |start: &[u8], end: &[u8]| {
            let [_, full, empty, nulls, _] = whole();
            [full, empty, nulls, string(start), string(end)]
        };
        let (bytes, number) =
            (header.with_state(State::Live).encode(), header.generation.trailer_number());
        let (start, end) = (&bytes[11..24], [3_i64.to_be_bytes(), number.to_be_bytes()].concat());
        let of_this = with(start, &end);
        let head = read(&of_this.concat()).unwrap().unwrap();
        assert_eq!((head.is_live_and_whole(&header), head.generation, head.stamp), (Ok(()), 7, 3));
        let mut out_of_use = start.to_vec();
        out_of_use[0] = 0;
        let head = read(&with(&out_of_use, &end).concat()).unwrap().unwrap();
        assert_eq!(head.is_live_and_whole(&header), Err(Doubt::NotLive));
        let another = [3_i64, number ^ 1].map(i64::to_be_bytes).concat();
        let head = read(&with(start, &another).concat()).unwrap().unwrap();
        assert_eq!(head.is_live_and_whole(&header), Err(Doubt::Truncated));
        for (start, end) in [(&start[..7], &end[..]), (start, &end[1..]), (&[], &end), (start, &[])]
        {
            assert_eq!(read(&with(start, end).concat()).unwrap().err(), Some(Doubt::Changing));
        }
        assert!(read(&whole().concat()).is_err(), "one more than was asked");
        let mut short = of_this;
        short[1] = block(0, BLOCK_LEN - 8);
        assert_eq!(read(&short.concat()).unwrap().err(), Some(Doubt::Truncated));
        let mut packed = Packed::default();
        commands(&mut packed, &Keys::new("users"), &header, &positions, &digests, Heads::Ends);
        assert_eq!(packed.commands, 5, "two blocks, their nulls, both ends");
    }

    #[test]
    fn too_few_replies_or_too_many_are_no_answer() {
        let whole = whole();
        for len in 0..whole.len() {
            assert_eq!(read(&whole[..len]), Err(None), "{len}");
        }
        let mut fewer_nulls = whole.clone();
        fewer_nulls[3] = nulls([&[]]);
        assert_eq!(read(&fewer_nulls), Err(None));
        assert_eq!(read(&[whole.concat(), head(7, 7, 4)]), Err(None));
    }

    #[test]
    fn a_lone_answer_of_another_shape_is_none() {
        let (_, _, [position, _]) = asked();
        let spans = position.spans().count();
        let numbers = |count: usize| format!("*{count}\r\n{}", ":0\r\n".repeat(count));
        let whole = numbers(HEAD + spans);
        let read = |replies: String| read_all(replies.as_bytes(), &[position]);
        assert!(matches!(read(whole.clone() + "$-1\r\n"), Ok(Ok(_))));
        for replies in [
            String::new(),
            whole.clone(),
            numbers(HEAD + spans - 1) + "$-1\r\n",
            numbers(HEAD + spans + 1) + "$-1\r\n",
            whole.clone() + "*-1\r\n",
            whole.clone() + "$-1\r\n:0\r\n",
            whole.replacen(":0\r\n", "", 1) + "$-1\r\n$-1\r\n",
            numbers(HEAD + spans - 1)
                .replace(&format!("*{}", HEAD + spans - 1), &format!("*{}", HEAD + spans))
                + ":-1\r\n$-1\r\n",
        ] {
            assert!(read(replies.clone()).is_err(), "{replies:?}");
        }
    }

    #[test]
    fn a_lone_answer_is_present_when_all_bits_of_all_spans_are_set() {
        let (header, _, [position, _]) = asked();
        let verdict = |unset: Option<usize>| {
            let all_set = position.spans().map(|span| (1_u64 << span.width) - 1);
            let number =
                |(n, set)| format!(":{}\r\n", if unset == Some(n) { set - 1 } else { set });
            let numbers: String = all_set.enumerate().map(number).collect();
            let head = String::from_utf8(head(7, 7, 3)).unwrap();
            let (_, head) = head.split_once("\r\n").unwrap();
            let count = HEAD + position.spans().count();
            let replies = format!("*{count}\r\n{head}{numbers}$-1\r\n");
            let answer = read_all(replies.as_bytes(), &[position]).unwrap().unwrap();
            answer.verdicts(&header)[0].0
        };
        assert_eq!(verdict(None), Verdict::Present);
        for unset in 0..position.spans().count() {
            assert_eq!(verdict(Some(unset)), Verdict::Absent(Proof::Filter), "{unset}");
        }
    }

    /// The numbers of the header, as a client of Redis asks for them.
    fn numbers_of(header: &Header) -> ::redis::Cmd {
        let end = header.string_len() as usize * 8;
        let mut numbers = ::redis::cmd("BITFIELD");
        numbers.arg("bg:{users}:bits");
        for (kind, offset) in [("i64", 128), ("u8", 88), ("i64", end - 64), ("i64", end - 128)] {
            numbers.arg("GET").arg(kind).arg(offset);
        }
        numbers
    }

    #[test]
    fn what_is_asked_are_the_documented_commands() {
        let (header, digests, positions) = asked();
        let keys = Keys::new("users");
        let mut many = ::redis::pipe();
        many.add_command(numbers_of(&header));
        for position in positions {
            let first = position.byte_offset();
            many.cmd("GETRANGE").arg("bg:{users}:bits").arg(first).arg(first + 63);
        }
        many.cmd("MGET").arg(keys.null(&digests[0])).arg(keys.null(&digests[1]));
        many.add_command(numbers_of(&header));
        let mut one = ::redis::pipe();
        let mut numbers = numbers_of(&header);
        for span in positions[0].spans() {
            numbers.arg("GET").arg(format!("u{}", span.width)).arg(span.offset);
        }
        one.add_command(numbers).cmd("GET").arg(keys.null(&digests[0]));
        for (expected, count) in [(many, 2), (one, 1)] {
            let mut packed = Packed::default();
            let (positions, digests) = (&positions[..count], &digests[..count]);
            commands(&mut packed, &keys, &header, positions, digests, Heads::Whole);
            assert_eq!(packed.bytes, expected.get_packed_pipeline());
            assert_eq!(packed.commands, expected.len());
        }
    }
}
