//! How far the build of a stored filter has come.

/// How far the build of a filter has come.
///
/// The bytes differ from each other and from zero in four bits: the state lies outside the header's
/// checksum, and no flipped bit or two may turn a building filter live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum State {
    /// It is being built: inserts go to it, and blocks are uploaded.
    Building = 0x33,
    /// The filter is complete.
    Live = 0x55,
    /// The filter was live until an id that exists was found missing from it.
    Disproved = 0x66,
    /// It had taken the place of a disproved one, and two such ids were found missing from it.
    DisprovedTwice = 0x69,
}

const STATES: [State; 4] = [State::Building, State::Live, State::Disproved, State::DisprovedTwice];

impl State {
    /// Returns the byte that stands for the state in a header.
    pub(crate) const fn as_byte(self) -> u8 {
        self as u8
    }

    pub(super) fn from_byte(byte: u8) -> Option<Self> {
        STATES.into_iter().find(|state| state.as_byte() == byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
