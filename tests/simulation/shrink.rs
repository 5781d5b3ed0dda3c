//! Makes a failing plan small: drops operations for as long as it still fails.

use crate::plan::Plan;
use crate::world;

/// Returns a smallest plan that still fails.
pub(crate) fn shrink(plan: &Plan) -> Plan {
    let mut smallest = plan.clone();
    let Some(kind) = kind(plan) else { return smallest };
    let fails = |plan: &Plan| self::kind(plan).as_ref() == Some(&kind);
    smallest.config = calmer(&smallest, fails);
    let mut chunk = smallest.operations.len().div_ceil(2);
    loop {
        let before = smallest.operations.len();
        drop_chunks(&mut smallest, chunk, fails);
        if chunk == 1 && smallest.operations.len() == before {
            return smallest;
        }
        chunk = (chunk / 2).max(1);
    }
}

/// Drops every run of so many operations that is not needed.
fn drop_chunks(plan: &mut Plan, chunk: usize, fails: impl Fn(&Plan) -> bool) {
    let mut from = 0;
    while from < plan.operations.len() {
        let to = (from + chunk).min(plan.operations.len());
        let mut fewer = plan.clone();
        fewer.operations.drain(from..to);
        if fails(&fewer) {
            *plan = fewer;
        } else {
            from = to;
        }
    }
}

/// The plan's setting without what is not needed to fail.
fn calmer(plan: &Plan, fails: impl Fn(&Plan) -> bool) -> crate::plan::Config {
    let mut calm = plan.clone();
    calm.config.slow = 0;
    if fails(&calm) { calm.config } else { plan.config.clone() }
}

/// What breaks first, without its numbers.
fn kind(plan: &Plan) -> Option<String> {
    let broken = world::run(plan, false).findings.violations.into_iter().next()?;
    Some(broken.replace(|digit: char| digit.is_ascii_digit(), ""))
}
