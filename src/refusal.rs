//! Why Redis refuses, or is not fit, and why the store gives up: one table, a row for each cause.

use std::fmt;

/// What may be done after a refusal.
#[cfg(feature = "redis")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retry {
    /// It would be refused again.
    Never,
    /// It may be accepted in a moment.
    Soon,
    /// The same, by a new session: the other end is not what it was when it answered the handshake.
    Anew,
}

/// The words that errors begin with of what the application gives, by which they are told from Redis's.
#[cfg(feature = "redis")]
pub(crate) const PROVIDER: &str = "the provider of credentials";
#[cfg(feature = "redis")]
pub(crate) const CERTIFICATES: &str = "the certificates for redis";
/// The words behind an error in connecting to a server whose address Sentinels or nodes of a cluster gave.
#[cfg(feature = "redis")]
pub(crate) const NAMED: &str = "its address is named by";

/// Names each refusal once: its code, its words, what to do about it, and what Redis's own message begins with.
macro_rules! refusals {
    ($(
        $name:ident = $code:literal, $words:literal, $advice:literal
        $(, $start:expr => $retry:ident)*;
    )*) => {
        /// Why Redis refuses, or is not fit, and why the store gives up: the cause behind [`Doubt::Refused`](crate::Doubt::Refused).
        ///
        /// | code | what it says | what to do |
        /// |---|---|---|
        $(#[doc = concat!("| `", $code, "` | ", $words, " | ", $advice, " |")])*
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub struct Refusal(Row);

        #[expect(non_camel_case_types, clippy::upper_case_acronyms, reason = "the names of the constants")]
        #[derive(Clone, Copy, PartialEq, Eq)]
        enum Row {
            $($name,)*
        }

        impl Refusal {
            $(
                #[doc = concat!("`", $code, "`: ", $words, ".")]
                pub const $name: Self = Self(Row::$name);
            )*

            const TABLE: &[(&str, &str, &str)] = &[$(($code, $words, $advice)),*];

            /// Returns its code, fit for a metric's label.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                Self::TABLE[self.0 as usize].0
            }

            /// Returns what to do about it, in a sentence or two.
            #[must_use]
            pub const fn advice(self) -> &'static str {
                Self::TABLE[self.0 as usize].2
            }
        }

        /// What an error message of Redis, or of what connects to it, begins with; a space or nothing follows.
        #[cfg(feature = "redis")]
        pub(crate) const STARTS: &[(&str, Refusal, Retry)] =
            &[$($(($start, Refusal::$name, Retry::$retry),)*)*];
    };
}

