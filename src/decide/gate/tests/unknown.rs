//! Policies for what is unknown, and modes.

use super::*;

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
