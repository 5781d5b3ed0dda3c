//! The PHP article's filter: BKDR hashes, and in its third version spread over instances and keys.

use super::filter::{ForeignFilter, Numbers};
use super::layout::{Bits, BloomSize, Layout, MOST_BITS};

/// Seeds that are known to hash as PHP does. The next ones do not fit PHP's integers.
const MOST_HASHES: u64 = 16;
/// The hash has 31 bits: the others of a larger filter stay clear, as if it had no more.
const HASH: u64 = (1 << 31) - 1;

#[derive(Debug)]
struct PhpBkdr {
    keys: u64,
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
        let filter = Self::bkdr(vec![(0, key.to_owned())], bits, hashes);
        filter.bounded("bits of php_bkdr", bits, 1, MOST_BITS)
    }

    /// A filter of the PHP article, third version. The first instance is the guard's [`redis`](crate::Builder::redis),
    /// `others` are the URLs of the further ones, in the article's order. The keys are `name` with `.0`, `.1` and so on:
    /// more than one where an instance has more than 2³² bits.
    #[must_use]
    pub fn php_bkdr_sharded(name: &str, bits: u64, hashes: u32, others: &[&str]) -> Self {
        let instances = others.len() as u64 + 1;
        let most = bits.min(64 * MOST_BITS);
        let keys = if bits > MOST_BITS { most.div_ceil(instances).div_ceil(MOST_BITS) } else { 1 };
        // One hash chooses both: there are as many pairs as it can name.
        let pairs = (1..=keys).map(|times| times * instances).find(|pairs| pairs % keys == 0);
        let key = |pair| ((pair % instances) as usize, format!("{name}.{}", pair % keys));
        Self::bkdr((0..pairs.unwrap_or(1)).map(key).collect(), bits, hashes)
            .bounded("bits of php_bkdr_sharded", bits, 1, 64 * MOST_BITS)
            .bounded("instances of php_bkdr_sharded", instances, 1, 64)
            .on_instances(others)
    }

    fn bkdr(keys: Vec<(usize, String)>, bits: u64, hashes: u32) -> Self {
        let size = BloomSize { bits: bits.min(HASH + 1), hashes };
        let layout = PhpBkdr { keys: keys.len() as u64 };
        let mut filter = Self::new("PHP BKDR", "", Numbers::Given(size), layout);
        filter.keys = keys;
        let setting = "hashes of a filter with BKDR hashes";
        filter.bounded(setting, hashes.into(), 1, MOST_HASHES)
    }
}

impl Layout for PhpBkdr {
    fn key(&self, id: &[u8]) -> usize {
        (u64::from(crc32fast::hash(id)) % self.keys) as usize
    }

    fn bits(&self, size: BloomSize, id: &[u8]) -> Bits {
        hashes(id).take(size.hashes as usize).map(|hash| hash % size.bits).collect()
    }

    /// Hashes of short ids are small numbers, and one bit an id more leaves all others as they are.
    fn is_even(&self) -> bool {
        false
    }

    /// A hash below any number of bits is the bit itself.
    fn shows_numbers(&self, size: BloomSize, id: &[u8]) -> bool {
        let largest = size.bits.min(HASH / 2);
        hashes(id).take(size.hashes as usize).any(|hash| hash >= largest)
    }
}

/// Returns an id's hashes, with the seeds 31, 131, 1313, 13131 and so on.
fn hashes(id: &[u8]) -> impl Iterator<Item = u64> {
    let next = |seed: &u64| Some(seed * 10 + if seed % 10 == 1 { 3 } else { 1 });
    let seeds = std::iter::once(31).chain(std::iter::successors(Some(131), next));
    seeds.map(move |seed| bkdr(id, seed))
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