#[rustfmt::skip]
refusals! {
    REPLICA = "replica", "redis is no primary", "Have the URL lead to the primary.",
        // It became a replica. Its address may lead to the new primary by now.
        "READONLY" => Anew,
        // It is a replica that is cut off from its primary.
        "MASTERDOWN" => Anew;
    // One of the replicas may be the primary by now.
    ISOLATED = "isolated", "redis has too few replicas to be sure that it is the primary",
        "Bring Redis's replicas back, or lower min-replicas-to-write.",
        "NOREPLICAS" => Anew;
    LOADING = "loading", "redis is loading its data", "It passes by itself when Redis has read its data.",
        "LOADING" => Soon;
    BUSY = "busy", "redis is held up by a script", "Find the long script in Redis (SLOWLOG), and end it with SCRIPT KILL.",
        "BUSY" => Soon;
    OUT_OF_MEMORY = "out_of_memory", "redis is out of memory",
        "Raise maxmemory, or free memory: during a rebuild Redis holds two filters.",
        "OOM" => Never;
    DISK = "disk", "redis cannot write to its disk",
        "Give Redis room on its disk, or see its log for why it cannot write.",
        "MISCONF" => Never;
    DENIED = "denied", "redis does not let this user ask",
        "Put the right credentials into the URL (for Sentinels, sentinel_password), or have the provider give them, and give that Redis user the rights that the guide lists.",
        "NOAUTH" => Anew,
        "WRONGPASS" => Anew,
        // A password was given, and Redis has none.
        "ERR AUTH" => Anew,
        // Its protected mode takes no connection from elsewhere.
        "DENIED" => Anew,
        // The user may not run the command, or not in a script.
        "NOPERM" => Never,
        "ERR The user executing the script can't" => Never,
        "The user executing the script can't" => Never,
        "ERR ACL failure in script:" => Never;
    CREDENTIALS = "credentials", "there are no credentials or certificates to show redis",
        "See why the provider of credentials fails or is late, or why the files of certificates cannot be read. The reason says which.",
        PROVIDER => Anew,
        CERTIFICATES => Anew;
    TLS = "tls", "the tls handshake with redis failed",
        "Trust the authority that signed Redis's certificate (Builder::tls), have the URL name a host that the certificate is for, replace it if it has expired or is an authority's own, and show a certificate if Redis wants one. The reason says which.",
        "invalid peer certificate:" => Anew,
        "received fatal alert:" => Anew;
    UNREACHABLE = "unreachable", "the redis that sentinels or the cluster name is out of reach",
        "See that Redis runs there, and that this process can reach the addresses that Redis announces (replica-announce-ip, cluster-announce-ip).",
        NAMED => Anew;
    CLUSTER = "cluster", "the node of the cluster does not serve the filter's slot",
        "Name the cluster in a redis+cluster:// url. Where that is done, see CLUSTER INFO: the slot is on its way, or the cluster is down.",
        "CLUSTERDOWN" => Soon,
        // The slot is on its way to another node.
        "TRYAGAIN" => Soon,
        // It serves the slot no more. Whoever connects next asks which node does.
        "MOVED" => Soon,
        // The slot is on its way, and the key is not here any more, or never was.
        "ASK" => Soon,
        "CROSSSLOT" => Never;
    UNSUPPORTED = "unsupported", "redis is too old, or lacks a command that the guard needs",
        "Use Redis 6.2 or later, or Valkey, and neither rename nor disable a command that the guide lists. A filter of RedisBloom needs its module.",
        // The command is older or newer than the server, or was renamed; the second says so of a script.
        "ERR unknown command" => Never,
        "ERR Unknown Redis command called from script" => Never;
    STRING_LIMIT = "string_limit", "redis takes no strings as long as the filter (proto-max-bulk-len)",
        "Raise proto-max-bulk-len to Redis's default, 512 MB, or choose a smaller capacity.",
        "ERR bit offset is not an integer or out of range" => Never,
        "ERR string exceeds maximum allowed size" => Never;
    EVICTION = "eviction", "redis may evict any key (allkeys-*), and that was not accepted",
        "Set maxmemory-policy to noeviction or volatile-lru, or take the risk with accept_eviction.";
    // Inserts of other programs may fail.
    FULL = "full", "the module's filter takes no more ids, or has to grow for the next one",
        "Have the other system make a larger filter, or one that scales, and fill it. Then see trust_foreign.",
        "ERR non scaling filter is full" => Never;
    OTHER = "refused", "redis refuses to answer", "Read Redis's words, and its log.",
        // The server does not know the script by its hash.
        "NOSCRIPT" => Soon,
        // The connection is inside a transaction, which the guard never begins.
        "EXECABORT" => Anew,
        "ERR max number of clients" => Anew;
    UNFIT = "unfit", "a key holds something else than it should",
        "See what is wrong with the key. If a newer version of the crate wrote it, update this process.";
    FENCED = "fenced", "a newer rebuild took over",
        "The newer rebuild goes on. If it comes again, look for clocks that jump.";
    LOST = "lost", "the filter being built was lost or changed",
        "The next rebuild follows. If it comes again, find out what else writes to the filter's keys.";
    UNVOUCHED = "unvouched", "inserts that were lost may still become visible",
        "Wait as long as longest_transaction. Redis lost data, and a process could not repeat all of its inserts.";
    OVERTAKEN = "overtaken", "another call has set the mode, or redis is another",
        "See who else changes the mode and whether Redis is another, before you call again.";
    ODD = "odd", "redis gave an answer that makes no sense",
        "See that URL and proxies lead to Redis 6.2 or later, or to Valkey.";
}

impl fmt::Debug for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::TABLE[self.0 as usize].1)
    }
}
