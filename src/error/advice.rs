//! What to do about what goes wrong: one table, from the cause to a sentence or two.
//!
//! The state of a guard, its log lines and the documentation say these sentences, and no others.

use super::{ChangeError, FleetError, RebuildError, StoreError};
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
    Doubt {
        Self::Disconnected => "See that Redis runs, and that URL, network and firewall lead to its primary.";
        Self::Timeout => "Look for a slow network, slow commands in Redis (SLOWLOG), a busy processor or a CPU limit, or raise check_deadline.";
        Self::Overloaded => "Find out why Redis answers slowly, or spread the requests over more processes.";
        Self::NoFilter => "Wait for the first rebuild. If none comes, see that a process has a source, and read its state; another system's filter needs trust_foreign first.";
        Self::ShardNotBuilt => "The first rebuild puts one shard after the other live.";
        Self::Gone => "A process that has a source rebuilds the filter; without one, another system's filter needs trust_foreign. Look for FLUSHALL, DEL, EXPIRE or an eviction.";
        Self::WrongType => "A rebuild replaces the filter; without a source, another system's filter needs trust_foreign. Delete any other key of the guard that has another type. Find out what else writes there.";
        Self::Foreign => "A rebuild replaces the filter; without a source, another system's filter needs trust_foreign. Find out what else writes to its key.";
        Self::Full => "Have the other system make a larger filter, or one that scales, and fill it. Then see trust_foreign.";
        Self::Truncated => "A rebuild replaces the filter. Find out what else writes to its key.";
        Self::Version => "Update this process: a newer version of the crate has built the filter.";
        Self::NotLive => "A process that has a source rebuilds the filter. At least one needs it.";
        Self::Settling => "It ends by itself: see the guide, fleet. Once every process inserts, enforce_everywhere ends it sooner.";
        Self::OtherKey => "Give all processes the same secret_key.";
        Self::Suspect => "Redis has restarted or failed over. A process that has a source rebuilds the filter; without one, another system's filter needs trust_foreign.";
        Self::DisprovedTwice => "Is the name used by two services? With in_process(): do several processes create records? Else the source leaves rows out, or the handler answers 2xx for what does not exist: next_finding() gives ids. A rebuild by schedule or by hand ends it.";
        Self::Disproved => "A process that has a source rebuilds the filter; without one, another system's filter needs trust_foreign. Find out why the id was missing: a create without insert, or a source that leaves rows out.";
        Self::Changing => "It passes by itself within seconds.";
        Self::Replica => "Have the URL lead to the primary.";
        Self::Isolated => "Bring Redis's replicas back, or lower min-replicas-to-write.";
        Self::Loading => "It passes by itself when Redis has read its data.";
        Self::Busy => "Find the long script in Redis (SLOWLOG), and end it with SCRIPT KILL.";
        Self::OutOfMemory => "Raise maxmemory, or free memory: during a rebuild Redis holds two filters.";
        Self::Disk => "Give Redis room on its disk, or see its log for why it cannot write.";
        Self::Denied => "Put the right credentials into the URL, or have the provider give them, and give that Redis user the rights that the guide lists.";
        Self::Credentials => "See why the provider of credentials fails or is late, or why the files of certificates cannot be read. The reason says which.";
        Self::Cluster => "Name the cluster in a redis+cluster:// url. Where that is done, see CLUSTER INFO: the slot is on its way, or the cluster is down.";
        Self::Unsupported => "Use Redis 6.2 or later, or Valkey, and neither rename nor disable a command that the guide lists. A filter of RedisBloom needs its module.";
        Self::StringLimit => "Raise proto-max-bulk-len to Redis's default, 512 MB, or choose a smaller capacity.";
        Self::Eviction => "Set maxmemory-policy to noeviction or volatile-lru, or take the risk with accept_eviction.";
        Self::Refused => "Read Redis's words, and its log.";
        Self::Odd => "See that URL and proxies lead to Redis 6.2 or later, or to Valkey.";
    }

    StoreError {
        Self::Disconnected { doubt, .. } => doubt.advice();
        Self::Timeout { .. } => "Look for a slow network, slow commands in Redis (SLOWLOG), a busy processor or a CPU limit.";
        Self::Refused { doubt, .. } => doubt.advice();
        Self::Odd { .. } => Doubt::Odd.advice();
        Self::Foreign { .. } => "See what is wrong with the key. If a newer version of the crate wrote it, update this process.";
        Self::OtherKey { .. } => Doubt::OtherKey.advice();
        Self::NoRoom { .. } => Doubt::OutOfMemory.advice();
        Self::Fenced { .. } => "The newer rebuild goes on. If it comes again, look for clocks that jump.";
        Self::Lost { .. } => "The next rebuild follows. If it comes again, find out what else writes to the filter's keys.";
        Self::JournalGap { .. } => "Wait as long as longest_transaction. If it comes again, raise journal_entries, and see that nothing else deletes or trims the journal.";
        Self::OtherRedis => "The next rebuild follows.";
        Self::Changing => Doubt::Changing.advice();
    }

    RebuildError {
        Self::NoSource => "Give the builder a source, or leave rebuilds to another process.";
        Self::Busy => "The filter of the other process serves this one, too.";
        Self::NoFleet => "Call set_mode in each process.";
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_advice_has_the_application_wait_for_a_rebuild_of_another_systems_filter() {
        use Doubt::{Disproved, Foreign, Gone, NoFilter, Suspect, WrongType};
        // What ends trust in such a filter, and what it begins with.
        for doubt in [NoFilter, Gone, WrongType, Foreign, Suspect, Disproved] {
            let advice = doubt.advice();
            assert!(advice.contains("another system's filter needs trust_foreign"), "{advice}");
        }
    }
}
