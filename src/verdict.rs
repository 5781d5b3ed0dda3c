//! What a look-up can say.

use std::fmt;

use crate::refusal::Refusal;

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

/// Names each doubt once: what it means, its code, its words, and what to do about it.
macro_rules! doubts {
    ($($(#[$doc:meta])* $doubt:ident = $code:literal, $words:literal, $advice:literal;)*) => {
        /// Why a verdict is unknown. Each has a code, words and an [advice](Self::advice); so has each [`Refusal`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Doubt {
            $(
                $(#[$doc])*
                #[doc = concat!("\n\n", "*", $advice, "*")]
                $doubt,
            )*
            /// Redis refuses to answer, is not fit to, or gave an answer that makes no sense: the refusal says which.
            Refused(Refusal),
        }

        impl Doubt {
            /// Returns its code, fit for a metric's label: the refusal's own where Redis refuses.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$doubt => $code,)*
                    Self::Refused(refusal) => refusal.as_str(),
                }
            }

            /// Returns what to do about it, in a sentence or two.
            #[must_use]
            pub const fn advice(self) -> &'static str {
                match self {
                    $(Self::$doubt => $advice,)*
                    Self::Refused(refusal) => refusal.advice(),
                }
            }
        }

        impl fmt::Display for Doubt {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$doubt => f.write_str($words),)*
                    Self::Refused(refusal) => refusal.fmt(f),
                }
            }
        }
    };
}

#[rustfmt::skip]
doubts! {
    /// There is no connection to Redis (yet, or any more).
    Disconnected = "disconnected", "no connection to redis",
        "See that Redis runs, that URL, network and firewall lead to its primary, and that the port takes TLS for rediss://, and none for redis://.";
    /// Redis did not answer within the deadline.
    Timeout = "timeout", "redis did not answer within the deadline",
        "Look for a slow network, slow commands in Redis (SLOWLOG), a busy processor or a CPU limit; or, for checks, raise check_deadline.";
    /// Too many checks are in flight already.
    Overloaded = "overloaded", "too many checks in flight",
        "Find out why Redis answers slowly, or spread the requests over more processes.";
    /// No filter has been built yet; of a filter in shards, this shard has not.
    NoFilter = "no_filter", "no filter has been built",
        "Wait for the first rebuild, which puts one shard after the other live. If none comes, see that a process has a source, and read its state; another system's filter needs trust_foreign first.";
    /// The filter that this process has seen is gone.
    Gone = "gone", "the live filter is gone from redis",
        "A process that has a source rebuilds the filter; without one, another system's filter needs trust_foreign. Look for FLUSHALL, DEL, EXPIRE or an eviction.";
    /// The live key holds something else than a whole filter that this version of the crate reads.
    Damaged = "damaged", "the live key holds no whole filter that this process can read",
        "A rebuild replaces the filter; without a source, another system's filter needs trust_foreign. Find out what else writes to its key, and delete any other key of the guard that has another type. If a newer version of the crate has built it, update this process.";
    /// The filter is new, and processes that do not insert into it may still run: what it lacks may exist.
    Settling = "settling", "the filter is new, and settles",
        "It ends by itself: see the guide, fleet. Once every process inserts, enforce_everywhere ends it sooner.";
    /// The filter was built with another secret key.
    OtherKey = "other_key", "the live filter was built with another secret key",
        "Give all processes the same secret_key.";
    /// The filter was verified on another Redis process than the one that answers, another one was put in its place, or this
    /// process has inserts to repeat: acknowledged adds may be missing from it.
    Suspect = "suspect", "the live filter was verified on another redis process, or was replaced just now",
        "Redis has restarted or failed over, or it passes by itself within seconds. A process that has a source rebuilds the filter; without one, another system's filter needs trust_foreign.";
    /// An id that exists was found missing from the filter, so that others may be missing, too.
    Disproved = "disproved", "an id that exists was found missing from the live filter",
        "A process that has a source rebuilds the filter; without one, another system's filter needs trust_foreign. Find out why the id was missing: a create without insert, or a source that leaves rows out.";
    /// The filter took the place of a disproved one, and two ids that exist were found missing from it, too. It refuses nothing
    /// until the next rebuild by schedule or by hand.
    DisprovedTwice = "disproved_twice", "ids that exist were found missing from the live filter, and from the one before",
        "Is the name used by two services? With in_process(): do several processes create records? Else the source leaves rows out, or the handler answers 2xx for what does not exist: next_finding() gives ids. A rebuild by schedule or by hand ends it.";
}

#[cfg(feature = "cli")]
impl serde::Serialize for Doubt {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_advice_has_the_application_wait_for_a_rebuild_of_another_systems_filter() {
        use Doubt::{Damaged, Disproved, Gone, NoFilter, Suspect};
        // What ends trust in such a filter, and what it begins with.
        for doubt in [NoFilter, Gone, Damaged, Suspect, Disproved] {
            let advice = doubt.advice();
            assert!(advice.contains("another system's filter needs trust_foreign"), "{advice}");
        }
    }

    #[test]
    fn a_verdict_is_small() {
        assert!(size_of::<Verdict>() <= 4, "{} bytes", size_of::<Verdict>());
    }
}
