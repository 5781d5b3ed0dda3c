//! Filters that other systems write: bit for bit as they do, and never a false 404, whatever becomes of the keys.

mod between;
mod guarded;
mod hostile;
mod layouts;
#[path = "../../benches/peers/src/redisbloom_module.rs"]
mod redisbloom_module;
mod rights;
mod trust;
mod vectors;
mod writers;
