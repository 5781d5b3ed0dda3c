//! What Redis is asked, what it says, and what that means.
//!
//! One check is one BITFIELD and a GET. More than one are a GETRANGE each for their blocks and an MGET of their nulls,
//! between two BITFIELDs of the header: if these are equal, they vouch for what lies between.
//!
//! BITFIELD is flagged as a write even where it only reads, so a demoted or isolated primary refuses it instead of
//! answering from stale bits; its GET form creates nothing.

use ::redis::{Cmd, cmd};

use crate::error::StoreError;
use crate::filter::format::{
    BLOCK_LEN, GENERATION_OFFSET, SEAL_FROM_END, STAMP_FROM_END, STATE_OFFSET,
};
use crate::filter::{Header, Membership, Position, State};
use crate::id::Digest;
use crate::nulls::scope::Scope;
use crate::store::redis::keys::Keys;
use crate::store::redis::link::connection::Connection;
use crate::store::redis::link::resp::{Packed, Replies};
use crate::store::redis::shared::trusted;
use crate::verdict::{Doubt, Proof, Verdict};

/// How many numbers a [`Head`] has.
const HEAD: usize = 4;
/// About so many bytes the commands take, for an id and for the header.
const BYTES_AN_ID: usize = 192;
const BYTES_A_HEAD: usize = 256;

/// What Redis said to a batch.
pub(super) struct Answer {
    pub(super) head: Head,
    blocks: Vec<Block>,
}

/// The numbers by which a filter vouches for its bits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    pub(super) generation: i64,
    state: i64,
    seal: i64,
    pub(super) stamp: i64,
}

/// What there is of one id.
struct Block {
    position: Position,
    words: [u64; 8],
    null: Option<Vec<u8>>,
}

/// Returns the commands for these digests, whose bits are at these positions.
pub(super) fn commands(
    keys: &Keys,
    header: &Header,
    positions: &[Position],
    digests: &[Digest],
) -> Packed {
    let mut packed = Packed::with_capacity(digests.len() * BYTES_AN_ID + 2 * BYTES_A_HEAD);
    let mut head = head_of(keys, header);
    if let ([position], [digest]) = (positions, digests) {
        for word in 0..8 {
            head.arg("GET").arg("i64").arg((position.byte_offset() as usize + word * 8) * 8);
        }
        packed.add(&head);
        packed.begin(2);
        packed.word(&[b"GET"]);
        packed.word(&keys.null_parts(&digest.hex()));
        return packed;
    }
    packed.add(&head);
    for position in positions {
        let first = position.byte_offset() as usize;
        packed.begin(4);
        packed.word(&[b"GETRANGE"]);
        packed.word(&[keys.bits.as_bytes()]);
        packed.number(first);
        packed.number(first + BLOCK_LEN - 1);
    }
    packed.begin(digests.len() + 1);
    packed.word(&[b"MGET"]);
    for digest in digests {
        packed.word(&keys.null_parts(&digest.hex()));
    }
    packed.add(&head);
    packed
}

/// Returns the command that reads the numbers of [`Head`].
fn head_of(keys: &Keys, header: &Header) -> Cmd {
    let from_end = |bytes| (header.string_len() as usize - bytes) * 8;
    let mut head = cmd("BITFIELD");
    head.arg(&keys.bits);
    head.arg("GET").arg("i64").arg(GENERATION_OFFSET * 8);
    head.arg("GET").arg("u8").arg(STATE_OFFSET * 8);
    head.arg("GET").arg("i64").arg(from_end(SEAL_FROM_END));
    head.arg("GET").arg("i64").arg(from_end(STAMP_FROM_END));
    head
}

impl Answer {
    /// Reads the replies to [`commands`].
    pub(super) fn read(
        replies: &[u8],
        positions: &[Position],
    ) -> Result<Result<Self, Doubt>, StoreError> {
        let replies = Replies::new("a check", replies);
        match positions {
            [position] => Self::read_one(replies, *position).map(Ok),
            positions => Self::read_many(replies, positions),
        }
    }

    fn read_one(mut replies: Replies<'_>, position: Position) -> Result<Self, StoreError> {
        replies.array(HEAD + 8)?;
        let head = Head::read(&mut replies)?;
        let mut words = [0; 8];
        for word in &mut words {
            *word = replies.int()?.cast_unsigned();
        }
        let null = replies.bytes()?.map(<[u8]>::to_vec);
        replies.end()?;
        Ok(Self { head, blocks: vec![Block { position, words, null }] })
    }

    fn read_many(
        mut replies: Replies<'_>,
        positions: &[Position],
    ) -> Result<Result<Self, Doubt>, StoreError> {
        replies.array(HEAD)?;
        let head = Head::read(&mut replies)?;
        let mut blocks = Vec::with_capacity(positions.len());
        let mut whole = true;
        for position in positions {
            let words = replies.bytes()?.and_then(words);
            whole &= words.is_some();
            blocks.push(Block {
                position: *position,
                words: words.unwrap_or_default(),
                null: None,
            });
        }
        replies.array(positions.len())?;
        for block in &mut blocks {
            block.null = replies.bytes()?.map(<[u8]>::to_vec);
        }
        replies.array(HEAD)?;
        let last = Head::read(&mut replies)?;
        replies.end()?;
        if !head.is_of_one_filter_with(last) {
            return Ok(Err(Doubt::Changing));
        }
        // The string was cut short, or was away for a moment.
        Ok(if whole { Ok(Self { head, blocks }) } else { Err(Doubt::Truncated) })
    }

