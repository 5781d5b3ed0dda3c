//! The store in Redis, shared by all instances of a service.
//!
//! Files import each other without circles. `incarnation/` does not know `rebuild/`.

mod add;
mod change_fleet;
mod check;
mod common;
mod connection;
mod copy;
mod distrust;
pub(crate) mod fleet;
mod groups;
mod incarnation;
pub(crate) mod keys;
mod null;
mod rebuild;
mod regroup;
mod shard;
mod shards;
mod together;
mod view;

pub(crate) use rebuild::RedisBuild;
pub(crate) use shards::Shards;
