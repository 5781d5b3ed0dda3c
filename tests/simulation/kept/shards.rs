//! A filter in shards.

use super::{CONFIG, DRAWN_UP, create, plan};
use crate::net::{AGAIN, Effect, Trap};
use crate::plan::{Config, Create, Flavour, Mishap, Old, Plan, What};
use crate::shards::of_so_many;

/// Not among the first rows.
const ID: u64 = 8;

/// Two processes, and a filter in two shards.
const SHARDS: Config = Config { shards: 2, flavour: Flavour::Evicting, ..CONFIG };

/// The connection for inserts breaks. As the next one joins the first shard, Redis begins to read its dump, so that it
/// cannot join the second one. The process's other connections have joined both. Then it inserts into both shards at once.
pub(super) fn joined_in_part() -> Plan {
    const MANY: u64 = 8;
    let ids = ID + 2..ID + 2 + MANY;
    let create_many = Create { ids: ids.clone(), ..Create::of(ID, 1) };
    let trap = |on, effect| What::Trap(Trap { on, instance: Some(0), effect, times: 1 });
    let mut operations = vec![
        // Redis knows the script from then on.
        (6000, create(1, ID + 1, 0, 1)),
        (8050, trap("add.lua", Effect::LoseReply)),
        (8050, trap("join.lua", Effect::Then(Mishap::Loading(90)))),
        (8050, create(0, ID, 0, 1)),
        (8300, What::Create { instance: 0, create: create_many }),
        (12_000, What::Check { instance: 0, id: ID }),
    ];
    operations.extend(ids.map(|id| (8700, What::Check { instance: 1, id })));
    operations.sort_by_key(|(at, _)| *at);
    plan(DRAWN_UP + 24, SHARDS, operations)
}

/// Returns the first id of a shard that is not among the first rows.
fn of_shard(shard: u32) -> u64 {
    let first_rows: Vec<u64> =
        (0..SHARDS.initial).map(|n| n * SHARDS.pool / SHARDS.initial).collect();
    let is_new = |id: &u64| !first_rows.contains(id) && of_so_many(*id, SHARDS.shards) == shard;
    (0..SHARDS.pool).find(is_new).expect("there are many ids")
}

/// A process is cut off while one shard loses an insert of its, with all else, and until a filter without it is live there
/// and its row is committed. When it is back, it is asked for ids of both shards at once, before its replay to that one. The
/// other process, which cannot know of the row, is cut off meanwhile.
pub(super) fn lost_in_one() -> Plan {
    let (other, lost) = (of_shard(0), of_shard(1));
    let trap = |on, instance, effect, times| {
        What::Trap(Trap { on, instance: Some(instance), effect, times })
    };
    let check = |instance, id| What::Check { instance, id };
    let mut operations = vec![
        (6000, create(0, other, 0, 1)),
        (6950, create(0, lost, 0, 2400)),
        (7000, trap("", 0, Effect::FallSilent(3300), 1)),
        (7010, What::Redis(Mishap::OfShard(1, Box::new(Mishap::FlushAll)))),
        (10_150, trap("", 1, Effect::FallSilent(2000), 1)),
        (10_150, trap(AGAIN, 0, Effect::DelayRequest(60), 3)),
        (10_150, trap("check", 0, Effect::DelayReply(10), 2000)),
        (10_160, check(1, other)),
    ];
    operations
        .extend((10_300..11_600).flat_map(|at| [(at, check(0, other)), (at, check(0, lost))]));
    plan(DRAWN_UP + 25, SHARDS, operations)
}

/// The live filters are away for one command of a batch, again and again; each has vouched for itself just before.
pub(super) fn away_in_a_batch() -> Plan {
    let trap = |effect, times| What::Trap(Trap { on: "check", instance: Some(0), effect, times });
    // As many as there were as the run began.
    let rows = || (0..SHARDS.initial).map(|n| n * SHARDS.pool / SHARDS.initial);
    let check = |id| What::Check { instance: 0, id };
    let mut operations = Vec::new();
    for at in (8000..10_000).step_by(100) {
        // Two are under way, so that the others wait, and are one batch.
        operations.push((at, trap(Effect::DelayReply(5), 2)));
        operations.push((at, check(0)));
        operations.push((at + 1, check(10)));
        operations.push((at + 2, trap(Effect::Blink, 1)));
        operations.extend(rows().map(|id| (at + 2, check(id))));
    }
    // All heals with the last.
    operations.push((10_000, check(0)));
    plan(DRAWN_UP + 26, SHARDS, operations)
}

/// While the filter settles, a program that does not insert creates a row. The first rebuild after that ends with its process
/// when it has put the first shard live: the other one, in which the row is, goes on settling, with the filter of before.
pub(super) fn settled_one_by_one() -> Plan {
    const SETTLE: u64 = 12_000;
    let id = of_shard(1);
    let trap = Trap { on: "swap.lua", instance: None, effect: Effect::SenderDies, times: 1 };
    let mut operations =
        vec![(5000, What::Stranger { id, hold: 0 }), (SETTLE - 100, What::Trap(trap))];
    let checks = (SETTLE..SETTLE + 6000).step_by(200);
    operations
        .extend(checks.flat_map(|at| [0, 1].map(|instance| (at, What::Check { instance, id }))));
    plan(DRAWN_UP + 27, Config { settle: SETTLE, ..SHARDS }, operations)
}

/// A shard goes to another node, where a process inserts a row. The other one stands still meanwhile, and goes on as
/// that node fails over to data without the row, and the shard returns with those. Of two batches that it sends just
/// then one is told that the shard is elsewhere, and the next one is answered by it. It is the last of the filter's shards.
pub(super) fn back_before_a_batch_arrives(number: u64, shards: u32) -> Plan {
    const LEFT: u64 = 6250;
    const BACK: u64 = LEFT + 2400;
    let shard = shards - 1;
    let id = if shards > 1 { of_shard(shard) } else { ID };
    let trap = |effect| What::Trap(Trap { on: "check", instance: Some(0), effect, times: 1 });
    let at_new_node = |mishap| What::Redis(Mishap::AtNode(2, Box::new(mishap)));
    let check = || What::Check { instance: 0, id };
    let operations = [
        (LEFT, What::Pause { instance: 0, for_ms: BACK - LEFT }),
        (LEFT + 10, What::Redis(Mishap::Leave(shard, 2))),
        (LEFT + 10, What::Redis(Mishap::Gossip)),
        (LEFT + 10, at_new_node(Mishap::Dump)),
        (BACK - 300, create(1, id, 0, 1)),
        (BACK, trap(Effect::DelayReply(1))),
        (BACK, trap(Effect::DelayRequest(12))),
        (BACK, check()),
        (BACK, check()),
        (BACK + 8, at_new_node(Mishap::FailOver { from_dump: true, old: Old::Ends })),
        (BACK + 8, What::Redis(Mishap::Leave(shard, shard as usize))),
        (BACK + 1000, check()),
    ];
    plan(DRAWN_UP + number, Config { cluster: true, shards, ..SHARDS }, operations)
}
