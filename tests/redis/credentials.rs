//! User and password from the application: they may change while the guard runs.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bloom_guard::access::Credentials;
use bloom_guard::{BoxError, Builder, Doubt, OnUnknown, Refusal, Verdict};
use http::StatusCode;
use support::eventually;
use support::model::{Table, get, guard_over, inserted, live, told};
use support::redis_server::RedisServer;
use tokio::time::sleep;

const SOON: Duration = Duration::from_secs(20);
/// What a provider that works gives.
const GUARD: &str = "guard";

/// What a provider does next.
#[derive(Debug, Clone)]
enum Does {
    Gives(&'static str, Option<Duration>),
    Fails,
    Hangs,
    Panics,
    PanicsAtOnce,
}

type GivenCredentials = Pin<Box<dyn Future<Output = Result<Credentials, &'static str>> + Send>>;

/// A provider, and what it was asked.
#[derive(Clone)]
struct Provider {
    does: Arc<Mutex<Does>>,
    asked: Arc<AtomicU64>,
}

impl Provider {
    fn that(does: Does) -> Self {
        Self { does: Arc::new(Mutex::new(does)), asked: Arc::default() }
    }

    fn set(&self, does: Does) {
        *self.does.lock().unwrap() = does;
    }
}

/// Returns the closure that a guard asks.
fn asked(provider: &Provider) -> impl Fn() -> GivenCredentials + Send + Sync + use<> {
    let provider = provider.clone();
    move || {
        provider.asked.fetch_add(1, Ordering::SeqCst);
        let does = provider.does.lock().unwrap().clone();
        assert!(!matches!(does, Does::PanicsAtOnce), "a bug of the application's");
        Box::pin(async move {
            match does {
                Does::Gives(password, time) => {
                    let given = Credentials::new(password).user(GUARD);
                    Ok(time.map_or(given.clone(), |time| given.expires_in(time)))
                }
                Does::Fails => Err("the vault is sealed"),
                Does::Hangs => std::future::pending().await,
                Does::Panics | Does::PanicsAtOnce => panic!("a bug of the application's"),
            }
        })
    }
}

/// Has the server take this password of the user's, and no other.
fn set_password(redis: &RedisServer, password: &str) {
    let password = format!(">{password}");
    redis.run::<()>(&["ACL", "SETUSER", GUARD, "on", "resetpass", &password, "~*", "+@all"]);
}

fn kill(redis: &RedisServer) -> u64 {
    redis.run(&["CLIENT", "KILL", "USER", GUARD])
}

fn builder(redis: &RedisServer, provider: &Provider) -> Builder {
    guard_over(&redis.url(), &Table::with(0..100)).credentials(asked(provider))
}

#[tokio::test]
async fn a_password_that_is_rotated_is_asked_for_at_the_next_connection() {
    let redis = RedisServer::start();
    set_password(&redis, "one");
    let provider = Provider::that(Does::Gives("one", None));
    let guard = builder(&redis, &provider).build().unwrap();
    live(&guard).await;
    set_password(&redis, "two");
    // Connections that are there stay.
    guard.insert(&1_002).await.unwrap();
    assert!(kill(&redis) >= 3);
    told(&guard, Doubt::Refused(Refusal::DENIED), "WRONGPASS").await;
    provider.set(Does::Gives("two", None));
    live(&guard).await;
    inserted(&guard, [1_003]).await;
    for id in [7, 1_002, 1_003] {
        assert_eq!(guard.check(&id).await.unwrap(), Verdict::Present);
    }
}

/// A managed Redis closes a connection whose token has ended, unless it was shown another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_show_another_token_before_theirs_ends_and_no_answer_is_lost_by_that() {
    const TOKEN: Duration = Duration::from_secs(4);
    let redis = RedisServer::start();
    set_password(&redis, "token");
    let provider = Provider::that(Does::Gives("token", Some(TOKEN)));
    let guard = builder(&redis, &provider).build().unwrap();
    live(&guard).await;
    let ids = || {
        let list: String = redis.run(&["CLIENT", "LIST"]);
        let ours = list.lines().filter(|line| line.contains("name=bloom-guard:"));
        let id = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
        ours.map(id).collect::<Vec<_>>()
    };
    let shown = || {
        let stats: String = redis.run(&["INFO", "commandstats"]);
        let auth = stats.lines().find_map(|line| line.strip_prefix("cmdstat_auth:calls="));
        auth.and_then(|calls| calls.split(',').next()?.parse::<u64>().ok()).unwrap_or(0)
    };
    let (before, begun) = (ids(), Instant::now());
    let shown_before = shown();
    let (mut checks, mut next) = (0, 10_000_u64);
    while begun.elapsed() < TOKEN * 2 {
        for _ in 0..20 {
            next += 1;
            let (absent, present) = tokio::join!(guard.check(&next), guard.check(&7));
            assert_eq!(present.unwrap(), Verdict::Present);
            let absent = absent.unwrap();
            assert!(matches!(absent, Verdict::Absent(_)), "{absent:?} {:?}", guard.state());
            checks += 2;
            sleep(Duration::from_millis(2)).await;
        }
        guard.insert(&(next + 1_000_000)).await.unwrap();
        assert_eq!(guard.state().trouble, None);
    }
    assert!(checks > 100, "{checks}");
    assert_eq!(ids(), before);
    assert!(before.len() >= 3 && shown() >= shown_before + 6, "{before:?}: {}", shown());
}

