//! Which refusals are let through for a look.

use super::*;

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

/// Deletions of records that never were succeed in many services.
#[tokio::test(start_paused = true)]
async fn a_request_that_cannot_show_a_record_is_no_audit() {
    let gate = Gate::new(Policy { audits: 10, ..Policy::default() });
    let absent = Verdict::Absent(Proof::Filter);
    let began = Instant::now();
    for ms in 0..10_000 {
        let deletes = gate.visitors.recognise(&id(ms), Manner::Acting, []);
        let ruling = gate.rule(&deletes, absent, began + Duration::from_millis(ms));
        assert!(matches!(ruling, Ruling::Refuse(_)), "{ruling:?}");
    }
}
