//! Guava's Bloom filter on a bitmap, as two widely copied articles bring it to Redis: one with Jedis and Guava's 64-bit
//! strategy, one with Spring's `RedisTemplate` and its 32-bit strategy.

use std::time::Duration;

use ::redis::{Cmd, cmd};

use super::filter::ForeignFilter;
use super::layout::{Layout, Numbers, Place, murmur3, set_bits};
use super::size::BloomSize;

/// Which of Guava's strategies places the bits.
#[derive(Debug, Clone, Copy)]
enum Strategy {
    /// `MURMUR128_MITZ_64`, as the article with Jedis has it.
    Mitz64,
    /// `MURMUR128_MITZ_32`, as the article with `RedisTemplate` has it.
    Mitz32,
}

#[derive(Debug)]
struct Guava {
    strategy: Strategy,
    key: String,
    size: BloomSize,
    expiry: Option<Duration>,
}

impl ForeignFilter {
    /// A filter of the article with Jedis, for `ids` ids at a rate. Its key in Redis is `bf:` and `key`. `expiry` is the
    /// life that each insert gives the key anew, in whole seconds.
    #[must_use]
    pub fn jedis(key: &str, ids: u64, rate: f64, expiry: Option<Duration>) -> Self {
        let seconds = expiry.map_or(1, |expiry| expiry.as_secs());
        Self::guava(Strategy::Mitz64, format!("bf:{key}"), ids, rate, expiry).bounded(
            "expiry of jedis, in seconds",
            seconds,
            1,
            i32::MAX as u64,
        )
    }

    /// A filter of the article with `RedisTemplate`, for `ids` ids at a rate. The template's key serializer has to be
    /// `StringRedisSerializer`: with the default one, the article's reads and writes go to two different keys.
    #[must_use]
    pub fn redis_template(key: &str, ids: u64, rate: f64) -> Self {
        Self::guava(Strategy::Mitz32, key.to_owned(), ids, rate, None)
    }

    fn guava(
        strategy: Strategy,
        key: String,
        ids: u64,
        rate: f64,
        expiry: Option<Duration>,
    ) -> Self {
        let size = BloomSize::guava(ids, rate);
        Self::new(Guava { strategy, key, size, expiry })
            .rated("a filter of Guava's", ids, rate)
            .bounded("bits of a filter of Guava's", size.bits, 1, i32::MAX as u64)
    }
}

impl Layout for Guava {
    fn keys(&self) -> Vec<(usize, String)> {
        vec![(0, self.key.clone())]
    }

    fn size(&self, _: &Numbers) -> Result<BloomSize, String> {
        Ok(self.size)
    }

    fn place(&self, size: BloomSize, id: &[u8]) -> Place {
        let (h1, h2) = murmur3(id);
        match self.strategy {
            Strategy::Mitz64 => {
                let hash = |number| h1.wrapping_add(u64::from(number).wrapping_mul(h2));
                let bit = |number| (hash(number) & (u64::MAX >> 1)) % size.bits;
                Place::in_only((0..size.hashes).map(bit))
            }
            Strategy::Mitz32 => {
                let (low, high) = (h1 as i32, (h1 >> 32) as i32);
                let hash = |number: u32| low.wrapping_add(high.wrapping_mul(number as i32));
                let positive = |hash: i32| if hash < 0 { !hash } else { hash };
                let bit = |number| u64::from(positive(hash(number)).cast_unsigned()) % size.bits;
                Place::in_only((1..=size.hashes).map(bit))
            }
        }
    }

    fn add(&self, _: BloomSize, key: &str, places: &[Place]) -> Vec<Cmd> {
        let expire = |life: Duration| cmd("EXPIRE").arg(key).arg(life.as_secs()).clone();
        places.iter().map(|place| set_bits(key, place)).chain(self.expiry.map(expire)).collect()
    }
}
