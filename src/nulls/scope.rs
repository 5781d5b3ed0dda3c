//! For which requests a null speaks.

/// The requests that a null may refuse.
///
/// A 404 proves no more than was asked: one to a request without credentials says nothing to a caller
/// with some.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Everyone,
    Anonymous,
}

impl Scope {
    /// Whether a null of this scope may refuse a request that needs a null of the scope `needed`.
    pub(crate) fn covers(self, needed: Self) -> bool {
        self == Self::Everyone || needed == Self::Anonymous
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_null_refuses_no_request_that_knows_more_than_it() {
        assert!(
            Scope::Everyone.covers(Scope::Everyone) && Scope::Everyone.covers(Scope::Anonymous)
        );
        assert!(
            Scope::Anonymous.covers(Scope::Anonymous) && !Scope::Anonymous.covers(Scope::Everyone)
        );
    }
}
