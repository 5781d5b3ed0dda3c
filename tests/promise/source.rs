//! Sources of every kind, good and bad, through the in-process store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bloom_guard::rebuild::{IdSink, RebuildSource};
use bloom_guard::{
    BloomGuard, BoxError, Builder, InvalidId, PathPattern, RebuildError, Schedule, Verdict,
    from_blocking, from_fn, from_iter,
};
use support::eventually;
use support::model::{Table, guard_over, live};
use support::redis_server::RedisServer;

fn builder() -> Builder {
    BloomGuard::builder("users", PathPattern::<u64>::new("/users/{id}").unwrap()).in_process()
}

async fn holds(source: impl RebuildSource, ids: std::ops::Range<u64>) {
    let guard = builder().rebuild(Schedule::manual(), source).build().unwrap();
    guard.ready().await;
    for id in ids.clone() {
        assert_eq!(guard.check(&id).await.unwrap(), Verdict::Present, "{id}");
    }
    let report = guard.rebuild_status().last.unwrap().unwrap();
    assert_eq!(report.ids, ids.end - ids.start);
    let absent = 1_000_000..1_001_000_u64;
    let mut refused = 0;
    for id in absent {
        refused += u32::from(matches!(guard.check(&id).await.unwrap(), Verdict::Absent(_)));
    }
    assert!(refused > 950, "{refused} of 1,000 absent ids refused");
}

#[tokio::test]
async fn a_source_is_read_to_its_end() {
    holds(from_iter(|| 0..5_000_u64), 0..5_000).await;
    let scan = |ids: &mut bloom_guard::rebuild::BlockingIds| {
        (0..5_000_u64).try_for_each(|id| ids.push(id))
    };
    holds(from_blocking(scan), 0..5_000).await;
}

async fn error_of(source: impl RebuildSource) -> Arc<RebuildError> {
    let guard = builder().rebuild(Schedule::manual(), source).build().unwrap();
    let error = guard.rebuild_now().await.unwrap_err();
    assert!(matches!(guard.check(&1).await.unwrap(), Verdict::Unknown(_)), "nothing went live");
    error
}

#[tokio::test]
async fn a_scan_that_panics_is_no_whole_scan() {
    struct Counts;
    impl RebuildSource for Counts {
        async fn scan(&self, ids: &mut IdSink<'_>) -> Result<(), BoxError> {
            Ok(ids.push(&1_u64).await?)
        }

        async fn count(&self) -> Result<Option<u64>, BoxError> {
            panic!("no such table")
        }
    }
    let blocking = from_blocking(|ids| {
        ids.push(1)?;
        panic!("the driver panicked")
    });
    let (closure, counts) = (from_fn(async |_| panic!("no connection")), Counts);
    for (error, words) in [
        (error_of(blocking).await, "it panicked: the driver panicked"),
        (error_of(closure).await, "no connection"),
        (error_of(counts).await, "no such table"),
    ] {
        let RebuildError::Source(cause) = &*error else { panic!("{error:?}") };
        assert!(cause.to_string().contains(words), "{cause}");
    }
}

#[tokio::test]
async fn an_id_that_every_check_refuses_fails_the_rebuild_by_name() {
    let error = error_of(from_iter(|| ["1", "2", "three"])).await;
    assert!(
        matches!(&*error, RebuildError::InvalidId { after: 2, source: InvalidId::Malformed }),
        "{error:?}"
    );
    // Also where the source swallows the error.
    struct Swallows;
    impl RebuildSource for Swallows {
        async fn scan(&self, ids: &mut IdSink<'_>) -> Result<(), BoxError> {
            let _swallowed = ids.push("three").await;
            ids.push(&4_u64).await?;
            Ok(())
        }
    }
    let error = error_of(Swallows).await;
    assert!(matches!(&*error, RebuildError::InvalidId { .. }), "{error:?}");
    let error = error_of(from_blocking(|ids| ids.push("x".repeat(257)))).await;
    assert!(format!("{error:?}").contains("257"), "{error:?}");
}

