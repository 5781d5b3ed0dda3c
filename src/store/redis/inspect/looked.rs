//! What a filter says of an id.

use crate::nulls::scope::Scope;
use crate::verdict::{Proof, Verdict};

/// What a filter says of an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Looked {
    /// What a guard that joined now would be told, if the filter has settled.
    pub verdict: Verdict,
    /// Whether the null that proves it speaks only for requests without credentials.
    pub only_anonymous: bool,
}

impl From<(Verdict, Scope)> for Looked {
    fn from((verdict, scope): (Verdict, Scope)) -> Self {
        let is_null = verdict == Verdict::Absent(Proof::Null);
        Self { verdict, only_anonymous: is_null && scope == Scope::Anonymous }
    }
}
