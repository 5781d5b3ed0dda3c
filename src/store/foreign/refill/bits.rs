//! Bits of one key of a filter, as Redis has them: the first bit of a byte is the highest.

use tokio::task::yield_now;

use crate::store::foreign::seal::WORD;

/// The bytes that one script sets. It takes Redis less than a millisecond.
pub(super) const PIECE: usize = 4 << 10;
/// Bytes counted while other tasks wait.
const COUNTED: usize = 1 << 20;

/// The bits before the seal of a key: those that the refill has found, and those of the source's ids.
pub(super) struct Bits {
    found: Vec<u8>,
    given: Vec<u8>,
}

/// How many bits are set.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) found: u64,
    pub(super) given: u64,
    pub(super) both: u64,
}

impl Counts {
    /// Returns how many are set once the source's are.
    pub(super) const fn all(&self) -> u64 {
        self.found + self.given - self.both
    }
}

impl Bits {
    /// Takes what was found, a multiple of 8 bytes.
    pub(super) fn new(found: Vec<u8>) -> Self {
        Self { given: vec![0; found.len()], found }
    }

    /// Sets these bits; says whether all of them were found.
    pub(super) fn set(&mut self, bits: &[u64]) -> bool {
        let mut all = true;
        for bit in bits {
            let (byte, mask) = ((bit / 8) as usize, 0x80_u8 >> (bit % 8));
            self.given[byte] |= mask;
            all &= self.found[byte] & mask != 0;
        }
        all
    }

    /// Adds how many bits are set. Lets other tasks run.
    pub(super) async fn count(&self, counts: &mut Counts) {
        for (found, given) in self.found.chunks(COUNTED).zip(self.given.chunks(COUNTED)) {
            for (found, given) in found.iter().zip(given) {
                counts.found += u64::from(found.count_ones());
                counts.given += u64::from(given.count_ones());
                counts.both += u64::from((found & given).count_ones());
            }
            yield_now().await;
        }
    }

    /// Returns the pieces that lack bits of the source's, each with its first byte.
    pub(super) fn pieces(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let pieces = self.given.chunks(PIECE).zip(self.found.chunks(PIECE)).enumerate();
        let lacking = pieces.filter(|(_, (given, found))| {
            given.iter().zip(*found).any(|(given, found)| given & !found != 0)
        });
        lacking.map(|(number, (given, _))| (number * PIECE, given))
    }

    /// Returns words that have bits set, at most one of each of `parts` parts, each with its first bit.
    pub(super) fn sample(&self, parts: usize) -> impl Iterator<Item = (u64, [u8; 8])> {
        let words = self.found.len() / 8;
        let word = |at: usize| -> [u8; 8] {
            std::array::from_fn(|byte| self.found[at * 8 + byte] | self.given[at * 8 + byte])
        };
        (0..parts).filter_map(move |part| {
            let mut of_part = words * part / parts..words * (part + 1) / parts;
            let at = of_part.find(|at| word(*at) != [0; 8])?;
            Some((at as u64 * WORD, word(at)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_pieces_that_lack_bits_are_sent_and_whole() {
        let mut found = vec![0; 3 * PIECE];
        found[0] = 0b1000_0001;
        let mut bits = Bits::new(found);
        assert!(bits.set(&[0, 7]));
        assert_eq!(bits.pieces().count(), 0);
        assert!(!bits.set(&[0, PIECE as u64 * 8 + 9]));
        let sent: Vec<_> =
            bits.pieces().map(|(first, bytes)| (first, bytes[..3].to_vec())).collect();
        assert_eq!(sent, [(PIECE, vec![0, 0b0100_0000, 0])]);
        let mut counts = Counts::default();
        bits.count(&mut counts).await;
        assert_eq!((counts, counts.all()), (Counts { found: 2, given: 3, both: 2 }, 3));
    }

    #[test]
    fn a_sample_has_words_with_what_was_found_and_given() {
        let mut found = vec![0; 32];
        found[1] = 1;
        let mut bits = Bits::new(found);
        bits.set(&[0, 200]);
        let sample: Vec<_> = bits.sample(2).collect();
        assert_eq!(sample, [(0, [0x80, 1, 0, 0, 0, 0, 0, 0]), (192, [0, 0x80, 0, 0, 0, 0, 0, 0])]);
        assert_eq!(Bits::new(vec![0; 16]).sample(4).count(), 0);
    }
}
