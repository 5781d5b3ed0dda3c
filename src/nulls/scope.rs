//! For which requests a null speaks.

/// The requests that a null may refuse: a 404 to a request without credentials says nothing to a caller with some. The greater scope
/// includes the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    Anonymous,
    Everyone,
}
