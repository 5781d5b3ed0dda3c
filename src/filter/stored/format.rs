//! The stored format, byte by byte.
//!
#![doc = include_str!("../format.md")]

use crate::filter::block::Geometry;
use crate::filter::generation::Generation;
use crate::filter::lengths::{HEADER_LEN, MAX_BLOCKS, MAX_HASHES, TRAILER_LEN, string_len};
use crate::filter::rate::false_positive_rate;
use crate::verdict::Doubt;

const MAGIC: u64 = u64::from_be_bytes(*b"BLMGUARD");
const VERSION: u16 = 2;
/// The layout of the bits this crate reads and writes: cache-line blocks.
const LAYOUT: u8 = 1;

pub(crate) const STATE_OFFSET: usize = 11;
pub(crate) const GENERATION_OFFSET: usize = 16;
/// The stamp is the number of the last insert.
pub(crate) const STAMP_OFFSET: usize = 64;
/// The trailer ends with a number.
pub(crate) const TRAILER_NUMBER_FROM_END: usize = 8;

const RESERVED: [u8; 3] = [0; 3];
const CHECKSUM_OFFSET: usize = 60;

/// How far the build of a filter has come.
///
/// The bytes differ from each other and from zero in four bits: the state lies outside the header's
/// checksum, and no flipped bit or two may turn a building filter live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum State {
    Building = 0x33,
    Live = 0x55,
    /// The filter was live until an id that exists was found missing from it.
    Disproved = 0x66,
    /// It had taken the place of a disproved one, and two such ids were found missing from it.
    DisprovedTwice = 0x69,
}

const STATES: [State; 4] = [State::Building, State::Live, State::Disproved, State::DisprovedTwice];

impl State {
    pub(crate) const fn as_byte(self) -> u8 {
        self as u8
    }

