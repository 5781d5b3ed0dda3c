//! The application's choices at the HTTP edge.

use http::{Method, StatusCode};
use smallvec::SmallVec;

use crate::id::InvalidId;
use crate::nulls::rules::NegativeCaching;

/// What to do with a request that names something that cannot be an id.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnInvalid {
    /// Refuse it with 404: no record can have such an id. A list of more than [`Id::MAX_LISTED`](crate::Id::MAX_LISTED) ids is refused
    /// with 400.
    #[default]
    NotFound,
    /// Refuse it with 400.
    BadRequest,
    /// Let it pass, unchecked. The handler must reject such ids, and lists that are too long, before it asks the
    /// database, or they are a way around the guard.
    Pass,
}

impl OnInvalid {
    pub(crate) fn status(self, reason: InvalidId) -> Option<StatusCode> {
        match self {
            // Some of the ids may exist.
            Self::NotFound if matches!(reason, InvalidId::TooMany { .. }) => {
                Some(StatusCode::BAD_REQUEST)
            }
            Self::NotFound => Some(StatusCode::NOT_FOUND),
            Self::BadRequest => Some(StatusCode::BAD_REQUEST),
            Self::Pass => None,
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) methods: SmallVec<[Method; 2]>,
    pub(crate) on_invalid: OnInvalid,
    pub(crate) nulls: NegativeCaching,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            methods: SmallVec::from_buf([Method::GET, Method::HEAD]),
            on_invalid: OnInvalid::default(),
            nulls: NegativeCaching::default(),
        }
    }
}
