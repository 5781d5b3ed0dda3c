mod audits;
mod brake;
mod lanes;
mod unknown;

use super::*;
use crate::decide::visitors::Manner;
use crate::id::Id;

const UNKNOWN: Verdict = Verdict::Unknown(Doubt::Timeout);

fn id(n: u64) -> Id {
    Id::display(&n).unwrap()
}

fn gate(policy: Policy) -> Gate {
    Gate::new(Policy { audits: 0, ..policy })
}

/// Somebody without credentials, who asks for this id.
fn anybody(gate: &Gate, n: u64) -> Visitor {
    gate.visitors.recognise(&id(n), Manner::Plain, [])
}

/// Somebody with these.
fn with(gate: &Gate, n: u64, credentials: &[u8]) -> Visitor {
    gate.visitors.recognise(&id(n), Manner::Plain, [credentials])
}

fn passes(ruling: &Ruling) -> bool {
    matches!(ruling, Ruling::Admit(_))
}

fn admitted(ruling: Ruling) -> Admission {
    match ruling {
        Ruling::Admit(admission) => admission,
        other => panic!("{other:?}"),
    }
}
