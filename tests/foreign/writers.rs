//! The other systems: they write with plain commands, where their layouts say, and know nothing of the guard.
//!
//! Positions are computed here once more, from the layouts' descriptions. Only the hash functions are shared with the
//! crate under test, and those are held against vectors.

use std::f64::consts::LN_2;
use std::io::Cursor;
use std::path::Path;
use std::sync::Mutex;

use bloom_guard::ForeignFilter;
use highway::{HighwayHash, HighwayHasher, Key};
use redis::Pipeline;
use support::redis_server::RedisServer;

use crate::redisbloom_module::module;

/// The rate that the filters are sized for.
pub(crate) const RATE: f64 = 0.01;

/// A filter of one of the systems.
pub(crate) struct Writer {
    pub(crate) name: &'static str,
    /// The size that it has.
    pub(crate) bits: u64,
    pub(crate) hashes: u32,
    pub(crate) key: &'static str,
    /// The hash with the filter's numbers, and what is in it.
    pub(crate) config: Option<(&'static str, Vec<(&'static str, String)>)>,
    /// Where an id's bits are; none where a module of Redis hashes the id.
    places: fn(&Writer, &[u8]) -> Vec<u64>,
    filter: Box<dyn Fn() -> ForeignFilter + Send + Sync>,
}

impl Writer {
    /// All of them, each for so many ids.
    pub(crate) fn all(ids: u64) -> Vec<Self> {
        let articles = [Self::jedis(ids), Self::redis_template(ids), Self::php_bkdr(ids)];
        let libraries = [Self::go_zero(ids), Self::redisson(ids), Self::rueidisprob(ids)];
        libraries.into_iter().chain(articles).chain([Self::orestes(ids)]).collect()
    }

    pub(crate) fn go_zero(ids: u64) -> Self {
        let bits = 20 * ids;
        Self {
            name: "go-zero",
            bits,
            hashes: 14,
            key: "bloom:users",
            config: None,
            places: |this, id| {
                let bit = |number| murmur3(&[id, &[number]].concat()).0 % this.bits;
                (0..14).map(bit).collect()
            },
            filter: Box::new(move || ForeignFilter::go_zero("bloom:users", bits)),
        }
    }

    pub(crate) fn redisson(ids: u64) -> Self {
        let bits = optimum(ids) as u64;
        let config = [
            ("size", bits.to_string()),
            ("hashIterations", "7".to_owned()),
            ("expectedInsertions", ids.to_string()),
            ("falseProbability", RATE.to_string()),
        ];
        Self {
            name: "Redisson",
            bits,
            hashes: 7,
            key: "users",
            config: Some(("{users}:config", config.into())),
            places: |this, id| {
                let key = Key([
                    0x9e37_79b9_7f4a_7c15,
                    0xf39c_c060_5ced_c834,
                    0x1082_276b_f3a2_7251,
                    0xf86c_6a11_d0c1_8e95,
                ]);
                let [h1, h2] = HighwayHasher::new(key).hash128(id);
                let sums = [0, 1, 1, 2, 2, 3, 3].into_iter().zip([1, 1, 2, 2, 3, 3, 4]);
                let hash = |(twos, ones): (u64, u64)| {
                    h1.wrapping_mul(ones).wrapping_add(h2.wrapping_mul(twos))
                };
                sums.map(|sum| (hash(sum) & i64::MAX as u64) % this.bits).collect()
            },
            filter: Box::new(|| ForeignFilter::redisson("users")),
        }
    }

    pub(crate) fn rueidisprob(ids: u64) -> Self {
        Self {
            name: "rueidisprob",
            bits: optimum(ids).ceil() as u64,
            hashes: 7,
            key: "{users}",
            config: None,
            places: |this, id| {
                let (h1, h2) = murmur3(id);
                (0..7).map(|i: u64| h1.wrapping_add(i.wrapping_mul(h2)) % this.bits).collect()
            },
            filter: Box::new(move || ForeignFilter::rueidisprob("users", ids, RATE)),
        }
    }

    pub(crate) fn jedis(ids: u64) -> Self {
        Self {
            name: "Jedis",
            bits: optimum(ids) as u64,
            hashes: 7,
            key: "bf:users",
            config: None,
            places: |this, id| {
                let (mut hash, step) = murmur3(id);
                let mut bits = Vec::new();
                for _ in 0..7 {
                    bits.push((hash & i64::MAX as u64) % this.bits);
                    hash = hash.wrapping_add(step);
                }
                bits
            },
            filter: Box::new(move || ForeignFilter::jedis("users", ids, RATE, None)),
        }
    }

    pub(crate) fn redis_template(ids: u64) -> Self {
        Self {
            name: "RedisTemplate",
            bits: optimum(ids) as u64,
            hashes: 7,
            key: "users:template",
            config: None,
            places: |this, id| {
                let hash = murmur3(id).0;
                let (one, other) = (hash as u32 as i32, (hash >> 32) as u32 as i32);
                let mut bits = Vec::new();
                for i in 1..=7 {
                    let mut sum = one.wrapping_add(i32::wrapping_mul(i, other));
                    if sum < 0 {
                        sum = !sum;
                    }
                    bits.push(sum as u64 % this.bits);
                }
                bits
            },
            filter: Box::new(move || ForeignFilter::redis_template("users:template", ids, RATE)),
        }
    }

