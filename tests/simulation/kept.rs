//! Runs that once broke the promise, made small, and runs for seeded bugs that chance seldom finds.

mod copies;
mod fence;
mod fleet;
mod nulls;
mod put_back;
mod shards;
mod waits;

use crate::campaign::OPERATIONS;
use crate::net::{AGAIN, Effect, Trap};
use crate::oracle::Findings;
use crate::plan::{
    Answers, Ask, Caller, Config, Create, Flavour, Mishap, Old, Operation, Plan, Process, Rules,
    Told, What,
};
use crate::world;

/// Runs them; returns what they come to.
pub(crate) fn run() -> Findings {
    let mut findings = Findings::default();
    for plan in plans() {
        let outcome = world::run(&plan, false);
        findings.add(&outcome.findings);
        let set = plan.operations.iter().filter(|one| matches!(one.what, What::Trap(_))).count();
        let idle = set - outcome.findings.sprung;
        let idle =
            (plan.seed >= DRAWN_UP && idle > 0).then(|| format!("{idle} traps befell nobody"));
        let broken = outcome.findings.violations.into_iter().chain(idle);
        findings.violations.extend(broken.map(|what| format!("kept seed {}: {what}", plan.seed)));
    }
    findings
}

/// Seeds that once broke the promise: the clock jumps before a process begins anew, or twice; data go back, and as many inserts
/// follow before the next poll. And one that finds a seeded bug which hardly any other does: a record that is lost.
const DRAWN: [u64; 5] = [658_032, 683_281, 706_860, 753_415, 6_089];

pub(crate) fn plans() -> Vec<Plan> {
    let drawn = DRAWN.map(|seed| Plan::draw_plain(seed, OPERATIONS));
    drawn.into_iter().chain(drawn_up()).collect()
}

fn drawn_up() -> Vec<Plan> {
    vec![
        forgotten_creates(),
        older_record(),
        null_of_an_earlier_filter(),
        late_acknowledgement(),
        filter_put_aside(),
        live_filter_put_aside(),
        late_swap(),
        answer_from_before_the_replay(),
        replay_after_a_slow_join(),
        late_reads_after(8246, 300),
        late_reads_after(8000, 0),
        jump_unseen_by_a_poll(),
        jump_while_its_process_is_cut_off(),
        step_that_nobody_notices(),
        second_jump_that_one_process_does_not_see(),
        jump_in_an_incarnation_not_met_yet(),
        metadata_lost_in_a_scan(),
        late_checks(),
        replaced_in_a_batch(),
        given_more_time(),
        late_answer(),
        senders_stand_still(),
        null_in_two_calls(),
        nulls_in_a_batch(),
        misread(),
        waits::works_for_moments(),
        waits::stands_still_in_a_replay(),
        waits::slow_replay(),
        waits::comes_late(),
        waits::gives_up(),
        waits::forgets(),
        waits::many_rows(),
        waits::handled_late(),
        waits::far_away(),
        fleet::open_as_the_step_begins(),
        fleet::mode_set_as_a_step_was_under_way(300),
        fleet::mode_set_as_a_step_was_under_way(0),
        fleet::mode_lost(),
        fleet::name_leads_back(),
        fleet::switched_off_under_way(),
        fleet::settles_as_data_go_back(None),
        fleet::settles_as_data_go_back(Some(0)),
        fleet::settles_as_data_go_back(Some(1)),
        fleet::settles_as_the_clock_is_set_forward(),
        fleet::longer_transactions_as_a_step_ends(),
        copies::asked_in_vain(),
        copies::read_from_another_redis(),
        copies::far_behind(),
        fence::passed_by_the_floor(),
        fence::by_more_than_a_page(),
        fence::inserts_beside_a_load(),
        nulls::not_to_be_kept(),
        nulls::written_slowly(),
        nulls::found_again_after_a_failover(),
        put_back::old_bits_refuse_no_row_that_was_inserted_since(),
        put_back::filter_that_settled_put_back_as_the_next_goes_live(),
        put_back::old_metadata_and_an_insert_before_the_next_poll(),
        put_back::old_bits_in_a_batch(),
        put_back::filter_of_before_it_had_settled(),
        shards::joined_in_part(),
        shards::lost_in_one(),
        shards::away_in_a_batch(),
        shards::settled_one_by_one(),
        shards::back_before_a_batch_arrives(77, 2),
        shards::back_before_a_batch_arrives(79, 1),
    ]
}

