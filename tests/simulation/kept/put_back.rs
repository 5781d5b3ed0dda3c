//! One key that is put back as an old copy of itself, while all others stay.

use super::{CONFIG, DRAWN_UP, create, plan};
use crate::plan::{Mishap, Plan, What};

/// Not among the first rows.
const ID: u64 = 8;
/// Just after a poll, so that the next one comes when all is over.
const COPIED: u64 = 6000;

/// One process inserts a row and commits it. The live filter is put back as it was before that. At once the other process,
/// which has heard of no insert since, is asked for the row.
pub(super) fn old_bits_refuse_no_row_that_was_inserted_since() -> Plan {
    let mut operations = vec![
        (COPIED, What::Redis(Mishap::Dump)),
        (COPIED + 10, create(0, ID, 0, 1)),
        (COPIED + 30, What::Redis(Mishap::PutBack("bits"))),
    ];
    operations.extend((31..36).map(|at| (COPIED + at, What::Check { instance: 1, id: ID })));
    plan(DRAWN_UP + 43, CONFIG, operations)
}
