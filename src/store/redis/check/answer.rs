//! What Redis is asked, what it says, and what that means.
//!
//! One check is one BITFIELD and a GET. More than one are a GETRANGE each for their blocks and an MGET of their nulls,
//! between two BITFIELDs of the header: if these are equal, they vouch for what lies between.
//!
//! BITFIELD is flagged as a write even where it only reads, so a demoted or isolated primary refuses it instead of
//! answering from stale bits; its GET form creates nothing.

use ::redis::{Cmd, Pipeline, Value, cmd};

use crate::error::StoreError;
use crate::filter::format::{
    BLOCK_LEN, GENERATION_OFFSET, SEAL_FROM_END, STAMP_FROM_END, STATE_OFFSET,
};
use crate::filter::{Header, Membership, Position, State};
use crate::id::Digest;
use crate::nulls::scope::Scope;
use crate::store::redis::keys::Keys;
use crate::store::redis::link::connection::Connection;
use crate::store::redis::reply::Reply;
use crate::store::redis::shared::trusted;
use crate::verdict::{Doubt, Proof, Verdict};

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
) -> Pipeline {
    let mut commands = Pipeline::with_capacity(digests.len() + 3);
    if let ([position], [digest]) = (positions, digests) {
        let mut bits = head_of(keys, header);
        for word in 0..8 {
            bits.arg("GET").arg("i64").arg((position.byte_offset() as usize + word * 8) * 8);
        }
        let mut null = cmd("GET");
        null.arg(keys.null(digest));
        commands.add_command(bits).add_command(null);
        return commands;
    }
    let head = head_of(keys, header);
    commands.add_command(head.clone());
    for position in positions {
        let mut block = Cmd::with_capacity(4, keys.bits.len() + 32);
        let first = position.byte_offset() as usize;
        block.arg("GETRANGE").arg(&keys.bits).arg(first).arg(first + BLOCK_LEN - 1);
        commands.add_command(block);
    }
    let mut nulls = Cmd::with_capacity(digests.len() + 1, digests.len() * (keys.bits.len() + 40));
    nulls.arg("MGET");
    for digest in digests {
        nulls.arg(keys.null(digest));
    }
    commands.add_command(nulls).add_command(head);
    commands
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
        replies: Vec<Value>,
        positions: Vec<Position>,
    ) -> Result<Result<Self, Doubt>, StoreError> {
        let step = "a check";
        if let [position] = positions[..] {
            let [bits, null] = Reply::new(step, Value::Array(replies)).fields()?;
            let [generation, state, seal, stamp, words @ ..] = bits.fields::<12>()?;
            let head = Head::read([generation, state, seal, stamp])?;
            let block =
                Block { position, words: Reply::words(words)?, null: null.optional_bytes()? };
            return Ok(Ok(Self { head, blocks: vec![block] }));
        }
        let mut replies = replies.into_iter().map(|reply| Reply::new(step, reply));
        let odd = || StoreError::Odd { step, answer: "too few replies".to_owned() };
        let mut next = || replies.next().ok_or_else(odd);
        let head = Head::read(next()?.fields()?)?;
        let words: Vec<_> = positions.iter().map(|_| next()?.block()).collect::<Result<_, _>>()?;
        let nulls = next()?.array()?;
        let last = Head::read(next()?.fields()?)?;
        if nulls.len() != positions.len() {
            return Err(odd());
        }
        if !head.is_of_one_filter_with(last) {
            return Ok(Err(Doubt::Changing));
        }
        let mut blocks = Vec::with_capacity(positions.len());
        for ((position, words), null) in positions.into_iter().zip(words).zip(nulls) {
            // The string was cut short, or was away for a moment.
            let Some(words) = words else { return Ok(Err(Doubt::Truncated)) };
            blocks.push(Block { position, words, null: null.optional_bytes()? });
        }
        Ok(Ok(Self { head, blocks }))
    }

    /// Returns what there is to say of each id, in the order of their digests, and for which requests.
    pub(super) fn verdicts(&self, header: &Header) -> Vec<(Verdict, Scope)> {
        let generation = header.generation.get().to_string();
        self.blocks.iter().map(|block| block.verdict(generation.as_bytes())).collect()
    }
}