#[tokio::test]
async fn a_connection_whose_token_cannot_be_renewed_stays_and_its_end_tells_why() {
    let redis = RedisServer::start();
    set_password(&redis, "token");
    let provider = Provider::that(Does::Gives("token", Some(Duration::from_secs(3))));
    let guard = builder(&redis, &provider).build().unwrap();
    live(&guard).await;
    let asked = || provider.asked.load(Ordering::SeqCst);
    for does in [Does::Fails, Does::Gives("wrong", None)] {
        provider.set(does);
        let before = asked();
        eventually("it is tried again and again", SOON, || async {
            assert!(matches!(guard.check(&5_000).await.unwrap(), Verdict::Absent(_)));
            if asked() >= before + 3 { Ok(()) } else { Err(asked().to_string()) }
        })
        .await;
    }
    kill(&redis);
    told(&guard, Doubt::Refused(Refusal::DENIED), "WRONGPASS").await;
    provider.set(Does::Gives("token", None));
    live(&guard).await;
    let asked_last = asked();
    sleep(Duration::from_secs(2)).await;
    assert_eq!(asked(), asked_last, "these do not end");
}

#[tokio::test]
async fn a_provider_that_fails_panics_or_hangs_is_told_and_what_was_found_lately_passes() {
    let (redis, table) = (RedisServer::start(), Table::with(0..100));
    set_password(&redis, "one");
    let provider = Provider::that(Does::Gives("one", None));
    let builder = guard_over(&redis.url(), &table).credentials(asked(&provider));
    let guard = builder.on_unknown(OnUnknown::PassLimited).lane(1, 1).build().unwrap();
    live(&guard).await;
    assert_eq!(get(&guard, &table, 7).await, StatusCode::OK);
    for (does, words) in [
        (Does::Fails, "the provider of credentials failed: the vault is sealed"),
        (Does::Panics, "the provider of credentials panicked"),
        (Does::PanicsAtOnce, "the provider of credentials panicked"),
        (Does::Hangs, "the provider of credentials has not answered within 5s"),
    ] {
        // All connections are there, and what was given for them is not good for others any more.
        eventually("all is well", SOON, || async { guard.state().trouble.map_or(Ok(()), Err) })
            .await;
        sleep(Duration::from_millis(1_100)).await;
        provider.set(does);
        kill(&redis);
        told(&guard, Doubt::Refused(Refusal::CREDENTIALS), words).await;
        let begun = Instant::now();
        let mut refused = 0;
        for other in 20..40 {
            assert_eq!(get(&guard, &table, 7).await, StatusCode::OK);
            let status = get(&guard, &table, other).await;
            refused += u32::from(status == StatusCode::SERVICE_UNAVAILABLE);
        }
        assert!(refused >= 15, "{refused}: what was not found lately shares the lane");
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        provider.set(Does::Gives("one", None));
        live(&guard).await;
    }
}

#[tokio::test]
async fn a_closure_is_a_provider_and_the_url_may_name_the_user() {
    let redis = RedisServer::start();
    set_password(&redis, "one");
    let url = redis.url().replace("//", "//guard@");
    let provider = async || Ok::<_, BoxError>(Credentials::new("one"));
    let guard = guard_over(&url, &Table::with(0..100)).credentials(provider).build().unwrap();
    live(&guard).await;
    assert!(kill(&redis) >= 3, "it is that user");
}

/// The one problem of settings that cannot be, in words.
fn problem(builder: Builder) -> String {
    let error = builder.build().expect_err("it cannot be");
    let words = format!("{:?}", error.problems());
    assert!(error.problems().len() == 1 && !words.contains("s3cret"), "{words}");
    words
}

#[test]
fn a_url_with_a_password_of_its_own_has_no_provider_beside_it() {
    let provider = || asked(&Provider::that(Does::Fails));
    for url in [
        "redis://:s3cret@localhost",
        "redis://guard:s3cret@localhost/3",
        "redis+sentinel://guard:s3cret@a,b,c/mymaster",
        "redis+cluster://:s3cret@a,b,c",
    ] {
        let both = guard_over(url, &Table::with(0..1)).credentials(provider());
        let twice = "[Combination { reason: \"credentials: the redis url has a password, too\" }]";
        assert_eq!(problem(both), twice, "{url}");
    }
    let alone = support::model::in_process(&Table::with(0..1), 100, 0.01).credentials(provider());
    assert!(problem(alone).contains("\"credentials\""));
    let shown = format!("{:?}", Credentials::new("s3cret").user(GUARD).expires_in(SOON));
    assert!(shown.contains(GUARD) && !shown.contains("s3cret"), "{shown}");
}