#[tokio::test]
async fn ids_are_read_in_the_form_that_requests_have() {
    let guard = builder().rebuild(Schedule::manual(), from_iter(|| ["007", "+8"])).build().unwrap();
    guard.ready().await;
    for id in ["7", "07", "8", "+8"] {
        assert_eq!(guard.check(id).await.unwrap(), Verdict::Present, "{id}");
    }
}

#[tokio::test]
async fn a_source_without_ids_goes_live_only_when_told() {
    let guard = builder().rebuild(Schedule::manual(), from_iter(Vec::<u64>::new)).build().unwrap();
    let error = guard.rebuild_now().await.unwrap_err();
    assert!(matches!(&*error, RebuildError::Empty), "{error:?}");
    let trouble = guard.state().trouble.expect("there is no filter, and a reason");
    assert!(trouble.contains("the source gave no ids"), "{trouble}");
    guard.rebuild_accepting_loss().await.unwrap();
    assert!(matches!(guard.check(&1).await.unwrap(), Verdict::Absent(_)));
    guard.insert(&1).await.unwrap();
    assert_eq!(guard.check(&1).await.unwrap(), Verdict::Present);
}

#[tokio::test]
async fn without_a_source_a_rebuild_says_so() {
    let error = builder().build().unwrap().rebuild_now().await.unwrap_err();
    assert!(matches!(&*error, RebuildError::NoSource), "{error:?}");
}

/// Hangs for ever in each way in which it is read, as on a connection whose other end is gone, before it gives an id.
#[derive(Default)]
struct Hangs {
    counts: AtomicU32,
    scans: AtomicU32,
}

impl RebuildSource for Hangs {
    async fn scan(&self, ids: &mut IdSink<'_>) -> Result<(), BoxError> {
        match self.scans.fetch_add(1, Ordering::SeqCst) {
            0 => return Err("the database is away".into()),
            // Where the last scan failed, the first id is looked for beforehand.
            1 | 2 => std::future::pending().await,
            _ => ids.push(&1_u64).await?,
        }
        Ok(())
    }

    async fn count(&self) -> Result<Option<u64>, BoxError> {
        if self.counts.fetch_add(1, Ordering::SeqCst) == 0 {
            std::future::pending::<()>().await;
        }
        Ok(None)
    }
}

#[tokio::test(start_paused = true)]
async fn a_source_that_hangs_is_given_up_and_the_next_rebuild_goes_live() {
    let limit = Duration::from_secs(105 * 60);
    let guard = builder().rebuild(Schedule::manual(), Hangs::default()).build().unwrap();
    // A rebuild in the background may have been the one that hung.
    let mut errors = Vec::new();
    while let Err(error) =
        tokio::time::timeout(5 * limit, guard.rebuild_now()).await.expect("a rebuild has an end")
    {
        errors.push(error.to_string());
        assert!(errors.len() <= 4, "{errors:?}");
    }
    assert!(errors.iter().any(|error| error.contains("6300s")), "{errors:?}");
    assert_eq!(guard.check(&1_u64).await.unwrap(), Verdict::Present);
}

/// It has never built a filter itself; the last one was found incomplete, or its trust was lost.
#[tokio::test]
async fn a_process_that_begins_beside_a_filter_out_of_use_knows_how_many_ids_there_were() {
    let redis = RedisServer::start();
    let whole = Table::with(0..1_000);
    let builder = guard_over(&redis.url(), &whole).build().unwrap();
    live(&builder).await;
    drop(builder);
    for state in [b"\x66".as_slice(), b"\0"] {
        redis::cmd("SETRANGE")
            .arg("bg:{users}:bits")
            .arg(11)
            .arg(state)
            .exec(&mut redis.connection())
            .unwrap();
        let newcomer = guard_over(&redis.url(), &Table::with(0..100)).build().unwrap();
        let error = eventually("it has tried", Duration::from_secs(10), || async {
            match newcomer.rebuild_now().await.map_err(|error| error.to_string()) {
                Err(error) if error.contains("ids where") => Ok(error),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        assert!(error.contains("gave 100 ids where the live filter has 1000"), "{error}");
        assert!(newcomer.state().live.is_err());
    }
}
