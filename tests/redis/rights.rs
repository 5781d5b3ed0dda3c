//! The rights that the guide lists for the Redis user are all that a guard needs, and no more.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bloom_guard::rebuild::{IdSink, RebuildSource};
use bloom_guard::{BloomGuard, BoxError, Doubt, Mode, PathPattern, Refusal, Schedule, Verdict};
use http::StatusCode;
use support::eventually;
use support::model::{Table, brief, get, guard, inserted, live, rebuilt};
use support::redis_server::RedisServer;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

const GUIDE: &str = include_str!("../../src/guide/redis.md");
/// Ids inserted at once, whose places in the record later inserts drop.
const MANY: u64 = 1_500;
const SOON: Duration = Duration::from_secs(20);

/// The words behind `ACL SETUSER`, as the guide has them: the user's name comes first.
fn user() -> Vec<&'static str> {
    let begins = GUIDE.find("ACL SETUSER ").expect("the guide lists the rights");
    let command = GUIDE[begins..].split("```").next().expect("a block of code");
    let words: Vec<&str> = command.split_whitespace().skip(2).collect();
    assert_eq!(words[..3], ["guard", "on", ">password"]);
    words
}

/// What the guide says is optional.
fn optional() -> &'static str {
    let (before, _) = GUIDE.split_once("`, which is optional").expect("the guide says what is");
    before.rsplit('`').next().expect("a right")
}

/// The commands that the user may run, in lower case.
fn commands() -> Vec<&'static str> {
    let commands: Vec<&str> = user().iter().filter_map(|word| word.strip_prefix('+')).collect();
    assert!(commands.len() > 30, "{commands:?}");
    commands
}

/// A server whose guards may do what a user may.
struct Site {
    redis: RedisServer,
    table: Table,
}

impl Site {
    /// The user is part of the configuration, so that a restart keeps it.
    fn of(user: &[&str]) -> Self {
        let arguments = [&["--save", "3600 1000000", "--user"], user].concat();
        Self { redis: RedisServer::with(&arguments), table: Table::with(0..1_000) }
    }

    /// The guide's user, who may also do what is optional.
    fn new() -> Self {
        Self::of(&[&user()[..], &[optional()]].concat())
    }

    fn url(&self) -> String {
        format!("redis://guard:password@127.0.0.1:{}/", self.redis.port())
    }

    /// A guard whose scans, after so many, wait for a permit.
    fn guard(&self, scans: usize) -> (BloomGuard, Arc<Semaphore>) {
        let gate = Arc::new(Semaphore::new(scans));
        let source = Held { table: self.table.clone(), gate: Arc::clone(&gate) };
        let builder = brief(guard(&self.url()));
        (builder.rebuild(Schedule::manual(), source).build().unwrap(), gate)
    }

    /// The commands that were denied so far, each with the user's name.
    fn denied(&self) -> Vec<String> {
        let log: Vec<redis::Value> = self.redis.run(&["ACL", "LOG", "100000"]);
        log.into_iter().map(|entry| format!("{entry:?}").to_lowercase()).collect()
    }

    /// How often a command was run, or refused.
    fn tries(&self, command: &str) -> u64 {
        let stats: String = self.redis.run(&["INFO", "commandstats"]);
        let name = format!("cmdstat_{command}:");
        let line = stats.lines().find_map(|line| line.strip_prefix(&name)).unwrap_or_default();
        let numbers = line.split(',').filter_map(|field| field.split_once('='));
        let counted = numbers.filter(|(name, _)| ["calls", "rejected_calls"].contains(name));
        counted.map(|(_, number)| number.parse::<u64>().unwrap()).sum()
    }
}

/// A source whose scans wait for a permit at their end.
struct Held {
    table: Table,
    gate: Arc<Semaphore>,
}

impl RebuildSource for Held {
    async fn scan(&self, ids: &mut IdSink<'_>) -> Result<(), BoxError> {
        RebuildSource::scan(&self.table, ids).await?;
        self.gate.acquire().await?.forget();
        Ok(())
    }

    fn identity(&self) -> Option<String> {
        Some("a table".to_owned())
    }
}