    /// Returns what there is to say of each id, in the order of their digests, and for which requests.
    pub(super) fn verdicts(&self, header: &Header) -> Vec<(Verdict, Scope)> {
        let generation = header.generation.get().to_string();
        self.blocks.iter().map(|block| block.verdict(generation.as_bytes())).collect()
    }
}

impl Head {
    fn read(replies: &mut Replies<'_>) -> Result<Self, StoreError> {
        let mut next = || replies.int();
        Ok(Self { generation: next()?, state: next()?, seal: next()?, stamp: next()? })
    }

    /// Whether a later one shows the same filter. Inserts may have come between the two.
    fn is_of_one_filter_with(self, later: Self) -> bool {
        let of = |head: Self| (head.generation, head.state, head.seal);
        of(self) == of(later) && self.stamp <= later.stamp
    }

    /// Whether the filter of the generation that was asked for is live, whole and to be believed.
    pub(super) fn vouches_for(&self, header: &Header, live: &Connection) -> Result<(), Doubt> {
        if self.state == i64::from(State::Disproved.as_byte()) {
            return Err(Doubt::Disproved);
        }
        if self.state != i64::from(State::Live.as_byte()) {
            return Err(Doubt::NotLive);
        }
        if self.seal != header.generation.seal() {
            return Err(Doubt::Truncated);
        }
        trusted(*header, live).map(drop)
    }
}

/// Reads a block; nothing where the filter's string ends before it does.
fn words(bytes: &[u8]) -> Option<[u64; 8]> {
    let (words, rest) = bytes.as_chunks::<8>();
    let words = <[[u8; 8]; 8]>::try_from(words).ok().filter(|_| rest.is_empty())?;
    Some(words.map(u64::from_be_bytes))
}

impl Block {
    fn verdict(&self, generation: &[u8]) -> (Verdict, Scope) {
        if self.position.is_in(&self.words) == Membership::Never {
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

    /// A header's numbers: generation, seal and stamp.
    fn head(generation: i64, seal: i64, stamp: i64) -> Vec<u8> {
        let state = State::Live.as_byte();
        format!("*4\r\n:{generation}\r\n:{state}\r\n:{seal}\r\n:{stamp}\r\n").into_bytes()
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

    /// What is made of the replies for two ids.
    fn read(replies: &[Vec<u8>]) -> Result<Vec<(Verdict, Scope)>, Option<Doubt>> {
        let header = Header::new(Generation::new(7).unwrap(), 1, &Sizing::DEFAULT, 1);
        let positions =
            [1, 2].map(|byte| header.geometry.position(&Digest::from_bytes([byte; 16])));
        match Answer::read(&replies.concat(), &positions) {
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
        let header = Header::new(Generation::new(7).unwrap(), 1, &Sizing::DEFAULT, 1);
        let position = header.geometry.position(&Digest::from_bytes([1; 16]));
        let numbers = |count: usize| format!("*{count}\r\n{}", ":0\r\n".repeat(count));
        let read = |replies: String| Answer::read(replies.as_bytes(), &[position]);
        assert!(matches!(read(numbers(12) + "$-1\r\n"), Ok(Ok(_))));
        for replies in [
            String::new(),
            numbers(12),
            numbers(11) + "$-1\r\n",
            numbers(13) + "$-1\r\n",
            numbers(12) + "*-1\r\n",
            numbers(12) + "$-1\r\n:0\r\n",
            numbers(11).replace("*11", "*12") + "$-1\r\n$-1\r\n",
        ] {
            assert!(read(replies.clone()).is_err(), "{replies:?}");
        }
    }

    #[test]
    fn what_is_asked_for_a_batch_are_the_documented_commands() {
        let header = Header::new(Generation::new(7).unwrap(), 1, &Sizing::DEFAULT, 1);
        let digests = [1, 2].map(|byte| Digest::from_bytes([byte; 16]));
        let positions = digests.map(|digest| header.geometry.position(&digest));
        let keys = Keys::new("users");
        let mut expected = ::redis::pipe();
        expected.add_command(head_of(&keys, &header));
        for position in positions {
            let first = position.byte_offset();
            expected.cmd("GETRANGE").arg(&keys.bits).arg(first).arg(first + 63);
        }
        expected.cmd("MGET").arg(keys.null(&digests[0])).arg(keys.null(&digests[1]));
        expected.add_command(head_of(&keys, &header));
        let packed = commands(&keys, &header, &positions, &digests);
        assert_eq!(packed.bytes, expected.get_packed_pipeline());
        assert_eq!(packed.commands, expected.len());
    }
}
