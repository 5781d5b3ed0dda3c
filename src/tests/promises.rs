//! The promises about ids, kept by the in-process store: never a false 404, in any order of events.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, advance};

use super::{Rebuild, guard, id, ids, memory_store, rebuild, settings};
use crate::decide::gate::{Ruling, Subject};
use crate::guard::Guard;
use crate::id::Id;
use crate::nulls::rules::Lesson;
use crate::nulls::scope::Scope;
use crate::settings::Settings;
use crate::store::memory::MemoryStore;
use crate::store::{Answer, Lookup, Removed, Store};
use crate::verdict::{Doubt, Proof, Verdict};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

struct World {
    store: Arc<MemoryStore>,
    guard: Guard,
    settings: Settings,
}

impl World {
    fn new(settings: Settings) -> Self {
        let store = memory_store(&settings);
        let shared = Store::Memory(store.clone());
        let guard = guard(shared, &settings);
        Self { store, guard, settings }
    }

    /// A world whose filter was built from these ids.
    async fn with(ids: &[Id]) -> Self {
        let world = Self::new(settings());
        rebuild(&world.store, ids).await;
        world
    }

    fn check(&self, id: &Id) -> Lookup {
        match self.guard.store.check(&[(id, None)], Instant::now()) {
            Answer::Ready(lookups) => lookups[0],
            Answer::Pending(_) => panic!("the in-process store answers at once"),
        }
    }

    fn verdict(&self, id: &Id) -> Verdict {
        self.check(id).verdict
    }

    /// What a request for the id is refused for, if it is.
    fn refused(&self, id: &Id) -> Option<Proof> {
        match self.rule(id, self.verdict(id)) {
            Ruling::Refuse(proof) => Some(proof),
            Ruling::Admit { .. } | Ruling::Busy { .. } => None,
        }
    }

    fn rule(&self, id: &Id, verdict: Verdict) -> Ruling {
        let mut subject = Subject::new(id.clone(), self.guard.gate.hash(id));
        subject.verdict = verdict;
        self.guard.rule(&mut [subject], 0, Instant::now())
    }

    async fn insert(&self, id: &Id) {
        self.guard.insert(vec![id.clone()]).await.unwrap();
    }

    /// The handler has answered 404 to the request so decided.
    async fn missing(&self, id: &Id, decision: &Lookup) {
        if let Ruling::Admit { why, .. } = self.rule(id, decision.verdict) {
            self.guard.missing(self.guard.gate.hash(id), why);
            let lesson = Lesson { scope: Scope::Everyone, fresh: Duration::MAX };
            self.guard.learn(id, decision.claim, lesson).answer().await;
        }
    }

    /// A world in which nulls outlive the record of recent inserts, so that it cannot cover a wrong one up. It is
    /// as old as the record gets.
    async fn with_long_nulls(ids: &[Id]) -> Self {
        let mut settings = settings();
        settings.nulls.ttl = 60 * MINUTE;
        settings.removed_ttl = Some(60 * MINUTE);
        let world = Self::new(settings);
        rebuild(&world.store, ids).await;
        world.outlive_record().await;
        world
    }

