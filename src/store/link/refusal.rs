//! What follows from what Redis says when it refuses.

use crate::refusal::{ConnectionAfter, Refusal, Retry, STARTS};
use crate::verdict::Doubt;

/// What follows from an error message of Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Consequences {
    /// What a refused check leaves in doubt. It is never an absence.
    pub(crate) doubt: Doubt,
    /// Whether a refused add is worth repeating within its deadline.
    pub(crate) retry: Retry,
    /// Whether the connection may stay in use.
    pub(crate) connection: ConnectionAfter,
}

/// Messages that say what is at the key: something else than a string; no filter of a module.
const OF_THE_KEY: [(&str, Doubt); 2] =
    [("WRONGTYPE", Doubt::Damaged), ("ERR not found", Doubt::Gone)];

impl Consequences {
    /// Reads an error message of Redis.
    pub(crate) fn read(words: &str) -> Self {
        // Before 7.0 a script's error hides the code of the command that failed, behind the line that called it.
        let hidden = words.strip_prefix("ERR Error running script");
        let behind =
            hidden.and_then(|words| words.rsplit_once("@user_script:")?.1.split_once(": "));
        if let Some((_, inner)) = behind {
            return Self::read(inner.trim_start_matches('-'));
        }
        let of_the_key = OF_THE_KEY.iter().find(|(start, _)| begins(words, start));
        let lasting = |doubt| Self { doubt, retry: Retry::No, connection: ConnectionAfter::Keep };
        Self::known(words).unwrap_or_else(|| {
            lasting(of_the_key.map_or(Doubt::Refused(Refusal::OTHER), |(_, doubt)| *doubt))
        })
    }

    /// Reads an error message of a known refusal.
    pub(crate) fn known(words: &str) -> Option<Self> {
        let &(_, refusal, retry, connection) =
            STARTS.iter().find(|(start, ..)| begins(words, start))?;
        Some(Self { doubt: Doubt::Refused(refusal), retry, connection })
    }
}

/// Whether a node of a cluster says that it does not serve the slot.
pub(crate) fn serves_no_slot(words: &str) -> bool {
    has_moved(words) || words.starts_with("CLUSTERDOWN")
}

/// Whether a node of a cluster says that another one does.
pub(crate) fn has_moved(words: &str) -> bool {
    words.starts_with("MOVED")
}

/// Whether an error message says that the server does not know a script by its hash.
pub(crate) fn is_unknown_script(words: &str) -> bool {
    begins(words, "NOSCRIPT")
}