/// Inserts alone and together, checks alone and together, removals.
async fn inserts_checks_and_removals(site: &Site, guard: &BloomGuard) {
    for id in 2_000..2_070_u64 {
        inserted(guard, [id]).await;
    }
    inserted(guard, 10_000..10_000 + MANY).await;
    eventually("they are over, and are dropped", SOON, || async {
        inserted(guard, [2_000]).await;
        let recent: u64 = site.redis.run(&["ZCARD", "bg:{users}:recent"]);
        if recent < MANY / 2 { Ok(()) } else { Err(format!("{recent}")) }
    })
    .await;
    assert_eq!(guard.check(&2_000).await.unwrap(), Verdict::Present);
    // On a busy machine a look-up may come too late.
    eventually("all that was inserted is present", SOON, || async {
        let mut checks = JoinSet::new();
        for id in 10_000..10_200_u64 {
            let guard = guard.clone();
            checks.spawn(async move { guard.check(&id).await.unwrap() });
        }
        let other = checks.join_all().await.into_iter().find(|is| *is != Verdict::Present);
        other.map_or(Ok(()), |verdict| Err(format!("{verdict:?}")))
    })
    .await;
    eventually("a removal is remembered", SOON, || async {
        site.redis.age();
        guard.remove(&7).await.unwrap();
        match guard.check(&7).await.unwrap() {
            Verdict::Absent(_) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    // Its null is there now, and is compared with.
    guard.remove(&7).await.unwrap();
}

/// A record that was created without the guard puts the filter out of use, and a rebuild follows.
async fn the_canary_is_heard(site: &Site, guard: &BloomGuard) {
    let generation = guard.state().live.unwrap().generation;
    guard.set_mode(Mode::Shadow);
    site.table.commit(5_000);
    assert_eq!(get(guard, &site.table, 5_000).await, StatusCode::OK);
    rebuilt(guard, generation).await;
    guard.set_mode(Mode::Enforce);
}

/// A rebuild takes so long that its lease is renewed.
async fn a_lease_is_renewed(site: &Site, guard: &BloomGuard, gate: &Semaphore) {
    let rebuilding = async { guard.rebuild_now().await.unwrap() };
    let renewing = async {
        eventually("the lease is renewed", SOON, || async {
            if site.tries("pexpire") > 0 { Ok(()) } else { Err("not yet") }.map_err(str::to_owned)
        })
        .await;
        gate.add_permits(1_000);
    };
    tokio::join!(rebuilding, renewing);
}

/// Keys of other types are put aside, data go back in time, and Redis restarts from a dump.
async fn losses_are_recovered_from(site: &mut Site, guard: &BloomGuard) {
    site.redis.run::<()>(&["SAVE"]);
    for key in ["fleet", "recent", "lock", "bits"].map(|part| format!("bg:{{users}}:{part}")) {
        site.redis.run::<i64>(&["DEL", &key]);
        site.redis.run::<i64>(&["SADD", &key, "mine"]);
        eventually("it is put aside or replaced", SOON, || async {
            let kind: String = site.redis.run(&["TYPE", &key]);
            if kind == "set" { Err(kind) } else { Ok(()) }
        })
        .await;
        live(guard).await;
    }
    site.redis.restart();
    inserted(guard, [3_000]).await;
    live(guard).await;
    assert_eq!(guard.check(&3_000).await.unwrap(), Verdict::Present);
}

/// All that a guard does while Redis is well.
async fn a_life(site: &Site) -> BloomGuard {
    let (guard, gate) = site.guard(2);
    live(&guard).await;
    inserts_checks_and_removals(site, &guard).await;
    the_canary_is_heard(site, &guard).await;
    a_lease_is_renewed(site, &guard, &gate).await;
    guard
}

#[tokio::test]
async fn the_rights_that_the_guide_lists_are_enough() {
    let mut site = Site::new();
    let guard = a_life(&site).await;
    assert_eq!(site.denied(), [""; 0], "before the restart");
    losses_are_recovered_from(&mut site, &guard).await;
    assert_eq!(site.denied(), [""; 0]);
}

/// Who lacks a right.
fn without(right: &str) -> String {
    format!("no-{right}")
}

/// A guard whose user lacks one right does all that it does, again and again.
async fn works_without(site: Arc<Site>, right: &'static str) {
    let (name, keys) = (without(right), format!("~bg:{{{right}}}:*"));
    let words = [&["ACL", "SETUSER", &name], &user()[1..], &[&keys]].concat();
    site.redis.run::<()>(&words);
    let gate = Arc::new(Semaphore::new(1_000));
    let source = Held { table: site.table.clone(), gate: Arc::clone(&gate) };
    let pattern = PathPattern::<u64>::new("/users/{id}").unwrap();
    let url = site.url().replace("guard", &name);
    let guard = brief(BloomGuard::builder(right, pattern).redis(&url).settle(Duration::ZERO));
    // A null is written within a handler's time, or not at all: forty that rebuild must leave Redis some.
    let guard = guard.copy_limit(0).capacity(1_000, 0.01);
    let guard = guard.rebuild(Schedule::manual(), source).build().unwrap();
    live(&guard).await;
    site.redis.run::<()>(&["ACL", "SETUSER", &name, &format!("-{right}")]);
    site.redis.run::<i64>(&["CLIENT", "KILL", "USER", &name]);
    if right == "pexpire" {
        // A lease is renewed by a rebuild that takes long.
        gate.forget_permits(1_000);
    }
    let recent = format!("bg:{{{right}}}:recent");
    // The next insert drops them.
    let two_are_over = || {
        let ids = ["ZADD", &recent, "1", "one that is over", "2", "two that is over"];
        site.redis.run::<i64>(&ids)
    };
    loop {
        site.redis.run::<()>(&["SCRIPT", "FLUSH"]);
        guard.rebuild_now().await.ok();
        two_are_over();
        site.redis.run::<i64>(&["HSET", &format!("bg:{{{right}}}:fleet"), "since", "1"]);
        guard.insert(&2_000).await.ok();
        let mut checks = JoinSet::new();
        for id in 3_000..3_064_u64 {
            let guard = guard.clone();
            checks.spawn(async move { guard.check(&id).await });
        }
        checks.join_all().await;
        for _ in 0..2 {
            guard.remove(&7).await.ok();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_right_that_the_guide_lists_is_used() {
    let site = Arc::new(Site::new());
    site.redis.run::<()>(&["CONFIG", "SET", "acllog-max-len", "100000"]);
    let mut all = JoinSet::new();
    for right in commands() {
        all.spawn(works_without(Arc::clone(&site), right));
    }
    eventually("each is denied", Duration::from_secs(300), || async {
        let denied = site.denied();
        let is_denied = |right: &&str| {
            let quoted = [&without(right), *right].map(|word| format!("\"{word}\""));
            denied.iter().any(|entry| quoted.iter().all(|word| entry.contains(word)))
        };
        let unused: Vec<_> = commands().into_iter().filter(|right| !is_denied(right)).collect();
        if unused.is_empty() { Ok(()) } else { Err(format!("{unused:?}")) }
    })
    .await;
}

#[tokio::test]
async fn who_may_not_name_connections_is_no_worse_off() {
    let site = Site::of(&user());
    let (guard, _gate) = site.guard(1);
    live(&guard).await;
    inserted(&guard, [2_000]).await;
    let denied = site.denied();
    // Before 7.0 Redis names no subcommand.
    let is_setname = |entry: &String| {
        ["client|setname", "client"].iter().any(|name| entry.contains(&format!("\"{name}\"")))
    };
    let all = denied.iter().all(is_setname);
    assert!(all && !denied.is_empty(), "{denied:?}");
}

/// Paths that are rarely taken need theirs, too.
#[test]
fn no_script_runs_a_command_that_the_guide_does_not_list() {
    let mut directories = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../src/store/redis")];
    let mut called = BTreeSet::new();
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).expect("the sources") {
            let path = entry.expect("a file").path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "lua") {
                let code = fs::read_to_string(&path).expect("a text");
                let calls = code.split("call('").skip(1).filter_map(|call| call.split('\'').next());
                called.extend(calls.map(str::to_lowercase));
            }
        }
    }
    assert!(called.len() > 20, "{called:?}");
    called.retain(|command| !commands().contains(&command.as_str()));
    assert_eq!(called, BTreeSet::new());
}

#[tokio::test]
async fn a_database_of_another_number_needs_a_right_more() {
    let site = Site::new();
    let guard = guard(&format!("{}3", site.url())).build().unwrap();
    eventually("it is denied", SOON, || async {
        match guard.state().live {
            Err(Doubt::Refused(Refusal::DENIED)) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    site.redis.run::<()>(&["ACL", "SETUSER", "guard", "+select"]);
    inserted(&guard, [7]).await;
}
