//! Filters that other systems write: bit for bit as they do, and never a false 404, whatever becomes of the keys.

mod copies;
mod findings;
mod guarded;
mod hostile;
mod numbers;
mod plain;
mod rates;
mod redisbloom;
#[path = "../../benches/peers/src/redisbloom_module.rs"]
mod redisbloom_module;
mod refill;
mod rights;
mod spread;
mod vectors;
mod writers;