    /// Lets the record of all inserts so far end.
    async fn outlive_record(&self) {
        advance(self.settings.record_life()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_missing_filter_never_refuses() {
    let world = World::new(settings());
    for id in ids(0..100) {
        let decision = world.check(&id);
        assert_eq!(decision.verdict, Verdict::Unknown(Doubt::NoFilter));
        assert_eq!(world.refused(&id), None);
        world.missing(&id, &decision).await;
        world.guard.remove(&id).await.unwrap();
        assert_eq!(world.refused(&id), None);
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_never_created_is_refused_and_what_was_is_not() {
    let world = World::with(&ids(0..100)).await;
    world.insert(&id(100)).await;
    world.outlive_record().await;
    for id in ids(0..101) {
        assert_eq!(world.verdict(&id), Verdict::Present);
    }
    for id in ids(101..200) {
        assert_eq!(world.refused(&id), Some(Proof::Filter));
    }
}

#[tokio::test(start_paused = true)]
async fn a_null_is_stored_once_per_ttl() {
    let world = World::with(&ids(0..10)).await;
    let ttl = world.settings.nulls.ttl;
    for round in 1..=3 {
        let decision = world.check(&id(3));
        assert_eq!(decision.verdict, Verdict::Present);
        world.missing(&id(3), &decision).await;
        advance(ttl.mul_f64(0.89)).await;
        assert_eq!(world.refused(&id(3)), Some(Proof::Null));
        advance(ttl.mul_f64(0.22)).await;
        assert_eq!(world.guard.metrics.stats().nulls_stored, round);
    }
}

/// A request for the id runs: check, the handler's look into the database, the null. The create comes
/// before, after or between.
#[tokio::test(start_paused = true)]
async fn a_create_that_races_the_404_is_never_hidden() {
    for create_at in 0..4 {
        let world = World::with_long_nulls(&ids(0..10)).await;
        let x = id(3); // in the filter, but its record is gone
        let mut decision = None;
        for step in 0..4 {
            if step == create_at {
                world.insert(&x).await;
            }
            match step {
                0 => decision = Some(world.check(&x)),
                1 => advance(SECOND).await, // the handler reads and finds nothing
                2 => world.missing(&x, &decision.unwrap()).await,
                _ => (),
            }
        }
        assert_eq!(world.verdict(&x), Verdict::Present, "create before step {create_at}");
        world.outlive_record().await;
        assert_eq!(world.verdict(&x), Verdict::Present, "create before step {create_at}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_create_before_an_old_request_ends_is_never_hidden() {
    let world = World::with_long_nulls(&ids(0..10)).await;
    let x = id(3);
    let overlap = world.settings.longest_transaction;
    world.insert(&x).await;
    // The transaction is still open as the handler reads, and the request is a slow one.
    advance(overlap - SECOND).await;
    let decision = world.check(&x);
    advance(world.settings.nulls.handler_time).await;
    world.missing(&x, &decision).await;
    world.outlive_record().await;
    assert_eq!(world.verdict(&x), Verdict::Present);
    assert_eq!(world.guard.metrics.stats().nulls_withheld, 1);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_took_too_long_teaches_nothing() {
    let world = World::with(&ids(0..10)).await;
    let decision = world.check(&id(3));
    advance(world.settings.nulls.handler_time + SECOND).await;
    world.missing(&id(3), &decision).await;
    assert_eq!(world.verdict(&id(3)), Verdict::Present);
}

#[tokio::test(start_paused = true)]
async fn an_old_generations_null_is_ignored() {
    let world = World::with(&ids(0..10)).await;
    let known = world.check(&id(3));
    let pending = world.check(&id(4));
    world.missing(&id(3), &known).await;
    assert_eq!(world.verdict(&id(3)), Verdict::Absent(Proof::Null));

    // Both records were restored behind the guard's back, and the source knows.
    rebuild(&world.store, &ids(0..10)).await;
    world.missing(&id(4), &pending).await;
    assert_eq!(world.verdict(&id(3)), Verdict::Present);
    assert_eq!(world.verdict(&id(4)), Verdict::Present);
}

#[tokio::test(start_paused = true)]
async fn a_removed_id_is_refused_until_it_is_created_anew() {
    let world = World::with_long_nulls(&ids(0..10)).await;
    world.guard.remove(&id(3)).await.unwrap();
    assert_eq!(world.verdict(&id(3)), Verdict::Absent(Proof::Null));
    world.insert(&id(3)).await;
    assert_eq!(world.verdict(&id(3)), Verdict::Present);
    world.outlive_record().await;
    assert_eq!(world.verdict(&id(3)), Verdict::Present);
}

#[tokio::test(start_paused = true)]
async fn a_late_remove_never_hides_a_recreated_id() {
    let world = World::with_long_nulls(&ids(0..10)).await;
    world.insert(&id(3)).await;
    advance(world.settings.longest_transaction).await;
    world.guard.remove(&id(3)).await.unwrap();
    world.outlive_record().await;
    assert_eq!(world.verdict(&id(3)), Verdict::Present);
}

/// The record was created anew in the process before this one.
#[tokio::test(start_paused = true)]
async fn a_removal_told_to_a_process_that_has_just_begun_never_hides_a_recreated_id() {
    let world = World::new(settings());
    rebuild(&world.store, &ids(0..10)).await;
    let last_moment = world.settings.record_life() - SECOND;
    for step in [Duration::ZERO, last_moment] {
        advance(step).await;
        assert_eq!(world.guard.remove(&id(3)).await.unwrap(), Removed::Withheld);
        assert_eq!(world.verdict(&id(3)), Verdict::Present);
    }
    advance(SECOND).await;
    assert_eq!(world.guard.remove(&id(3)).await.unwrap(), Removed::Remembered);
}

/// The create's transaction waits for the deletion's, and the process that deleted gets to say so late.
/// Neither is longer, or later, than is allowed.
#[tokio::test(start_paused = true)]
async fn a_late_remove_of_a_late_deletion_never_hides_a_recreated_id() {
    let world = World::with_long_nulls(&ids(0..10)).await;
    world.insert(&id(3)).await;
    // The deletion commits here, the creation a moment later ...
    advance(world.settings.longest_transaction).await;
    // ... and only now the deletion is told.
    advance(world.settings.longest_transaction).await;
    world.guard.remove(&id(3)).await.unwrap();
    assert_eq!(world.verdict(&id(3)), Verdict::Present);
    world.outlive_record().await;
    assert_eq!(world.verdict(&id(3)), Verdict::Present);
}

#[tokio::test(start_paused = true)]
async fn a_transaction_open_across_the_rebuild_is_kept() {
    let world = World::with(&ids(0..10)).await;
    world.insert(&id(100)).await;
    advance(world.settings.longest_transaction - SECOND).await;
    rebuild(&world.store, &ids(0..10)).await; // 100 is not committed yet
    world.outlive_record().await;
    assert_eq!(world.verdict(&id(100)), Verdict::Present);
}

#[tokio::test(start_paused = true)]
async fn an_insert_during_any_step_of_a_rebuild_is_kept() {
    // Also during the very first one, while there is no filter yet.
    for world in [World::new(settings()), World::with(&ids(0..10)).await] {
        world.insert(&id(100)).await;
        let mut rebuild = Rebuild::lease(&world.store).await;
        world.insert(&id(101)).await;
        rebuild.read_recent().await;
        world.insert(&id(102)).await;
        rebuild.scan(&ids(0..10)).await;
        world.insert(&id(103)).await;
        rebuild.finish().await.unwrap();
        world.insert(&id(104)).await;
        world.outlive_record().await;
        for id in ids(100..105) {
            assert_eq!(world.verdict(&id), Verdict::Present, "{id:?}");
        }
        assert_eq!(world.verdict(&id(105)), Verdict::Absent(Proof::Filter));
    }
}

#[tokio::test(start_paused = true)]
async fn a_rebuild_waits_for_transactions_of_inserts_that_the_record_had_to_drop() {
    let mut settings = settings();
    settings.recent_ids = 1000;
    let world = World::new(settings);
    rebuild(&world.store, &ids(0..10)).await;
    world.guard.insert(ids(1000..2001)).await.unwrap();
    advance(SECOND).await;

    let mut rebuild = Rebuild::lease(&world.store).await;
    let asked = Instant::now();
    assert_eq!(rebuild.read_recent().await, 1000, "one was dropped");
    let over = world.settings.longest_transaction - SECOND;
    assert!((over..over + SECOND).contains(&asked.elapsed()), "{:?}", asked.elapsed());

    // What is dropped from then on went to the filter that is built, and nothing waits for it.
    world.guard.insert(ids(3000..4001)).await.unwrap();
    rebuild.finish().await.unwrap();
    world.outlive_record().await;
    assert_eq!(world.verdict(&id(3000)), Verdict::Present);
}

#[tokio::test(start_paused = true)]
async fn a_rebuild_that_fails_leaves_the_live_filter_as_it_was() {
    let world = World::with(&ids(0..10)).await;
    let before = world.store.condition().live.unwrap();
    drop(Rebuild::lease(&world.store).await);
    assert_eq!(world.store.condition().live.unwrap(), before);
    assert_eq!(world.verdict(&id(5)), Verdict::Present);
}

#[tokio::test(start_paused = true)]
async fn generations_only_grow_and_tell_the_time() {
    let world = World::new(settings());
    let first = rebuild(&world.store, &[]).await;
    let second = rebuild(&world.store, &[]).await;
    assert!(second > first);
    advance(MINUTE).await;
    let survey = world.store.survey().await.unwrap();
    let age = survey.now_us - survey.live.unwrap().generation.get();
    assert!((59_000_000..=61_000_000).contains(&age), "{age}");
}

#[tokio::test]
async fn the_disproof_of_a_filter_is_none_of_its_successor() {
    let world = World::new(settings());
    let first = rebuild(&world.store, &ids(0..10)).await;
    let second = rebuild(&world.store, &ids(0..10)).await;
    world.store.distrust(&id(0), first).await.unwrap();
    assert_eq!(world.verdict(&id(99)), Verdict::Absent(Proof::Filter));
    world.store.distrust(&id(0), second).await.unwrap();
    assert_eq!(world.verdict(&id(99)), Verdict::Unknown(Doubt::Disproved));
}

#[tokio::test]
async fn what_took_a_disproved_filters_place_stays_in_use_until_a_second_id_is_missing() {
    let world = World::new(settings());
    let store = &world.store;
    let first = rebuild(store, &ids(0..10)).await;
    assert_eq!(store.distrust(&id(90), first).await.unwrap(), Some(Doubt::Disproved));
    assert_eq!(store.survey().await.unwrap().live, Err(Doubt::Disproved), "due at once");
    for _ in 0..2 {
        let next = rebuild(store, &ids(0..10)).await;
        for lacked in [90, 90] {
            assert_eq!(store.distrust(&id(lacked), next).await.unwrap(), None);
            assert_eq!(world.verdict(&id(99)), Verdict::Absent(Proof::Filter));
        }
        let twice = store.distrust(&id(91), next).await.unwrap();
        assert_eq!(twice, Some(Doubt::DisprovedTwice));
        assert_eq!(store.distrust(&id(92), next).await.unwrap(), None, "once");
        assert_eq!(world.verdict(&id(99)), Verdict::Unknown(Doubt::DisprovedTwice));
        assert_eq!(store.condition().live, Err(Doubt::DisprovedTwice));
        assert_eq!(
            store.survey().await.unwrap().live.unwrap().generation,
            next,
            "as due as others"
        );
    }
    // One in which none is missing ends it.
    rebuild(store, &ids(0..10)).await;
    let last = rebuild(store, &ids(0..10)).await;
    assert_eq!(store.distrust(&id(90), last).await.unwrap(), Some(Doubt::Disproved));
}