/// For runs that no seed has drawn.
const DRAWN_UP: u64 = 1 << 40;

/// What their processes are told, if not otherwise.
const PROCESS: Process = Process {
    capacity: 400,
    rate: 0.0002,
    longest_transaction: 4000,
    longest_rebuild: 60_000,
    handler_time: 100,
    recent_ids: 1000,
};

/// The same, with a record of the last two inserts.
const FORGETFUL: Process = Process { recent_ids: 2, ..PROCESS };

/// Two such processes, rebuilds by need only, and nothing that goes wrong by itself.
const CONFIG: Config = Config {
    instances: 2,
    version: "7.0.15",
    processes: [PROCESS; 4],
    pool: 96,
    initial: 38,
    settled: false,
    settle: 0,
    null_ttl: 5000,
    removed_ttl: 60_000,
    period: None,
    page: (100, 0),
    slow: 0,
    copies: false,
    shards: 1,
    cluster: false,
    misread_from: None,
    flavour: Flavour::Forgetful,
    rules: Rules::DEFAULT,
};

fn create(instance: usize, id: u64, before: u64, hold: u64) -> What {
    What::Create { instance, create: Create { before, ..Create::of(id, hold) } }
}

fn plan(seed: u64, config: Config, operations: impl IntoIterator<Item = (u64, What)>) -> Plan {
    let operations = operations.into_iter().map(|(at, what)| Operation { at, what }).collect();
    Plan { seed, config, operations }
}

/// A row is deleted, and created anew by a process that ends; Redis loses its data; and only then, though
/// soon enough, the deletion is told.
fn forgotten_creates() -> Plan {
    const ID: u64 = 7;
    let get = What::Ask(Ask::get(0, ID));
    let operations = [
        (8000, What::Delete { instance: 0, id: ID, takes: 0, told: Told::Later(3900) }),
        (8010, create(1, ID, 0, 1)),
        (8100, What::Crash { instance: 1 }),
        (8200, What::Redis(Mishap::Restart { from_dump: false, loading: 0 })),
        (11_800, get.clone()),
        // One of them may be let through for a look.
        (11_950, get.clone()),
        (11_950, get.clone()),
        (12_500, get),
    ];
    plan(DRAWN_UP, CONFIG, operations)
}

/// A row is deleted, which is told, and created anew. Redis fails over, and has the data of between these. The transaction of the
/// insert is over by then, so that it is not said again: the null of the earlier filter is still there.
fn null_of_an_earlier_filter() -> Plan {
    // One of the first rows.
    const ID: u64 = 7;
    // No removal is remembered before.
    let deleted = CONFIG.mark() + 1000;
    let fails_over = deleted + 6000;
    let mut operations = vec![
        (deleted, What::Delete { instance: 0, id: ID, takes: 0, told: Told::Later(0) }),
        (deleted + 100, What::Redis(Mishap::Dump)),
        (deleted + 200, create(0, ID, 0, 1)),
        (fails_over, What::Redis(Mishap::FailOver { from_dump: true, old: Old::Ends })),
    ];
    let asked = (fails_over + 2000..fails_over + 3000).step_by(100);
    operations.extend(asked.map(|at| (at, What::Check { instance: 1, id: ID })));
    plan(DRAWN_UP + 61, CONFIG, operations)
}

/// An operator puts an older copy of the record of recent inserts in its place: it lacks a row that was created anew
/// since. Then the row's earlier deletion is told.
fn older_record() -> Plan {
    const ID: u64 = 7;
    // The first time they are put aside, the second time back.
    let put = || What::Redis(Mishap::Swap(vec!["recent"]));
    let operations = [
        (2500, create(1, 8, 0, 1)),
        (2600, put()),
        (8000, What::Delete { instance: 0, id: ID, takes: 0, told: Told::Later(3900) }),
        (8010, create(1, ID, 0, 1)),
        (9000, put()),
        (11_950, What::Check { instance: 0, id: ID }),
    ];
    plan(DRAWN_UP + 20, CONFIG, operations)
}

