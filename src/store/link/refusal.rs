//! What follows from what Redis says when it refuses.

use crate::error::StoreError;
use crate::refusal::{Refusal, Retry, STARTS};
use crate::verdict::Doubt;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Consequences {
    /// What a refused check leaves in doubt. It is never an absence.
    pub(crate) doubt: Doubt,
    pub(crate) retry: Retry,
}

/// Messages about what is at the key: something else than a string; no filter of a module.
const OF_THE_KEY: [(&str, Doubt); 2] =
    [("WRONGTYPE", Doubt::Damaged), ("ERR not found", Doubt::Gone)];

impl Consequences {
    pub(crate) fn read(words: &str) -> Self {
        // Before 7.0 a script's error hides the code of the command that failed, behind the line that called it.
        let hidden = words.strip_prefix("ERR Error running script");
        let behind =
            hidden.and_then(|words| words.rsplit_once("@user_script:")?.1.split_once(": "));
        if let Some((_, inner)) = behind {
            return Self::read(inner.trim_start_matches('-'));
        }
        Self::known(words).unwrap_or_else(|| {
            let of_the_key = OF_THE_KEY.iter().find(|(start, _)| begins(words, start));
            let doubt = of_the_key.map_or(Doubt::Refused(Refusal::OTHER), |(_, doubt)| *doubt);
            Self { doubt, retry: Retry::Never }
        })
    }

    /// Finds a known refusal in the words of an error, whatever stands before it: who was asked, and what for.
    pub(crate) fn within(words: &str) -> Option<Self> {
        let starts = words.match_indices(": ").map(|(at, colon)| at + colon.len());
        std::iter::once(0).chain(starts).find_map(|start| Self::known(&words[start..]))
    }

    fn known(words: &str) -> Option<Self> {
        let &(_, refusal, retry) = STARTS.iter().find(|(start, ..)| begins(words, start))?;
        Some(Self { doubt: Doubt::Refused(refusal), retry })
    }
}

/// Whether a node of a cluster says that it does not serve the slot.
pub(crate) fn serves_no_slot(error: &StoreError) -> bool {
    matches!(error, StoreError::Refused { reason, .. } if has_moved(reason) || reason.starts_with("CLUSTERDOWN"))
}

pub(crate) fn has_moved(words: &str) -> bool {
    words.starts_with("MOVED")
}

