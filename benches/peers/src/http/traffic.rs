//! What clients ask for.

use crate::ids::{Kind, Random};

/// Ids of the hot set.
const HOT: u64 = 10_000;
/// One id in so many exists where most do not.
const ONE_EXISTS_IN: u64 = 20;
/// The record that was deleted after the filter was built.
pub const DELETED: u64 = 0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Traffic {
    MostlyAbsent,
    Hot,
    Uniform,
    /// The same, where the database costs nothing: what is left is the guard.
    Cold,
    Deleted,
}

impl Traffic {
    pub const ALL: [Self; 5] =
        [Self::MostlyAbsent, Self::Hot, Self::Uniform, Self::Cold, Self::Deleted];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::MostlyAbsent => "95 % absent",
            Self::Hot => "10,000 present",
            Self::Uniform => "all present",
            Self::Cold => "present, cold",
            Self::Deleted => "one deleted",
        }
    }

    /// Returns an id, and whether it exists.
    pub fn draw(self, ids: u64, random: &mut Random) -> (u64, bool) {
        let present = |of: u64, random: &mut Random| 1 + random.below(of - 1);
        match self {
            Self::MostlyAbsent if random.below(ONE_EXISTS_IN) > 0 => {
                (Kind::Absent.draw(ids, random), false)
            }
            Self::MostlyAbsent | Self::Uniform | Self::Cold => (present(ids, random), true),
            Self::Hot => (present(HOT.min(ids), random), true),
            Self::Deleted => (DELETED, false),
        }
    }
}