    /// Hashes in integers where PHP has doubles: equal for the first seeds.
    pub(crate) fn php_bkdr(ids: u64) -> Self {
        let bits = 20 * ids;
        Self {
            name: "PHP BKDR",
            bits,
            hashes: 4,
            key: "BF@20261122",
            config: None,
            places: |this, id| {
                let hash = |seed: u64| {
                    let step =
                        |hash: u64, byte: &u8| (hash * seed + u64::from(*byte)) & 0x7fff_ffff;
                    id.iter().fold(0, step)
                };
                [31, 131, 1_313, 13_131].map(|seed| hash(seed) % this.bits).to_vec()
            },
            filter: Box::new(move || ForeignFilter::php_bkdr("BF@20261122", bits, 4)),
        }
    }

    pub(crate) fn orestes(ids: u64) -> Self {
        let bits = optimum(ids).ceil() as u64;
        let config = [
            ("p", RATE.to_string()),
            ("m", bits.to_string()),
            ("k", "7".to_owned()),
            ("n", ids.to_string()),
            ("hashmethod", "Murmur3KirschMitzenmacher".to_owned()),
        ];
        Self {
            name: "Orestes",
            bits,
            hashes: 7,
            key: "orestes:bits",
            config: Some(("orestes", config.into())),
            places: |this, id| {
                let murmur =
                    |seed| murmur3::murmur3_32(&mut Cursor::new(id), seed).expect("memory");
                let one = murmur(0);
                let other = murmur(one);
                (0..7).map(|i: u64| (u64::from(one) + i * u64::from(other)) % this.bits).collect()
            },
            filter: Box::new(|| ForeignFilter::orestes("orestes")),
        }
    }

    pub(crate) fn redisbloom() -> Self {
        Self {
            name: "RedisBloom",
            bits: 0,
            hashes: 0,
            key: "users:module",
            config: None,
            places: |_, _| Vec::new(),
            filter: Box::new(|| ForeignFilter::redisbloom("users:module")),
        }
    }

    /// Starts a server that the system can write to.
    pub(crate) fn server(&self) -> RedisServer {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        if self.bits > 0 {
            return RedisServer::start();
        }
        let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/redisbloom.so");
        let found = {
            let _fetches = ONE_AT_A_TIME.lock();
            module(kept)
        };
        let module =
            found.unwrap_or_else(|why| panic!("RedisBloom cannot be had from PyPI: {why}"));
        RedisServer::with(&["--loadmodule", module.to_str().expect("a path in UTF-8")])
    }

    /// The key of the statement.
    pub(crate) fn statement(&self) -> String {
        let is_tagged = self.key.contains('{');
        let key = if is_tagged { self.key.to_owned() } else { format!("{{{}}}", self.key) };
        format!("{key}:bg:trust")
    }

    /// What the guard is told of it.
    pub(crate) fn filter(&self) -> ForeignFilter {
        (self.filter)()
    }

    /// Where an id's bits are.
    pub(crate) fn bits_of(&self, id: u64) -> Vec<u64> {
        (self.places)(self, id.to_string().as_bytes())
    }

    /// Writes ids as the system does.
    pub(crate) fn write(&self, server: &RedisServer, ids: impl IntoIterator<Item = u64>) {
        self.write_to(self.key, server, ids);
    }

    /// The same to another key.
    pub(crate) fn write_to(
        &self,
        key: &str,
        server: &RedisServer,
        ids: impl IntoIterator<Item = u64>,
    ) {
        let ids: Vec<u64> = ids.into_iter().collect();
        let mut connection = server.connection();
        if let Some((key, fields)) = &self.config {
            redis::cmd("HSET").arg(key).arg(fields).exec(&mut connection).expect("a hash");
        }
        self.try_write(key, &mut connection, &ids).expect("a filter");
    }

    /// Writes ids to a filter that was initialised.
    pub(crate) fn try_write(
        &self,
        key: &str,
        connection: &mut redis::Connection,
        ids: &[u64],
    ) -> redis::RedisResult<()> {
        for ids in ids.chunks(1_000) {
            let mut pipeline = Pipeline::new();
            for bit in ids.iter().flat_map(|id| self.bits_of(*id)) {
                pipeline.cmd("SETBIT").arg(key).arg(bit).arg(1).ignore();
            }
            if self.bits == 0 {
                pipeline.cmd("BF.INSERT").arg(key).arg("CAPACITY").arg(100_000).arg("ITEMS");
                pipeline.arg(ids).ignore();
            }
            pipeline.exec(connection)?;
        }
        Ok(())
    }

    /// Whether an id is there, as the system reads it.
    pub(crate) fn reads(&self, server: &RedisServer, id: u64) -> bool {
        let mut pipeline = Pipeline::new();
        for bit in self.bits_of(id) {
            pipeline.cmd("GETBIT").arg(self.key).arg(bit);
        }
        if self.bits == 0 {
            pipeline.cmd("BF.EXISTS").arg(self.key).arg(id);
        }
        let bits: Vec<u8> = pipeline.query(&mut server.connection()).expect("a bitmap");
        !bits.contains(&0)
    }

    /// The false-positive rate that the layout's own formula gives; none for BKDR, whose hashes follow the ids.
    pub(crate) fn rate(&self, ids: u64) -> Option<f64> {
        let k = f64::from(self.hashes);
        let rate = (1.0 - (-k * ids as f64 / self.bits as f64).exp()).powf(k);
        Some(rate).filter(|_| self.name != "PHP BKDR")
    }
}

fn optimum(ids: u64) -> f64 {
    -(ids as f64) * RATE.ln() / (LN_2 * LN_2)
}

pub(crate) fn murmur3(bytes: &[u8]) -> (u64, u64) {
    let hash = murmur3::murmur3_x64_128(&mut Cursor::new(bytes), 0).expect("memory can be read");
    (hash as u64, (hash >> 64) as u64)
}