impl Head {
    fn read([generation, state, seal, stamp]: [Reply; 4]) -> Result<Self, StoreError> {
        let [generation, state] = [generation.int()?, state.int()?];
        Ok(Self { generation, state, seal: seal.int()?, stamp: stamp.int()? })
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
    fn head(generation: i64, seal: i64, stamp: i64) -> Value {
        let state = i64::from(State::Live.as_byte());
        Value::Array([generation, state, seal, stamp].map(Value::Int).to_vec())
    }

    fn block(byte: u8, len: usize) -> Value {
        Value::BulkString(vec![byte; len])
    }

    fn nulls<const N: usize>(of: [&[u8]; N]) -> Value {
        let null = |bytes: &[u8]| match bytes {
            [] => Value::Nil,
            bytes => Value::BulkString(bytes.to_vec()),
        };
        Value::Array(of.map(null).to_vec())
    }

    /// What is made of the replies for two ids.
    fn read(replies: Vec<Value>) -> Result<Vec<(Verdict, Scope)>, Option<Doubt>> {
        let header = Header::new(Generation::new(7).unwrap(), 1, &Sizing::DEFAULT, 1);
        let positions =
            [1, 2].map(|byte| header.geometry.position(&Digest::from_bytes([byte; 16])));
        match Answer::read(replies, positions.to_vec()) {
            Ok(Ok(answer)) => Ok(answer.verdicts(&header)),
            Ok(Err(doubt)) => Err(Some(doubt)),
            Err(_) => Err(None),
        }
    }

    #[test]
    fn each_id_has_its_own_block_and_its_own_null() {
        let null = [&[Scope::Anonymous.as_byte()], b"7".as_slice()].concat();
        let replies = vec![
            head(7, 7, 3),
            block(0xff, BLOCK_LEN),
            block(0, BLOCK_LEN),
            nulls([&null, &[]]),
            head(7, 7, 4),
        ];
        let expected = [
            (Verdict::Absent(Proof::Null), Scope::Anonymous),
            (Verdict::Absent(Proof::Filter), Scope::Everyone),
        ];
        assert_eq!(read(replies).unwrap(), expected);
    }

    #[test]
    fn a_short_block_says_nothing() {
        for len in [0, 1, BLOCK_LEN - 8, BLOCK_LEN - 1, BLOCK_LEN + 8] {
            let blocks = [block(0xff, BLOCK_LEN), block(0, len)];
            let [first, second] = blocks;
            let replies = vec![head(7, 7, 3), first, second, nulls([&[], &[]]), head(7, 7, 3)];
            assert_eq!(read(replies), Err(Some(Doubt::Truncated)), "{len}");
        }
    }

    #[test]
    fn what_lies_between_two_different_headers_says_nothing() {
        for last in [head(8, 7, 3), head(7, 8, 3), head(7, 7, 2)] {
            let [first, second] = [block(0, BLOCK_LEN), block(0, BLOCK_LEN)];
            let replies = vec![head(7, 7, 3), first, second, nulls([&[], &[]]), last];
            assert_eq!(read(replies), Err(Some(Doubt::Changing)));
        }
    }

    #[test]
    fn too_few_replies_are_no_answer() {
        let whole = [
            head(7, 7, 3),
            block(0, BLOCK_LEN),
            block(0, BLOCK_LEN),
            nulls([&[], &[]]),
            head(7, 7, 3),
        ];
        for len in 0..whole.len() {
            assert_eq!(read(whole[..len].to_vec()), Err(None), "{len}");
        }
        let mut fewer_nulls = whole.to_vec();
        fewer_nulls[3] = nulls([&[]]);
        assert_eq!(read(fewer_nulls), Err(None));
    }
}
