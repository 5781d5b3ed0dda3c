//! What INFO says about the Redis process that answers.

use crate::error::StoreError;
use crate::refusal::Refusal;
use crate::verdict::Doubt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RedisProcess {
    /// The first 32 bits of the `run_id`, XOR the CRC-32 of the replication id: random, and new with every start, and with
    /// every failover.
    pub(crate) run: u32,
    pub(crate) major: u32,
}

impl RedisProcess {
    /// Fails if the server is a Sentinel, or a node of a cluster although the URL names no cluster.
    pub(super) fn serves_keys(info: &str, as_node: bool) -> Result<(), StoreError> {
        // Valkey has another name for it.
        let (doubt, reason) = match field(info, "redis_mode").or_else(|| field(info, "server_mode"))
        {
            Some("cluster") if !as_node => (
                Doubt::Refused(Refusal::CLUSTER),
                "redis is a node of a cluster: name it in a redis+cluster:// url",
            ),
            Some("sentinel") => (
                Doubt::Refused(Refusal::REPLICA),
                "redis is a sentinel, and holds no keys: name it in a redis+sentinel:// url",
            ),
            _ => return Ok(()),
        };
        Err(StoreError::Refused { doubt, reason: reason.to_owned() })
    }

    /// Reads an INFO reply. Fails with what is missing or too old.
    pub(crate) fn parse(info: &str, as_node: bool) -> Result<Self, StoreError> {
        let refused =
            |refusal, reason| StoreError::Refused { doubt: Doubt::Refused(refusal), reason };
        let unsupported = |reason| refused(Refusal::UNSUPPORTED, reason);
        let field =
            |name| field(info, name).ok_or_else(|| unsupported(format!("INFO names no {name}")));
        let version = field("redis_version")?;
        let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
        let (major, minor) = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
        // The tests run on no older version.
        if (major, minor) < (6, 2) {
            return Err(unsupported(format!("redis {version} is older than 6.2")));
        }
        Self::serves_keys(info, as_node)?;
        let role = field("role")?;
        if role != "master" {
            let reason = format!("redis is a {role}, not a primary");
            return Err(refused(Refusal::REPLICA, reason));
        }
        let run_id = field("run_id")?;
        let run = run_id.get(..8).and_then(|start| u32::from_str_radix(start, 16).ok());
        let run = run.ok_or_else(|| unsupported(format!("INFO gives a run_id of {run_id:?}")))?;
        // A primary that was a replica meanwhile keeps its run_id, but not its replication id.
        let history = crc32fast::hash(field("master_replid").unwrap_or_default().as_bytes());
        Ok(Self { run: run ^ history, major })
    }
}

/// Reads in an INFO reply whether Redis may evict any key when its memory is full: record and metadata, one by one and silently.
/// No refusal rests on keys with a TTL. Without a limit on its memory Redis evicts nothing, whatever its policy; a server that names
/// no policy is taken to have none.
pub(crate) fn may_evict(info: &str) -> bool {
    let policy = field(info, "maxmemory_policy").unwrap_or_default();
    policy.starts_with("allkeys-") && field(info, "maxmemory") != Some("0")
}

/// How much memory Redis's data take, where there is a limit and nothing makes way for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) used: u64,
    pub(crate) limit: u64,
}

impl Memory {
    pub(crate) fn parse(info: &str) -> Option<Self> {
        if field(info, "maxmemory_policy").is_some_and(|policy| policy != "noeviction") {
            return None;
        }
        let number = |name| field(info, name)?.parse().ok();
        let (used, limit) = (number("used_memory")?, number("maxmemory")?);
        (limit > 0).then_some(Self { used, limit })
    }
}

pub(crate) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = "role:master\r\nrun_id:00c0ffee9c5d9e6f5a4f0e0a3bb1fd0c62f7d5a1\r\n";

    #[test]
    fn info_tells_version_and_run() {
        let process =
            RedisProcess::parse(&format!("# Server\r\nredis_version:7.0.15\r\n{RUN}"), false)
                .unwrap();
        assert_eq!(process, RedisProcess { run: 0x00c0_ffee, major: 7 });
    }

    #[test]
    fn only_a_limit_and_an_allkeys_policy_take_our_keys() {
        let eviction = |limit: &str, policy: &str| {
            may_evict(&format!("maxmemory:{limit}\r\nmaxmemory_policy:{policy}\r\n"))
        };
        for policy in ["allkeys-lru", "allkeys-lfu", "allkeys-random"] {
            assert!(eviction("1000", policy) && !eviction("0", policy));
        }
        for policy in ["noeviction", "volatile-lru", "volatile-ttl"] {
            assert!(!eviction("1000", policy));
        }
        assert!(may_evict("maxmemory_policy:allkeys-lru\r\n") && !may_evict(""));
    }

    #[test]
    fn memory_is_short_only_where_there_is_a_limit_and_nothing_makes_way() {
        let memory = |limit: &str, policy: &str| {
            let info =
                format!("used_memory:7\r\nmaxmemory:{limit}\r\nmaxmemory_policy:{policy}\r\n");
            Memory::parse(&info)
        };
        assert_eq!(memory("1000", "noeviction"), Some(Memory { used: 7, limit: 1000 }));
        assert_eq!(memory("0", "noeviction"), None);
        assert_eq!(memory("1000", "volatile-lru"), None);
        assert_eq!(Memory::parse(""), None, "a server that does not say");
    }

    #[test]
    fn an_old_or_silent_server_is_named() {
        let refused = |info: &str| match RedisProcess::parse(info, false) {
            Err(StoreError::Refused { doubt, reason }) => (doubt, reason),
            other => panic!("{other:?}"),
        };
        let old = refused(&format!("redis_version:6.0.9\r\n{RUN}"));
        assert_eq!(
            old,
            (Doubt::Refused(Refusal::UNSUPPORTED), "redis 6.0.9 is older than 6.2".to_owned())
        );
        for (mode, doubt, words) in [
            ("redis_mode:cluster", Doubt::Refused(Refusal::CLUSTER), "a node of a cluster"),
            ("server_mode:cluster", Doubt::Refused(Refusal::CLUSTER), "a node of a cluster"),
            ("redis_mode:sentinel", Doubt::Refused(Refusal::REPLICA), "redis is a sentinel"),
        ] {
            let named = refused(&format!("redis_version:7.0.15\r\n{mode}\r\n{RUN}"));
            assert!(named.0 == doubt && named.1.contains(words), "{named:?}");
        }
        let node = format!("redis_version:7.0.15\r\nredis_mode:cluster\r\n{RUN}");
        assert!(RedisProcess::parse(&node, true).is_ok());
        let alone = format!("redis_version:7.0.15\r\nredis_mode:standalone\r\n{RUN}");
        assert!(RedisProcess::parse(&alone, false).is_ok());
        let silent = refused("redis_version:7.0.15\r\n");
        assert_eq!(silent, (Doubt::Refused(Refusal::UNSUPPORTED), "INFO names no role".to_owned()));
        let replica = refused("redis_version:7.0.15\r\nrole:slave\r\n");
        assert_eq!(
            replica,
            (Doubt::Refused(Refusal::REPLICA), "redis is a slave, not a primary".to_owned())
        );
    }
}