/// A process begins anew that has more time for its requests, and misses a row that is about to appear. Its answer comes
/// when the record has dropped it.
fn given_more_time() -> Plan {
    // Not among the first rows.
    const ID: u64 = 8;
    let process = Process { longest_transaction: 1000, ..PROCESS };
    let config = Config { processes: [process; 4], flavour: Flavour::Calm, ..CONFIG };
    let after = config.mark() + 40;
    let roomy = Process { handler_time: after + 1000, ..process };
    let ask = |after| What::Ask(Ask { after, ..Ask::get(1, ID) });
    let operations = [
        (6000, create(0, ID, 0, 900)),
        (6010, What::Redeploy { instance: 1, process: roomy }),
        (6060, ask(after)),
        (6090, ask(after)),
        // One of them may be let through for a look.
        (6120 + after, What::Ask(Ask::get(0, ID))),
        (6120 + after, What::Ask(Ask::get(0, ID))),
    ];
    plan(DRAWN_UP + 8, config, operations)
}

/// A request misses a row that is about to appear. It takes longer than a handler may, and is answered when the record
/// has dropped it.
fn late_answer() -> Plan {
    const ID: u64 = 8;
    let process = Process { longest_transaction: 1000, ..PROCESS };
    let config = Config { processes: [process; 4], flavour: Flavour::Calm, ..CONFIG };
    let after = config.mark() + 40;
    let answers = Answers::Truly { marked: true, gone: false };
    let operations = [
        (6000, create(0, ID, 0, 900)),
        (6060, What::Ask(Ask { after, answers, ..Ask::get(1, ID) })),
        (6120 + after, What::Check { instance: 0, id: ID }),
    ];
    plan(DRAWN_UP + 17, config, operations)
}

/// The filter being built is put aside for a moment of the scan, in which a row's insert does not find it; the next
/// insert does. The row is committed when that filter is live.
fn filter_put_aside() -> Plan {
    const IDS: std::ops::Range<u64> = 3..5;
    let put = || What::Redis(Mishap::Swap(vec!["next"]));
    let rows = |ids, instance, hold| What::Create {
        instance,
        create: Create { ids, ..Create::of(0, hold) },
    };
    let mut operations = vec![
        (6000, rows(20..90, 1, 1)),
        (6100, What::Rebuild { instance: 1, accepting_loss: false, short: false }),
        (6200, put()),
        (6210, rows(IDS, 0, 1100)),
        (6250, put()),
        (6300, create(0, 8, 0, 1)),
    ];
    let check = |id, instance| (8260, What::Check { instance, id });
    operations.extend(IDS.flat_map(|id| [check(id, 0), check(id, 1)]));
    plan(DRAWN_UP + 2, Config { page: (2, 20), ..CONFIG }, operations)
}

/// The live filter is put aside for a moment, in which a row's insert does not find it.
fn live_filter_put_aside() -> Plan {
    const ID: u64 = 8;
    let put = || What::Redis(Mishap::Swap(vec!["bits"]));
    let check = |instance| What::Check { instance, id: ID };
    let others = (20..96).map(|id| (4500 + id * 16, create(1, id, 0, 1)));
    let mut operations: Vec<_> = others.collect();
    operations.extend([
        (6130, put()),
        (6135, create(0, ID, 0, 20)),
        (6145, put()),
        // When a poll has shown it.
        (8300, check(1)),
        (8400, check(0)),
    ]);
    plan(DRAWN_UP + 12, CONFIG, operations)
}

