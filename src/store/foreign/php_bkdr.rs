//! The PHP article's filter: BKDR hashes, and in its third version spread over instances and keys.

use super::filter::ForeignFilter;
use super::layout::{Layout, MOST_BITS, Numbers, Place};
use super::size::BloomSize;

/// Seeds that are known to hash as PHP does. The next ones do not fit PHP's integers.
const MOST_HASHES: u64 = 16;
/// The hash has 31 bits: the others of a larger filter stay clear.
const HASH: u64 = (1 << 31) - 1;

#[derive(Debug)]
struct PhpBkdr {
    name: String,
    size: BloomSize,
    /// How many instances and keys the bits are spread over; none for the versions with one key.
    spread: Option<(u64, u64)>,
}

impl ForeignFilter {
    /// A filter of the PHP article, first and second version: one key of `bits` bits, `hashes` of them for each id.
    ///
    /// The hash has 31 bits, and short ids share hashes: more false positives than the formula says, 1.43 % where it says
    /// 1.18 % (decimal ids, measured 2026-11-22). Of the ids that
    /// [`trust_foreign`](crate::BloomGuard::trust_foreign) is given, those count whose hashes are larger than the number of
    /// bits, and each of them as one bit.
    #[must_use]
    pub fn php_bkdr(key: &str, bits: u64, hashes: u32) -> Self {
        Self::bkdr(key, bits, hashes, None).bounded("bits of php_bkdr", bits, 1, MOST_BITS)
    }

    /// A filter of the PHP article, third version. The first instance is the guard's [`redis`](crate::Builder::redis),
    /// `others` are the URLs of the further ones, in the article's order. The keys are `name` with `.0`, `.1` and so on:
    /// more than one where an instance has more than 2³² bits.
    #[must_use]
    pub fn php_bkdr_sharded(name: &str, bits: u64, hashes: u32, others: &[&str]) -> Self {
        let instances = others.len() as u64 + 1;
        let keys = if bits > MOST_BITS { bits.div_ceil(instances).div_ceil(MOST_BITS) } else { 1 };
        Self::bkdr(name, bits, hashes, Some((instances, keys)))
            .bounded("bits of php_bkdr_sharded", bits, 1, 64 * MOST_BITS)
            .bounded("instances of php_bkdr_sharded", instances, 1, 64)
            .on_instances(others)
    }

    fn bkdr(name: &str, bits: u64, hashes: u32, spread: Option<(u64, u64)>) -> Self {
        let size = BloomSize { bits, hashes };
        let filter = Self::new(PhpBkdr { name: name.to_owned(), size, spread });
        filter.bounded("hashes of a filter with BKDR hashes", hashes.into(), 1, MOST_HASHES)
    }
}

impl PhpBkdr {
    fn instances(&self) -> u64 {
        self.spread.map_or(1, |(instances, _)| instances)
    }

    /// How many pairs of an instance and a key there are that one hash can name: it chooses both.
    fn pairs(&self) -> u64 {
        let Some((instances, keys)) = self.spread else { return 1 };
        (1..=keys).map(|times| times * instances).find(|pairs| pairs % keys == 0).unwrap_or(1)
    }
}

impl Layout for PhpBkdr {
    fn keys(&self) -> Vec<(usize, String)> {
        let Some((instances, keys)) = self.spread else { return vec![(0, self.name.clone())] };
        let key = |pair| ((pair % instances) as usize, format!("{}.{}", self.name, pair % keys));
        (0..self.pairs()).map(key).collect()
    }

    fn size(&self, _: &Numbers) -> Result<BloomSize, String> {
        Ok(self.size)
    }

    fn end(&self, size: BloomSize) -> u64 {
        size.bits.min(HASH + 1)
    }

    /// Hashes of short ids are small numbers. And with one bit an id more, all others are the same.
    fn is_even(&self) -> bool {
        false
    }

    /// A hash that is smaller than any number of bits is the bit itself.
    fn shows_numbers(&self, id: &[u8]) -> bool {
        let largest = self.size.bits.min(HASH / 2);
        seeds().take(self.size.hashes as usize).any(|seed| bkdr(id, seed) >= largest)
    }

    fn instance(&self, id: &[u8]) -> usize {
        (u64::from(crc32fast::hash(id)) % self.instances()) as usize
    }

    fn place(&self, size: BloomSize, id: &[u8]) -> Place {
        let pair = u64::from(crc32fast::hash(id)) % self.pairs();
        let bits = seeds().take(size.hashes as usize).map(|seed| bkdr(id, seed) % size.bits);
        Place { key: pair as usize, bits: bits.collect(), id: Box::default() }
    }
}

/// 31, 131, 1313, 13131 and so on.
fn seeds() -> impl Iterator<Item = u64> {
    let next = |seed: &u64| Some(seed * 10 + if seed % 10 == 1 { 3 } else { 1 });
    std::iter::once(31).chain(std::iter::successors(Some(131), next))
}

/// Hashes as PHP does: in integers while they hold the product, and in doubles beyond.
fn bkdr(id: &[u8], seed: u64) -> u64 {
    id.iter().fold(0, |hash: u64, byte| {
        let product = u128::from(hash) * u128::from(seed);
        let rounded = match i64::try_from(product) {
            Ok(product) => product as f64,
            Err(_) => hash as f64 * seed as f64,
        };
        ((rounded as u128 as u64 & HASH) + u64::from(*byte)) & HASH
    })
}
