//! The store in Redis, shared by all instances of a service.
//!
//! | file or room | what |
//! |---|---|
//! | `check/` | what is known of ids, in one round trip |
//! | `add` | inserts: acknowledged when every filter that needs them has them |
//! | `null` | ids that were found missing |
//! | `fleet` | what the metadata say to all processes: the mode, until when the filter settles, how far back the journal reaches |
//! | `change_fleet` | changes that |
//! | `distrust` | puts a filter out of use that was found incomplete |
//! | `sample` | looks whether the filter holds what the journal does |
//! | `view`, `keys`, `letters` | what a filter's keys are called, and what they hold |
//! | `shard` | a shard of the filter: its keys, its node, and what this process knows of them |
//! | `connection` | a connection by which a shard is asked: its node, its link, and what was learnt as it joined |
//! | `shards` | all of them: which one an id is in, and how they stand together |
//! | `together` | how several shards stand that are one filter |
//! | `groups` | which shards are on which node |
//! | `regroup` | keeps them in the groups of the nodes that serve their slots |
//! | `settings_mismatch` | tells that other processes, or Redis, have other settings |
//! | `copy/` | a copy of the filter in this process: what it holds passes, and nobody is asked |
//! | `incarnation/` | another Redis than before, and inserts that it may lack |
//! | `rebuild/` | one rebuild, step by step |
//!
//! Files import each other without circles. `incarnation/` does not know `rebuild/`.

mod add;
mod change_fleet;
mod check;
mod connection;
mod copy;
mod distrust;
pub(crate) mod fleet;
mod groups;
mod incarnation;
pub(crate) mod keys;
mod letters;
mod null;
mod rebuild;
mod regroup;
mod sample;
mod settings_mismatch;
mod shard;
mod shards;
mod together;
mod view;

pub(crate) use rebuild::RedisBuild;
pub(crate) use shards::Shards;
