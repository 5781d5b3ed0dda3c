//! What Redis is asked, what it says, and what that means.
//!
//! Whatever says that an id is absent is asked in one shape: what is asked for (the blocks of ids and their nulls, or what was
//! inserted lately), then the metadata, then the header. The header is that of the generation which the metadata name as
//! live, in the incarnation that was joined, and its stamp reaches their last number: so the bits hold all that was inserted before.
//!
//! BITFIELD is flagged as a write even where it only reads, so a demoted or isolated primary refuses it instead of
//! answering from stale bits; its GET form creates nothing.

use std::sync::Arc;

use ::redis::Value;
use smallvec::SmallVec;

use crate::error::StoreError;
use crate::filter::format::{
    GENERATION_OFFSET, STAMP_OFFSET, STATE_OFFSET, TRAILER_NUMBER_FROM_END,
};
use crate::filter::lengths::BLOCK_LEN;
use crate::filter::{Header, Membership, Position, State};
use crate::id::Digest;
use crate::nulls::scope::Scope;
use crate::store::link::reply::{Reply, odd};
use crate::store::link::resp::Packed;
use crate::store::redis::connection::Connection;
use crate::store::redis::copy::FilterCopy;
use crate::store::redis::keys::Keys;
use crate::store::redis::shard::trusted;
use crate::verdict::{Doubt, Proof, Verdict};

const STEP: &str = "a check";

/// About how many ids of each of many shards a batch has.
pub(super) const FEW: usize = 2;
/// Roughly how many bytes the commands take, for an id and for a filter.
pub(crate) const BYTES_AN_ID: usize = 192;
pub(crate) const BYTES_A_FILTER: usize = 512;

/// The most entries of the record that one fence reads.
pub(super) const PAGE: usize = 512;
pub(super) const BYTES_A_PAGE: usize = PAGE * 64;

pub(super) struct Question<'a> {
    pub(super) keys: &'a Keys,
    pub(super) header: Arc<Header>,
    /// The ids that are asked for one by one.
    pub(super) digests: SmallVec<[Digest; FEW]>,
    pub(super) positions: SmallVec<[Position; FEW]>,
    /// The copy that a fence brings up to the last insert, and from which number on.
    pub(super) fence: Option<(Arc<FilterCopy>, i64)>,
    /// The number of the last insert that this process knew of.
    pub(super) known: i64,
}

pub(super) struct BatchReply {
    pub(super) head: Head,
    /// In the order of the digests, each with the requests for which it holds.
    pub(super) verdicts: SmallVec<[(Verdict, Scope); FEW]>,
    pub(super) page: Page,
}

/// The numbers by which a filter vouches for its bits, and the metadata's, with which they have to agree.
#[derive(Debug)]
pub(crate) struct Head {
    generation: i64,
    state: i64,
    trailer_number: i64,
    pub(crate) stamp: i64,
    incarnation: Option<Vec<u8>>,
    pub(crate) last: i64,
    live: i64,
    /// The number of the fleet's mode, and until when the filter settles, ms, or 0: as of the last poll they may be outdated.
    pub(super) mode_number: i64,
    pub(super) settles_ms: i64,
}