fn begins(words: &str, start: &str) -> bool {
    words.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refusal::ConnectionAfter::{Keep, Moved, Withdraw};
    use crate::refusal::Retry::{No, Soon};
    use crate::verdict::Doubt::{Damaged, Gone, Refused};

    /// What redis-server 6.2, 7.0 and 8.2 and `RedisBloom` 2.8 say, word for word.
    #[rustfmt::skip]
    const WORDS: [(&str, Doubt, Retry, ConnectionAfter); 38] = [
        ("READONLY You can't write against a read only replica.", Refused(Refusal::REPLICA), Soon, Withdraw),
        ("READONLY You can't write against a read only replica. script: 57fb796748705b1abb821deb52273f4894348be1, on @user_script:1.", Refused(Refusal::REPLICA), Soon, Withdraw),
        ("ERR Error running script (call to f_57fb796748705b1abb821deb52273f4894348be1): @user_script:1: @user_script: 1: -READONLY You can't write against a read only replica.", Refused(Refusal::REPLICA), Soon, Withdraw),
        ("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", Refused(Refusal::REPLICA), Soon, Withdraw),
        ("NOREPLICAS Not enough good replicas to write.", Refused(Refusal::ISOLATED), Soon, Withdraw),
        ("LOADING Redis is loading the dataset in memory", Refused(Refusal::LOADING), Soon, Keep),
        ("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", Refused(Refusal::BUSY), Soon, Keep),
        ("OOM command not allowed when used memory > 'maxmemory'.", Refused(Refusal::OUT_OF_MEMORY), No, Keep),
        ("MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that may modify the data set are disabled, because this instance is configured to report errors during writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the RDB error.", Refused(Refusal::DISK), No, Keep),
        ("NOAUTH Authentication required.", Refused(Refusal::DENIED), Soon, Withdraw),
        ("WRONGPASS invalid username-password pair or user is disabled.", Refused(Refusal::DENIED), Soon, Withdraw),
        ("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?", Refused(Refusal::DENIED), Soon, Withdraw),
        ("DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the default user.", Refused(Refusal::DENIED), Soon, Withdraw),
        ("NOPERM this user has no permissions to run the 'bitfield' command", Refused(Refusal::DENIED), No, Keep),
        ("ERR The user executing the script can't run this command or subcommand script: 57fb796748705b1abb821deb52273f4894348be1, on @user_script:1.", Refused(Refusal::DENIED), No, Keep),
        ("ERR Error running script (call to f_57fb796748705b1abb821deb52273f4894348be1): @user_script:2: @user_script: 2: The user executing the script can't run this command or subcommand", Refused(Refusal::DENIED), No, Keep),
        ("ERR ACL failure in script: User guard has no permissions to run the 'setrange' command script: 57fb796748705b1abb821deb52273f4894348be1, on @user_script:2.", Refused(Refusal::DENIED), No, Keep),
        ("CLUSTERDOWN Hash slot not served", Refused(Refusal::CLUSTER), Soon, Keep),
        ("CLUSTERDOWN The cluster is down", Refused(Refusal::CLUSTER), Soon, Keep),
        ("TRYAGAIN Multiple keys request during rehashing of slot", Refused(Refusal::CLUSTER), Soon, Keep),
        ("MOVED 3828 127.0.0.1:7002", Refused(Refusal::CLUSTER), Soon, Moved),
        ("ASK 3828 127.0.0.1:7002", Refused(Refusal::CLUSTER), Soon, Keep),
        ("CROSSSLOT Keys in request don't hash to the same slot", Refused(Refusal::CLUSTER), No, Keep),
        ("WRONGTYPE Operation against a key holding the wrong kind of value", Damaged, No, Keep),
        ("ERR not found", Gone, No, Keep),
        ("ERR non scaling filter is full", Refused(Refusal::FULL), No, Keep),
        ("NOSCRIPT No matching script. Please use EVAL.", Refused(Refusal::OTHER), Soon, Keep),
        ("EXECABORT Transaction discarded because of previous errors.", Refused(Refusal::OTHER), Soon, Withdraw),
        ("ERR max number of clients reached", Refused(Refusal::OTHER), Soon, Withdraw),
        ("ERR unknown command 'FOO', with args beginning with: ", Refused(Refusal::UNSUPPORTED), No, Keep),
        ("ERR Unknown Redis command called from script script: 57fb796748705b1abb821deb52273f4894348be1, on @user_script:1.", Refused(Refusal::UNSUPPORTED), No, Keep),
        ("ERR bit offset is not an integer or out of range", Refused(Refusal::STRING_LIMIT), No, Keep),
        ("ERR string exceeds maximum allowed size (proto-max-bulk-len)", Refused(Refusal::STRING_LIMIT), No, Keep),
        ("ERR Error running script (call to f_6fa4abca3f77a8800bdde2af9cd4a18cabbbdda2): @user_script:25: ERR string exceeds maximum allowed size (proto-max-bulk-len)", Refused(Refusal::STRING_LIMIT), No, Keep),
        ("ERR Error running script (call to f_6fa4abca3f77a8800bdde2af9cd4a18cabbbdda2): @user_script:25: WRONGTYPE Operation against a key holding the wrong kind of value", Damaged, No, Keep),
        ("ERR syntax error", Refused(Refusal::OTHER), No, Keep),
        ("READONLYISH words", Refused(Refusal::OTHER), No, Keep),
        ("", Refused(Refusal::OTHER), No, Keep),
    ];

    #[test]
    fn every_refusal_of_redis_has_its_consequences() {
        for (words, left, retry, connection) in WORDS {
            let follows = Consequences { doubt: left, retry, connection };
            assert_eq!(Consequences::read(words), follows, "{words}");
            assert_eq!(is_unknown_script(words), words.starts_with("NOSCRIPT "), "{words}");
        }
    }
}