/// A swap is long under way, and its process cut off. What that has built is put aside meanwhile, and is back before the swap
/// arrives, when another process has put a newer filter live.
fn late_swap() -> Plan {
    const BUILT: u64 = 6000;
    let rebuild = |instance| What::Rebuild { instance, accepting_loss: false, short: false };
    let effect = Effect::DelayRequest(2500);
    let late = Trap { on: "swap.lua", instance: Some(0), effect, times: 1 };
    let put = || What::Redis(Mishap::Swap(vec!["next", "lock"]));
    let operations = [
        (BUILT, What::Trap(late)),
        (BUILT, rebuild(0)),
        (BUILT + 50, What::CutOff { instance: 0, for_ms: 4000 }),
        (BUILT + 60, put()),
        (BUILT + 500, rebuild(1)),
        (BUILT + 2000, put()),
        // All heals with the last.
        (BUILT + 3000, What::Check { instance: 1, id: 0 }),
    ];
    plan(DRAWN_UP + 58, Config { flavour: Flavour::Zombies, ..CONFIG }, operations)
}

/// An insert is acknowledged by a Redis that the process has left meanwhile, after the replay to the next one
/// has begun; and its row is committed when the next filter is live. A poll of its connections was answered so late that
/// they were given up, with the insert still under way.
fn late_acknowledgement() -> Plan {
    // Not among the first rows.
    const ID: u64 = 8;
    let late = Trap { on: "INFO", instance: Some(0), effect: Effect::DelayReply(660), times: 3 };
    let check = |instance| What::Check { instance, id: ID };
    let operations = [
        // Redis knows the script from then on.
        (6000, create(0, ID + 1, 0, 1)),
        (7000, What::Redis(Mishap::Dump)),
        (8000, What::Trap(late)),
        (8446, create(0, ID, 0, 3800)),
        (8480, What::Redis(Mishap::FailOver { from_dump: true, old: Old::Demoted })),
        (12_290, check(1)),
        (12_300, check(0)),
        (12_800, check(1)),
    ];
    plan(DRAWN_UP + 1, CONFIG, operations)
}

/// A process is cut off while Redis loses one of its inserts, and until a filter without it is live and its row is
/// committed. When it is back, its checks are asked before its replay and answered after it. The other process,
/// which cannot know of the row, is cut off meanwhile.
fn answer_from_before_the_replay() -> Plan {
    const ID: u64 = 8;
    let trap = |on, instance, effect, times| {
        What::Trap(Trap { on, instance: Some(instance), effect, times })
    };
    let check = |instance| What::Check { instance, id: ID };
    let mut operations = vec![
        (6000, What::Redis(Mishap::Dump)),
        (6950, create(0, ID, 0, 2400)),
        (7000, trap("", 0, Effect::FallSilent(3300), 1)),
        (7010, What::Redis(Mishap::FailOver { from_dump: true, old: Old::Ends })),
        (10_150, trap("", 1, Effect::FallSilent(2000), 1)),
        (10_150, trap(AGAIN, 0, Effect::DelayRequest(20), 3)),
        (10_150, trap("check", 0, Effect::DelayReply(15), 2000)),
        (10_160, check(1)),
    ];
    operations.extend((10_300..11_600).map(|at| (at, check(0))));
    plan(DRAWN_UP + 3, CONFIG, operations)
}

/// Redis loses an insert whose transaction is open. Its process joins the new one by replies that come so late that the
/// transaction may be over; the scan was before.
fn replay_after_a_slow_join() -> Plan {
    const ID: u64 = 8;
    let trap = |on, effect| What::Trap(Trap { on, instance: Some(0), effect, times: 3 });
    let check = |instance| What::Check { instance, id: ID };
    let operations = [
        (6000, What::Redis(Mishap::Dump)),
        (7350, create(0, ID, 0, 3900)),
        // Redis knows the script from others then.
        (10_940, trap("INFO", Effect::DelayReply(40))),
        (10_940, trap("join.lua", Effect::DelayReply(450))),
        (10_950, What::Redis(Mishap::FailOver { from_dump: true, old: Old::Ends })),
        (13_300, check(1)),
        (13_500, check(0)),
        (13_800, check(1)),
    ];
    plan(DRAWN_UP + 10, CONFIG, operations)
}

