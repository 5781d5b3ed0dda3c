//! Where the libraries put an id's bits, and a bitmap filled that way without their help.
//!
//! All hash with MurmurHash3 x64-128, also Redisson's: its HighwayHash is as good, and not what is compared.

use std::f64::consts::LN_2;
use std::io::Cursor;

/// Bytes of one SETRANGE.
const PIECE: usize = 256 * 1024;

/// A classic Bloom filter's size and rule.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    pub bits: u64,
    pub hashes: u32,
    rule: Rule,
}

#[derive(Debug, Clone, Copy)]
enum Rule {
    /// One hash a bit, of the id and the bit's number.
    Salted,
    /// h1 + i·h2.
    Double,
    /// From h1 on, h2 and h1 are added in turn.
    Alternating,
}

impl Layout {
    /// go-zero: always 14 hashes; its documentation advises 20 bits an id.
    pub fn go_zero(ids: u64) -> Self {
        Self { bits: 20 * ids, hashes: 14, rule: Rule::Salted }
    }

    /// rueidisprob: the classic optimum, rounded up.
    pub fn rueidisprob(ids: u64, rate: f64) -> Self {
        let bits = optimum(ids, rate).ceil() as u64;
        Self { bits, hashes: best_hashes(bits, ids), rule: Rule::Double }
    }

    /// Redisson: the classic optimum, cut off.
    pub fn redisson(ids: u64, rate: f64) -> Self {
        let bits = optimum(ids, rate) as u64;
        Self { bits, hashes: best_hashes(bits, ids).max(1), rule: Rule::Alternating }
    }

    /// As few bits as hold the rate with so many hashes.
    pub fn with_hashes(ids: u64, rate: f64, hashes: u32) -> Self {
        let k = f64::from(hashes);
        let bits = -k * ids as f64 / (1.0 - rate.powf(1.0 / k)).ln();
        Self { bits: bits.ceil() as u64, hashes, rule: Rule::Double }
    }

    /// Returns the false-positive rate to expect with so many ids.
    pub fn rate(&self, ids: u64) -> f64 {
        let k = f64::from(self.hashes);
        (1.0 - (-k * ids as f64 / self.bits as f64).exp()).powf(k)
    }

    /// Returns the offsets of an id's bits.
    pub fn offsets(self, id: u64) -> impl Iterator<Item = u64> {
        let mut text = id.to_string().into_bytes();
        let len = text.len();
        let (h1, h2) = murmur3(&text);
        let mut alternating = h1;
        (0..self.hashes).map(move |i| match self.rule {
            Rule::Salted => {
                text.truncate(len);
                text.push(i as u8);
                murmur3(&text).0 % self.bits
            }
            Rule::Double => h1.wrapping_add(u64::from(i).wrapping_mul(h2)) % self.bits,
            Rule::Alternating => {
                let offset = (alternating & (u64::MAX >> 1)) % self.bits;
                alternating = alternating.wrapping_add(if i % 2 == 0 { h2 } else { h1 });
                offset
            }
        })
    }

    /// Puts a bitmap of the ids from 0 up to `ids` under a key.
    pub fn fill(self, ids: u64, key: &str, connection: &mut redis::Connection) {
        let mut bitmap = vec![0_u8; self.bits.div_ceil(8) as usize];
        for offset in (0..ids).flat_map(|id| self.offsets(id)) {
            bitmap[(offset / 8) as usize] |= 0x80 >> (offset % 8);
        }
        for (number, piece) in bitmap.chunks(PIECE).enumerate() {
            let mut command = redis::cmd("SETRANGE");
            command.arg(key).arg(number * PIECE).arg(piece);
            command.exec(connection).expect("room for it");
        }
    }
}

/// −n·ln p / ln²2.
fn optimum(ids: u64, rate: f64) -> f64 {
    -(ids as f64) * rate.ln() / (LN_2 * LN_2)
}

fn best_hashes(bits: u64, ids: u64) -> u32 {
    (bits as f64 / ids as f64 * LN_2).round() as u32
}

fn murmur3(bytes: &[u8]) -> (u64, u64) {
    let hash = murmur3::murmur3_x64_128(&mut Cursor::new(bytes), 0).expect("memory can be read");
    (hash as u64, (hash >> 64) as u64)
}
