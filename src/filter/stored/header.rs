//! The first 64 bytes of a stored filter, and the last 64.

use super::format::{
    BLOCKS_OFFSET, CAPACITY_OFFSET, CHECKSUM_OFFSET, GENERATION_OFFSET, HASHES_OFFSET,
    ITEMS_OFFSET, KEY_ID_OFFSET, LAYOUT, LAYOUT_OFFSET, MAGIC, NONCE_OFFSET, RATE_OFFSET,
    RESERVED_OFFSET, RUN_OFFSET, SEED_OFFSET, STATE_OFFSET, TRAILER_NUMBER_FROM_END, VERSION,
    VERSION_OFFSET,
};
use super::state::State;
use crate::filter::block::Geometry;
use crate::filter::generation::Generation;
use crate::filter::lengths::{HEADER_LEN, MAX_BLOCKS, MAX_HASHES, TRAILER_LEN, string_len};
use crate::filter::rate::false_positive_rate;
use crate::verdict::Doubt;

/// What a stored filter says of itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Header {
    /// How far the build has come.
    pub(crate) state: State,
    /// The build's fencing token.
    pub(crate) generation: Generation,
    /// Tells two builds of one generation apart.
    pub(crate) nonce: u64,
    /// Where ids go.
    pub(crate) geometry: Geometry,
    /// The id of the secret key the digests were made with.
    pub(crate) key_id: u32,
    /// Tells the Redis process the filter was verified on.
    pub(crate) run: u32,
    /// How many ids the build counted, `u32::MAX` standing for that many or more.
    pub(crate) items: u32,
    /// How many ids the filter was sized for.
    pub(crate) capacity: u32,
    /// The false-positive rate the filter was sized for.
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
        put(&mut bytes, 0, MAGIC.to_be_bytes());
        put(&mut bytes, VERSION_OFFSET, VERSION.to_be_bytes());
        put(&mut bytes, LAYOUT_OFFSET, [LAYOUT]);
        put(&mut bytes, STATE_OFFSET, [state.as_byte()]);
        put(&mut bytes, HASHES_OFFSET, [geometry.hashes]);
        put(&mut bytes, GENERATION_OFFSET, generation.get().to_be_bytes());
        put(&mut bytes, NONCE_OFFSET, nonce.to_be_bytes());
        put(&mut bytes, BLOCKS_OFFSET, geometry.blocks.to_be_bytes());
        put(&mut bytes, SEED_OFFSET, geometry.seed.to_be_bytes());
        put(&mut bytes, KEY_ID_OFFSET, key_id.to_be_bytes());
        put(&mut bytes, RUN_OFFSET, run.to_be_bytes());
        put(&mut bytes, ITEMS_OFFSET, items.to_be_bytes());
        put(&mut bytes, CAPACITY_OFFSET, capacity.to_be_bytes());
        put(&mut bytes, RATE_OFFSET, rate.to_be_bytes());
        let checksum = checksum(&bytes);
        put(&mut bytes, CHECKSUM_OFFSET, checksum.to_be_bytes());
        bytes
    }

    /// Reads the header a string begins with; what follows it is not looked at.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Doubt> {
        let bytes = bytes.first_chunk().filter(|bytes| has_frame(bytes));
        bytes.and_then(Self::fields).ok_or(Doubt::Damaged)
    }

    /// Returns what the bytes say, unless a field has an impossible value.
    fn fields(bytes: &[u8; HEADER_LEN]) -> Option<Self> {
        let [state] = take(bytes, STATE_OFFSET);
        let [hashes] = take(bytes, HASHES_OFFSET);
        let blocks = u32::from_be_bytes(take(bytes, BLOCKS_OFFSET));
        let seed = u32::from_be_bytes(take(bytes, SEED_OFFSET));
        let capacity = u32::from_be_bytes(take(bytes, CAPACITY_OFFSET));
        let rate = f32::from_be_bytes(take(bytes, RATE_OFFSET));
        let is_sized = capacity > 0 && rate > 0.0 && rate < 1.0;
        if !is_sized || take(bytes, RESERVED_OFFSET) != [0; 3] {
            return None;
        }
        Some(Self {
            state: State::from_byte(state)?,
            generation: Generation::new(i64::from_be_bytes(take(bytes, GENERATION_OFFSET)))?,
            nonce: u64::from_be_bytes(take(bytes, NONCE_OFFSET)),
            geometry: Geometry::new(blocks, hashes, seed)?,
            key_id: u32::from_be_bytes(take(bytes, KEY_ID_OFFSET)),
            run: u32::from_be_bytes(take(bytes, RUN_OFFSET)),
            items: u32::from_be_bytes(take(bytes, ITEMS_OFFSET)),
            capacity,
            rate,
        })
    }

    pub(crate) fn trailer(&self) -> [u8; TRAILER_LEN] {
        let mut bytes = [0; TRAILER_LEN];
        put(
            &mut bytes,
            TRAILER_LEN - TRAILER_NUMBER_FROM_END,
            self.generation.trailer_number().to_be_bytes(),
        );
        bytes
    }

    pub(crate) const fn string_len(&self) -> u64 {
        string_len(self.geometry.blocks as u64)
    }
}

