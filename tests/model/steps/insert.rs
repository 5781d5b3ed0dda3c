//! The creation of an id: the insert, its acknowledgement, the commit.

use super::Steps;
use crate::instance::{Fault, L, Model};
use crate::redis::insert;
use crate::rules::Rule;
use crate::state::{Creation, IDS, PROCESSES, Stage, State};

/// The next step of the creation of an id.
pub(super) fn create(model: &Model, state: &State, id: usize, steps: &mut Steps) {
    match state.creations[id].stage {
        Stage::Idle if model.of.settling.is_some() && id == 0 => begin_outside(model, state, steps),
        Stage::Idle => execute(model, state, id, steps),
        Stage::Executed => acknowledge(model, state, id, steps),
        Stage::Acknowledged => commit(model, state, id, steps),
        Stage::Committed | Stage::Over => {}
    }
}

fn execute(model: &Model, state: &State, id: usize, steps: &mut Steps) {
    let process = &state.processes[model.of.inserter[id]];
    let (incarnation, executed) = (state.redis.meta.incarnation, state.now);
    let is_joined = process.is_connected && process.incarnation == incarnation && incarnation > 0;
    let can = |one: &Creation| one.stage == Stage::Idle && one.inserts_left > 0;
    if !process.is_alive || !is_joined || !can(&state.creations[id]) {
        return;
    }
    let begin = |creation: &mut Creation| {
        creation.inserts_left -= 1;
        creation.to(Stage::Executed);
        (creation.executed, creation.incarnation) = (executed, incarnation);
    };
    let name = PROCESSES[model.of.inserter[id]];
    if model.of.has_calls_of_two && id == 0 && can(&state.creations[1]) {
        let mut next = *state;
        insert(model, &mut next, 0, None);
        let last = next.redis.meta.last;
        insert(model, &mut next, 1, (!model.has(Rule::R1EachId)).then_some(last));
        next.creations.iter_mut().for_each(begin);
        steps.step(next, [name, "inserts in one call", "x and y"]);
    }
    let mut next = *state;
    insert(model, &mut next, id, None);
    begin(&mut next.creations[id]);
    steps.step(next, [name, "inserts", IDS[id]]);
}

/// The reply arrives, or is lost.
fn acknowledge(model: &Model, state: &State, id: usize, steps: &mut Steps) {
    let me = model.of.inserter[id];
    let creation = &state.creations[id];
    let may_be_late = model.of.deadline.is_some() && !model.has(Rule::R7Deadline);
    let is_late = state.now > creation.executed + model.of.deadline.unwrap_or(L) && !may_be_late;
    let is_joined = state.processes[me].incarnation == creation.incarnation;
    if state.processes[me].is_alive {
        let mut next = *state;
        if is_late || !is_joined && model.has(Rule::R6Incarnation) {
            next.creations[id].to(Stage::Idle);
            steps.step(next, [PROCESSES[me], "is told in vain of its insert of", IDS[id]]);
        } else {
            let acknowledged = if model.of.deadline.is_some() { state.now } else { 0 };
            let stage = Stage::Acknowledged;
            next.creations[id] = Creation { stage, acknowledged, incarnation: 0, ..*creation };
            let process = &mut next.processes[me];
            process.own.add(id);
            process.own_times[id] = state.now;
            process.copy.iter_mut().for_each(|copy| copy.ids.add(id));
            steps.step(next, [PROCESSES[me], "is told in time of its insert of", IDS[id]]);
        }
    }
    if model.of.faults.contains(&Fault::ReplyLost) && state.faults_left > 0 {
        let mut next = *state;
        next.creations[id].to(Stage::Idle);
        next.fault_happened();
        steps.step(next, ["FAULT:", Fault::ReplyLost.says(), ""]);
    }
}

fn commit(model: &Model, state: &State, id: usize, steps: &mut Steps) {
    let is_outside = model.of.settling.is_some() && id == 0;
    let me = model.of.inserter[id];
    if is_outside || state.processes[me].is_alive {
        let mut next = *state;
        next.creations[id].to(Stage::Committed);
        next.rows.add(id);
        let who = if is_outside { "another" } else { PROCESSES[me] };
        steps.step(next, [who, "commits", IDS[id]]);
    }
}

/// A process that does not insert creates `x`.
fn begin_outside(model: &Model, state: &State, steps: &mut Steps) {
    let is_in_time = model.of.settling.is_some_and(|(stops, _)| state.now <= stops);
    let creation = &state.creations[0];
    if is_in_time && creation.inserts_left > 0 {
        let mut next = *state;
        let (stage, inserts_left) = (Stage::Acknowledged, creation.inserts_left - 1);
        next.creations[0] = Creation { stage, inserts_left, executed: state.now, ..*creation };
        steps.step(next, ["another", "begins to create without an insert", "x"]);
    }
}
