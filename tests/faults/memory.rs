//! The server's memory runs out.

use std::time::Duration;

use redis::Connection;
use tokio::time::{Instant, sleep};

use crate::data::BITS;
use crate::site::Site;
use crate::table::Filter::{Fails, Holds};
use crate::{Fault, Happening, LASTS};

pub(crate) const FAULTS: &[Fault] = &[
    Fault::new("eviction, allkeys-lru", Fails, evicts_all),
    Fault::new("eviction, volatile-lru", Holds, |site| evicts_volatile(site, "volatile-lru")),
    Fault::new("eviction, volatile-ttl", Holds, |site| evicts_volatile(site, "volatile-ttl")),
    Fault::new("out of memory, noeviction", Fails, out_of_memory),
    Fault::new("out of memory for long, and no filter", Fails, no_room_to_rebuild),
];

/// What the server may hold beyond what it holds now, and the size of the values that fill it.
const ROOM: u64 = 512 << 10;
const VALUE: usize = 16 << 10;

/// Fills the memory with values that push out others, then with a limit that nothing can keep.
fn evicts_all(site: &mut Site) -> Happening<'_> {
    Box::pin(async move {
        let mut connection = site.redis.connection();
        limit(site, "allkeys-lru");
        crowd(&mut connection, LASTS / 2, "0").await;
        set(site, "maxmemory", "1");
        let begun = Instant::now();
        while site.redis.run::<i64>(&["EXISTS", BITS]) == 1 {
            assert!(begun.elapsed() < Duration::from_secs(10), "the filter is evicted in the end");
        }
        sleep(LASTS / 2).await;
        set(site, "maxmemory", "0");
        set(site, "maxmemory-policy", "noeviction");
    })
}

/// Fills the memory with values that may be evicted: nulls and the lease may go with them, the filter
/// may not.
fn evicts_volatile<'a>(site: &'a mut Site, policy: &'static str) -> Happening<'a> {
    Box::pin(async move {
        let mut connection = site.redis.connection();
        limit(site, policy);
        crowd(&mut connection, LASTS, "600").await;
        let stats: String = site.redis.run(&["INFO", "stats"]);
        let evicted = stats.lines().find_map(|line| line.strip_prefix("evicted_keys:"));
        assert_ne!(evicted, Some("0"), "something was evicted");
        assert_eq!(site.redis.run::<i64>(&["EXISTS", BITS]), 1, "the filter was not");
        set(site, "maxmemory", "0");
        set(site, "maxmemory-policy", "noeviction");
    })
}

fn out_of_memory(site: &mut Site) -> Happening<'_> {
    Box::pin(async move {
        set(site, "maxmemory-policy", "noeviction");
        set(site, "maxmemory", "1");
        sleep(LASTS).await;
        set(site, "maxmemory", "0");
    })
}

/// Rebuilds fail one after another; the one that succeeds must not be long in coming.
fn no_room_to_rebuild(site: &mut Site) -> Happening<'_> {
    Box::pin(async move {
        set(site, "maxmemory", "1");
        assert_eq!(site.redis.run::<i64>(&["DEL", BITS]), 1);
        sleep(4 * LASTS).await;
        set(site, "maxmemory", "0");
    })
}

fn set(site: &Site, setting: &str, value: &str) {
    site.redis.run::<()>(&["CONFIG", "SET", setting, value]);
}

fn limit(site: &Site, policy: &str) {
    let memory: String = site.redis.run(&["INFO", "memory"]);
    let used = memory.lines().find_map(|line| line.strip_prefix("used_memory:"));
    let used: u64 = used.and_then(|used| used.trim().parse().ok()).expect("INFO tells");
    set(site, "maxmemory-policy", policy);
    set(site, "maxmemory", &(used + ROOM).to_string());
}

/// Writes values for a while; `life` is their time to live in seconds, 0 for none.
async fn crowd(connection: &mut Connection, time: Duration, life: &str) {
    let begun = Instant::now();
    for n in 0.. {
        if begun.elapsed() > time {
            return;
        }
        let mut write = redis::cmd("SET");
        write.arg(format!("crowd:{n}")).arg(vec![b'x'; VALUE]);
        if life != "0" {
            write.arg("EX").arg(life);
        }
        write.exec(connection).unwrap();
        sleep(Duration::from_millis(2)).await;
    }
}
