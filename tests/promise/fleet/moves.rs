//! A fleet on its way from one filter of its own to another.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bloom_guard::{
    ChangeError, OldFilter, PathPattern, Proof, RebuildError, SecretKey, StoreError,
};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::builds::{Harm, Process, both_ways};
use super::*;

const KEY: [u8; 16] = [1; 16];

/// Builds processes that have the filter "users" on one Redis, and those that move to "users-2" in four shards on another.
struct Fleet {
    from: RedisServer,
    to: RedisServer,
    table: Table,
}

impl Fleet {
    fn start() -> Self {
        let (from, to) = (RedisServer::start(), RedisServer::start());
        Self { from, to, table: Table::with(0..1_000) }
    }

    fn builder(&self, name: &str, redis: &RedisServer, shards: u32) -> bloom_guard::Builder {
        let pattern = PathPattern::<u64>::new("/users/{id}").unwrap();
        let builder = BloomGuard::builder(name, pattern).redis(&redis.url()).shards(shards);
        let builder = builder.rebuild(Schedule::manual(), self.table.clone()).copy_limit(0);
        let builder = brief(builder).secret_key(SecretKey::new(KEY)).settle(Duration::ZERO);
        let builder = builder.check_deadline(Duration::from_secs(1)).audits_per_second(0);
        // A false positive would hide that an id was lost.
        builder.on_unknown(OnUnknown::Pass).capacity(20_000, 1e-6)
    }

    fn old(&self) -> BloomGuard {
        self.builder("users", &self.from, 1).build().unwrap()
    }

    fn moving(&self) -> BloomGuard {
        let old = OldFilter::named("users").redis(&self.from.url());
        let old = old.secret_key(SecretKey::new(KEY));
        self.builder("users-2", &self.to, 4).migrate_from(old).build().unwrap()
    }

    fn moved(&self) -> BloomGuard {
        self.builder("users-2", &self.to, 4).build().unwrap()
    }

    /// Waits until the first of the new shards says that a hand-over was begun.
    async fn is_begun(&self) {
        eventually("it is begun", SOON, || async {
            let handed: Option<String> = self.to.run(&["HGET", "bg:{users-2#0/4}:meta", "handed"]);
            handed.map(drop).ok_or_else(|| "not yet".to_owned())
        })
        .await;
    }
}

/// Creates records by turns in each process, and asks all of them for each at once, until it is dropped.
struct Traffic {
    refused: Arc<AtomicU64>,
    created: Arc<AtomicU64>,
    stops: Arc<AtomicBool>,
    tasks: JoinSet<()>,
}

impl Traffic {
    fn start(guards: &[BloomGuard], table: &Table, first: u64) -> Self {
        let (refused, created) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let (stops, mut tasks) = (Arc::<AtomicBool>::default(), JoinSet::new());
        for (n, creator) in (0..).zip(guards) {
            let (guards, creator, table) = (guards.to_vec(), creator.clone(), table.clone());
            let (refused, created) = (Arc::clone(&refused), Arc::clone(&created));
            let stops = Arc::clone(&stops);
            tasks.spawn(async move {
                let step = guards.len() as u64;
                for id in (first + n..).step_by(step as usize) {
                    if stops.load(Ordering::SeqCst) {
                        return;
                    }
                    if creator.insert(&id).await.is_err() {
                        sleep(Duration::from_millis(10)).await;
                        continue;
                    }
                    table.commit(id);
                    created.fetch_add(1, Ordering::SeqCst);
                    for guard in &guards {
                        // Of its own, and of one that was created a while ago.
                        for id in [id, id.saturating_sub(50 * step).max(first + n)] {
                            let exists = table.born(id).is_some();
                            let verdict = guard.check(&id).await.unwrap();
                            let refuses = exists && matches!(verdict, Verdict::Absent(_));
                            refused.fetch_add(u64::from(refuses), Ordering::SeqCst);
                        }
                    }
                }
            });
        }
        Self { refused, created, stops, tasks }
    }

