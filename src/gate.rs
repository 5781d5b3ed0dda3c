//! What becomes of a request: proofs refuse, and what is not proven passes as far as it can be borne.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::brake::Brake;
use crate::bucket::Bucket;
use crate::lane::{Lane, Place};
use crate::policy::{Mode, OnUnknown, Policy};
use crate::scope::Scope;
use crate::sightings::{Sightings, Trace};
use crate::verdict::{Doubt, Proof, Verdict};
use crate::visitors::{Standing, Visitor, Visitors};

/// Ids remembered as refused, as far as there is room in a flood.
const RECENTLY_REFUSED: u64 = 1 << 15;
/// The shortest and the longest time a client is told to stay away.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// What rules on requests, and what it remembers to do so.
#[derive(Debug)]
pub(crate) struct Gate {
    policy: Policy,
    mode: AtomicU8,
    /// Whether this process has seen a filter answer.
    built: AtomicBool,
    /// Whether it has seen that there was none yet.
    unbuilt: AtomicBool,
    visitors: Visitors,
    /// Ids that were refused.
    refused: Sightings,
    unknown_lane: Lane,
    missed_lane: Lane,
    /// The same for callers who are known.
    known_lane: Lane,
    /// The same for callers who were told that they exist, while the backend is not believed.
    doubted_lane: Lane,
    abandoned_lane: Lane,
    audits: Bucket,
    brake: Brake,
}

/// What becomes of a request.
#[derive(Debug)]
pub(crate) enum Ruling {
    Admit(Admission),
    Refuse(Proof),
    /// There is no room for it now.
    Busy {
        retry_after: Duration,
    },
}

/// A request that passes.
#[derive(Debug)]
pub(crate) struct Admission {
    pub(crate) why: Why,
    /// Its place in a lane, until it is answered.
    pub(crate) place: Option<Place>,
}

/// Why a request passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// The filter lets it.
    Present,
    /// The answer is unknown, and the id was lately seen to exist.
    Seen,
    /// The answer is unknown.
    Unknown,
    /// It would be refused, but somebody has to look whether refusals are right.
    Audit(Proof),
    /// It would be refused, if refusals were on.
    Shadow(Proof),
}

impl Gate {
    pub(crate) fn new(policy: Policy) -> Self {
        Self {
            mode: AtomicU8::new(policy.mode as u8),
            built: AtomicBool::new(false),
            unbuilt: AtomicBool::new(false),
            visitors: Visitors::new(policy.recently_seen),
            refused: Sightings::new(RECENTLY_REFUSED),
            unknown_lane: Lane::new(policy.lane),
            missed_lane: Lane::new(policy.lane),
            known_lane: Lane::new(policy.lane),
            doubted_lane: Lane::new(policy.lane),
            abandoned_lane: Lane::new(policy.lane),
            // An audit is a sample: the first refusal is no better one than the next.
            audits: Bucket::sampling(policy.audits),
            brake: Brake::new(Instant::now()),
            policy,
        }
    }

    pub(crate) fn mode(&self) -> Mode {
        match self.mode.load(Ordering::Relaxed) {
            mode if mode == Mode::Shadow as u8 => Mode::Shadow,
            mode if mode == Mode::Off as u8 => Mode::Off,
            _ => Mode::Enforce,
        }
    }

    pub(crate) fn set_mode(&self, mode: Mode) {
        self.mode.store(mode as u8, Ordering::Relaxed);
    }

    /// What requests were answered lately.
    pub(crate) fn visitors(&self) -> &Visitors {
        &self.visitors
    }

    /// Rules on a request for an id about which this was found.
    pub(crate) fn rule(&self, visitor: &Visitor, verdict: Verdict, now: Instant) -> Ruling {
        let enforced = self.mode() == Mode::Enforce;
        match verdict {
            Verdict::Absent(proof) => {
                self.note_built();
                if !enforced {
                    Ruling::admit(Why::Shadow(proof), None)
                } else if self.audits(visitor.id(), now) {
                    Ruling::admit(Why::Audit(proof), None)
                } else {
                    Ruling::Refuse(proof)
                }
            }
            Verdict::Present => {
                self.note_built();
                if enforced { self.rule_on_present(visitor, now) } else { PASS }
            }
            Verdict::Unknown(_) if !enforced => Ruling::admit(Why::Unknown, None),
            Verdict::Unknown(doubt) => match self.on(doubt) {
                OnUnknown::Pass => Ruling::admit(Why::Unknown, None),
                OnUnknown::PassLimited if self.exists(visitor, now) => {
                    Ruling::admit(Why::Seen, None)
                }
                OnUnknown::PassLimited => Ruling::by_lane(&self.unknown_lane, Why::Unknown, now),
                OnUnknown::Shed => Ruling::Busy { retry_after: RETRY.0 },
            },
        }
    }

