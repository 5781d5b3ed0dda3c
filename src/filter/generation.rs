//! Which build a filter is from.

use std::fmt;

/// The fencing token of a build: Redis's time in microseconds, or more: it is greater than any before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Generation(i64);

impl Generation {
    /// The greatest generation: a time in the year 2255. Up to here whole numbers are exact in Lua, and
    /// there is always a greater one to come after.
    pub(crate) const MAX: Self = Self((1 << 53) - 2);

    pub(crate) const fn new(micros: i64) -> Option<Self> {
        if micros > 0 && micros <= Self::MAX.0 { Some(Self(micros)) } else { None }
    }

    /// Returns the time in microseconds.
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generation_is_greater_than_zero() {
        assert_eq!(Generation::new(0), None);
        assert_eq!(Generation::new(i64::MIN), None);
        assert_eq!(Generation::new(1).unwrap().get(), 1);
    }
}