    /// Ends it; returns how many records were created.
    async fn ended(mut self) -> u64 {
        self.stops.store(true, Ordering::SeqCst);
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
        assert_eq!(self.refused.load(Ordering::SeqCst), 0, "records were refused");
        self.created.load(Ordering::SeqCst)
    }
}

/// All processes move, and create records.
async fn under_way() -> (Fleet, [BloomGuard; 2], Traffic) {
    let fleet = Fleet::start();
    let old = fleet.old();
    live(&old).await;
    let moving = [fleet.moving(), fleet.moving()];
    for guard in &moving {
        live(guard).await;
    }
    drop(old);
    let traffic = Traffic::start(&moving, &fleet.table, 20_000);
    (fleet, moving, traffic)
}

/// Each of all records passes.
async fn has_all(guard: &BloomGuard, table: &Table) {
    for id in table.snapshot() {
        let verdict = guard.check(&id).await.unwrap();
        assert!(!matches!(verdict, Verdict::Absent(_)), "{id} is refused");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_to_another_name_redis_and_number_of_shards_is_guarded_throughout() {
    let fleet = Fleet::start();
    let old = fleet.old();
    live(&old).await;
    let moving = [fleet.moving(), fleet.moving()];
    for guard in &moving {
        live(guard).await;
    }
    let [before, after] = [&old, &moving[0]].map(|guard| Process::guarded(guard, &fleet.table));
    assert_eq!(both_ways(&before, &after, 10_000).await, Harm::default());
    drop((old, before));
    let traffic = Traffic::start(&moving, &fleet.table, 20_000);
    moving[0].hand_over().await.unwrap();
    for guard in &moving {
        live(guard).await;
        assert!(guard.state().shards.is_some(), "{:?}", guard.state());
    }
    assert!(traffic.ended().await > 100);
    has_all(&moving[1], &fleet.table).await;
    // A process of before refuses nothing, and creates nothing.
    let straggler = fleet.old();
    eventually("it is told", SOON, || async {
        match straggler.insert(&50_000).await {
            Err(ChangeError::Store(StoreError::Moved { .. })) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    assert_eq!(straggler.check(&50_001).await, Ok(Verdict::Unknown(Doubt::Moved)));
    assert!(straggler.rebuild_now().await.is_err());
    assert_eq!(straggler.check(&50_001).await, Ok(Verdict::Unknown(Doubt::Moved)));
    // And those of after need the old filter no more.
    let next = fleet.moved();
    live(&next).await;
    let [before, after] = [&moving[0], &next].map(|guard| Process::guarded(guard, &fleet.table));
    assert_eq!(both_ways(&before, &after, 60_000).await, Harm::default());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hand_over_that_ends_at_any_moment_refuses_no_record_and_can_be_repeated() {
    let (fleet, moving, traffic) = under_way().await;
    // It waits for 1.1 s, rebuilds, and waits for three seconds more, before it writes anything.
    for ms in (900..7_000).step_by(450) {
        let ended = timeout(Duration::from_millis(ms), moving[0].hand_over()).await;
        for guard in &moving {
            live(guard).await;
        }
        if matches!(ended, Ok(Ok(_))) {
            break;
        }
    }
    moving[1].hand_over().await.unwrap();
    for guard in &moving {
        live(guard).await;
        assert!(guard.state().shards.is_some(), "{:?}", guard.state());
    }
    assert!(traffic.ended().await > 100);
    has_all(&moving[0], &fleet.table).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_loses_its_data_during_a_move_or_after_it_has_no_record_refused() {
    let (fleet, moving, traffic) = under_way().await;
    for redis in [&fleet.from, &fleet.to, &fleet.from] {
        redis.run::<()>(&["FLUSHALL"]);
        for guard in &moving {
            // Both filters are rebuilt, by a process of the move.
            live(guard).await;
        }
    }
    moving[0].hand_over().await.unwrap();
    for guard in &moving {
        live(guard).await;
    }
    for redis in [&fleet.from, &fleet.to, &fleet.from] {
        redis.run::<()>(&["FLUSHALL"]);
        for guard in &moving {
            live(guard).await;
        }
    }
    assert!(traffic.ended().await > 100);
    for guard in &moving {
        has_all(guard, &fleet.table).await;
    }
}

/// Has processes of after a hand-over create records, and one of the move that begins then asked for them.
async fn a_late_comer_refuses_none(fleet: &Fleet, others: &[BloomGuard], first: u64) {
    let late = fleet.moving();
    let traffic = Traffic::start(others, &fleet.table, first);
    live(&late).await;
    // As long as the old filter may take to be built anew.
    sleep(Duration::from_secs(5)).await;
    assert!(traffic.ended().await > 100);
    assert!(late.state().shards.is_some(), "{:?}", late.state());
    has_all(&late, &fleet.table).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_hand_over_nothing_hangs_on_the_old_redis() {
    let (mut fleet, moving, traffic) = under_way().await;
    moving[0].hand_over().await.unwrap();
    assert!(traffic.ended().await > 100);
    drop(moving);
    let moved = [fleet.moved(), fleet.moved()];
    for guard in &moved {
        live(guard).await;
    }
    // It loses what says that it was left.
    fleet.from.run::<()>(&["FLUSHALL"]);
    a_late_comer_refuses_none(&fleet, &moved, 1_000_000).await;
    // Both lose it: those know that are there.
    fleet.from.run::<()>(&["FLUSHALL"]);
    fleet.to.run::<()>(&["FLUSHALL"]);
    for guard in &moved {
        live(guard).await;
    }
    a_late_comer_refuses_none(&fleet, &moved, 2_000_000).await;
    // It is gone, and processes of the move create.
    fleet.from.kill();
    let moving = [fleet.moving(), fleet.moving()];
    for guard in &moving {
        guard.insert(&3_000_000).await.unwrap();
        live(guard).await;
    }
    a_late_comer_refuses_none(&fleet, &moving, 3_000_001).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_new_redis_is_silent_the_old_filter_refuses_nothing() {
    let (fleet, moving, traffic) = under_way().await;
    traffic.ended().await;
    assert_eq!(moving[0].check(&7_777_777).await, Ok(Verdict::Absent(Proof::Filter)));
    fleet.to.pause();
    // Another process may hand over, which this one could not know.
    eventually("it refuses nothing", SOON, || async {
        match moving[0].check(&7_777_777).await.unwrap() {
            Verdict::Unknown(_) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    fleet.to.resume();
    for guard in &moving {
        live(guard).await;
    }
    assert_eq!(moving[0].check(&7_777_777).await, Ok(Verdict::Absent(Proof::Filter)));
}

#[tokio::test(flavor = "multi_thread")]
async fn during_a_move_a_mode_is_every_processs_and_nobody_enforces_by_the_new_filter_alone() {
    let fleet = Fleet::start();
    let (old, moving) = (fleet.old(), fleet.moving());
    live(&old).await;
    live(&moving).await;
    old.set_fleet_mode(Mode::Shadow).await.unwrap();
    has_mode(&moving, Mode::Shadow).await;
    moving.set_fleet_mode(Mode::Off).await.unwrap();
    has_mode(&old, Mode::Off).await;
    let error = moving.enforce_everywhere().await.unwrap_err();
    assert!(matches!(error, FleetError::Migrating), "{error:?}");
    assert_eq!(moving.mode(), Mode::Off);
    drop(old);
    moving.hand_over().await.unwrap();
    assert_eq!(moving.mode(), Mode::Off, "whoever set it ends it");
    moving.enforce_everywhere().await.unwrap();
    live(&moving).await;
    has_mode(&moving, Mode::Enforce).await;
}

#[tokio::test]
async fn a_filter_is_not_moved_to_itself() {
    let fleet = Fleet::start();
    let itself = |url: &str| {
        let old = OldFilter::named("users").redis(url).secret_key(SecretKey::new(KEY));
        fleet.builder("users", &fleet.from, 1).migrate_from(old).build()
    };
    let error = itself(&fleet.from.url()).unwrap_err().to_string();
    assert!(error.contains("migrate_from \"users\""), "{error}");
    // By another address it is seen in Redis only.
    let guard = itself(&fleet.from.url().replace("127.0.0.1", "localhost")).unwrap();
    live(&guard).await;
    assert!(guard.hand_over().await.is_err());
    live(&guard).await;
    guard.insert(&7).await.unwrap();
}

/// Its processes may have stated longer transactions than those of the new filter.
#[tokio::test(flavor = "multi_thread")]
async fn a_hand_over_that_cannot_ask_how_long_transactions_take_does_not_guess() {
    let fleet = Fleet::start();
    let (old, moving) = (fleet.old(), fleet.moving());
    live(&old).await;
    live(&moving).await;
    drop(old);
    fleet.from.pause();
    let resume = async {
        sleep(Duration::from_secs(2)).await;
        fleet.from.resume();
    };
    let (ended, ()) = tokio::join!(moving.hand_over(), resume);
    assert!(ended.is_err(), "{ended:?}");
    live(&moving).await;
    let header: Vec<u8> = fleet.from.run(&["GETRANGE", BITS, "0", "9"]);
    assert_eq!(header, b"BLMGUARD\0\x01", "it was not left");
}

/// Gives up each push that has to wait.
struct Impatient(Table);

impl RebuildSource for Impatient {
    async fn scan(&self, ids: &mut IdSink<'_>) -> Result<(), BoxError> {
        for id in self.0.snapshot() {
            tokio::select! {
                biased;
                pushed = ids.push(&id) => pushed?,
                () = std::future::ready(()) => {}
            }
        }
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_that_is_given_up_loses_no_id_of_either_filter() {
    let fleet = Fleet::start();
    (1_000..5_000).for_each(|id| fleet.table.commit(id));
    let old = OldFilter::named("users").redis(&fleet.from.url()).secret_key(SecretKey::new(KEY));
    let source = Impatient(fleet.table.clone());
    let builder = fleet.builder("users-2", &fleet.to, 4).rebuild(Schedule::manual(), source);
    let guard = builder.migrate_from(old).build().unwrap();
    for step in ["the old filter answers", "the new one does"] {
        live(&guard).await;
        guard.rebuild_now().await.unwrap();
        for id in fleet.table.snapshot() {
            assert_eq!(guard.check(&id).await.unwrap(), Verdict::Present, "{step}: {id}");
        }
        guard.hand_over().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_filter_that_nobody_has_is_told_of_and_not_handed_over() {
    let fleet = Fleet::start();
    live(&fleet.old()).await;
    let wrong = [
        OldFilter::named("user").redis(&fleet.from.url()),
        OldFilter::named("users"),
        OldFilter::named("users").redis(&fleet.from.url()).shards(4),
    ];
    for wrong in wrong {
        let wrong = wrong.secret_key(SecretKey::new(KEY));
        let builder = fleet.builder("users-2", &fleet.to, 1).settle(Duration::from_secs(900));
        let guard = builder.migrate_from(wrong).build().unwrap();
        guard.ready().await;
        let trouble = eventually("it says so", SOON, || async {
            guard.state().trouble.ok_or_else(|| "no trouble".to_owned())
        });
        let trouble = trouble.await;
        assert!(trouble.contains("that filter is new: no other process has it"), "{trouble}");
        let error = guard.hand_over().await.unwrap_err();
        assert!(matches!(*error, RebuildError::Store(StoreError::Move { .. })), "{error:?}");
        let error = guard.enforce_everywhere().await.unwrap_err();
        assert!(matches!(error, FleetError::Migrating), "{error:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hand_over_that_cannot_tell_the_old_redis_has_the_new_filter_answer_and_says_what_is_left()
 {
    let (mut fleet, moving, traffic) = under_way().await;
    let hand_over = moving[0].clone();
    let call = tokio::spawn(async move { hand_over.hand_over().await });
    fleet.is_begun().await;
    fleet.from.kill();
    let error = call.await.unwrap().unwrap_err();
    assert!(matches!(*error, RebuildError::Store(StoreError::Move { .. })), "{error:?}");
    for guard in &moving {
        live(guard).await;
        assert!(guard.state().shards.is_some(), "{:?}", guard.state());
    }
    let created = traffic.created.load(Ordering::SeqCst);
    eventually("records are created", SOON, || async {
        let now = traffic.created.load(Ordering::SeqCst);
        if now > created + 100 { Ok(()) } else { Err(format!("{created}, now {now}")) }
    })
    .await;
    traffic.ended().await;
    has_all(&moving[1], &fleet.table).await;
}

/// Counts its scans.
struct Counted(Table, Arc<AtomicU64>);

impl RebuildSource for Counted {
    async fn scan(&self, ids: &mut IdSink<'_>) -> Result<(), BoxError> {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.scan(ids).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_filter_that_cannot_be_rebuilt_does_not_have_the_database_scanned_for_the_new_one() {
    let fleet = Fleet::start();
    fleet.from.run::<()>(&["CONFIG", "SET", "maxmemory", "1mb"]);
    let scans = Arc::<AtomicU64>::default();
    let guards = [0, 1, 2].map(|_| {
        let old = OldFilter::named("users").redis(&fleet.from.url());
        let source = Counted(fleet.table.clone(), Arc::clone(&scans));
        let builder = fleet.builder("users-2", &fleet.to, 1).rebuild(Schedule::manual(), source);
        builder.migrate_from(old.secret_key(SecretKey::new(KEY))).build().unwrap()
    });
    // Starts the tasks.
    guards.iter().for_each(|guard| drop(guard.state()));
    eventually("the new one is built", SOON, || async {
        let begun = scans.load(Ordering::SeqCst);
        if begun > 0 { Ok(()) } else { Err("no scan".to_owned()) }
    })
    .await;
    sleep(Duration::from_secs(10)).await;
    let begun = scans.load(Ordering::SeqCst);
    assert!(begun <= 3, "{begun} scans");
}

/// The keys may be deleted once no process has the filter; that one was late must not show in the next move.
#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_was_left_and_deleted_begins_anew_for_another_move() {
    let fleet = Fleet::start();
    live(&fleet.old()).await;
    let moving = fleet.moving();
    live(&moving).await;
    moving.hand_over().await.unwrap();
    let straggler = fleet.moved();
    live(&straggler).await;
    drop(moving);
    fleet.from.run::<()>(&["FLUSHALL"]);
    let back = OldFilter::named("users-2").redis(&fleet.to.url()).shards(4);
    let back = back.secret_key(SecretKey::new(KEY));
    let back = fleet.builder("users", &fleet.from, 1).migrate_from(back).build().unwrap();
    live(&back).await;
    back.hand_over().await.unwrap();
    eventually("the late process knows", SOON, || async {
        match straggler.check(&7_777_777).await.unwrap() {
            Verdict::Unknown(Doubt::Moved) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    fleet.to.run::<()>(&["FLUSHALL"]);
    sleep(Duration::from_secs(5)).await;
    drop((back, straggler));
    let old = fleet.old();
    live(&old).await;
    let again = fleet.moving();
    live(&again).await;
    let traffic = Traffic::start(&[again, old], &fleet.table, 20_000);
    sleep(Duration::from_secs(3)).await;
    assert!(traffic.ended().await > 100);
}

/// Nobody may have told the new metadata yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_begins_as_the_new_redis_loses_its_data_waits_until_it_was_told() {
    let (fleet, moving, traffic) = under_way().await;
    traffic.ended().await;
    // The old filter is not told.
    let call = moving[0].clone();
    let call = tokio::spawn(async move { call.hand_over().await });
    fleet.is_begun().await;
    fleet.from.pause();
    call.await.unwrap().unwrap_err();
    fleet.from.resume();
    let created = (2_000_000..2_000_200).collect::<Vec<u64>>();
    for id in &created {
        moving[1].insert(id).await.unwrap();
        fleet.table.commit(*id);
    }
    for _ in 0..4 {
        fleet.to.run::<()>(&["FLUSHALL"]);
        let late = fleet.moving();
        let mut asked = 0;
        let until = Instant::now() + Duration::from_secs(2);
        while Instant::now() < until {
            for id in &created {
                let verdict = late.check(id).await.unwrap();
                assert!(!matches!(verdict, Verdict::Absent(_)), "{id} is refused after {asked}");
                asked += 1;
            }
        }
        live(&moving[1]).await;
    }
}
