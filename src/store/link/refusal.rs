//! What follows when Redis refuses: one row for every error code.

use self::ConnectionAfter::{Keep, Moved, Withdraw};
use self::Retry::{No, Soon};
use super::credentials::{CERTIFICATES, PROVIDER};
use crate::error::StoreError;
use crate::verdict::Doubt;

/// What follows from a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// What a refused check leaves in doubt. It is never an absence.
    pub(crate) doubt: Doubt,
    /// Whether a refused add is worth repeating within its deadline.
    pub(crate) retry: Retry,
    /// Whether the connection may stay in use.
    pub(crate) connection: ConnectionAfter,
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
    /// What was asked for is at another node.
    Moved,
    /// The other end is not what it was when it answered the handshake.
    Withdraw,
}

/// The code by which Redis says that a script has to be sent whole.
const UNKNOWN_SCRIPT: &str = "NOSCRIPT";

/// The codes by which a node of a cluster says that it does not serve the slot: another does, or may.
const MOVED: &str = "MOVED";
const CLUSTERDOWN: &str = "CLUSTERDOWN";

/// Words that Redis, or what connects to it, begins with; one of these is followed by a space or nothing.
#[rustfmt::skip]
const REFUSALS: [(&str, Doubt, Retry, ConnectionAfter); 32] = [
    // It became a replica. Its address may lead to the new primary by now.
    ("READONLY", Doubt::Replica, Soon, Withdraw),
    // It is a replica that is cut off from its primary.
    ("MASTERDOWN", Doubt::Replica, Soon, Withdraw),
    // It is cut off from its replicas, one of which may be the primary by now.
    ("NOREPLICAS", Doubt::Isolated, Soon, Withdraw),
    // It has just started.
    ("LOADING", Doubt::Loading, Soon, Keep),
    // A script runs for long.
    ("BUSY", Doubt::Busy, Soon, Keep),
    // Its memory is full.
    ("OOM", Doubt::OutOfMemory, No, Keep),
    // It cannot write to its disk.
    ("MISCONF", Doubt::Disk, No, Keep),
    // The credentials are missing or wrong.
    ("NOAUTH", Doubt::Denied, Soon, Withdraw),
    ("WRONGPASS", Doubt::Denied, Soon, Withdraw),
    // A password was given, and Redis has none.
    ("ERR AUTH", Doubt::Denied, Soon, Withdraw),
    // Not Redis's words: nothing is there to show it.
    (PROVIDER, Doubt::Credentials, Soon, Withdraw),
    (CERTIFICATES, Doubt::Credentials, Soon, Withdraw),
    // Its protected mode takes no connection from elsewhere.
    ("DENIED", Doubt::Denied, Soon, Withdraw),
    // The user may not run the command, or not in a script.
    ("NOPERM", Doubt::Denied, No, Keep),
    ("ERR The user executing the script can't", Doubt::Denied, No, Keep),
    ("The user executing the script can't", Doubt::Denied, No, Keep),
    ("ERR ACL failure in script:", Doubt::Denied, No, Keep),
    (CLUSTERDOWN, Doubt::Cluster, Soon, Keep),
    // The slot is on its way to another node.
    ("TRYAGAIN", Doubt::Cluster, Soon, Keep),
    // It serves the slot no more. Whoever connects next asks which node does.
    (MOVED, Doubt::Cluster, Soon, Moved),
    // The slot is on its way, and the key is not here any more, or never was.
    ("ASK", Doubt::Cluster, Soon, Keep),
    ("CROSSSLOT", Doubt::Cluster, No, Keep),
    // The key holds something else.
    ("WRONGTYPE", Doubt::WrongType, No, Keep),
    // A module has no filter at the key.
    ("ERR not found", Doubt::Gone, No, Keep),
    // A module's filter takes no more ids.
    ("ERR non scaling filter is full", Doubt::Full, No, Keep),
    // The command is older or newer than the server, or was renamed; the second says so of a script.
    ("ERR unknown command", Doubt::Unsupported, No, Keep),
    ("ERR Unknown Redis command called from script", Doubt::Unsupported, No, Keep),
    // The filter is longer than `proto-max-bulk-len`.
    ("ERR bit offset is not an integer or out of range", Doubt::StringLimit, No, Keep),
    ("ERR string exceeds maximum allowed size", Doubt::StringLimit, No, Keep),
    // The server does not know the script by its hash.
    (UNKNOWN_SCRIPT, Doubt::Refused, Soon, Keep),
    // The connection is inside a transaction, which the guard never begins.
    ("EXECABORT", Doubt::Refused, Soon, Withdraw),
    ("ERR max number of clients", Doubt::Refused, Soon, Withdraw),
];

