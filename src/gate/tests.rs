use super::*;
use crate::id::Id;

const UNKNOWN: Verdict = Verdict::Unknown(Doubt::Timeout);

fn id(n: u64) -> Id {
    Id::display(&n).unwrap()
}

fn gate(policy: Policy) -> Gate {
    Gate::new(Policy { audits: 0, ..policy })
}

/// Somebody without credentials, who asks for this id.
fn anybody(gate: &Gate, n: u64) -> Visitor {
    gate.visitors.recognise(&id(n), false, [])
}

/// Somebody with these.
fn with(gate: &Gate, n: u64, credentials: &[u8]) -> Visitor {
    gate.visitors.recognise(&id(n), false, [credentials])
}

fn passes(ruling: &Ruling) -> bool {
    matches!(ruling, Ruling::Admit(_))
}

fn admitted(ruling: Ruling) -> Admission {
    match ruling {
        Ruling::Admit(admission) => admission,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_unknown_is_never_refused_and_passes_by_the_lane() {
    let gate = gate(Policy::default());
    let now = Instant::now();
    let mut in_lane = Vec::new();
    for n in 0..1_000 {
        match gate.rule(&anybody(&gate, n), UNKNOWN, now) {
            Ruling::Admit(admission) => in_lane.push(admission),
            Ruling::Busy { retry_after } => assert_eq!(retry_after, RETRY.0),
            Ruling::Refuse(proof) => panic!("{proof:?}"),
        }
    }
    assert_eq!(in_lane.len(), 64);
}

#[tokio::test(start_paused = true)]
async fn ids_seen_to_exist_flow_past_a_full_lane() {
    let gate = gate(Policy::default());
    let now = Instant::now();
    gate.found(&anybody(&gate, 7));
    gate.visitors.created(&id(8));
    let _full: Vec<_> =
        (1_000..2_000).map(|n| gate.rule(&anybody(&gate, n), UNKNOWN, now)).collect();
    for n in [7, 8] {
        let admission = admitted(gate.rule(&anybody(&gate, n), UNKNOWN, now));
        assert_eq!(admission.why, Why::Seen);
        assert!(admission.place.is_none());
    }
    gate.visitors.removed(&id(8));
    assert!(matches!(gate.rule(&anybody(&gate, 8), UNKNOWN, now), Ruling::Busy { .. }));
}

#[tokio::test(start_paused = true)]
async fn before_the_first_filter_the_lane_is_not_the_outage() {
    let gate = gate(Policy::default());
    let now = Instant::now();
    let unbuilt = Verdict::Unknown(Doubt::NoFilter);
    let passing: Vec<_> =
        (0..1_000).map(|n| admitted(gate.rule(&anybody(&gate, n), unbuilt, now))).collect();
    assert!(passing.iter().all(|admission| admission.place.is_none()));
    let late = (0..1_000).map(|n| admitted(gate.rule(&anybody(&gate, n), UNKNOWN, now)));
    assert!(late.into_iter().all(|admission| admission.place.is_none()));

    let _known = gate.rule(&anybody(&gate, 1), Verdict::Present, now);
    let lost: Vec<_> = (0..1_000).map(|n| gate.rule(&anybody(&gate, n), unbuilt, now)).collect();
    let busy = lost.iter().filter(|ruling| matches!(ruling, Ruling::Busy { .. })).count();
    assert_eq!(busy, 1_000 - 64, "a filter that was there and is gone is another matter");
}

#[tokio::test(start_paused = true)]
async fn the_other_policies_do_as_they_say() {
    let now = Instant::now();
    let pass = gate(Policy { on_unknown: OnUnknown::Pass, ..Policy::default() });
    for n in 0..1_000 {
        assert_eq!(admitted(pass.rule(&anybody(&pass, n), UNKNOWN, now)).why, Why::Unknown);
    }
    let shed = gate(Policy { on_unknown: OnUnknown::Shed, ..Policy::default() });
    shed.visitors.created(&id(1));
    assert!(matches!(shed.rule(&anybody(&shed, 1), UNKNOWN, now), Ruling::Busy { .. }));
}

#[tokio::test(start_paused = true)]
async fn the_mode_can_be_switched_while_it_runs() {
    let gate = gate(Policy::default());
    let now = Instant::now();
    let absent = Verdict::Absent(Proof::Filter);
    assert!(matches!(gate.rule(&anybody(&gate, 1), absent, now), Ruling::Refuse(Proof::Filter)));
    gate.set_mode(Mode::Shadow);
    assert_eq!(
        admitted(gate.rule(&anybody(&gate, 1), absent, now)).why,
        Why::Shadow(Proof::Filter)
    );
    for n in 0..1_000 {
        assert!(admitted(gate.rule(&anybody(&gate, n), UNKNOWN, now)).place.is_none());
    }
    for mode in [Mode::Off, Mode::Enforce] {
        gate.set_mode(mode);
        assert_eq!(gate.mode(), mode);
    }
    assert!(matches!(gate.rule(&anybody(&gate, 1), absent, now), Ruling::Refuse(Proof::Filter)));
}

#[tokio::test(start_paused = true)]
async fn refusals_are_audited_at_a_rate_and_no_faster() {
    let gate = Gate::new(Policy { audits: 10, ..Policy::default() });
    let began = Instant::now();
    let absent = Verdict::Absent(Proof::Filter);
    let audited = (0..10_000)
        .map(|ms| gate.rule(&anybody(&gate, ms), absent, began + Duration::from_millis(ms)))
        .filter(|ruling| matches!(ruling, Ruling::Admit(_)))
        .count();
    assert!((98..=99).contains(&audited), "{audited}");
}

#[tokio::test(start_paused = true)]
async fn in_a_flood_the_refusals_that_matter_are_audited_first() {
    let gate = Gate::new(Policy { audits: 10, ..Policy::default() });
    let began = Instant::now();
    let absent = Verdict::Absent(Proof::Filter);
    gate.visitors.created(&id(7));
    let mut audited = Vec::new();
    for ms in 0..10_000 {
        let now = began + Duration::from_millis(ms);
        // A hundred strangers before each request for one that exists, or that is asked for again.
        for n in 0..100 {
            let stranger = 1_000_000 + ms * 100 + n;
            if let Ruling::Admit(_) = gate.rule(&anybody(&gate, stranger), absent, now) {
                audited.push(stranger);
            }
        }
        let wanted = 7 + u64::from(ms % 3 == 0);
        if let Ruling::Admit(_) = gate.rule(&anybody(&gate, wanted), absent, now) {
            audited.push(wanted);
        }
    }
    assert!((98..=100).contains(&audited.len()), "{}", audited.len());
    for wanted in [7, 8] {
        let count = audited.iter().filter(|id| **id == wanted).count();
        assert!(count > 20, "{wanted} was audited {count} times");
    }
}

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
async fn who_signs_out_does_not_pull_the_brake() {
    let gate = gate(Policy::default());
    let now = Instant::now();
    (0..100).for_each(|n| gate.found(&with(&gate, n, b"me")));
    (0..100).for_each(|n| gate.missing_to_caller(&with(&gate, n, b"me"), now));
    assert!(gate.missing(&anybody(&gate, 5_000), Scope::ALL, now), "the backend is not believed");
}

#[tokio::test(start_paused = true)]
async fn a_seen_id_that_turns_out_to_be_missing_does_not_flow_on() {
    let gate = gate(Policy::default());
    let now = Instant::now();
    let (visitor, other) = (anybody(&gate, 1), with(&gate, 1, b"other"));
    gate.found(&visitor);
    gate.found(&other);
    gate.missing_to_caller(&visitor, now);
    let why = |visitor| admitted(gate.rule(visitor, UNKNOWN, now)).why;
    assert_eq!(why(&visitor), Why::Unknown);
    assert_eq!(why(&other), Why::Seen, "who was shown it may know better");
}

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
