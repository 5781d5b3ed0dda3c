//! Guava's Bloom filter on a bitmap, as two widely copied articles bring it to Redis: one with Jedis and Guava's 64-bit
//! strategy, one with Spring's `RedisTemplate` and its 32-bit strategy.

use std::time::Duration;

use ::redis::{Cmd, cmd};

use super::filter::{ForeignFilter, Numbers};
use super::layout::{Bits, BloomSize, Layout, double_hashes, murmur3, optimum, per_id, set_bits};

/// Guava's `MURMUR128_MITZ_64`.
#[derive(Debug)]
struct Jedis {
    expiry: Option<Duration>,
}

/// Guava's `MURMUR128_MITZ_32`.
#[derive(Debug)]
struct RedisTemplate;

impl ForeignFilter {
    /// A filter of the article with Jedis, for `ids` ids at a rate. Its key in Redis is `bf:` and `key`. `expiry` is the
    /// life that each insert gives the key anew, in whole seconds.
    #[must_use]
    pub fn jedis(key: &str, ids: u64, rate: f64, expiry: Option<Duration>) -> Self {
        let seconds = expiry.map_or(1, |expiry| expiry.as_secs());
        let filter = Self::guava("Jedis", &format!("bf:{key}"), ids, rate, Jedis { expiry });
        filter.bounded("expiry of jedis, in seconds", seconds, 1, i32::MAX as u64)
    }

    /// A filter of the article with `RedisTemplate`, for `ids` ids at a rate. The template's key serializer has to be
    /// `StringRedisSerializer`: with the default one, the article's reads and writes go to two different keys.
    #[must_use]
    pub fn redis_template(key: &str, ids: u64, rate: f64) -> Self {
        Self::guava("RedisTemplate", key, ids, rate, RedisTemplate)
    }

    /// Both articles cut the bits off, to no more than an `int` holds, and round the hashes, to one at the least.
    fn guava(system: &'static str, key: &str, ids: u64, rate: f64, layout: impl Layout) -> Self {
        let bits = (optimum(ids, rate) as u64).min(i32::MAX as u64);
        let hashes = (per_id(bits, ids) + 0.5).floor().max(1.0) as u32;
        Self::new(system, key, Numbers::Given(BloomSize { bits, hashes }), layout)
            .rated("a filter of Guava's", ids, rate)
            .bounded("bits of a filter of Guava's", bits, 1, i32::MAX as u64)
    }
}

impl Layout for Jedis {
    fn bits(&self, size: BloomSize, id: &[u8]) -> Bits {
        double_hashes(id, size.hashes).map(|hash| (hash & (u64::MAX >> 1)) % size.bits).collect()
    }

    fn add(&self, size: BloomSize, key: &str, ids: &[&[u8]]) -> Vec<Cmd> {
        let expire = |life: Duration| cmd("EXPIRE").arg(key).arg(life.as_secs()).clone();
        let set = |id: &&[u8]| set_bits(key, &self.bits(size, id));
        ids.iter().map(set).chain(self.expiry.map(expire)).collect()
    }
}

impl Layout for RedisTemplate {
    fn bits(&self, size: BloomSize, id: &[u8]) -> Bits {
        let hash = murmur3(id).0;
        let (low, high) = (hash as i32, (hash >> 32) as i32);
        let bit = |number: u32| {
            let hash = low.wrapping_add(high.wrapping_mul(number as i32));
            let positive = if hash < 0 { !hash } else { hash };
            u64::from(positive.cast_unsigned()) % size.bits
        };
        (1..=size.hashes).map(bit).collect()
    }
}