impl Refusal {
    /// Reads an error message of Redis.
    pub(crate) fn read(words: &str) -> Self {
        // Before 7.0 a script's error hides the code of the command that failed, behind the line that called it.
        let hidden = words.strip_prefix("ERR Error running script");
        let behind =
            hidden.and_then(|words| words.rsplit_once("@user_script:")?.1.split_once(": "));
        if let Some((_, inner)) = behind {
            return Self::read(inner.trim_start_matches('-'));
        }
        let unknown = Self { doubt: Doubt::Refused, retry: No, connection: Keep };
        Self::known(words).unwrap_or(unknown)
    }

    /// Reads an error message that has a row.
    pub(crate) fn known(words: &str) -> Option<Self> {
        let (_, doubt, retry, connection) =
            REFUSALS.into_iter().find(|(start, ..)| begins(words, start))?;
        Some(Self { doubt, retry, connection })
    }
}

/// Whether a node of a cluster says that it does not serve the slot.
pub(crate) fn serves_no_slot(words: &str) -> bool {
    [MOVED, CLUSTERDOWN].iter().any(|code| words.starts_with(code))
}

/// Whether a node of a cluster says that another one does.
pub(crate) fn has_moved(words: &str) -> bool {
    words.starts_with(MOVED)
}

/// Whether an error message says that the server does not know a script by its hash.
pub(crate) fn is_unknown_script(words: &str) -> bool {
    begins(words, UNKNOWN_SCRIPT)
}