/// Redis loses the record when the transaction of an insert is over, or so shortly before that its process comes too late
/// to repeat it. A handler reads the database as it was before.
fn late_reads_after(created: u64, joins_late: u64) -> Plan {
    const ID: u64 = 8;
    let process = Process { longest_transaction: 1000, handler_time: 4000, ..PROCESS };
    let config = Config { processes: [process; 4], settled: true, ..CONFIG };
    let late = Effect::DelayReply(joins_late);
    let marked = Answers::Truly { marked: true, gone: false };
    let check = |instance| What::Check { instance, id: ID };
    let operations = [
        (created, create(1, ID, 0, 900)),
        (9102, What::Trap(Trap { on: "join.lua", instance: Some(1), effect: late, times: 9 })),
        (9250, What::Redis(Mishap::Restart { from_dump: false, loading: 0 })),
        (
            12_760,
            What::Ask(Ask { lag: 12_760 - created - 890, answers: marked, ..Ask::get(0, ID) }),
        ),
        (12_800, check(0)),
        (12_900, check(1)),
    ];
    plan(DRAWN_UP + 11 + joins_late, config, operations)
}

/// The record has dropped an insert whose transaction is open. Redis's clock jumps, and at the next poll Redis can tell
/// nothing but the time. By that clock, a rebuild works out whether such a transaction may be open.
fn jump_unseen_by_a_poll() -> Plan {
    const ID: u64 = 8;
    let check = |instance| What::Check { instance, id: ID };
    let others = Create { ids: 40..44, ..Create::of(40, 1) };
    let operations = [
        (6300, create(0, ID, 0, 1500)),
        (6310, What::Create { instance: 0, create: others }),
        (6630, What::Redis(Mishap::Clock(60_000))),
        (6690, What::Redis(Mishap::Loading(700))),
        (7740, What::Rebuild { instance: 1, accepting_loss: false, short: false }),
        (7850, check(0)),
        (7860, check(1)),
    ];
    plan(DRAWN_UP + 13, Config { processes: [FORGETFUL; 4], ..CONFIG }, operations)
}

/// One process is cut off while Redis's clock jumps, and the other one has an incarnation begin; then the clock jumps
/// again, while the other is cut off. The record has dropped an insert of that one, whose transaction is open.
fn second_jump_that_one_process_does_not_see() -> Plan {
    const ID: u64 = 8;
    const AGAIN: u64 = 9600;
    let others = Create { ids: 40..44, ..Create::of(40, 1) };
    let operations = [
        (6000, What::CutOff { instance: 1, for_ms: AGAIN + 50 - 6000 }),
        (6010, What::Redis(Mishap::Clock(20_000))),
        (AGAIN - 100, create(0, ID, 0, 800)),
        (AGAIN - 90, What::Create { instance: 0, create: others }),
        (AGAIN - 50, What::CutOff { instance: 0, for_ms: 1500 }),
        (AGAIN, What::Redis(Mishap::Clock(20_000))),
        (AGAIN + 400, What::Rebuild { instance: 1, accepting_loss: false, short: false }),
        (AGAIN + 800, What::Check { instance: 1, id: ID }),
        (AGAIN + 900, What::Check { instance: 1, id: ID }),
    ];
    plan(DRAWN_UP + 74, Config { processes: [FORGETFUL; 4], ..CONFIG }, operations)
}

/// Redis's clock jumps while a transaction is open whose process is cut off: it cannot repeat its insert, which looks older than a
/// transaction may be.
fn jump_while_its_process_is_cut_off() -> Plan {
    const ID: u64 = 8;
    let operations = [
        (6300, create(0, ID, 0, 3900)),
        (6350, What::CutOff { instance: 0, for_ms: 6500 }),
        (6400, What::Redis(Mishap::Clock(20_000))),
        (10_050, What::Rebuild { instance: 1, accepting_loss: false, short: false }),
        (12_500, What::Check { instance: 1, id: ID }),
    ];
    plan(DRAWN_UP + 40, CONFIG, operations)
}

