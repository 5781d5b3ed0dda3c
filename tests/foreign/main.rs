//! Filters that other systems write: bit for bit as they do, and never a false 404, whatever becomes of the keys.

mod guarded;
mod hostile;
mod migration;
mod rates;
mod redisbloom;
#[path = "../../benches/peers/src/redisbloom_module.rs"]
mod redisbloom_module;
mod traffic;
mod vectors;
mod writers;
