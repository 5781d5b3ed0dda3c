//! What a look-up can say.

use std::fmt;

/// What is known of an id. There are three answers and no fourth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// The filter may contain the id: it exists, or it is a false positive.
    Present,
    /// The id is proven absent.
    Absent(Proof),
    /// Nothing is proven.
    Unknown(Doubt),
}

impl Verdict {
    /// Returns a short fixed name, fit for a metric's label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Present => "present",
            Self::Absent(_) => "absent",
            Self::Unknown(_) => "unknown",
        }
    }
}

/// What proves an id absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Proof {
    /// A complete filter of the current generation does not contain it.
    Filter,
    /// It passed the filter, was looked for and was missing, or was removed, and no create of it can
    /// have begun since.
    Null,
}

impl Proof {
    /// Returns a short fixed name, fit for a metric's label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Null => "null",
        }
    }
}

/// Why a verdict is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Doubt {
    /// There is no connection to Redis (yet, or any more).
    Disconnected,
    /// Redis did not answer within the deadline.
    Timeout,
    /// Too many checks are in flight already.
    Overloaded,
    /// No filter has been built yet, or the one there was is gone.
    NoFilter,
    /// The live key holds something that is not a string.
    WrongType,
    /// The live key holds a string that is not a filter of ours, or a damaged one.
    Foreign,
    /// The filter is shorter or longer than its header says.
    Truncated,
    /// The filter has a format version this crate does not read.
    Version,
    /// The filter is not in the live state.
    NotLive,
    /// The filter was built with another secret key.
    OtherKey,
    /// The filter was verified on another Redis process than the one that answers: acknowledged adds
    /// may be missing from it.
    Suspect,
    /// An id that exists was found missing from the filter, so that others may be missing, too.
    Disproved,
    /// The filter was replaced more than once while the question was asked.
    Changing,
    /// The Redis that answers is, or became, a replica.
    Replica,
    /// Redis has lost too many of its replicas to be sure that it is still the primary.
    Isolated,
    /// Redis is loading its data.
    Loading,
    /// Redis is held up by a script of somebody's.
    Busy,
    /// Redis is out of memory.
    OutOfMemory,
    /// Redis cannot write to its disk.
    Disk,
    /// Redis does not let this user ask.
    Denied,
    /// Redis is a node of a cluster that does not serve these keys, or not now.
    Cluster,
    /// Redis may evict any key (`allkeys-*`), and that was not accepted.
    Eviction,
    /// Redis refused the question for another reason.
    Refused,
    /// Redis answered something that makes no sense as an answer.
    Odd,
}

impl Doubt {
    /// Returns a short fixed name, fit for a metric's label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.named().0
    }

    /// Its name, and a description.
    const fn named(self) -> (&'static str, &'static str) {
        match self {
            Self::Disconnected => ("disconnected", "no connection to redis"),
            Self::Timeout => ("timeout", "redis did not answer within the deadline"),
            Self::Overloaded => ("overloaded", "too many checks in flight"),
            Self::NoFilter => ("no_filter", "no filter has been built"),
            Self::WrongType => ("wrong_type", "the live key holds another type than a string"),
            Self::Foreign => ("foreign", "the live key holds foreign or damaged bytes"),
            Self::Truncated => ("truncated", "the live key's length is not what its header says"),
            Self::Version => ("version", "the live filter has an unreadable format version"),
            Self::NotLive => {
                ("not_live", "the live key holds a filter that is not in the live state")
            }
            Self::OtherKey => ("other_key", "the live filter was built with another secret key"),
            Self::Suspect => ("suspect", "the live filter was verified on another redis process"),
            Self::Disproved => {
                ("disproved", "an id that exists was found missing from the live filter")
            }
            Self::Changing => ("changing", "the live filter keeps changing"),
            Self::Replica => ("replica", "redis is a replica"),
            Self::Isolated => {
                ("isolated", "redis has too few replicas to be sure that it is the primary")
            }
            Self::Loading => ("loading", "redis is loading its data"),
            Self::Busy => ("busy", "redis is held up by a script"),
            Self::OutOfMemory => ("out_of_memory", "redis is out of memory"),
            Self::Disk => ("disk", "redis cannot write to its disk"),
            Self::Denied => ("denied", "redis does not let this user ask"),
            Self::Cluster => {
                ("cluster", "redis is a node of a cluster that does not serve these keys")
            }
            Self::Eviction => {
                ("eviction", "redis may evict any key (allkeys-*), and that was not accepted")
            }
            Self::Refused => ("refused", "redis refuses to answer"),
            Self::Odd => ("odd", "redis gave an answer that makes no sense"),
        }
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.named().1)
    }
}
