//! What Redis means when it refuses, and what follows from it, for every error code.

use crate::error::StoreError;
use crate::verdict::Doubt;

/// A refusal, by its error code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// `READONLY`: it became a replica.
    ReadOnly,
    /// `MASTERDOWN`: it is a replica, and cut off from its primary.
    MasterDown,
    /// `NOREPLICAS`: a primary that is cut off from its replicas, and may have been replaced.
    NoReplicas,
    /// `LOADING`: it has just started.
    Loading,
    /// `BUSY`: a script runs for long.
    Busy,
    /// `OOM`: its memory is full.
    OutOfMemory,
    /// `MISCONF`: it cannot write to its disk.
    Misconfigured,
    /// `NOAUTH`, `WRONGPASS`: the credentials are missing or wrong.
    NotAuthenticated,
    /// `NOPERM`, and a script's command that the user may not run.
    NoPermission,
    /// `CLUSTERDOWN`.
    ClusterDown,
    /// `TRYAGAIN`: the slot is on its way to another node.
    TryAgain,
    /// `MOVED`, `ASK`, `CROSSSLOT`: a node of a cluster, which this store does not speak to.
    Redirected,
    /// `WRONGTYPE`: a key holds something else.
    WrongType,
    /// `NOSCRIPT`: the script has to be sent whole.
    NoScript,
    /// `EXECABORT`: the connection is inside a transaction, which the guard never begins.
    Aborted,
    /// It has too many clients.
    TooManyClients,
    /// Anything else.
    Other,
}

/// Whether an add that was refused so is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retry {
    /// It may be accepted in a moment.
    Soon,
    /// It would be refused again.
    No,
}

/// What becomes of the connection after a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionAfter {
    Keep,
    /// The other end is not what it was when it answered the handshake.
    Withdraw,
}

impl Refusal {
    /// Reads an error message of Redis, which begins with its code.
    pub(crate) fn read(reason: &str) -> Self {
        let (code, rest) = reason.split_once(' ').unwrap_or((reason, ""));
        match code {
            "READONLY" => Self::ReadOnly,
            "MASTERDOWN" => Self::MasterDown,
            "NOREPLICAS" => Self::NoReplicas,
            "LOADING" => Self::Loading,
            "BUSY" => Self::Busy,
            "OOM" => Self::OutOfMemory,
            "MISCONF" => Self::Misconfigured,
            "NOAUTH" | "WRONGPASS" => Self::NotAuthenticated,
            "NOPERM" => Self::NoPermission,
            "CLUSTERDOWN" => Self::ClusterDown,
            "TRYAGAIN" => Self::TryAgain,
            "MOVED" | "ASK" | "CROSSSLOT" => Self::Redirected,
            "WRONGTYPE" => Self::WrongType,
            "NOSCRIPT" => Self::NoScript,
            "EXECABORT" => Self::Aborted,
            "ERR" if rest.starts_with("max number of clients") => Self::TooManyClients,
            "ERR" if rest.starts_with("The user executing the script can't") => Self::NoPermission,
            // Before 7.0 a script's error hides the code of the command that failed.
            "ERR" if rest.starts_with("Error running script") => {
                rest.rsplit_once(": -").map_or(Self::Other, |(_, inner)| Self::read(inner))
            }
            _ => Self::Other,
        }
    }

    /// Returns what a refused check leaves in doubt. It is never an absence.
    pub(crate) const fn doubt(self) -> Doubt {
        self.consequences().0
    }

    /// Whether a refused add is worth repeating within its deadline.
    pub(crate) const fn retry(self) -> Retry {
        self.consequences().1
    }

    /// Whether the connection may stay in use.
    pub(crate) const fn connection(self) -> ConnectionAfter {
        self.consequences().2
    }

    const fn consequences(self) -> (Doubt, Retry, ConnectionAfter) {
        use ConnectionAfter::{Keep, Withdraw};
        use Retry::{No, Soon};
        match self {
            // The address may lead to the new primary by now.
            Self::ReadOnly | Self::MasterDown => (Doubt::Replica, Soon, Withdraw),
            Self::NoReplicas => (Doubt::Isolated, Soon, Withdraw),
            Self::NotAuthenticated => (Doubt::Denied, Soon, Withdraw),
            Self::Aborted | Self::TooManyClients => (Doubt::Refused, Soon, Withdraw),
            Self::Loading => (Doubt::Loading, Soon, Keep),
            Self::Busy => (Doubt::Busy, Soon, Keep),
            Self::ClusterDown | Self::TryAgain => (Doubt::Cluster, Soon, Keep),
            Self::NoScript => (Doubt::Refused, Soon, Keep),
            Self::OutOfMemory => (Doubt::OutOfMemory, No, Keep),
            Self::Misconfigured => (Doubt::Disk, No, Keep),
            Self::NoPermission => (Doubt::Denied, No, Keep),
            Self::Redirected => (Doubt::Cluster, No, Keep),
            Self::WrongType => (Doubt::WrongType, No, Keep),
            Self::Other => (Doubt::Refused, No, Keep),
        }
    }
}