impl Geometry {
    /// Returns the geometry with these numbers, unless one is zero or beyond [`MAX_BLOCKS`] or [`MAX_HASHES`].
    /// [`Sizing::geometry`](crate::filter::Sizing::geometry) finds good ones.
    pub(crate) fn new(blocks: u32, hashes: u8, seed: u32) -> Option<Self> {
        let fit = (1..=MAX_BLOCKS).contains(&blocks) && (1..=MAX_HASHES).contains(&hashes);
        fit.then_some(Self { blocks, hashes, seed })
    }
}

impl Generation {
    /// Returns the number a complete string of this generation ends with.
    pub(crate) const fn trailer_number(self) -> i64 {
        MAGIC.cast_signed() ^ self.get()
    }
}

/// Returns what is newer than this crate about a header, in words.
pub(crate) fn newer(bytes: &[u8]) -> Option<String> {
    let bytes = bytes.first_chunk().filter(|bytes| has_magic(bytes))?;
    match version_and_layout(bytes) {
        (VERSION, LAYOUT) => None,
        (VERSION, layout) => Some(format!("layout {layout}")),
        (version, _) => (version > VERSION).then(|| format!("format version {version}")),
    }
}

fn has_magic(bytes: &[u8; HEADER_LEN]) -> bool {
    take(bytes, 0) == MAGIC.to_be_bytes()
}

/// Whether it has all that tells a header of this version from other bytes.
fn has_frame(bytes: &[u8; HEADER_LEN]) -> bool {
    has_magic(bytes)
        && version_and_layout(bytes) == (VERSION, LAYOUT)
        && take(bytes, CHECKSUM_OFFSET) == checksum(bytes).to_be_bytes()
}

fn version_and_layout(bytes: &[u8; HEADER_LEN]) -> (u16, u8) {
    let [layout] = take(bytes, LAYOUT_OFFSET);
    (u16::from_be_bytes(take(bytes, VERSION_OFFSET)), layout)
}

fn checksum(bytes: &[u8; HEADER_LEN]) -> u32 {
    let mut covered = *bytes;
    covered[STATE_OFFSET] = 0;
    crc32fast::hash(&covered[..CHECKSUM_OFFSET])
}

fn put<const N: usize>(bytes: &mut [u8], offset: usize, field: [u8; N]) {
    bytes[offset..offset + N].copy_from_slice(&field);
}

fn take<const N: usize>(bytes: &[u8; HEADER_LEN], offset: usize) -> [u8; N] {
    std::array::from_fn(|i| bytes[offset + i])
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
        put(&mut bytes, offset, field);
        let checksum = checksum(&bytes);
        put(&mut bytes, CHECKSUM_OFFSET, checksum.to_be_bytes());
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
        put(&mut bytes, 0, *b"BLMGUARD");
        for (version_and_layout, words) in [
            ([0, 3, 1], Some("format version 3")),
            ([0, 1, 1], None),
            ([0, 2, 2], Some("layout 2")),
            ([0, 2, 0], Some("layout 0")),
        ] {
            put(&mut bytes, VERSION_OFFSET, version_and_layout);
            assert_eq!(Header::decode(&bytes), Err(Doubt::Damaged));
            assert_eq!(newer(&bytes).as_deref(), words);
        }
    }

    #[test]
    fn a_field_with_an_impossible_value_is_found_although_the_checksum_matches() {
        let is_refused = |bytes: [u8; HEADER_LEN]| Header::decode(&bytes) == Err(Doubt::Damaged);
        assert!(is_refused(with(STATE_OFFSET, [0])));
        assert!(is_refused(with(STATE_OFFSET, [5])));
        assert!(is_refused(with(HASHES_OFFSET, [0])));
        assert!(is_refused(with(HASHES_OFFSET, [33])));
        assert!(is_refused(with(RESERVED_OFFSET, [0, 0, 1])));
        assert!(is_refused(with(GENERATION_OFFSET, [0; 8])));
        assert!(is_refused(with(GENERATION_OFFSET, [255; 8])));
        assert!(is_refused(with(BLOCKS_OFFSET, [0; 4])));
        assert!(is_refused(with(BLOCKS_OFFSET, (MAX_BLOCKS + 1).to_be_bytes())));
        assert!(is_refused(with(CAPACITY_OFFSET, [0; 4])));
        for rate in [0.0, 1.0, -0.1, f32::NAN, f32::INFINITY] {
            assert!(is_refused(with(RATE_OFFSET, rate.to_be_bytes())), "{rate}");
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
}
