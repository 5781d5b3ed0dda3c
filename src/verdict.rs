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

/// Names each doubt once: what it means, its short name, and its words.
macro_rules! doubts {
    ($($(#[$doc:meta])* $doubt:ident = $name:literal, $words:literal;)*) => {
        /// Why a verdict is unknown.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Doubt {
            $($(#[$doc])* $doubt,)*
        }

        #[cfg(feature = "cli")]
        impl serde::Serialize for Doubt {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl Doubt {
            /// Returns a short fixed name, fit for a metric's label.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$doubt => $name,)*
                }
            }

            /// Returns its `Display` form.
            pub(crate) const fn words(self) -> &'static str {
                match self {
                    $(Self::$doubt => $words,)*
                }
            }
        }
    };
}

doubts! {
    /// There is no connection to Redis (yet, or any more).
    Disconnected = "disconnected", "no connection to redis";
    /// Redis did not answer within the deadline.
    Timeout = "timeout", "redis did not answer within the deadline";
    /// Too many checks are in flight already.
    Overloaded = "overloaded", "too many checks in flight";
    /// No filter has been built yet.
    NoFilter = "no_filter", "no filter has been built";
    /// This shard has not been built yet, and others may have been.
    ShardNotBuilt = "shard_not_built", "the shard has not been built yet";
    /// The filter that this process has seen is gone.
    Gone = "gone", "the live filter is gone from redis";
    /// The live key holds something that is not a string.
    WrongType = "wrong_type", "the live key holds another type than a string";
    /// The live key holds a string that is not a filter of ours, or a damaged one.
    Foreign = "foreign", "the live key holds foreign or damaged bytes";
    /// The filter of a module takes no more ids, or has to grow for the next one: inserts of other programs may fail.
    Full = "full", "the filter is full";
    /// The filter is shorter or longer than its header says.
    Truncated = "truncated", "the live key's length is not what its header says";
    /// The filter has a format version this crate does not read.
    Version = "version", "the live filter has an unreadable format version";
    /// The filter is not in the live state.
    NotLive = "not_live", "the live key holds a filter that is not in the live state";
    /// The filter is new, and processes that do not insert into it may still run: what it lacks may exist.
    Settling = "settling", "the filter is new, and settles";
    /// The filter was built with another secret key.
    OtherKey = "other_key", "the live filter was built with another secret key";
    /// The filter was verified on another Redis process than the one that answers, an older one was put in its place, or this
    /// process has inserts to repeat: acknowledged adds may be missing from it.
    Suspect = "suspect", "the live filter was verified on another redis process";
    /// An id that exists was found missing from the filter, so that others may be missing, too.
    Disproved = "disproved", "an id that exists was found missing from the live filter";
    /// The filter took the place of a disproved one, and two ids that exist were found missing from it, too. It refuses nothing
    /// until the next rebuild by schedule or by hand.
    DisprovedTwice = "disproved_twice", "ids that exist were found missing from the live filter, and from the one before";
    /// The filter was replaced more than once while the question was asked.
    Changing = "changing", "the live filter keeps changing";
    /// The Redis that answers is, or became, a replica; or it is a Sentinel.
    Replica = "replica", "redis is no primary";
    /// Redis has lost too many of its replicas to be sure that it is still the primary.
    Isolated = "isolated", "redis has too few replicas to be sure that it is the primary";
    /// Redis is loading its data.
    Loading = "loading", "redis is loading its data";
    /// Redis is held up by a script of somebody's.
    Busy = "busy", "redis is held up by a script";
    /// Redis is out of memory.
    OutOfMemory = "out_of_memory", "redis is out of memory";
    /// Redis cannot write to its disk.
    Disk = "disk", "redis cannot write to its disk";
    /// Redis does not let this user ask.
    Denied = "denied", "redis does not let this user ask";
    /// There are no credentials or certificates to show Redis: the application's provider failed, or a file cannot be read.
    Credentials = "credentials", "there are no credentials or certificates to show redis";
    /// The node of a cluster does not serve the filter's slot, or not now; or Redis is a node, and the URL names a server.
    Cluster = "cluster", "the node of the cluster does not serve the filter's slot";
    /// Redis is too old, or lacks a command that the guard needs.
    Unsupported = "unsupported", "redis is too old, or lacks a command that the guard needs";
    /// Redis takes no strings as long as the filter (`proto-max-bulk-len`).
    StringLimit = "string_limit", "redis takes no strings as long as the filter (proto-max-bulk-len)";
    /// Redis may evict any key (`allkeys-*`), and that was not accepted.
    Eviction = "eviction", "redis may evict any key (allkeys-*), and that was not accepted";
    /// Redis refused the question for another reason.
    Refused = "refused", "redis refuses to answer";
    /// Redis answered something that makes no sense as an answer.
    Odd = "odd", "redis gave an answer that makes no sense";
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}
