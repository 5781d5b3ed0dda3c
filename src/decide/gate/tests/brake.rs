//! A backend that is not believed.

use super::*;

#[tokio::test(start_paused = true)]
async fn an_attacker_cannot_pull_the_brake() {
    let gate = gate(Policy::default());
    let now = Instant::now();
    for n in 0..100_000 {
        let free = gate.missing(&anybody(&gate, n), Scope::ALL, now);
        assert!(free, "his false positives were never seen to exist");
    }
}

#[tokio::test(start_paused = true)]
async fn who_signs_out_does_not_pull_the_brake() {
    let gate = gate(Policy::default());
    let now = Instant::now();
    (0..100).for_each(|n| gate.found(&with(&gate, n, b"me")));
    (0..100).for_each(|n| gate.missing_to_caller(&with(&gate, n, b"me"), now));
    assert!(gate.missing(&anybody(&gate, 5_000), Scope::ALL, now), "the backend is not believed");
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_loses_everything_teaches_nothing() {
    let gate = gate(Policy::default());
    let now = Instant::now();
    (0..1_000).for_each(|n| gate.found(&anybody(&gate, n)));
    let missing = |n: &u64| gate.missing(&anybody(&gate, *n), Scope::ALL, now);
    let learnt = (0..1_000).filter(missing).count();
    assert!(learnt < 8, "{learnt}");
    assert!(
        (8..1_000).all(|n| gate.visitors.know_of(anybody(&gate, n).id())),
        "and those that exist flow on"
    );
}

#[tokio::test(start_paused = true)]
async fn while_the_backend_is_doubted_those_who_were_shown_a_record_keep_to_a_lane_until_it_is_back()
 {
    let gate = gate(Policy::default());
    let now = Instant::now();
    (0..100).for_each(|n| gate.found(&anybody(&gate, n)));
    for n in 0..100 {
        let visitor = anybody(&gate, n);
        if !gate.missing(&visitor, Scope::ALL, now) {
            gate.visitors.missed(&visitor);
        }
    }
    let rulings: Vec<_> = (0..1_000)
        .map(|n| gate.rule(&anybody(&gate, 50 + n % 50), Verdict::Present, now))
        .collect();
    assert_eq!(rulings.iter().filter(|ruling| passes(ruling)).count(), 50 + 64, "each once");
    gate.found(&anybody(&gate, 50));
    assert_eq!(gate.visitors.standing(&anybody(&gate, 50), now), Standing::Good);
}

/// Junk credentials are free, and each was told of a public record that is deleted then.
#[tokio::test(start_paused = true)]
async fn while_the_backend_is_doubted_a_few_callers_try_an_id_and_the_others_keep_to_a_lane() {
    let gate = gate(Policy::default());
    let now = Instant::now();
    let junk: Vec<_> = (0..10_000_u32).map(|n| with(&gate, 1, &n.to_be_bytes())).collect();
    junk.iter().for_each(|visitor| gate.found(visitor));
    (2..100).for_each(|n| gate.found(&anybody(&gate, n)));
    assert!((2..100).any(|n| !gate.missing(&anybody(&gate, n), Scope::ALL, now)));
    gate.missing_to_caller(&anybody(&gate, 1), now);
    let rulings: Vec<_> =
        junk.iter().map(|visitor| gate.rule(visitor, Verdict::Present, now)).collect();
    assert_eq!(rulings.iter().filter(|ruling| passes(ruling)).count(), 8 + 64);
}

/// All callers show credentials, so that no 404 is remembered; for a while the backend answers 404.
#[tokio::test(start_paused = true)]
async fn no_caller_is_held_to_what_a_broken_backend_said_to_those_with_credentials() {
    let gate = gate(Policy::default());
    let mut now = Instant::now();
    let owner = |n: u64| with(&gate, n, &n.to_be_bytes());
    (0..1_000).for_each(|n| gate.found(&owner(n)));
    (0..1_000).for_each(|n| gate.missing_to_caller(&owner(n), now));
    now += Duration::from_secs(11);
    gate.missing_to_caller(&with(&gate, 5_000, b"another"), now);
    let held = (0..1_000).filter(|n| {
        let (visitor, stranger) = (owner(*n), with(&gate, *n, b"stranger"));
        [visitor, stranger]
            .iter()
            .any(|visitor| gate.visitors.standing(visitor, now) != Standing::Good)
    });
    assert!(held.count() < 8, "but for the first");
}

#[tokio::test(start_paused = true)]
async fn when_the_backend_is_back_no_id_is_held_to_what_it_said() {
    for with_credentials in [false, true] {
        let gate = gate(Policy::default());
        let mut now = Instant::now();
        (0..100).for_each(|n| gate.found(&anybody(&gate, n)));
        assert!((0..100).any(|n| !gate.missing(&anybody(&gate, n), Scope::ALL, now)));
        gate.visitors.missed(&anybody(&gate, 1_000));
        for _ in 0..12 {
            now += Duration::from_secs(1);
            (0..100).for_each(|n| gate.found(&anybody(&gate, n)));
        }
        // Whichever 404 is the first to come.
        if with_credentials {
            gate.missing_to_caller(&with(&gate, 2_000, b"me"), now);
        } else {
            assert!(gate.missing(&anybody(&gate, 2_000), Scope::ALL, now));
        }
        assert_eq!(
            gate.visitors.standing(&anybody(&gate, 1_000), now),
            Standing::Good,
            "{with_credentials}"
        );
    }
}

/// All clients ask with a query.
#[tokio::test(start_paused = true)]
async fn a_backend_that_loses_everything_teaches_nothing_to_requests_with_a_query() {
    let gate = gate(Policy::default());
    let now = Instant::now();
    let asks = |n| gate.visitors.recognise(&id(n), Manner::WithQuery, []);
    (0..1_000).for_each(|n| gate.found(&asks(n)));
    assert!(!gate.is_about_a_part(&asks(5_000), now), "the record is missing");
    assert!(gate.is_about_a_part(&asks(7), now), "it was shown");
    (0..100).for_each(|n| gate.missing_part(&asks(n)));
    assert!(gate.is_about_a_part(&asks(5_001), now), "nobody knows what is missing");
    assert!(
        gate.missing(&anybody(&gate, 5_002), Scope::ALL, now),
        "whoever asks without is believed"
    );
}

#[tokio::test(start_paused = true)]
async fn a_few_missing_parts_among_many_requests_or_of_what_was_never_shown_pull_no_brake() {
    let gate = gate(Policy::default());
    let now = Instant::now();
    let asks = |n| gate.visitors.recognise(&id(n), Manner::WithQuery, []);
    for _ in 0..2 {
        (0..1_000).for_each(|n| gate.found(&asks(n)));
    }
    (0..20).for_each(|n| gate.missing_part(&asks(n)));
    assert!(!gate.is_about_a_part(&asks(5_000), now), "a fiftieth");
    (6_000..7_000).for_each(|n| gate.missing_part(&asks(n)));
    assert!(!gate.is_about_a_part(&asks(5_000), now), "an attacker chooses how many there are");
}
