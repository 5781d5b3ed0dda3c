//! What Redis is asked, what it says, and what that means.
//!
//! One check is one BITFIELD and a GET. More than one are a GETRANGE each for their blocks and an MGET of their nulls,
//! between two BITFIELDs of each header: if these are equal, they vouch for what lies between.
//!
//! Of a shard that has vouched for itself so within the last second, one GETRANGE behind the blocks reads the bytes from the state
//! to the stamp, which takes a third of Redis's time. They vouch as well, unless since the header was read whole another program
//! put another filter there and took it away again, or cut the string and made it as long again.
//!
//! BITFIELD is flagged as a write even where it only reads, so a demoted or isolated primary refuses it instead of
//! answering from stale bits; its GET form creates nothing. So one follows a batch that reads headers by GETRANGE.

use smallvec::{SmallVec, smallvec};

use crate::error::StoreError;
use crate::filter::format::{
    GENERATION_OFFSET, STAMP_OFFSET, STATE_OFFSET, TRAILER_NUMBER_FROM_END,
};
use crate::filter::lengths::BLOCK_LEN;
use crate::filter::{Header, Membership, Position, Span, State};
use crate::id::Digest;
use crate::nulls::scope::Scope;
use crate::store::link::resp::{Packed, Replies};
use crate::store::redis::connection::Connection;
use crate::store::redis::keys::Keys;
use crate::store::redis::shard::trusted;
use crate::verdict::{Doubt, Proof, Verdict};

/// How many numbers a [`Head`] has.
const HEAD: usize = 4;
/// How many bytes there are from the state to the stamp's end.
const FRONT: usize = STAMP_OFFSET + 8 - STATE_OFFSET;
/// Where there are many shards a batch has about as many ids of each.
pub(super) const FEW: usize = 2;
/// Roughly how many bytes the commands take, for an id and for the header.
pub(crate) const BYTES_AN_ID: usize = 192;
pub(crate) const BYTES_A_HEAD: usize = 256;

/// What is asked of one filter.
#[derive(Clone, Copy)]
pub(crate) struct Inquiry<'a> {
    pub(crate) keys: &'a Keys,
    pub(crate) header: &'a Header,
    pub(crate) digests: &'a [Digest],
    /// Where their bits are.
    pub(crate) positions: &'a [Position],
    pub(crate) heads: Heads,
}

/// What Redis said of one filter.
pub(crate) struct BatchReply {
    pub(crate) head: Head,
    ids: SmallVec<[IdReply; FEW]>,
}

/// The numbers by which a filter vouches for its bits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    pub(crate) generation: i64,
    state: i64,
    /// Nothing where only the front was read.
    trailer_number: Option<i64>,
    pub(crate) stamp: i64,
}

/// Where the header is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heads {
    /// With the bits of one id, in one command; with more than one before the blocks and behind them.
    Whole,
    /// Behind the blocks, by the bytes from the state to the stamp.
    Front,
}

/// What there is of one id.
struct IdReply {
    bits: Membership,
    null: Option<Vec<u8>>,
}

