//! What to do about what goes wrong: one table, from the error to a sentence or two. Doubts have theirs in `verdict.rs`, Redis's
//! refusals in `refusal.rs`.
//!
//! The state of a guard, its log lines and the documentation say these sentences, and no others.

use super::{ChangeError, FleetError, RebuildError, StoreError};
use crate::refusal::Refusal;
use crate::verdict::Doubt;

macro_rules! advice {
    ($($type:ident { $($cause:pat => $advice:expr;)* })*) => { $(
        impl $type {
            /// Returns what to do about it, in a sentence or two:
            ///
            $(#[doc = concat!("- `", stringify!($cause), "`: ", stringify!($advice))])*
            #[must_use]
            pub const fn advice(&self) -> &'static str {
                match self {
                    $($cause => $advice,)*
                }
            }
        }
    )* };
}

#[rustfmt::skip]
advice! {
    StoreError {
        Self::Disconnected { doubt, .. } => doubt.advice();
        Self::Timeout { .. } => "Look for a slow network, slow commands in Redis (SLOWLOG), a busy processor or a CPU limit.";
        Self::Refused { doubt, .. } => doubt.advice();
        Self::Odd { .. } => Refusal::ODD.advice();
        Self::Foreign { .. } => "See what is wrong with the key. If a newer version of the crate wrote it, update this process.";
        Self::OtherKey { .. } => Doubt::OtherKey.advice();
        Self::NoRoom { .. } => Refusal::OUT_OF_MEMORY.advice();
        Self::Fenced { .. } => "The newer rebuild goes on. If it comes again, look for clocks that jump.";
        Self::Lost { .. } => "The next rebuild follows. If it comes again, find out what else writes to the filter's keys.";
        Self::JournalGap { .. } => "Wait as long as longest_transaction. If it comes again, insert many ids at a time with insert_many, and see that nothing else deletes or trims the journal.";
        Self::OtherRedis => "The next rebuild follows.";
        Self::Changing => "It passes by itself within seconds.";
    }

    RebuildError {
        Self::NoSource => "Give the builder a source, or leave rebuilds to another process.";
        Self::Busy => "The filter of the other process serves this one, too.";
        Self::OtherSource { .. } => "Give each set of records a name of its own. If it is the same set elsewhere, call rebuild_accepting_loss once.";
        Self::Source(_) => "See that the database answers the source's queries. The error names the first cause.";
        Self::InvalidId { .. } => "Have the source give ids as requests name them.";
        Self::Empty => "See that the source reads the right table. If that may be empty, call rebuild_accepting_loss.";
        Self::Shrunk { .. } => "See that the source reads the right table, and all of it. After a purge, call rebuild_accepting_loss.";
        Self::Shards { first, .. } => first.advice();
        Self::Sizing(_) => "Choose a higher false-positive rate, or cut the filter into shards: a string takes 512 MB at most.";
        Self::Outgrown { .. } => "Raise capacity: the table grows faster than it is scanned.";
        Self::TooLong { .. } => "Find out why the scan is slow or hangs. It should read an index on the id's column.";
        Self::Store(error) => error.advice();
    }

    FleetError {
        Self::Overtaken => "See who else changes the mode and whether Redis is another, and call again.";
        Self::Rebuild(_) => "Read the advice of the rebuild's own error.";
        Self::Store(error) => error.advice();
    }

    ChangeError {
        Self::Invalid(_) => "Refuse the record: no request can name it.";
        Self::Store(error) => error.advice();
    }
}
