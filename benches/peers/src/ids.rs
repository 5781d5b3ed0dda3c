//! Ids that exist, ids that do not, and the numbers they are drawn with.

/// SplitMix64: the same numbers in each run.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// Whether ids exist. Those from 0 up to the number of ids do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Present,
    Absent,
}

impl Kind {
    pub const BOTH: [Self; 2] = [Self::Present, Self::Absent];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Present => "present",
            Self::Absent => "absent",
        }
    }

    /// Draws an id where `ids` of them exist.
    pub fn draw(self, ids: u64, random: &mut Random) -> u64 {
        match self {
            Self::Present => random.below(ids),
            Self::Absent => ids + random.below(1 << 40),
        }
    }
}