fn begins(words: &str, start: &str) -> bool {
    words.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refusal::Retry::{Anew, Never, Soon};
    use crate::verdict::Doubt::{Damaged, Gone, Refused};

    /// What redis-server 6.2, 7.0 and 8.2 and `RedisBloom` 2.8 say, word for word.
    #[rustfmt::skip]
    const WORDS: [(&str, Doubt, Retry); 38] = [
        ("READONLY You can't write against a read only replica.", Refused(Refusal::REPLICA), Anew),
        ("READONLY You can't write against a read only replica. script: 57fb796748705b1abb821deb52273f4894348be1, on @user_script:1.", Refused(Refusal::REPLICA), Anew),
        ("ERR Error running script (call to f_57fb796748705b1abb821deb52273f4894348be1): @user_script:1: @user_script: 1: -READONLY You can't write against a read only replica.", Refused(Refusal::REPLICA), Anew),
        ("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", Refused(Refusal::REPLICA), Anew),
        ("NOREPLICAS Not enough good replicas to write.", Refused(Refusal::ISOLATED), Anew),
        ("LOADING Redis is loading the dataset in memory", Refused(Refusal::LOADING), Soon),
        ("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", Refused(Refusal::BUSY), Soon),
        ("OOM command not allowed when used memory > 'maxmemory'.", Refused(Refusal::OUT_OF_MEMORY), Never),
        ("MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that may modify the data set are disabled, because this instance is configured to report errors during writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the RDB error.", Refused(Refusal::DISK), Never),
        ("NOAUTH Authentication required.", Refused(Refusal::DENIED), Anew),
        ("WRONGPASS invalid username-password pair or user is disabled.", Refused(Refusal::DENIED), Anew),
        ("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?", Refused(Refusal::DENIED), Anew),
        ("DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the default user.", Refused(Refusal::DENIED), Anew),
        ("NOPERM this user has no permissions to run the 'bitfield' command", Refused(Refusal::DENIED), Never),
        ("ERR The user executing the script can't run this command or subcommand script: 57fb796748705b1abb821deb52273f4894348be1, on @user_script:1.", Refused(Refusal::DENIED), Never),
        ("ERR Error running script (call to f_57fb796748705b1abb821deb52273f4894348be1): @user_script:2: @user_script: 2: The user executing the script can't run this command or subcommand", Refused(Refusal::DENIED), Never),
        ("ERR ACL failure in script: User guard has no permissions to run the 'setrange' command script: 57fb796748705b1abb821deb52273f4894348be1, on @user_script:2.", Refused(Refusal::DENIED), Never),
        ("CLUSTERDOWN Hash slot not served", Refused(Refusal::CLUSTER), Soon),
        ("CLUSTERDOWN The cluster is down", Refused(Refusal::CLUSTER), Soon),
        ("TRYAGAIN Multiple keys request during rehashing of slot", Refused(Refusal::CLUSTER), Soon),
        ("MOVED 3828 127.0.0.1:7002", Refused(Refusal::CLUSTER), Soon),
        ("ASK 3828 127.0.0.1:7002", Refused(Refusal::CLUSTER), Soon),
        ("CROSSSLOT Keys in request don't hash to the same slot", Refused(Refusal::CLUSTER), Never),
        ("WRONGTYPE Operation against a key holding the wrong kind of value", Damaged, Never),
        ("ERR not found", Gone, Never),
        ("ERR non scaling filter is full", Refused(Refusal::FULL), Never),
        ("NOSCRIPT No matching script. Please use EVAL.", Refused(Refusal::OTHER), Soon),
        ("EXECABORT Transaction discarded because of previous errors.", Refused(Refusal::OTHER), Anew),
        ("ERR max number of clients reached", Refused(Refusal::OTHER), Anew),
        ("ERR unknown command 'FOO', with args beginning with: ", Refused(Refusal::UNSUPPORTED), Never),
        ("ERR Unknown Redis command called from script script: 57fb796748705b1abb821deb52273f4894348be1, on @user_script:1.", Refused(Refusal::UNSUPPORTED), Never),
        ("ERR bit offset is not an integer or out of range", Refused(Refusal::STRING_LIMIT), Never),
        ("ERR string exceeds maximum allowed size (proto-max-bulk-len)", Refused(Refusal::STRING_LIMIT), Never),
        ("ERR Error running script (call to f_6fa4abca3f77a8800bdde2af9cd4a18cabbbdda2): @user_script:25: ERR string exceeds maximum allowed size (proto-max-bulk-len)", Refused(Refusal::STRING_LIMIT), Never),
        ("ERR Error running script (call to f_6fa4abca3f77a8800bdde2af9cd4a18cabbbdda2): @user_script:25: WRONGTYPE Operation against a key holding the wrong kind of value", Damaged, Never),
        ("ERR syntax error", Refused(Refusal::OTHER), Never),
        ("READONLYISH words", Refused(Refusal::OTHER), Never),
        ("", Refused(Refusal::OTHER), Never),
    ];

    #[test]
    fn a_refusal_is_found_behind_who_was_asked_and_before_who_named_it() {
        let found = |words| Consequences::within(words).map(|found| found.doubt);
        let denied = "sentinels: a:1: redis refused: NOAUTH Authentication required.";
        assert_eq!(found(denied), Some(Refused(Refusal::DENIED)));
        let untrusted = "invalid peer certificate: UnknownIssuer: its address is named by b";
        assert_eq!(found(untrusted), Some(Refused(Refusal::TLS)));
        assert_eq!(found("a:1: Connection refused (os error 111)"), None);
    }

    #[test]
    fn every_refusal_of_redis_has_its_consequences() {
        for (words, doubt, retry) in WORDS {
            let follows = Consequences { doubt, retry };
            assert_eq!(Consequences::read(words), follows, "{words}");
        }
    }
}
