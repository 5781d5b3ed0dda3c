//! What became of a removal.

/// What became of a removal that succeeded. Either is fine: requests for the id are refused at once, or
/// reach the handler, which finds nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Removed {
    /// Requests for the id are refused from now on, until it is created anew or the filter rebuilt, or, in
    /// this process, until there is no more room for it.
    Remembered,
    /// Nothing was remembered, for one of these reasons:
    ///
    /// - The id was inserted lately: within twice the sum of
    ///   [`longest_transaction`](crate::Builder::longest_transaction),
    ///   [`handler_time`](crate::NegativeCaching::handler_time) and a second. A record with this id may be there, or on its way.
    /// - The filter's data in Redis are younger than that: it started, failed over or lost them. Without Redis, this process is.
    /// - More ids were inserted within that time than the record of recent inserts holds: a million.
    /// - There is no filter, and nothing is refused anyway; or it was replaced during the call.
    /// - This process has removed too many ids: 10,000 at once, and 100 a second after that.
    Withheld,
}

impl Removed {
    /// Returns a short fixed name, fit for a metric's label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Remembered => "remembered",
            Self::Withheld => "withheld",
        }
    }
}