/// Adds the commands of questions to filters whose keys may be named by one command.
pub(super) fn commands(packed: &mut Packed, questions: &[&Question<'_>]) {
    for of in questions {
        if let Some((_, since)) = of.fence {
            Page::ask(packed, of.keys, &format!("({since}"), PAGE);
        }
        for position in &of.positions {
            let first = position.byte_offset() as usize;
            packed.begin(4);
            packed.word(&[b"GETRANGE"]);
            packed.word(&[of.keys.bits.as_bytes()]);
            packed.number(first);
            packed.number(first + BLOCK_LEN - 1);
        }
    }
    let ids = ids(questions);
    if ids > 0 {
        packed.begin(1 + ids);
        packed.word(&[b"MGET"]);
    }
    for of in questions {
        for digest in &of.digests {
            packed.word(&of.keys.null_parts(&digest.hex()));
        }
    }
    for of in questions {
        Head::ask(packed, of.keys, &of.header);
    }
}

fn ids(questions: &[&Question<'_>]) -> usize {
    questions.iter().map(|of| of.digests.len()).sum()
}

/// Reads the replies to [`commands`]. Where the filter was replaced, its reply says nothing.
pub(super) fn read(
    replies: &mut impl Iterator<Item = Value>,
    questions: &[&Question<'_>],
) -> Result<SmallVec<[Result<BatchReply, Doubt>; 1]>, StoreError> {
    let mut parts = SmallVec::<[_; 1]>::new();
    for of in questions {
        let page = match of.fence {
            Some(_) => Page::read(next(replies)?)?,
            None => Page::default(),
        };
        let mut bits = SmallVec::<[Membership; FEW]>::new();
        let mut is_whole = true;
        for position in &of.positions {
            let words = words(&next(replies)?.bytes()?);
            is_whole &= words.is_some();
            bits.push(position.is_in(&words.unwrap_or_default()));
        }
        parts.push((page, bits, is_whole));
    }
    let ids = ids(questions);
    let nulls = if ids > 0 { next(replies)?.array()? } else { Vec::new() };
    if nulls.len() != ids {
        return Err(odd(STEP, format!("{} nulls", nulls.len())));
    }
    let mut nulls = nulls.into_iter();
    let read = parts.into_iter().zip(questions).map(|((page, bits, is_whole), of)| {
        let ids = bits.into_iter().zip(&mut nulls);
        let verdicts = ids
            .map(|(bits, null)| Ok(verdict(bits, null.optional_bytes()?.as_deref(), &of.header)))
            .collect::<Result<_, StoreError>>()?;
        let head = Head::read(replies)?;
        // A short block says that the string was cut, or was away for a moment.
        Ok(if !head.is_of(&of.header) {
            Err(Doubt::Suspect)
        } else if is_whole {
            Ok(BatchReply { head, verdicts, page })
        } else {
            Err(Doubt::Damaged)
        })
    });
    read.collect()
}

fn next(replies: &mut impl Iterator<Item = Value>) -> Result<Reply, StoreError> {
    Reply::next(STEP, replies)
}

/// Judges an id by its bits and its null; returns also for which requests that holds.
fn verdict(bits: Membership, null: Option<&[u8]>, header: &Header) -> (Verdict, Scope) {
    if bits == Membership::Never {
        return (Verdict::Absent(Proof::Filter), Scope::Everyone);
    }
    // A null counts for the generation under which it was found.
    if let Some([scope, of @ ..]) = null
        && let Some(scope) = Scope::from_byte(*scope)
        && of == header.generation.get().to_string().as_bytes()
    {
        return (Verdict::Absent(Proof::Null), scope);
    }
    (Verdict::Present, Scope::Everyone)
}

/// The record's entries beyond a number, the first ones.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// In the order of their bytes.
    pub(crate) digests: Vec<Digest>,
    /// The greatest number among them and the floor.
    pub(crate) greatest: Option<i64>,
    /// Whether the record has dropped something beyond the number.
    pub(super) has_floor: bool,
}

impl Page {
    /// Adds the command that reads the first entries from a number on, beyond it where it begins with a bracket.
    pub(crate) fn ask(packed: &mut Packed, keys: &Keys, from: &str, most: usize) {
        packed.begin(8);
        let words = ["ZRANGEBYSCORE", &keys.recent, from, "+inf", "WITHSCORES", "LIMIT"];
        for word in words {
            packed.word(&[word.as_bytes()]);
        }
        packed.number(0);
        packed.number(most);
    }

    pub(crate) fn read(reply: Reply) -> Result<Self, StoreError> {
        let mut page = Self::default();
        for [member, score] in reply.pairs()? {
            match member.bytes()?.as_slice() {
                b"floor" => page.has_floor = true,
                member => {
                    let digest = <[u8; Digest::LEN]>::try_from(member);
                    let digest = digest.map_err(|_| odd("ZRANGEBYSCORE", "a foreign member"))?;
                    page.digests.push(Digest::from_bytes(digest));
                }
            }
            page.greatest = Some(score.int()?);
        }
        page.digests.sort_unstable();
        Ok(page)
    }
}

impl Head {
    /// Adds the commands that end each question to a filter: for the metadata, and for the header.
    pub(crate) fn ask(packed: &mut Packed, keys: &Keys, header: &Header) {
        packed.begin(7);
        packed.word(&[b"HMGET"]);
        packed.word(&[keys.meta.as_bytes()]);
        for field in [b"inc".as_slice(), b"last", b"live", b"mode_at", b"settles"] {
            packed.word(&[field]);
        }
        let trailer_number = header.string_len() as usize - TRAILER_NUMBER_FROM_END;
        let numbers: [(&[u8], usize); 4] = [
            (b"i64", GENERATION_OFFSET * 8),
            (b"u8", STATE_OFFSET * 8),
            (b"i64", trailer_number * 8),
            (b"i64", STAMP_OFFSET * 8),
        ];
        packed.begin(2 + 3 * numbers.len());
        packed.word(&[b"BITFIELD"]);
        packed.word(&[keys.bits.as_bytes()]);
        for (kind, offset) in numbers {
            packed.word(&[b"GET"]);
            packed.word(&[kind]);
            packed.number(offset);
        }
    }

    pub(crate) fn read(replies: &mut impl Iterator<Item = Value>) -> Result<Self, StoreError> {
        let [incarnation, last, live, mode, settles] = next(replies)?.fields()?;
        let [generation, state, trailer_number, stamp] = next(replies)?.fields()?;
        Ok(Self {
            generation: generation.int()?,
            state: state.int()?,
            trailer_number: trailer_number.int()?,
            stamp: stamp.int()?,
            incarnation: incarnation.optional_bytes()?,
            last: last.int().unwrap_or(0),
            live: live.int().unwrap_or(0),
            mode_number: mode.int().unwrap_or(0),
            settles_ms: settles.int().unwrap_or(0),
        })
    }

    pub(crate) fn is_of(&self, header: &Header) -> bool {
        self.generation == header.generation.get()
    }

    /// Whether the filter that was asked is live, whole and to be trusted.
    pub(crate) fn vouches_for(&self, header: &Header, live: &Connection) -> Result<(), Doubt> {
        self.is_live_and_whole(header)?;
        trusted(*header, live)?;
        if self.live == self.generation { Ok(()) } else { Err(Doubt::Suspect) }
    }

    /// Whether metadata and bits hold all that was inserted: the metadata are of the incarnation that was joined, and the stamp
    /// reaches their last number.
    pub(crate) fn holds_all(&self, live: &Connection) -> bool {
        self.incarnation.as_ref() == Some(&live.identity.incarnation) && self.stamp >= self.last
    }

    fn is_live_and_whole(&self, header: &Header) -> Result<(), Doubt> {
        let is = |state: State| self.state == i64::from(state.as_byte());
        if is(State::Disproved) {
            return Err(Doubt::Disproved);
        }
        if is(State::DisprovedTwice) {
            return Err(Doubt::DisprovedTwice);
        }
        let is_whole = self.trailer_number == header.generation.trailer_number();
        if is(State::Live) && is_whole { Ok(()) } else { Err(Doubt::Damaged) }
    }
}

/// Reads a block, unless it is short.
fn words(bytes: &[u8]) -> Option<[u64; 8]> {
    let (words, rest) = bytes.as_chunks::<8>();
    let words = <[[u8; 8]; 8]>::try_from(words).ok().filter(|_| rest.is_empty())?;
    Some(words.map(u64::from_be_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::{Generation, Sizing};
    use crate::store::link::resp::tests::values;

    const INCARNATION: &[u8] = b"sixteen bytes...";

    impl Head {
        /// What metadata and header say of the last number.
        pub(crate) fn at(last: i64, stamp: i64) -> Self {
            let (generation, state, trailer_number, live) = (0, 0, 0, 0);
            let (incarnation, mode_number, settles_ms) = (None, 0, 0);
            Self {
                generation,
                state,
                trailer_number,
                stamp,
                incarnation,
                last,
                live,
                mode_number,
                settles_ms,
            }
        }
    }

    /// The metadata, and a header's numbers: generation, the trailer's number and stamp.
    fn head(generation: i64, trailer_number: i64, stamp: i64) -> Vec<u8> {
        let state = State::Live.as_byte();
        let meta = [INCARNATION, b"3", b"7", b"5", b"0"].map(string).concat();
        let numbers =
            format!("*4\r\n:{generation}\r\n:{state}\r\n:{trailer_number}\r\n:{stamp}\r\n");
        [b"*5\r\n".to_vec(), meta, numbers.into_bytes()].concat()
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

    /// Makes something of questions to the filter: one for all ids, or one for each.
    fn with_questions<T>(each: bool, make: impl FnOnce(&[&Question<'_>]) -> T) -> T {
        let (header, digests, positions) = asked();
        let keys = Keys::new("users");
        let of = |digests: &[Digest], positions: &[Position]| Question {
            keys: &keys,
            header: Arc::new(header),
            digests: digests.into(),
            positions: positions.iter().cloned().collect(),
            fence: None,
            known: 0,
        };
        if each {
            let [first, second] = [0..1, 1..2].map(|n| of(&digests[n.clone()], &positions[n]));
            make(&[&first, &second])
        } else {
            make(&[&of(&digests, &positions)])
        }
    }

    type Said = Result<Vec<(Verdict, Scope)>, Doubt>;

    /// What is made of replies.
    fn read_each(each: bool, replies: &[u8]) -> Result<Vec<Said>, StoreError> {
        with_questions(each, |questions| {
            let read = super::read(&mut values(replies).into_iter(), questions)?;
            let verdicts = |reply: BatchReply| reply.verdicts.into_vec();
            Ok(read.into_iter().map(|read| read.map(verdicts)).collect())
        })
    }

    /// What is made of the replies for two ids of one filter.
    fn read(replies: &[Vec<u8>]) -> Result<Vec<(Verdict, Scope)>, Option<Doubt>> {
        let read = read_each(false, &replies.concat()).map_err(|_| None)?;
        read.into_iter().next().unwrap().map_err(Some)
    }

    fn whole() -> [Vec<u8>; 4] {
        let null = [&[Scope::Anonymous.as_byte()], b"7".as_slice()].concat();
        let (full, empty) = (block(0xff, BLOCK_LEN), block(0, BLOCK_LEN));
        [full, empty, nulls([&null, &[]]), head(7, 7, 4)]
    }

    const NULL: (Verdict, Scope) = (Verdict::Absent(Proof::Null), Scope::Anonymous);
    const ABSENT: (Verdict, Scope) = (Verdict::Absent(Proof::Filter), Scope::Everyone);

    #[test]
    fn each_id_has_its_own_block_and_its_own_null() {
        assert_eq!(read(&whole()).unwrap(), [NULL, ABSENT]);
    }

    #[test]
    fn a_short_block_says_nothing() {
        for len in [0, 1, BLOCK_LEN - 8, BLOCK_LEN - 1, BLOCK_LEN + 8] {
            let mut replies = whole();
            replies[1] = block(0, len);
            assert_eq!(read(&replies), Err(Some(Doubt::Damaged)), "{len}");
            replies[3] = head(8, 8, 3);
            assert_eq!(read(&replies), Err(Some(Doubt::Suspect)), "{len}, of a smaller filter");
        }
    }

    #[test]
    fn each_filter_of_several_is_judged_by_its_own_blocks_and_header() {
        let [full, empty, nulls, last] = whole();
        let read = |empty: Vec<u8>, first: Vec<u8>| {
            let replies = [full.clone(), empty, nulls.clone(), first, last.clone()].concat();
            read_each(true, &replies).unwrap()
        };
        assert_eq!(read(empty.clone(), last.clone()), [Ok(vec![NULL]), Ok(vec![ABSENT])]);
        let replaced = head(8, 7, 4);
        assert_eq!(read(empty, replaced), [Err(Doubt::Suspect), Ok(vec![ABSENT])]);
        let short = read(block(0, 63), last.clone());
        assert_eq!(short, [Ok(vec![NULL]), Err(Doubt::Damaged)]);
    }

    #[test]
    fn a_head_is_what_metadata_and_header_say() {
        let read = |replies: &[u8]| Head::read(&mut values(replies).into_iter());
        let found = read(&head(7, 7, 4)).unwrap();
        assert_eq!((found.last, found.live, found.stamp), (3, 7, 4));
        assert_eq!((found.mode_number, found.settles_ms), (5, 0));
        assert_eq!(found.incarnation.as_deref(), Some(INCARNATION));
        let lost = b"*5\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n*4\r\n:7\r\n:0\r\n:7\r\n:4\r\n";
        let lost = read(lost).unwrap();
        assert_eq!((&lost.incarnation, lost.last, lost.live), (&None, 0, 0));
        let header = asked().0;
        assert_eq!(lost.is_live_and_whole(&header), Err(Doubt::Damaged), "no state");
        let whole = read(&head(7, header.generation.trailer_number(), 4)).unwrap();
        assert_eq!(whole.is_live_and_whole(&header), Ok(()));
        let cut = read(&head(7, 8, 4)).unwrap();
        assert_eq!(cut.is_live_and_whole(&header), Err(Doubt::Damaged), "another trailer");
        assert!(!read(&head(8, 8, 4)).unwrap().is_of(&header));
    }

    #[test]
    fn too_few_replies_are_no_answer() {
        let whole = whole();
        for len in 0..whole.len() {
            assert_eq!(read(&whole[..len]), Err(None), "{len}");
        }
        let mut fewer_nulls = whole.clone();
        fewer_nulls[2] = nulls([&[]]);
        assert_eq!(read(&fewer_nulls), Err(None));
    }

    #[test]
    fn what_is_asked_are_the_documented_commands() {
        let (header, digests, positions) = asked();
        let keys = Keys::new("users");
        let mut expected = ::redis::pipe();
        for position in positions {
            let first = position.byte_offset();
            expected.cmd("GETRANGE").arg("bg:{users}:bits").arg(first).arg(first + 63);
        }
        expected.cmd("MGET").arg(keys.null(&digests[0])).arg(keys.null(&digests[1]));
        expected
            .cmd("HMGET")
            .arg("bg:{users}:fleet")
            .arg(&["inc", "last", "live", "mode_at", "settles"]);
        let end = header.string_len() as usize * 8;
        let mut numbers = ::redis::cmd("BITFIELD");
        numbers.arg("bg:{users}:bits");
        for (kind, offset) in [("i64", 128), ("u8", 88), ("i64", end - 64), ("i64", 512)] {
            numbers.arg("GET").arg(kind).arg(offset);
        }
        expected.add_command(numbers);
        let mut packed = Packed::default();
        with_questions(false, |questions| commands(&mut packed, questions));
        assert_eq!(packed.bytes, expected.get_packed_pipeline());
        assert_eq!(packed.commands, expected.len());
    }
}
