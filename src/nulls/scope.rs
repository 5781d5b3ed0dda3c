//! For which requests a null speaks.

/// The requests that a null may refuse.
///
/// A 404 proves no more than was asked: one to a request without credentials says nothing to a caller
/// with some.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Every request.
    Everyone,
    /// Those without credentials.
    Anonymous,
}

impl Scope {
    /// Whether a null of this scope may refuse a request that needs that one.
    pub(crate) fn covers(self, needed: Self) -> bool {
        self == Self::Everyone || needed == Self::Anonymous
    }

    /// Returns the letter a stored null is marked with.
    pub(crate) const fn as_byte(self) -> u8 {
        match self {
            Self::Everyone => b'e',
            Self::Anonymous => b'a',
        }
    }

    /// Reads a letter back.
    pub(crate) const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            b'e' => Some(Self::Everyone),
            b'a' => Some(Self::Anonymous),
            _ => None,
        }
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

    #[test]
    fn a_scope_survives_being_stored() {
        let read: Vec<_> = (0..=u8::MAX).filter_map(Scope::from_byte).collect();
        assert_eq!(read, [Scope::Anonymous, Scope::Everyone]);
        assert!(read.iter().all(|scope| Scope::from_byte(scope.as_byte()) == Some(*scope)));
    }
}
