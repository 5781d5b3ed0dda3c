//! The application's choices in which 404s are remembered.

use std::time::Duration;

/// Which 404s are remembered, for which requests, and for how long. A remembered 404 is a *null*: the guide's page
/// [`contract`](crate::guide::contract#what-a-404-teaches) has the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "it does nothing until a builder has it"]
pub struct NegativeCaching {
    pub(crate) ttl: Duration,
    pub(crate) handler_time: Duration,
    /// A 410 counts as a 404 does.
    pub(crate) gone_counts: bool,
    /// An absence is the same for everybody, signed in or not.
    pub(crate) shared: bool,
    /// Whether only a response with [`Missing`](crate::Missing) says that the record is missing; none for what the extractor says.
    pub(crate) marker: Option<bool>,
}

impl NegativeCaching {
    /// Returns the defaults.
    pub const fn new() -> Self {
        let half_a_minute = Duration::from_secs(30);
        Self {
            ttl: half_a_minute,
            handler_time: half_a_minute,
            gone_counts: false,
            shared: false,
            marker: None,
        }
    }

    /// How long a null lasts, a tenth more or less.
    ///
    /// Defaults to 30 seconds; from 1 second to 1 hour.
    pub const fn ttl(self, ttl: Duration) -> Self {
        Self { ttl, ..self }
    }

    /// The longest a request may take for its 404 to be remembered.
    ///
    /// Defaults to 30 seconds; from 100 milliseconds to 1 hour.
    pub const fn handler_time(self, time: Duration) -> Self {
        Self { handler_time: time, ..self }
    }

    /// Whether a 410 is taken as a 404 is.
    ///
    /// Defaults to `false`: a 410 says nothing of the record.
    pub const fn gone_counts(self, counts: bool) -> Self {
        Self { gone_counts: counts, ..self }
    }

    /// Whether a 404 means the same for everybody. Say so only when no handler answers 404 for a record that exists and
    /// that this caller may not see: one caller's 404 would hide it from its owner. Where only some do, mark the
    /// others' responses with [`Missing`](crate::Missing).
    ///
    /// Defaults to `false`: no 404 to a request with `Authorization` or `Cookie` is remembered for others.
    pub const fn shared_absence(self, shared: bool) -> Self {
        Self { shared, ..self }
    }

    /// Whether a 404 counts only when its response carries [`Missing`](crate::Missing). With `false` any 404 to a
    /// request with an id must mean that the record with this id is missing, and not a part of it, a page beyond its
    /// last, the route, or a record of another caller.
    ///
    /// Defaults to what the extractor [says](crate::extract::IdExtractor::is_ambiguous): `false` for a
    /// [`PathPattern`](crate::PathPattern) of one pattern with one capture, `true` for any other.
    pub const fn require_marker(self, required: bool) -> Self {
        Self { marker: Some(required), ..self }
    }

    /// Returns the same, and requires a marker where nothing was said and the extractor's 404s may be about something else than
    /// the record.
    pub(crate) fn behind(self, is_ambiguous: bool) -> Self {
        Self { marker: self.marker.or(Some(is_ambiguous)), ..self }
    }
}

impl Default for NegativeCaching {
    fn default() -> Self {
        Self::new()
    }
}