/// Redis's clock jumps, and jumps again in the incarnation that begins with that. One process was cut off from before the first
/// jump; the other one has inserted a row in between, and is cut off when the second comes. The record seems to be so much older.
fn jump_in_an_incarnation_not_met_yet() -> Plan {
    const ID: u64 = 8;
    const AGAIN: u64 = 9500;
    let jump = || What::Redis(Mishap::Clock(30_000));
    let cut_off = |instance, for_ms| What::CutOff { instance, for_ms };
    let mut operations = vec![
        (5000, cut_off(0, AGAIN + 500 - 5000)),
        (5500, jump()),
        (AGAIN - 200, create(1, ID, 0, 1700)),
        (AGAIN - 100, cut_off(1, 2300)),
        (AGAIN, jump()),
        (AGAIN + 1100, create(0, ID + 1, 0, 1)),
        (AGAIN + 1150, What::Rebuild { instance: 0, accepting_loss: false, short: false }),
    ];
    let asked = (AGAIN + 1510..AGAIN + 2100).step_by(10);
    operations.extend(asked.map(|at| (at, What::Check { instance: 0, id: ID })));
    plan(DRAWN_UP + 59, CONFIG, operations)
}

/// The metadata are lost during the scan of a rebuild, and a row that was inserted since is none that the scan has read.
fn metadata_lost_in_a_scan() -> Plan {
    const ID: u64 = 8;
    let mut operations = vec![
        (6000, What::Rebuild { instance: 0, accepting_loss: false, short: false }),
        (6500, What::Redis(Mishap::Delete(vec!["fleet"]))),
        // When both have joined again.
        (7600, create(1, ID, 0, 1)),
    ];
    operations.extend((7900..8600).step_by(20).map(|at| (at, What::Check { instance: 1, id: ID })));
    let config = Config { page: (2, 100), flavour: Flavour::Evicting, ..CONFIG };
    plan(DRAWN_UP + 60, config, operations)
}

/// Redis's clock is stepped by less than anybody notices, and by more than a transaction lasts.
fn step_that_nobody_notices() -> Plan {
    const ID: u64 = 8;
    let process = Process { longest_transaction: 1000, ..PROCESS };
    let operations = [
        (6000, create(0, ID, 0, 950)),
        (6050, What::Redis(Mishap::Clock(1900))),
        (6100, What::Rebuild { instance: 1, accepting_loss: false, short: false }),
        (7000, What::Check { instance: 1, id: ID }),
    ];
    plan(DRAWN_UP + 41, Config { processes: [process; 4], ..CONFIG }, operations)
}

/// A row is created while two batches of its process's checks are under way, one of which has looked for it
/// already; it is asked for again before they are answered.
fn late_checks() -> Plan {
    const ID: u64 = 8;
    let late = Trap { on: "check", instance: Some(0), effect: Effect::DelayReply(15), times: 2 };
    let check = |id| What::Check { instance: 0, id };
    let mut operations = vec![
        // Redis knows the script from then on.
        (6000, create(1, ID + 1, 0, 1)),
        (6500, What::Trap(late)),
        (6500, check(ID)),
        (6501, check(ID + 2)),
        (6502, create(1, ID, 0, 0)),
    ];
    // Some of these wait to be sent when the first are answered.
    operations.extend((6508..6525).flat_map(|at| [(at, check(ID)), (at, check(ID))]));
    plan(DRAWN_UP + 4, Config { flavour: Flavour::Calm, ..CONFIG }, operations)
}

/// The next filter goes live in the midst of a batch, which reads the blocks of one and the header of the other; three
/// times.
fn replaced_in_a_batch() -> Plan {
    let trap =
        |on, instance, effect| What::Trap(Trap { on, instance: Some(instance), effect, times: 1 });
    let mut operations = Vec::new();
    for at in [8000, 8500, 9000] {
        operations.extend([
            (at, trap("swap.lua", 1, Effect::DelayRequest(400))),
            (at, What::Rebuild { instance: 1, accepting_loss: false, short: false }),
            // The first check is alone.
            (at + 20, trap("", 0, Effect::DelayReply(1))),
            (at + 20, trap("", 0, Effect::Overtaken)),
            (at + 20, What::Sweep { instance: 0 }),
        ]);
    }
    // All heals with the last.
    operations.push((9500, What::Check { instance: 0, id: 0 }));
    plan(DRAWN_UP + 75, CONFIG, operations)
}

