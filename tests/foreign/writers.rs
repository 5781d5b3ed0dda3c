//! The other systems: they write with plain commands, where their layouts say, and know nothing of the guard.
//!
//! Positions are computed here once more, from the layouts' descriptions. Only the hash functions are shared with the
//! crate under test, and those are held against vectors.

use std::io::Cursor;

use bloom_guard::ForeignFilter;
use redis::Pipeline;
use support::redis_server::RedisServer;

/// A filter of one of the systems.
pub(crate) struct Writer {
    pub(crate) name: &'static str,
    /// The size that it has.
    pub(crate) bits: u64,
    pub(crate) hashes: u32,
    key: fn(&[u8]) -> String,
    places: fn(&Writer, &[u8]) -> Vec<u64>,
    /// What a client does before it first writes.
    pub(crate) begin: Vec<Vec<String>>,
    pub(crate) filter: ForeignFilter,
}

impl Writer {
    /// All of them, each for so many ids.
    pub(crate) fn all(ids: u64) -> Vec<Self> {
        vec![Self::go_zero(ids)]
    }

    pub(crate) fn go_zero(ids: u64) -> Self {
        Self {
            name: "go-zero",
            bits: 20 * ids,
            hashes: 14,
            key: |_| "bloom:users".to_owned(),
            places: |this, id| {
                let bit = |number| murmur3(&[id, &[number]].concat()).0 % this.bits;
                (0..14).map(bit).collect()
            },
            begin: Vec::new(),
            filter: ForeignFilter::go_zero("bloom:users", 20 * ids),
        }
    }

    /// The key that an id's bits are in.
    pub(crate) fn key(&self, id: u64) -> String {
        (self.key)(id.to_string().as_bytes())
    }

    /// Where an id's bits are.
    pub(crate) fn bits_of(&self, id: u64) -> Vec<u64> {
        (self.places)(self, id.to_string().as_bytes())
    }

    /// Writes ids as the system does.
    pub(crate) fn write(&self, server: &RedisServer, ids: impl IntoIterator<Item = u64>) {
        let mut connection = server.connection();
        for command in &self.begin {
            redis::Cmd::new().arg(command).exec(&mut connection).expect("a client's beginning");
        }
        let ids: Vec<u64> = ids.into_iter().collect();
        for ids in ids.chunks(1_000) {
            let mut pipeline = Pipeline::new();
            for id in ids {
                let key = self.key(*id);
                for bit in self.bits_of(*id) {
                    pipeline.cmd("SETBIT").arg(&key).arg(bit).arg(1).ignore();
                }
            }
            pipeline.exec(&mut connection).expect("a bitmap");
        }
    }

    /// Whether an id is there, as the system reads it.
    pub(crate) fn reads(&self, server: &RedisServer, id: u64) -> bool {
        let mut pipeline = Pipeline::new();
        for bit in self.bits_of(id) {
            pipeline.cmd("GETBIT").arg(self.key(id)).arg(bit);
        }
        let bits: Vec<u8> = pipeline.query(&mut server.connection()).expect("a bitmap");
        !bits.contains(&0)
    }

    /// The false-positive rate that the layout's own formula gives.
    pub(crate) fn rate(&self, ids: u64) -> f64 {
        let k = f64::from(self.hashes);
        (1.0 - (-k * ids as f64 / self.bits as f64).exp()).powf(k)
    }
}

pub(crate) fn murmur3(bytes: &[u8]) -> (u64, u64) {
    let hash = murmur3::murmur3_x64_128(&mut Cursor::new(bytes), 0).expect("memory can be read");
    (hash as u64, (hash >> 64) as u64)
}