/// Adds the commands for what is asked of filters whose keys one command may name together.
pub(crate) fn commands(packed: &mut Packed, inquiries: &[Inquiry<'_>]) {
    if let [
        Inquiry { heads: Heads::Whole, keys, header, digests: [digest], positions: [position] },
    ] = inquiries
    {
        let spans: Vec<Span> = position.spans().collect();
        ask_numbers(packed, keys, header, &spans);
        packed.begin(2);
        packed.word(&[b"GET"]);
        packed.word(&keys.null_parts(&digest.hex()));
        return;
    }
    for of in inquiries.iter().filter(|of| of.heads == Heads::Whole) {
        ask_numbers(packed, of.keys, of.header, &[]);
    }
    for of in inquiries {
        for position in of.positions {
            ask_bytes(packed, of.keys, position.byte_offset() as usize, BLOCK_LEN);
        }
    }
    packed.begin(1 + ids(inquiries));
    packed.word(&[b"MGET"]);
    for of in inquiries {
        for digest in of.digests {
            packed.word(&of.keys.null_parts(&digest.hex()));
        }
    }
    for of in inquiries {
        match of.heads {
            Heads::Whole => ask_numbers(packed, of.keys, of.header, &[]),
            Heads::Front => ask_bytes(packed, of.keys, STATE_OFFSET, FRONT),
        }
    }
}

/// How many ids are asked for.
fn ids(inquiries: &[Inquiry<'_>]) -> usize {
    inquiries.iter().map(|of| of.digests.len()).sum()
}

/// Reads the replies to [`commands`]. What another filter says than the one that was asked is no reply.
pub(crate) fn read(
    replies: &mut Replies<'_>,
    inquiries: &[Inquiry<'_>],
) -> Result<SmallVec<[Result<BatchReply, Doubt>; 1]>, StoreError> {
    if let [Inquiry { heads: Heads::Whole, header, positions: [position], .. }] = inquiries {
        return Ok(smallvec![BatchReply::read_one(replies, position)?.if_of(header)]);
    }
    let mut parts = SmallVec::<[Reading; 1]>::new();
    for of in inquiries {
        parts.push(Reading::begin(replies, of)?);
    }
    for (part, of) in parts.iter_mut().zip(inquiries) {
        part.read_blocks(replies, of)?;
    }
    replies.array(ids(inquiries))?;
    for id in parts.iter_mut().flat_map(|part| &mut part.ids) {
        id.null = replies.bytes()?.map(<[u8]>::to_vec);
    }
    parts.into_iter().zip(inquiries).map(|(part, of)| part.end(replies, of)).collect()
}

/// What there is of one filter while the replies are read.
struct Reading {
    before: Option<Head>,
    ids: SmallVec<[IdReply; FEW]>,
    /// Whether no block was short.
    whole: bool,
}

impl Reading {
    fn begin(replies: &mut Replies<'_>, inquiry: &Inquiry<'_>) -> Result<Self, StoreError> {
        let before = match inquiry.heads {
            Heads::Whole => Some(Head::read(replies)?),
            Heads::Front => None,
        };
        Ok(Self { before, ids: SmallVec::with_capacity(inquiry.digests.len()), whole: true })
    }

    fn read_blocks(
        &mut self,
        replies: &mut Replies<'_>,
        inquiry: &Inquiry<'_>,
    ) -> Result<(), StoreError> {
        for position in inquiry.positions {
            let words = replies.bytes()?.and_then(words);
            self.whole &= words.is_some();
            let bits = position.is_in(&words.unwrap_or_default());
            self.ids.push(IdReply { bits, null: None });
        }
        Ok(())
    }

    fn end(
        self,
        replies: &mut Replies<'_>,
        inquiry: &Inquiry<'_>,
    ) -> Result<Result<BatchReply, Doubt>, StoreError> {
        let last = match inquiry.heads {
            Heads::Whole => Some(Head::read(replies)?),
            Heads::Front => replies.bytes()?.and_then(Head::of_front),
        };
        let Some(last) = last else { return Ok(Err(Doubt::Suspect)) };
        let head = self.before.unwrap_or(last);
        if !head.is_of_one_filter_with(last) {
            return Ok(Err(Doubt::Suspect));
        }
        let reply = BatchReply { head, ids: self.ids }.if_of(inquiry.header);
        // The string was cut short, or was away for a moment. Of another filter a short block says nothing.
        Ok(reply.and_then(|reply| if self.whole { Ok(reply) } else { Err(Doubt::Damaged) }))
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
    let trailer_number = header.string_len() as usize - TRAILER_NUMBER_FROM_END;
    let head: [(&[u8], usize); HEAD] = [
        (b"i64", GENERATION_OFFSET * 8),
        (b"u8", STATE_OFFSET * 8),
        (b"i64", trailer_number * 8),
        (b"i64", STAMP_OFFSET * 8),
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
    fn read_one(replies: &mut Replies<'_>, position: &Position) -> Result<Self, StoreError> {
        replies.array(HEAD + position.spans().count())?;
        let head = Head::read_numbers(replies)?;
        let mut bits = Membership::Possible;
        for span in position.spans() {
            if span.is_in(replies.unsigned(span.width)?) == Membership::Never {
                bits = Membership::Never;
            }
        }
        let null = replies.bytes()?.map(<[u8]>::to_vec);
        Ok(Self { head, ids: smallvec![IdReply { bits, null }] })
    }

    /// Returns it, if it is what the filter says that was asked.
    fn if_of(self, header: &Header) -> Result<Self, Doubt> {
        let is = self.head.generation == header.generation.get();
        if is { Ok(self) } else { Err(Doubt::Suspect) }
    }

    /// Returns what there is to say of each id, in the order of their digests, and for which requests.
    pub(crate) fn verdicts(&self, header: &Header) -> SmallVec<[(Verdict, Scope); FEW]> {
        let mut generation = itoa::Buffer::new();
        let generation = generation.format(header.generation.get());
        self.ids.iter().map(|id| id.verdict(generation.as_bytes())).collect()
    }
}

impl Head {
    /// Reads the reply to a BITFIELD of these numbers alone.
    fn read(replies: &mut Replies<'_>) -> Result<Self, StoreError> {
        replies.array(HEAD)?;
        Self::read_numbers(replies)
    }

    fn read_numbers(replies: &mut Replies<'_>) -> Result<Self, StoreError> {
        let mut next = || replies.int();
        let (generation, state) = (next()?, next()?);
        Ok(Self { generation, state, trailer_number: Some(next()?), stamp: next()? })
    }

    /// Reads the bytes from the state to the stamp. Some are missing where the string is another one.
    fn of_front(front: &[u8]) -> Option<Self> {
        let number = |at: usize| {
            let bytes = front.get(at - STATE_OFFSET..)?.first_chunk()?;
            Some(i64::from_be_bytes(*bytes))
        };
        Some(Self {
            generation: number(GENERATION_OFFSET)?,
            state: i64::from(*front.first()?),
            trailer_number: None,
            stamp: number(STAMP_OFFSET)?,
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
        let is = |state: State| self.state == i64::from(state.as_byte());
        if is(State::Disproved) {
            return Err(Doubt::Disproved);
        }
        if is(State::DisprovedTwice) {
            return Err(Doubt::DisprovedTwice);
        }
        if !is(State::Live) {
            return Err(Doubt::Damaged);
        }
        if self.trailer_number.is_some_and(|number| number != header.generation.trailer_number()) {
            return Err(Doubt::Damaged);
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

    /// Reads replies to what was asked for so many ids. Nothing may be left of them.
    fn read_all(
        replies: &[u8],
        count: usize,
        heads: Heads,
    ) -> Result<Result<BatchReply, Doubt>, StoreError> {
        let (header, digests, positions) = asked();
        let (keys, digests, positions) =
            (&Keys::new("users"), &digests[..count], &positions[..count]);
        let inquiry = Inquiry { keys, header: &header, digests, positions, heads };
        let mut replies = Replies::new("a check", replies);
        let mut read = super::read(&mut replies, &[inquiry])?;
        replies.end()?;
        Ok(read.pop().unwrap())
    }

    /// What is made of the replies for two ids.
    fn read(replies: &[Vec<u8>]) -> Result<Vec<(Verdict, Scope)>, Option<Doubt>> {
        match read_all(&replies.concat(), 2, Heads::Whole) {
            Ok(Ok(answer)) => Ok(answer.verdicts(&asked().0).into_vec()),
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
            assert_eq!(read(&replies), Err(Some(Doubt::Damaged)), "{len}");
            (replies[0], replies[4]) = (head(8, 8, 3), head(8, 8, 3));
            assert_eq!(read(&replies), Err(Some(Doubt::Suspect)), "{len}, of a smaller filter");
        }
    }

    #[test]
    fn what_lies_between_two_different_headers_says_nothing() {
        for last in [head(8, 7, 3), head(7, 8, 3), head(7, 7, 2)] {
            let mut replies = whole();
            replies[4] = last;
            assert_eq!(read(&replies), Err(Some(Doubt::Suspect)));
        }
    }

    #[test]
    fn the_front_of_a_filter_says_what_its_header_does() {
        let (header, digests, positions) = asked();
        let read = |replies: &[Vec<u8>]| read_all(&replies.concat(), 2, Heads::Front);
        let with = |front: &[u8]| {
            let [_, full, empty, nulls, _] = whole();
            [full, empty, nulls, string(front)]
        };
        let bytes = header.with_state(State::Live).encode();
        let front = [&bytes[11..], &3_i64.to_be_bytes()].concat();
        let head = read(&with(&front)).unwrap().unwrap().head;
        assert_eq!((head.is_live_and_whole(&header), head.generation, head.stamp), (Ok(()), 7, 3));
        let mut out_of_use = front.clone();
        out_of_use[0] = 0;
        let head = read(&with(&out_of_use)).unwrap().unwrap().head;
        assert_eq!(head.is_live_and_whole(&header), Err(Doubt::Damaged));
        for len in [0, 1, 12, 53, front.len() - 1] {
            let said = read(&with(&front[..len])).unwrap();
            assert_eq!(said.err(), Some(Doubt::Suspect), "{len}");
        }
        assert!(read(&whole()).is_err(), "one more than was asked");
        let short = |front: &[u8]| {
            let mut short = with(front);
            short[1] = block(0, BLOCK_LEN - 8);
            read(&short).unwrap().err()
        };
        assert_eq!(short(&front), Some(Doubt::Damaged));
        let mut of_a_smaller_filter = front.clone();
        of_a_smaller_filter[12] = 8;
        assert_eq!(short(&of_a_smaller_filter), Some(Doubt::Suspect));
        let (keys, heads) = (&Keys::new("users"), Heads::Front);
        let inquiry =
            Inquiry { keys, header: &header, digests: &digests, positions: &positions, heads };
        let mut packed = Packed::default();
        commands(&mut packed, &[inquiry]);
        assert_eq!(packed.commands, 4, "two blocks, their nulls, the front");
    }

    #[test]
    fn each_filter_of_several_is_judged_by_its_own_blocks_and_header() {
        let (header, digests, positions) = asked();
        let keys = &Keys::new("users");
        let of = |at: usize, heads| {
            let (digests, positions) = (&digests[at..=at], &positions[at..=at]);
            Inquiry { keys, header: &header, digests, positions, heads }
        };
        let bytes = header.with_state(State::Live).encode();
        let front = string(&[&bytes[11..], &4_i64.to_be_bytes()].concat());
        let [first, full, empty, nulls, last] = whole();
        let read = |empty: Vec<u8>, last: Vec<u8>| {
            let replies =
                [first.clone(), full.clone(), empty, nulls.clone(), last, front.clone()].concat();
            let mut replies = Replies::new("a check", &replies);
            let said = super::read(&mut replies, &[of(0, Heads::Whole), of(1, Heads::Front)]);
            replies.end().unwrap();
            let said = said.unwrap().into_iter();
            said.map(|said| said.map(|reply| reply.verdicts(&header).into_vec()))
                .collect::<Vec<_>>()
        };
        let null = Ok(vec![(Verdict::Absent(Proof::Null), Scope::Anonymous)]);
        let absent = Ok(vec![(Verdict::Absent(Proof::Filter), Scope::Everyone)]);
        assert_eq!(read(empty.clone(), last.clone()), [null.clone(), absent.clone()]);
        assert_eq!(read(empty, head(8, 7, 4)), [Err(Doubt::Suspect), absent]);
        assert_eq!(read(block(0, 63), last), [null, Err(Doubt::Damaged)]);
        let mut packed = Packed::default();
        commands(&mut packed, &[of(0, Heads::Whole), of(1, Heads::Front)]);
        assert_eq!(packed.commands, 6, "a header, two blocks, all nulls, a header, a front");
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
        let read = |replies: String| read_all(replies.as_bytes(), 1, Heads::Whole);
        assert_eq!(read(whole.clone() + "$-1\r\n").unwrap().err(), Some(Doubt::Suspect));
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
            let answer = read_all(replies.as_bytes(), 1, Heads::Whole).unwrap().unwrap();
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
        for (kind, offset) in [("i64", 128), ("u8", 88), ("i64", end - 64), ("i64", 512)] {
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
            let (keys, header, heads) = (&keys, &header, Heads::Whole);
            commands(&mut packed, &[Inquiry { keys, header, digests, positions, heads }]);
            assert_eq!(packed.bytes, expected.get_packed_pipeline());
            assert_eq!(packed.commands, expected.len());
        }
    }
}
