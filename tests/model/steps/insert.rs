//! The creation of an id: the insert, its acknowledgement, the commit. A process that does not insert only commits.

use super::Steps;
use crate::instance::{Fault, L, Model};
use crate::redis::{Number, insert};
use crate::rules::Rule;
use crate::state::{Creation, IDS, PROCESSES, Stage, State};

/// The next step of the creation of an id.
pub(super) fn create(model: &Model, state: &State, id: usize, steps: &mut Steps) {
    if model.of.settling.is_some() && id == 0 {
        return create_outside(model, state, steps);
    }
    let creation = state.creations[id];
    match creation.stage {
        Stage::Idle => execute(model, state, id, steps),
        Stage::Executed => {
            acknowledge(model, state, id, steps);
            lose_reply(model, state, id, steps);
        }
        Stage::Acknowledged => commit(model, state, id, steps),
        Stage::Committed | Stage::Over => {}
    }
}

fn can_insert(model: &Model, state: &State, id: usize) -> bool {
    let process = &state.processes[model.of.inserter[id]];
    let is_joined = process.is_connected && process.incarnation == state.redis.meta.incarnation;
    let is_idle = state.creations[id].stage == Stage::Idle && state.creations[id].inserts_left > 0;
    is_idle && process.is_alive && !process.is_paused && process.incarnation > 0 && is_joined
}

fn execute(model: &Model, state: &State, id: usize, steps: &mut Steps) {
    if !can_insert(model, state, id) {
        return;
    }
    let name = PROCESSES[model.of.inserter[id]];
    let incarnation = state.redis.meta.incarnation;
    let (now, executed) = (state.now, Stage::Executed);
    let begin = |creation: &mut Creation| {
        let inserts_left = creation.inserts_left - 1;
        *creation = Creation {
            stage: executed,
            inserts_left,
            executed: now,
            incarnation,
            ..Creation::default()
        };
    };
    if model.of.has_calls_of_two && id == 0 && can_insert(model, state, 1) {
        let mut next = *state;
        insert(model, &mut next, 0, Number::New);
        let each = model.has(Rule::R1EachId);
        insert(model, &mut next, 1, if each { Number::New } else { Number::Same });
        next.creations.iter_mut().for_each(begin);
        steps.step(next, |next| {
            let [x, y] = next.redis.recent.numbers;
            format!("{name} inserts x and y in one call: numbers {x} and {y}")
        });
    }
    let mut next = *state;
    insert(model, &mut next, id, Number::New);
    begin(&mut next.creations[id]);
    steps.step(next, |next| {
        let redis = &next.redis;
        let live = redis.bits.is_some_and(|bits| !bits.is_disproved && bits.ids.has(id));
        let built = redis.next.is_some_and(|built| built.ids.has(id));
        let to = match (live, built) {
            (true, true) => "the live filter and the building one",
            (true, false) => "the live filter",
            (false, true) => "the building filter",
            (false, false) => "no filter",
        };
        format!("{name} inserts {} into {to}: number {}", IDS[id], redis.meta.last)
    });
}

fn acknowledge(model: &Model, state: &State, id: usize, steps: &mut Steps) {
    let me = model.of.inserter[id];
    let process = &state.processes[me];
    if !process.is_alive || process.is_paused {
        return;
    }
    let creation = &state.creations[id];
    let within = model.of.deadline.unwrap_or(L);
    let has_deadline = model.of.deadline.is_none() || model.has(Rule::R7Deadline);
    let is_late = has_deadline && state.now > creation.executed + within;
    let is_other = model.has(Rule::R6Incarnation) && process.incarnation != creation.incarnation;
    let mut next = *state;
    if is_late || is_other {
        next.creations[id].to(Stage::Idle);
        let why = if is_late { "late" } else { "of an earlier incarnation" };
        steps.step(next, |_| {
            format!(
                "{}'s insert of {}: the reply is {why}, and does not count",
                PROCESSES[me], IDS[id]
            )
        });
        return;
    }
    let (acknowledged, now) = (&mut next.creations[id], state.now);
    acknowledged.stage = Stage::Acknowledged;
    acknowledged.acknowledged = if model.of.deadline.is_some() { now } else { 0 };
    acknowledged.incarnation = 0;
    let inserter = &mut next.processes[me];
    inserter.own.add(id);
    inserter.own_times[id] = now;
    if let Some(copy) = &mut inserter.copy {
        copy.ids.add(id);
    }
    steps.step(next, |_| format!("{}'s insert of {} is acknowledged", PROCESSES[me], IDS[id]));
}

/// Also of a process that stands still: the database does the rest.
fn commit(model: &Model, state: &State, id: usize, steps: &mut Steps) {
    let me = model.of.inserter[id];
    if !state.processes[me].is_alive {
        return;
    }
    let mut next = *state;
    next.creations[id].to(Stage::Committed);
    next.rows.add(id);
    steps.step(next, |_| format!("{} commits {}", PROCESSES[me], IDS[id]));
}

fn lose_reply(model: &Model, state: &State, id: usize, steps: &mut Steps) {
    if !model.of.faults.contains(&Fault::ReplyLost) || state.faults_left == 0 {
        return;
    }
    let mut next = *state;
    next.fault_happened();
    next.creations[id].to(Stage::Idle);
    steps.step(next, |_| format!("FAULT: the reply to the insert of {} is lost", IDS[id]));
}

/// A process that does not know of the filter creates `x`, until a moment.
fn create_outside(model: &Model, state: &State, steps: &mut Steps) {
    let Some(settling) = model.of.settling else { return };
    let creation = &state.creations[0];
    let mut next = *state;
    if creation.stage == Stage::Acknowledged {
        next.creations[0].to(Stage::Committed);
        next.rows.add(0);
        steps.step(next, |_| "a process that does not insert commits x".to_owned());
    } else if creation.stage == Stage::Idle
        && creation.inserts_left > 0
        && state.now <= settling.outsider_stops
    {
        let begun = &mut next.creations[0];
        begun.inserts_left -= 1;
        (begun.stage, begun.executed) = (Stage::Acknowledged, state.now);
        steps.step(next, |_| "a process that does not insert begins to create x".to_owned());
    }
}