fn begins(words: &str, start: &str) -> bool {
    words.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

/// Returns what an error leaves in doubt. None of them is ever an absence.
pub(crate) fn doubt(error: &StoreError) -> Doubt {
    match error {
        StoreError::Timeout { .. } => Doubt::Timeout,
        StoreError::Disconnected { doubt, .. } | StoreError::Refused { doubt, .. } => *doubt,
        StoreError::Foreign { .. } => Doubt::Foreign,
        StoreError::OtherKey { .. } => Doubt::OtherKey,
        StoreError::Odd { .. }
        | StoreError::NoRoom { .. }
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

    /// What redis-server 6.2, 7.0 and 8.2 and `RedisBloom` 2.8 say, word for word.
    #[rustfmt::skip]
    const WORDS: [(&str, Doubt, Retry, ConnectionAfter); 38] = [
        ("READONLY You can't write against a read only replica.", Doubt::Replica, Soon, Withdraw),
        ("READONLY You can't write against a read only replica. script: 57fb796748705b1abb821deb52273f4894348be1, on @user_script:1.", Doubt::Replica, Soon, Withdraw),
        ("ERR Error running script (call to f_57fb796748705b1abb821deb52273f4894348be1): @user_script:1: @user_script: 1: -READONLY You can't write against a read only replica.", Doubt::Replica, Soon, Withdraw),
        ("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", Doubt::Replica, Soon, Withdraw),
        ("NOREPLICAS Not enough good replicas to write.", Doubt::Isolated, Soon, Withdraw),
        ("LOADING Redis is loading the dataset in memory", Doubt::Loading, Soon, Keep),
        ("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", Doubt::Busy, Soon, Keep),
        ("OOM command not allowed when used memory > 'maxmemory'.", Doubt::OutOfMemory, No, Keep),
        ("MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that may modify the data set are disabled, because this instance is configured to report errors during writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the RDB error.", Doubt::Disk, No, Keep),
        ("NOAUTH Authentication required.", Doubt::Denied, Soon, Withdraw),
        ("WRONGPASS invalid username-password pair or user is disabled.", Doubt::Denied, Soon, Withdraw),
        ("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?", Doubt::Denied, Soon, Withdraw),
        ("DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the default user.", Doubt::Denied, Soon, Withdraw),
        ("NOPERM this user has no permissions to run the 'bitfield' command", Doubt::Denied, No, Keep),
        ("ERR The user executing the script can't run this command or subcommand script: 57fb796748705b1abb821deb52273f4894348be1, on @user_script:1.", Doubt::Denied, No, Keep),
        ("ERR Error running script (call to f_57fb796748705b1abb821deb52273f4894348be1): @user_script:2: @user_script: 2: The user executing the script can't run this command or subcommand", Doubt::Denied, No, Keep),
        ("ERR ACL failure in script: User guard has no permissions to run the 'setrange' command script: 57fb796748705b1abb821deb52273f4894348be1, on @user_script:2.", Doubt::Denied, No, Keep),
        ("CLUSTERDOWN Hash slot not served", Doubt::Cluster, Soon, Keep),
        ("CLUSTERDOWN The cluster is down", Doubt::Cluster, Soon, Keep),
        ("TRYAGAIN Multiple keys request during rehashing of slot", Doubt::Cluster, Soon, Keep),
        ("MOVED 3828 127.0.0.1:7002", Doubt::Cluster, Soon, Moved),
        ("ASK 3828 127.0.0.1:7002", Doubt::Cluster, Soon, Keep),
        ("CROSSSLOT Keys in request don't hash to the same slot", Doubt::Cluster, No, Keep),
        ("WRONGTYPE Operation against a key holding the wrong kind of value", Doubt::WrongType, No, Keep),
        ("ERR not found", Doubt::Gone, No, Keep),
        ("ERR non scaling filter is full", Doubt::Full, No, Keep),
        ("NOSCRIPT No matching script. Please use EVAL.", Doubt::Refused, Soon, Keep),
        ("EXECABORT Transaction discarded because of previous errors.", Doubt::Refused, Soon, Withdraw),
        ("ERR max number of clients reached", Doubt::Refused, Soon, Withdraw),
        ("ERR unknown command 'FOO', with args beginning with: ", Doubt::Unsupported, No, Keep),
        ("ERR Unknown Redis command called from script script: 57fb796748705b1abb821deb52273f4894348be1, on @user_script:1.", Doubt::Unsupported, No, Keep),
        ("ERR bit offset is not an integer or out of range", Doubt::StringLimit, No, Keep),
        ("ERR string exceeds maximum allowed size (proto-max-bulk-len)", Doubt::StringLimit, No, Keep),
        ("ERR Error running script (call to f_6fa4abca3f77a8800bdde2af9cd4a18cabbbdda2): @user_script:25: ERR string exceeds maximum allowed size (proto-max-bulk-len)", Doubt::StringLimit, No, Keep),
        ("ERR Error running script (call to f_6fa4abca3f77a8800bdde2af9cd4a18cabbbdda2): @user_script:25: WRONGTYPE Operation against a key holding the wrong kind of value", Doubt::WrongType, No, Keep),
        ("ERR syntax error", Doubt::Refused, No, Keep),
        ("READONLYISH words", Doubt::Refused, No, Keep),
        ("", Doubt::Refused, No, Keep),
    ];

    #[test]
    fn every_refusal_of_redis_has_its_consequences() {
        for (words, left, retry, connection) in WORDS {
            let refusal = Refusal { doubt: left, retry, connection };
            assert_eq!(Refusal::read(words), refusal, "{words}");
            assert_eq!(is_unknown_script(words), words.starts_with("NOSCRIPT "), "{words}");
        }
    }
}
