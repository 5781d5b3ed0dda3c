//! What a batch found out about one id.

use crate::filter::Generation;
use crate::nulls::scope::Scope;
use crate::verdict::Verdict;

/// What is known of an id, and by which filter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Checked {
    pub(crate) verdict: Verdict,
    /// For which requests it holds, where a null is the proof.
    pub(crate) scope: Scope,
    pub(crate) generation: Generation,
}