/// A process stands still for a moment, just as a batch of its checks is about to leave. It leaves late, and is not
/// answered; a check that came late has waited for both.
fn senders_stand_still() -> Plan {
    let late = Trap { on: "check", instance: Some(0), effect: Effect::DelayReply(300), times: 4 };
    let check = |id| What::Check { instance: 0, id };
    let pause = |for_ms| What::Pause { instance: 0, for_ms };
    let operations = [
        (6490, What::Trap(late)),
        (6497, check(0)),
        (6499, check(2)),
        // With two under way, this one is sent after a moment.
        (6500, check(5)),
        (6501, pause(2000)),
        // What would have run meanwhile has found the pause before.
        (6502, pause(1)),
        (6504, check(7)),
    ];
    plan(DRAWN_UP + 9, Config { flavour: Flavour::Calm, ..CONFIG }, operations)
}

/// A handler finds a row missing. The answer to its check was late; Redis does not know the script that stores a null, says so
/// late, and is late again.
fn null_in_two_calls() -> Plan {
    // One of the first rows.
    const ID: u64 = 7;
    let late = |on, times| {
        What::Trap(Trap { on, instance: Some(0), effect: Effect::DelayReply(21), times })
    };
    let answers = Answers::Truly { marked: true, gone: false };
    let operations = [
        (6000, What::Delete { instance: 0, id: ID, takes: 0, told: Told::Never }),
        (6500, late("check", 1)),
        (6500, late("null.lua", 2)),
        (6500, What::Ask(Ask { answers, ..Ask::get(0, ID) })),
        (6600, What::Check { instance: 0, id: ID }),
    ];
    plan(DRAWN_UP + 62, Config { flavour: Flavour::Lossy, ..CONFIG }, operations)
}

/// Two nulls are read in one batch with many rows: that of a row that was deleted, and that of one which a caller without
/// credentials is not shown. The one who is shown it asks for it then, and another asks twice for one id.
fn nulls_in_a_batch() -> Plan {
    // Two of the first rows. The second one has an owner.
    const DELETED: u64 = 7;
    const HIDDEN: u64 = 5;
    let late = Trap { on: "check", instance: Some(1), effect: Effect::DelayReply(5), times: 2 };
    let marked = Answers::Truly { marked: true, gone: false };
    let check = |id| What::Check { instance: 1, id };
    let operations = [
        (6000, What::Delete { instance: 0, id: DELETED, takes: 0, told: Told::Never }),
        (6500, What::Ask(Ask { answers: marked, ..Ask::get(0, DELETED) })),
        (6500, What::Ask(Ask::get(0, HIDDEN))),
        // Two are under way, so that the others wait, and are one batch.
        (6600, What::Trap(late)),
        (6600, check(0)),
        (6601, check(10)),
        (6602, check(DELETED)),
        (6602, check(DELETED)),
        (6602, What::Ask(Ask { caller: Caller::Bearer, ..Ask::get(1, HIDDEN) })),
        (6602, What::Sweep { instance: 1 }),
    ];
    plan(DRAWN_UP + 67, CONFIG, operations)
}

/// The sources leave out every second row from some moment on, and go on doing so. A few of those rows are found, and inserted;
/// there are far more.
fn misread() -> Plan {
    const FROM: u64 = 5000;
    let rules = Rules { shared: true, ..Rules::DEFAULT };
    let config = Config {
        pool: 1000,
        initial: 400,
        misread_from: Some(FROM),
        flavour: Flavour::Calm,
        rules,
        ..CONFIG
    };
    let rebuild = What::Rebuild { instance: 0, accepting_loss: true, short: false };
    let mut operations = vec![(FROM + 100, rebuild)];
    // Each of the rows again and again, in another order each time.
    operations.extend((0..1600).map(|n: u64| {
        let row = n * 7 % 400;
        (FROM + 500 + n * 25, What::Ask(Ask::get((n % 2) as usize, row * 5 / 2)))
    }));
    plan(DRAWN_UP + 42, config, operations)
}