    /// Whether to let a refusal through for a look. Ids that were seen to exist go first, and those
    /// that are asked for again: a random flood does not repeat itself, and who wants a record does.
    fn audits(&self, trace: Trace, now: Instant) -> bool {
        // Most refusals end here: the sets are looked at while there is something to decide.
        if !self.audits.has_any(now) {
            return false;
        }
        let suspicious = self.visitors.know_of(trace) || self.refused.hold(trace);
        self.refused.note(trace);
        let taken = if suspicious { self.audits.take(now) } else { self.audits.take_spare(now) };
        taken.is_ok()
    }

    /// Rules on a request that passed the filter: some ids keep to a lane all the same.
    fn rule_on_present(&self, visitor: &Visitor, now: Instant) -> Ruling {
        let lane = match self.visitors.standing(visitor, now) {
            Standing::Good => return PASS,
            Standing::Shown if !self.disbelieves(now) => return PASS,
            // Where the backend is back, that is how it is found out.
            Standing::Shown if self.visitors.try_once(visitor, now) => return PASS,
            Standing::Shown => &self.doubted_lane,
            Standing::Sought => return Ruling::Busy { retry_after: RETRY.0 },
            Standing::Missed => &self.missed_lane,
            Standing::MissedByKnown => &self.known_lane,
            Standing::Abandoned => &self.abandoned_lane,
        };
        let ruling = Ruling::by_lane(lane, Why::Present, now);
        if let Ruling::Admit(_) = ruling {
            self.visitors.seek(visitor, now);
        }
        ruling
    }

    /// Whether an id was lately seen to exist, and nothing else since.
    fn exists(&self, visitor: &Visitor, now: Instant) -> bool {
        self.visitors.know_of(visitor.id())
            && matches!(self.visitors.standing(visitor, now), Standing::Good | Standing::Shown)
    }

    /// The record of an id was found.
    pub(crate) fn found(&self, visitor: &Visitor) {
        if self.visitors.found(visitor) {
            self.brake.found();
            if self.brake.is_held() {
                self.visitors.regained(visitor);
            }
        }
    }

    /// The record of an id was missing, for all requests of this scope. Says whether that may be
    /// remembered.
    pub(crate) fn missing(&self, visitor: &Visitor, scope: Scope, now: Instant) -> bool {
        // What somebody else was told does not count: who sees less must not be able to pull the brake.
        if self.visitors.was_shown(visitor) {
            self.brake.lost();
        }
        if self.disbelieves(now) {
            return false;
        }
        self.visitors.lost(visitor);
        // Nor make the guard forget what others saw.
        if scope == Scope::ALL {
            self.visitors.lost_for_all(visitor);
        }
        true
    }

    /// The record of an id was missing, as this caller was told and others may not be.
    pub(crate) fn missing_to_caller(&self, visitor: &Visitor, now: Instant) {
        if !self.disbelieves(now) {
            self.visitors.lost(visitor);
        }
        self.visitors.missed(visitor);
    }

    /// Whether the backend's 404s are not believed at present.
    fn disbelieves(&self, now: Instant) -> bool {
        let held = self.brake.look(now);
        self.visitors.believe(!held);
        held
    }

    fn on(&self, doubt: Doubt) -> OnUnknown {
        let built = self.built.load(Ordering::Relaxed);
        if doubt == Doubt::NoFilter && !built {
            self.unbuilt.store(true, Ordering::Relaxed);
        }
        // An answer that is late is the same that others got; a setting of the server's is no outage.
        let unbuilt = !built && self.unbuilt.load(Ordering::Relaxed);
        if unbuilt || doubt == Doubt::Eviction {
            self.policy.on_unbuilt
        } else {
            self.policy.on_unknown
        }
    }

    fn note_built(&self) {
        if !self.built.load(Ordering::Relaxed) {
            self.built.store(true, Ordering::Relaxed);
        }
    }
}

/// It passed the filter.
const PASS: Ruling = Ruling::admit(Why::Present, None);

impl Ruling {
    const fn admit(why: Why, place: Option<Place>) -> Self {
        Self::Admit(Admission { why, place })
    }

    fn by_lane(lane: &Lane, why: Why, now: Instant) -> Self {
        match lane.enter(now) {
            Ok(place) => Self::admit(why, Some(place)),
            Err(wait) => Self::Busy { retry_after: wait.clamp(RETRY.0, RETRY.1) },
        }
    }
}

#[cfg(test)]
mod tests {
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
        let lost: Vec<_> =
            (0..1_000).map(|n| gate.rule(&anybody(&gate, n), unbuilt, now)).collect();
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
        assert!(matches!(
            gate.rule(&anybody(&gate, 1), absent, now),
            Ruling::Refuse(Proof::Filter)
        ));
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
        assert!(matches!(
            gate.rule(&anybody(&gate, 1), absent, now),
            Ruling::Refuse(Proof::Filter)
        ));
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
}
