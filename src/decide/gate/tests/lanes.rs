//! What passed the filter and keeps to a lane all the same.

use super::*;

#[tokio::test(start_paused = true)]
async fn an_id_that_was_missing_and_that_no_null_covers_keeps_to_a_lane() {
    let gate = gate(Policy::default());
    let now = Instant::now();
    gate.visitors.missed(&anybody(&gate, 1));
    let passed = (0..1_000)
        .map(|_| gate.rule(&with(&gate, 1, b"junk"), Verdict::Present, now))
        .filter(|ruling| matches!(ruling, Ruling::Admit(_)))
        .count();
    assert_eq!(passed, 64);
    assert!(admitted(gate.rule(&anybody(&gate, 2), Verdict::Present, now)).place.is_none());

    gate.visitors.created(&id(1));
    assert!(admitted(gate.rule(&anybody(&gate, 1), Verdict::Present, now)).place.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_missing_id_is_looked_for_by_one_at_a_time_where_one_answer_is_good_for_all() {
    let gate = gate(Policy::default());
    let now = Instant::now();
    let visitor = anybody(&gate, 1);
    gate.visitors.missed(&visitor);
    let passing = || passes(&gate.rule(&visitor, Verdict::Present, now));
    assert!(passing());
    assert!(!passing(), "the answer is not there yet");
    gate.visitors.answered(&visitor, now);
    assert!(passing());
    gate.visitors.abandoned(&visitor, now);
    assert!(passing());
    let later = now + Duration::from_secs(60);
    let ruling = gate.rule(&visitor, Verdict::Present, later);
    assert!(passes(&ruling), "one that never ends holds nobody up for long");
}

#[tokio::test(start_paused = true)]
async fn an_id_that_was_given_up_is_held_to_that_for_a_spell_only() {
    let gate = gate(Policy::default());
    let now = Instant::now();
    let visitor = anybody(&gate, 1);
    gate.visitors.abandoned(&visitor, now);
    assert_eq!(gate.visitors.standing(&visitor, now), Standing::Abandoned);
    let later = now + Duration::from_secs(30);
    assert_eq!(gate.visitors.standing(&visitor, later), Standing::Good);
}

#[tokio::test(start_paused = true)]
async fn an_id_whose_requests_are_given_up_keeps_to_a_lane_until_one_is_answered() {
    let gate = gate(Policy::default());
    let now = Instant::now();
    let visitor = anybody(&gate, 1);
    gate.visitors.abandoned(&visitor, now);
    assert!(admitted(gate.rule(&visitor, Verdict::Present, now)).place.is_some());
    gate.visitors.answered(&visitor, now);
    assert!(admitted(gate.rule(&visitor, Verdict::Present, now)).place.is_none());
    gate.found(&visitor);
    gate.visitors.abandoned(&visitor, now);
    assert!(admitted(gate.rule(&visitor, Verdict::Present, now)).place.is_none());
}

#[tokio::test(start_paused = true)]
async fn who_sees_less_does_not_make_the_guard_forget_what_others_saw() {
    let gate = gate(Policy::default());
    let (owner, anonymous) = (with(&gate, 1, b"owner"), anybody(&gate, 1));
    gate.found(&owner);
    let public = Scope { credentials: false, get: true };
    let now = Instant::now();
    assert!(gate.missing(&anonymous, public, now));
    gate.visitors.missed(&with(&gate, 1, b"junk"));
    assert_eq!(admitted(gate.rule(&owner, UNKNOWN, now)).why, Why::Seen);
    assert!(admitted(gate.rule(&owner, Verdict::Present, now)).place.is_none());
    assert!(admitted(gate.rule(&anonymous, Verdict::Present, now)).place.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_is_known_has_a_lane_that_junk_does_not_fill() {
    let gate = gate(Policy::default());
    let now = Instant::now();
    gate.visitors.missed(&with(&gate, 1, b"junk"));
    gate.found(&with(&gate, 1, b"owner"));
    // A public record, which anybody finds with any credentials.
    gate.found(&with(&gate, 2, b"junk"));
    let _full: Vec<_> = (10..1_000)
        .map(|n| {
            let junk = with(&gate, n, b"junk");
            gate.visitors.missed(&junk);
            gate.rule(&junk, Verdict::Present, now)
        })
        .collect();
    assert!(matches!(
        gate.rule(&with(&gate, 500, b"junk"), Verdict::Present, now),
        Ruling::Busy { .. }
    ));
    assert!(
        admitted(gate.rule(&with(&gate, 500, b"owner"), Verdict::Present, now)).place.is_some()
    );
}

#[tokio::test(start_paused = true)]
async fn what_was_shown_here_is_looked_for_though_somebody_was_told_that_it_is_missing() {
    let gate = gate(Policy::default());
    let now = Instant::now();
    gate.found(&anybody(&gate, 1));
    // Junk may fill the lane of what is missing.
    let junk = with(&gate, 500, b"junk");
    gate.visitors.missed(&junk);
    let _full: Vec<_> = (0..1_000).map(|_| gate.rule(&junk, Verdict::Present, now)).collect();
    let ruling = gate.rule_on_hearsay(&anybody(&gate, 1), Proof::Null, now);
    assert_eq!(admitted(ruling).why, Why::Hearsay);
    let stranger = gate.rule_on_hearsay(&anybody(&gate, 2), Proof::Null, now);
    assert!(matches!(stranger, Ruling::Refuse(Proof::Null)), "{stranger:?}");

    // Once this process knows better, it holds.
    assert!(gate.missing(&anybody(&gate, 1), Scope::ALL, now));
    let ruling = gate.rule_on_hearsay(&anybody(&gate, 1), Proof::Null, now);
    assert!(matches!(ruling, Ruling::Refuse(Proof::Null)), "{ruling:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_missing_with_a_query_or_to_a_deletion_is_missing_to_those_only() {
    for manner in [Manner::WithQuery, Manner::Acting] {
        let gate = gate(Policy::default());
        let now = Instant::now();
        let asks = gate.visitors.recognise(&id(1), manner, []);
        gate.found(&anybody(&gate, 1));
        gate.missing_part(&asks);
        assert_eq!(gate.visitors.standing(&anybody(&gate, 1), now), Standing::Good);
        assert!(admitted(gate.rule(&asks, Verdict::Present, now)).place.is_some());
        gate.visitors.created(&id(1));
        assert!(admitted(gate.rule(&asks, Verdict::Present, now)).place.is_none(), "{manner:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_asks_with_a_query_is_held_up_by_another_query_only_for_what_nobody_was_shown() {
    let gate = gate(Policy::default());
    let now = Instant::now();
    let asks = |n| gate.visitors.recognise(&id(n), Manner::WithQuery, []);
    gate.found(&anybody(&gate, 1));
    for n in [1, 2] {
        gate.missing_part(&asks(n));
        assert!(passes(&gate.rule(&asks(n), Verdict::Present, now)));
        assert_eq!(passes(&gate.rule(&asks(n), Verdict::Present, now)), n == 1);
    }
}