/// Returns what an error leaves in doubt. None of them is ever an absence.
pub(crate) fn doubt(error: &StoreError) -> Doubt {
    match error {
        StoreError::Disconnected { .. } => Doubt::Disconnected,
        StoreError::Timeout { .. } => Doubt::Timeout,
        StoreError::Refused { reason } => Refusal::read(reason).doubt(),
        StoreError::Foreign { .. } => Doubt::Foreign,
        StoreError::OtherKey { .. } => Doubt::OtherKey,
        StoreError::Odd { .. }
        | StoreError::Fenced { .. }
        | StoreError::Lost { .. }
        | StoreError::JournalGap { .. }
        | StoreError::OtherRedis
        | StoreError::Changing => Doubt::Odd,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What redis-server 7.0 says, word for word.
    #[rustfmt::skip]
    const WORDS: [(&str, Refusal, Doubt, Retry, ConnectionAfter); 26] = {
        use ConnectionAfter::{Keep, Withdraw};
        use Refusal as R;
        use Retry::{No, Soon};
        [
            ("READONLY You can't write against a read only replica.", R::ReadOnly, Doubt::Replica, Soon, Withdraw),
            ("READONLY You can't write against a read only replica. script: 57fb796748705b1abb821deb52273f4894348be1, on @user_script:1.", R::ReadOnly, Doubt::Replica, Soon, Withdraw),
            ("ERR Error running script (call to f_57fb796748705b1abb821deb52273f4894348be1): @user_script:1: @user_script: 1: -READONLY You can't write against a read only replica.", R::ReadOnly, Doubt::Replica, Soon, Withdraw),
            ("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", R::MasterDown, Doubt::Replica, Soon, Withdraw),
            ("NOREPLICAS Not enough good replicas to write.", R::NoReplicas, Doubt::Isolated, Soon, Withdraw),
            ("LOADING Redis is loading the dataset in memory", R::Loading, Doubt::Loading, Soon, Keep),
            ("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", R::Busy, Doubt::Busy, Soon, Keep),
            ("OOM command not allowed when used memory > 'maxmemory'.", R::OutOfMemory, Doubt::OutOfMemory, No, Keep),
            ("MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that may modify the data set are disabled, because this instance is configured to report errors during writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the RDB error.", R::Misconfigured, Doubt::Disk, No, Keep),
            ("NOAUTH Authentication required.", R::NotAuthenticated, Doubt::Denied, Soon, Withdraw),
            ("WRONGPASS invalid username-password pair or user is disabled.", R::NotAuthenticated, Doubt::Denied, Soon, Withdraw),
            ("NOPERM this user has no permissions to run the 'bitfield' command", R::NoPermission, Doubt::Denied, No, Keep),
            ("ERR The user executing the script can't run this command or subcommand script: 57fb796748705b1abb821deb52273f4894348be1, on @user_script:1.", R::NoPermission, Doubt::Denied, No, Keep),
            ("CLUSTERDOWN Hash slot not served", R::ClusterDown, Doubt::Cluster, Soon, Keep),
            ("CLUSTERDOWN The cluster is down", R::ClusterDown, Doubt::Cluster, Soon, Keep),
            ("TRYAGAIN Multiple keys request during rehashing of slot", R::TryAgain, Doubt::Cluster, Soon, Keep),
            ("MOVED 3828 127.0.0.1:7002", R::Redirected, Doubt::Cluster, No, Keep),
            ("ASK 3828 127.0.0.1:7002", R::Redirected, Doubt::Cluster, No, Keep),
            ("CROSSSLOT Keys in request don't hash to the same slot", R::Redirected, Doubt::Cluster, No, Keep),
            ("WRONGTYPE Operation against a key holding the wrong kind of value", R::WrongType, Doubt::WrongType, No, Keep),
            ("NOSCRIPT No matching script. Please use EVAL.", R::NoScript, Doubt::Refused, Soon, Keep),
            ("EXECABORT Transaction discarded because of previous errors.", R::Aborted, Doubt::Refused, Soon, Withdraw),
            ("ERR max number of clients reached", R::TooManyClients, Doubt::Refused, Soon, Withdraw),
            ("ERR unknown command 'FOO', with args beginning with: ", R::Other, Doubt::Refused, No, Keep),
            ("READONLYISH words", R::Other, Doubt::Refused, No, Keep),
            ("", R::Other, Doubt::Refused, No, Keep),
        ]
    };

    #[test]
    fn every_refusal_of_redis_has_its_consequences() {
        for (words, refusal, left, retry, connection) in WORDS {
            assert_eq!(Refusal::read(words), refusal, "{words}");
            let error = StoreError::Refused { reason: words.to_owned() };
            assert_eq!(doubt(&error), left, "{words}");
            assert_eq!(refusal.retry(), retry, "{words}");
            assert_eq!(refusal.connection(), connection, "{words}");
        }
    }
}
