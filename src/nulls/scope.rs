//! For which requests a null speaks.

/// The requests that a null may refuse.
///
/// A 404 proves no more than was asked: one to a request without credentials says nothing to a caller
/// who shows some, and one to a HEAD nothing to a GET, as there are services that know no HEAD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scope {
    /// Also those that carry credentials.
    pub(crate) credentials: bool,
    /// Also those that are no HEAD.
    pub(crate) get: bool,
}

impl Scope {
    /// Every request.
    pub(crate) const ALL: Self = Self { credentials: true, get: true };

    /// Whether a null of this scope may refuse a request that needs that one.
    pub(crate) const fn covers(self, needed: Self) -> bool {
        (self.credentials || !needed.credentials) && (self.get || !needed.get)
    }

    /// Returns the letter a stored null is marked with.
    pub(crate) const fn as_byte(self) -> u8 {
        match (self.credentials, self.get) {
            (true, true) => b'a',
            (true, false) => b'b',
            (false, true) => b'c',
            (false, false) => b'd',
        }
    }

    /// Reads a letter back.
    pub(crate) const fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            b'a' => Self { credentials: true, get: true },
            b'b' => Self { credentials: true, get: false },
            b'c' => Self { credentials: false, get: true },
            b'd' => Self { credentials: false, get: false },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_null_refuses_no_request_that_knows_more_than_it() {
        let public_get = Scope { credentials: false, get: true };
        let public_head = Scope { credentials: false, get: false };
        assert!(Scope::ALL.covers(public_get) && public_get.covers(public_head));
        assert!(!public_get.covers(Scope::ALL) && !public_head.covers(public_get));
    }

    #[test]
    fn a_scope_survives_being_stored() {
        for byte in 0..=u8::MAX {
            if let Some(scope) = Scope::from_byte(byte) {
                assert_eq!(scope.as_byte(), byte);
            }
        }
        assert_eq!((b'a'..=b'd').filter_map(Scope::from_byte).count(), 4);
    }
}
