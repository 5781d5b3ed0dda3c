use super::*;
use crate::filter::{Generation, Header, Sizing};
use crate::id::{Digester, Id, SecretKey};
use crate::store::redis::copy::tests::copy_of;

const DEADLINE: Duration = Duration::from_millis(160);

/// A copy that holds all inserts up to 10.
fn copy() -> Arc<FilterCopy> {
    let header = Header::new(Generation::new(1).unwrap(), 6, &Sizing::new(100, 0.001).unwrap(), 7);
    copy_of(header, &Digester::new(&SecretKey::new([7; 16]), "users"), 10)
}

fn made(key: [u8; 16]) -> KeyedDigest {
    Digester::new(&SecretKey::new(key), "users").digest_once(&Id::display(&5).unwrap(), None)
}

#[tokio::test(start_paused = true)]
async fn a_request_never_joins_a_fence_that_has_left() {
    let fence = Fence::new(3, DEADLINE);
    let first = fence.join(made([7; 16])).unwrap();
    assert!(Arc::ptr_eq(&first, &fence.join(made([7; 16])).unwrap()));
    let leaving = fence.leaves().await;
    assert_eq!(leaving.waiting, 2);
    let later = fence.join(made([7; 16])).unwrap();
    assert!(!Arc::ptr_eq(&first, &later));
    assert_eq!(fence.join(made([7; 16])).err(), Some(Doubt::Overloaded), "those still wait");
    leaving.ends(Some(copy()));
    assert!(first.proven().await.is_some());
    let waits = tokio::time::timeout(Duration::from_secs(1), later.proven()).await;
    assert!(waits.is_err(), "the later one has not been asked for");
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_is_told_however_a_fence_ends() {
    let fence = Fence::new(2, DEADLINE);
    let round = fence.join(made([7; 16])).unwrap();
    let waits = round.proven();
    drop(fence.leaves().await);
    assert!(waits.await.is_none());
    assert!(round.proven().await.is_none(), "also who asks late");
}

#[tokio::test(start_paused = true)]
async fn a_fence_waits_for_those_whom_the_one_before_has_answered_but_not_for_long() {
    let fence = Fence::new(100, DEADLINE);
    let join = |ids: usize| (0..ids).for_each(|_| drop(fence.join(made([7; 16])).unwrap()));
    tokio::time::advance(PAUSE).await;
    let begun = Instant::now();
    join(1);
    drop(fence.leaves().await);
    join(ENOUGH);
    let leaving = fence.leaves().await;
    assert_eq!(begun.elapsed(), Duration::ZERO, "the first, and enough, leave at once");
    join(2 * ENOUGH);
    drop(leaving);
    drop(fence.leaves().await);
    assert!(begun.elapsed() >= LONGEST, "those whom the one before has answered did not come");
    join(2 * ENOUGH - 2);
    let now = Instant::now();
    drop(fence.leaves().await);
    assert_eq!(now.elapsed(), Duration::ZERO, "most of them are there");
}

#[tokio::test(start_paused = true)]
async fn while_redis_is_slow_another_fence_leaves_in_time_but_not_ever_more() {
    let fence = Fence::new(100, DEADLINE);
    let begun = Instant::now();
    let mut under_way = Vec::new();
    for _ in 0..PARTS {
        fence.join(made([7; 16])).unwrap();
        under_way.push(fence.leaves().await);
    }
    assert!(begun.elapsed() <= DEADLINE + 2 * LONGEST, "{:?}", begun.elapsed());
    fence.join(made([7; 16])).unwrap();
    let waits = tokio::time::timeout(DEADLINE, fence.leaves()).await;
    assert!(waits.is_err(), "too many are under way");
    under_way.pop();
    let (leaves, now) = (fence.leaves().await, Instant::now());
    assert_eq!((leaves.waiting, now.elapsed()), (1, Duration::ZERO));
}

#[test]
fn a_proven_copy_says_nothing_of_a_digest_by_another_key() {
    let copy = copy();
    let verdict = |key| said(&copy, &made([key; 16])).map(|said| said.verdict);
    assert_eq!(verdict(7), Some(Verdict::Absent(Proof::Filter)));
    assert_eq!(verdict(8), None);
    let digester = Digester::new(&SecretKey::new([7; 16]), "users");
    copy.hold(made([7; 16]).by(&digester).iter());
    assert_eq!(verdict(7), Some(Verdict::Present));
}