    pub(super) fn from_byte(byte: u8) -> Option<Self> {
        STATES.into_iter().find(|state| state.as_byte() == byte)
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Header {
    pub(crate) state: State,
    pub(crate) generation: Generation,
    /// Tells two builds of one generation apart.
    pub(crate) nonce: u64,
    pub(crate) geometry: Geometry,
    /// The id of the secret key the digests were made with.
    pub(crate) key_id: u32,
    /// Tells the Redis process the filter was verified on.
    pub(crate) run: u32,
    /// Saturates at `u32::MAX`.
    pub(crate) items: u32,
    pub(crate) capacity: u32,
    pub(crate) rate: f32,
}

impl Header {
    pub(crate) const fn with_state(mut self, state: State) -> Self {
        self.state = state;
        self
    }

    /// Whether another header is of the same build, in whatever state.
    pub(crate) fn is_same_build(&self, other: &Self) -> bool {
        self.with_state(other.state) == *other
    }

    /// Returns the false-positive rate to expect with the ids that the build counted.
    pub(crate) fn expected_rate(&self) -> f64 {
        false_positive_rate(self.geometry.blocks, self.geometry.hashes, self.items.into())
    }

    pub(crate) fn encode(&self) -> [u8; HEADER_LEN] {
        let Self { state, generation, nonce, geometry, key_id, run, items, capacity, rate } = *self;
        let mut bytes = [0; HEADER_LEN];
        let mut rest = &mut bytes[..];
        put(&mut rest, MAGIC.to_be_bytes());
        put(&mut rest, VERSION.to_be_bytes());
        put(&mut rest, [LAYOUT, state.as_byte(), geometry.hashes]);
        put(&mut rest, RESERVED);
        put(&mut rest, generation.get().to_be_bytes());
        put(&mut rest, nonce.to_be_bytes());
        put(&mut rest, geometry.blocks.to_be_bytes());
        put(&mut rest, geometry.seed.to_be_bytes());
        put(&mut rest, key_id.to_be_bytes());
        put(&mut rest, run.to_be_bytes());
        put(&mut rest, items.to_be_bytes());
        put(&mut rest, capacity.to_be_bytes());
        put(&mut rest, rate.to_be_bytes());
        seal(&mut bytes);
        bytes
    }

    /// Reads the header a string begins with; what follows it is not looked at.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Doubt> {
        let bytes = bytes.first_chunk();
        bytes.and_then(Self::fields).ok_or(Doubt::Damaged)
    }

    fn fields(bytes: &[u8; HEADER_LEN]) -> Option<Self> {
        let mut sealed = *bytes;
        seal(&mut sealed);
        let mut rest = &bytes[..];
        let is_ours = take(&mut rest)? == MAGIC.to_be_bytes()
            && take(&mut rest)? == VERSION.to_be_bytes()
            && sealed == *bytes;
        let [layout, state, hashes] = take(&mut rest)?;
        if !is_ours || layout != LAYOUT || take(&mut rest)? != RESERVED {
            return None;
        }
        let generation = i64::from_be_bytes(take(&mut rest)?);
        let nonce = u64::from_be_bytes(take(&mut rest)?);
        let blocks = u32::from_be_bytes(take(&mut rest)?);
        let seed = u32::from_be_bytes(take(&mut rest)?);
        let header = Self {
            state: State::from_byte(state)?,
            generation: Generation::new(generation)?,
            nonce,
            geometry: Geometry::new(blocks, hashes, seed)?,
            key_id: u32::from_be_bytes(take(&mut rest)?),
            run: u32::from_be_bytes(take(&mut rest)?),
            items: u32::from_be_bytes(take(&mut rest)?),
            capacity: u32::from_be_bytes(take(&mut rest)?),
            rate: f32::from_be_bytes(take(&mut rest)?),
        };
        (header.capacity > 0 && header.rate > 0.0 && header.rate < 1.0).then_some(header)
    }

    pub(crate) fn trailer(&self) -> [u8; TRAILER_LEN] {
        let mut bytes = [0; TRAILER_LEN];
        let number = self.generation.trailer_number().to_be_bytes();
        bytes[TRAILER_LEN - TRAILER_NUMBER_FROM_END..].copy_from_slice(&number);
        bytes
    }

    pub(crate) const fn string_len(&self) -> u64 {
        string_len(self.geometry.blocks as u64)
    }
}

impl Geometry {
    /// Returns the geometry, unless a number is zero or beyond [`MAX_BLOCKS`] or [`MAX_HASHES`].
    pub(crate) fn new(blocks: u32, hashes: u8, seed: u32) -> Option<Self> {
        let fit = (1..=MAX_BLOCKS).contains(&blocks) && (1..=MAX_HASHES).contains(&hashes);
        fit.then_some(Self { blocks, hashes, seed })
    }
}

impl Generation {
    /// Returns the number that a complete string ends with.
    pub(crate) const fn trailer_number(self) -> i64 {
        MAGIC.cast_signed() ^ self.get()
    }
}

/// Says what is newer than this crate about a header.
pub(crate) fn newer(bytes: &[u8]) -> Option<String> {
    let mut rest = bytes.get(..HEADER_LEN)?;
    if take(&mut rest)? != MAGIC.to_be_bytes() {
        return None;
    }
    let version = u16::from_be_bytes(take(&mut rest)?);
    let [layout] = take(&mut rest)?;
    match (version, layout) {
        (VERSION, LAYOUT) => None,
        (VERSION, layout) => Some(format!("layout {layout}")),
        (version, _) => (version > VERSION).then(|| format!("format version {version}")),
    }
}

/// Writes the checksum, which covers all before it but the state.
fn seal(bytes: &mut [u8; HEADER_LEN]) {
    let mut covered = *bytes;
    covered[STATE_OFFSET] = 0;
    let checksum = crc32fast::hash(&covered[..CHECKSUM_OFFSET]);
    bytes[CHECKSUM_OFFSET..].copy_from_slice(&checksum.to_be_bytes());
}

fn put<const N: usize>(rest: &mut &mut [u8], field: [u8; N]) {
    rest.split_off_mut(..N).expect("a header has room for its fields").copy_from_slice(&field);
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    rest.split_off(..N)?.first_chunk().copied()
}

#[cfg(test)]
impl Header {
    /// Returns the header of a filter whose build begins: with no ids counted, and with key
    /// and process left at zero.
    pub(crate) const fn new(
        generation: Generation,
        nonce: u64,
        sizing: &crate::filter::Sizing,
        seed: u32,
    ) -> Self {
        Self {
            state: State::Building,
            generation,
            nonce,
            geometry: sizing.geometry(seed),
            key_id: 0,
            run: 0,
            items: 0,
            capacity: sizing.share,
            rate: sizing.rate as f32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Sizing;

    fn header() -> Header {
        let sizing = Sizing::new(1000, 0.01).unwrap();
        Header::new(Generation::new(1_700_000_000_000_000).unwrap(), 7, &sizing, 42)
    }

    /// Returns the header's bytes with some of them replaced and the checksum put right.
    fn with<const N: usize>(offset: usize, field: [u8; N]) -> [u8; HEADER_LEN] {
        let mut bytes = header().encode();
        bytes[offset..offset + N].copy_from_slice(&field);
        seal(&mut bytes);
        bytes
    }

    #[test]
    fn a_missing_or_short_string_or_another_magic_number_is_none_of_ours() {
        let bytes = header().encode();
        for len in 0..HEADER_LEN {
            assert_eq!(Header::decode(&bytes[..len]), Err(Doubt::Damaged));
        }
        assert_eq!(Header::decode(&[0; HEADER_LEN]), Err(Doubt::Damaged));
    }

    #[test]
    fn a_later_version_or_layout_is_reported_as_such_whatever_else_differs() {
        let mut bytes = [0xff; HEADER_LEN];
        bytes[..8].copy_from_slice(b"BLMGUARD");
        for (version_and_layout, words) in [
            ([0, 3, 1], Some("format version 3")),
            ([0, 1, 1], None),
            ([0, 2, 2], Some("layout 2")),
            ([0, 2, 0], Some("layout 0")),
        ] {
            bytes[8..11].copy_from_slice(&version_and_layout);
            assert_eq!(Header::decode(&bytes), Err(Doubt::Damaged));
            assert_eq!(newer(&bytes).as_deref(), words);
        }
    }

    #[test]
    fn a_field_with_an_impossible_value_is_found_although_the_checksum_matches() {
        let is_refused = |bytes: [u8; HEADER_LEN]| Header::decode(&bytes) == Err(Doubt::Damaged);
        assert!(is_refused(with(STATE_OFFSET, [0])));
        assert!(is_refused(with(STATE_OFFSET, [5])));
        assert!(is_refused(with(12, [0])));
        assert!(is_refused(with(12, [33])));
        assert!(is_refused(with(13, [0, 0, 1])));
        assert!(is_refused(with(16, [0; 8])));
        assert!(is_refused(with(16, [255; 8])));
        assert!(is_refused(with(32, [0; 4])));
        assert!(is_refused(with(32, (MAX_BLOCKS + 1).to_be_bytes())));
        assert!(is_refused(with(52, [0; 4])));
        for rate in [0.0, 1.0, -0.1, f32::NAN, f32::INFINITY] {
            assert!(is_refused(with(56, rate.to_be_bytes())), "{rate}");
        }
        assert!(!is_refused(with(STATE_OFFSET, [State::Live.as_byte()])));
    }

    #[test]
    fn a_change_of_state_changes_one_byte() {
        let (loading, live) = (header().encode(), header().with_state(State::Live).encode());
        let changed: Vec<_> = (0..HEADER_LEN).filter(|at| loading[*at] != live[*at]).collect();
        assert_eq!(changed, [STATE_OFFSET]);
    }

    #[test]
    fn a_geometry_has_blocks_and_hashes() {
        for (blocks, hashes) in [(0, 1), (1, 0), (1, 33), (MAX_BLOCKS + 1, 1)] {
            assert_eq!(Geometry::new(blocks, hashes, 0), None);
        }
    }

    #[test]
    fn a_state_is_its_byte() {
        for state in STATES {
            assert_eq!(State::from_byte(state.as_byte()), Some(state));
        }
        for found in [0, 1, 2, 3, 4, 5, 255] {
            assert_eq!(State::from_byte(found), None);
        }
    }

    #[test]
    fn fewer_than_four_flipped_bits_make_no_state_of_another() {
        let states: Vec<u8> = [0].into_iter().chain(STATES.map(State::as_byte)).collect();
        for (i, one) in states.iter().enumerate() {
            for other in &states[i + 1..] {
                assert!((one ^ other).count_ones() >= 4, "{one:#04x} and {other:#04x}");
            }
        }
    }
}
