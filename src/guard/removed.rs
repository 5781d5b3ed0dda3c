//! What became of a removal.

/// What became of a removal that succeeded. Either is fine: requests for the id are refused at once, or
/// reach the handler, which finds nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Removed {
    /// Requests for the id are refused from now on, until it is created anew or the filter rebuilt, or, in
    /// this process, until there is no more room for it.
    Remembered,
    /// Nothing was remembered: the id was inserted within twice the
    /// [`longest_transaction`](crate::Builder::longest_transaction) and twice the
    /// [`handler_time`](crate::Builder::handler_time), so a record with this id may be there or on its
    /// way; or the filter's data in Redis (without it, this process) is younger than that; or there is no filter, and
    /// nothing is refused anyway; or this process has removed more than 10,000 ids at once, and 100 a second after.
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
