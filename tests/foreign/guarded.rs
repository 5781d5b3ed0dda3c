//! A guard in front of another system's filter.

use std::time::Duration;

use bloom_guard::{BloomGuard, Doubt, ForeignFilter, Id, Verdict};
use support::eventually;
use support::model::foreign_guard;
use support::redis_server::RedisServer;

pub(crate) const SOON: Duration = Duration::from_secs(20);
/// Ids that do not exist.
pub(crate) const STRANGERS: std::ops::Range<u64> = 1 << 50..(1 << 50) + 50;

/// A guard for which nobody has said that the filter is whole, unless it was said before.
pub(crate) async fn connected(server: &RedisServer, filter: ForeignFilter) -> BloomGuard {
    connected_at(&server.url(), filter).await
}

/// A guard like [`connected`], by a way of its own to the server.
pub(crate) async fn connected_at(url: &str, filter: ForeignFilter) -> BloomGuard {
    let guard = foreign_guard(url).foreign(filter).build().unwrap();
    eventually("a connection", SOON, || async {
        match guard.state().live {
            Err(Doubt::Disconnected) => Err("not connected".to_owned()),
            _ => Ok(()),
        }
    })
    .await;
    guard
}

/// Ids that all of these filters have.
pub(crate) const KNOWN: std::ops::Range<u64> = 0..100;

/// A guard whose filter is said to be whole as it is.
pub(crate) async fn trusting(server: &RedisServer, filter: ForeignFilter) -> BloomGuard {
    let guard = connected(server, filter).await;
    trust(&guard, KNOWN).await;
    refuses_strangers(&guard, "it is trusted").await;
    guard
}

/// States by these ids that the filter is whole as it is now.
pub(crate) async fn trust(guard: &BloomGuard, known: std::ops::Range<u64>) {
    eventually("the filter is trusted", SOON, || async {
        guard.trust_foreign(known.clone()).await.map_err(|error| error.to_string())
    })
    .await;
}

/// Waits until a guard does not believe the filter.
pub(crate) async fn untrusted(guard: &BloomGuard) {
    eventually("trust has ended", SOON, || async {
        guard.state().live.map_or(Ok(()), |live| Err(format!("{live:?}")))
    })
    .await;
}

/// Inserts an id; again where Redis takes long, as for a bitmap of 256 MB on a busy machine.
pub(crate) async fn insert(guard: &BloomGuard, id: &Id) {
    eventually("an insert", SOON, || async {
        guard.insert(id).await.map_err(|error| error.to_string())
    })
    .await;
}

/// Which of these ids are refused.
pub(crate) async fn refused(guard: &BloomGuard, ids: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let ids: Vec<u64> = ids.into_iter().collect();
    let verdicts = guard.check_many(&ids).await.unwrap();
    let refused = ids.into_iter().zip(verdicts);
    refused.filter(|(_, verdict)| matches!(verdict, Verdict::Absent(_))).map(|(id, _)| id).collect()
}

/// Whether ids that do not exist are refused, but for some false positives.
pub(crate) async fn refuses(guard: &BloomGuard) -> bool {
    refused(guard, STRANGERS).await.len() > 30
}

/// Waits until they are: on a busy machine a check may take longer than its deadline.
pub(crate) async fn refuses_strangers(guard: &BloomGuard, when: &str) {
    eventually(when, SOON, || async {
        if refuses(guard).await { Ok(()) } else { Err(format!("{:?}", guard.state())) }
    })
    .await;
}
