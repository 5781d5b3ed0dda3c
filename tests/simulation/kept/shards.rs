//! A filter in shards.

use super::{CONFIG, DRAWN_UP, create, plan};
use crate::net::{Effect, Trap};
use crate::plan::{Config, Flavour, Mishap, Plan, What};

/// Not among the first rows.
const ID: u64 = 8;

/// Two processes, and a filter in two shards.
const SHARDS: Config = Config { shards: 2, flavour: Flavour::Evicting, ..CONFIG };

/// The connection for inserts breaks. As the next one joins the first shard, Redis begins to read its dump, so that it
/// cannot join the second one. The process's other connections have joined both.
pub(super) fn joined_in_part() -> Plan {
    let trap = |on, effect| What::Trap(Trap { on, instance: Some(0), effect, times: 1 });
    let operations = [
        // Redis knows the script from then on.
        (6000, create(1, ID + 1, 0, 1)),
        (8050, trap("add.lua", Effect::LoseReply)),
        (8050, trap("join.lua", Effect::Then(Mishap::Loading(90)))),
        (8050, create(0, ID, 0, 1)),
        (12_000, What::Check { instance: 0, id: ID }),
    ];
    plan(DRAWN_UP + 24, SHARDS, operations)
}
