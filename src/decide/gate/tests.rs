//! The table, row by row, and against a twin that is too simple to be wrong.

use std::collections::HashMap;

use super::*;
use crate::filter::Sizing;
use crate::nulls::rules::NegativeCaching;

const ABSENT: Verdict = Verdict::Absent(Proof::Filter);
const NULL: Verdict = Verdict::Absent(Proof::Null);
const UNKNOWN: Verdict = Verdict::Unknown(Doubt::Timeout);
const TTL: Duration = Duration::from_secs(30);

fn settings() -> Settings {
    let sizing = Sizing::new(10_000, 0.001).unwrap();
    let new = Settings::new("users".into());
    Settings { sizing, audits: 0, missed: 10_000, nulls: NegativeCaching::new().ttl(TTL), ..new }
}

fn gate(settings: &Settings) -> Gate {
    Gate::new(settings, Arc::default())
}

fn id(n: u64) -> Id {
    Id::display(&n).unwrap()
}

/// An id of which the look-up has said this; no copy holds it.
fn asked(hash: IdHash, verdict: Verdict) -> Subject {
    Subject { verdict, ..Subject::new(id(0), hash) }
}

/// Decides on a request for one id.
fn rule(gate: &Gate, id: IdHash, verdict: Verdict, now: Instant) -> Ruling {
    gate.rule(&mut [asked(id, verdict)], 0, now)
}

fn why(ruling: &Ruling) -> Option<Why> {
    if let Ruling::Admit { why, .. } = ruling { Some(*why) } else { None }
}

/// How many of a thousand requests at one moment pass.
fn passing(gate: &Gate, ids: impl Fn(u64) -> u64, verdict: Verdict) -> usize {
    let now = Instant::now();
    let rulings: Vec<_> =
        (0..1_000).map(|n| rule(gate, gate.hash(&id(ids(n))), verdict, now)).collect();
    rulings.iter().filter(|ruling| why(ruling).is_some()).count()
}

#[tokio::test(start_paused = true)]
async fn what_is_unknown_is_never_refused_and_enters_the_lane() {
    let gate = gate(&settings());
    assert_eq!(passing(&gate, |n| n, UNKNOWN), 64);
    let busy = rule(&gate, gate.hash(&id(1)), UNKNOWN, Instant::now());
    assert!(matches!(busy, Ruling::Busy(UNKNOWN)));
}

#[tokio::test(start_paused = true)]
async fn a_found_id_needs_no_look_up_for_ten_minutes() {
    let gate = gate(&settings());
    let (now, found) = (Instant::now(), gate.hash(&id(7)));
    gate.found(found, now);
    assert!(gate.found.holds(found, now + FOUND - FOUND / 16));
    assert!(!gate.found.holds(found, now + FOUND));
}

#[tokio::test(start_paused = true)]
async fn a_404_or_a_removal_ends_it_and_what_tells_nothing_does_not() {
    let gate = gate(&settings());
    let (now, seven) = (Instant::now(), gate.hash(&id(7)));
    gate.found(seven, now);
    gate.not_answered(seven, now);
    assert!(gate.found.holds(seven, now));
    gate.missing(seven, now);
    assert!(!gate.found.holds(seven, now));
    assert_eq!(why(&rule(&gate, seven, Verdict::Present, now)), Some(Why::Present));
    gate.found(seven, now);
    gate.removed(&id(7), now);
    assert!(!gate.found.holds(seven, now));
}

#[tokio::test(start_paused = true)]
async fn a_missed_id_keeps_to_the_lane_for_longer_than_a_null_until_it_is_found_or_inserted() {
    let gate = gate(&settings());
    let now = Instant::now();
    let missing = |gate: &Gate, id, now| {
        gate.missing(id, now);
    };
    for missed in [missing, Gate::not_answered] {
        for regained in [
            |gate: &Gate| gate.found(gate.hash(&id(7)), Instant::now()),
            |gate: &Gate| gate.inserted(&id(7)),
        ] {
            let seven = gate.hash(&id(7));
            gate.found.forget(seven);
            missed(&gate, seven, now);
            assert!(gate.missed.holds(seven, now + TTL.mul_f64(1.1)));
            assert!(!gate.missed.holds(seven, now + TTL * 2));
            assert!(passing(&gate, |_| 7, Verdict::Present) <= 64);
            regained(&gate);
            assert_eq!(passing(&gate, |_| 7, Verdict::Present), 1_000);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn before_the_first_filter_and_on_a_server_that_may_evict_it_the_lane_is_not_the_outage() {
    for doubt in [Doubt::NoFilter, Doubt::Refused(Refusal::EVICTION)] {
        assert_eq!(passing(&gate(&settings()), |n| n, Verdict::Unknown(doubt)), 1_000);
    }
}

#[tokio::test(start_paused = true)]
async fn the_application_chooses_for_what_is_unknown_and_for_nothing_else() {
    for (on_unknown, expected) in [(OnUnknown::Pass, 1_000), (OnUnknown::Shed, 0)] {
        let gate = gate(&Settings { on_unknown, ..settings() });
        gate.missing(gate.hash(&id(7)), Instant::now());
        assert_eq!(passing(&gate, |_| 7, UNKNOWN), expected, "missed or not");
        assert_eq!(passing(&gate, |_| 7, Verdict::Present), 64);
        assert_eq!(passing(&gate, |n| n, ABSENT), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn the_sample_is_as_small_as_it_says() {
    let gate = gate(&Settings { audits: 2, ..settings() });
    let (begun, mut sampled) = (Instant::now(), 0);
    for ms in 0..10_000 {
        let ruling = rule(&gate, gate.hash(&id(ms)), ABSENT, begun + Duration::from_millis(ms));
        sampled += u32::from(why(&ruling) == Some(Why::Sample));
    }
    assert_eq!(sampled, 19, "none at the beginning, and then two a second");
}

/// Who tries the guard by hand sees it refuse.
#[tokio::test(start_paused = true)]
async fn the_first_ten_refusals_of_a_process_are_no_sample() {
    let gate = gate(&Settings { audits: 1, ..settings() });
    let later = Instant::now() + Duration::from_secs(3_600);
    let sampled = (0..12).map(|n| {
        let ruling = rule(&gate, gate.hash(&id(n)), ABSENT, later);
        why(&ruling) == Some(Why::Sample)
    });
    assert_eq!(sampled.collect::<Vec<_>>(), [[false; 10].as_slice(), &[true, false]].concat());
}

#[tokio::test(start_paused = true)]
async fn in_shadow_mode_everything_passes_and_says_what_it_would_have_met() {
    everything_passes_in(Mode::Shadow);
}

/// Its look-up was under way when the mode changed.
#[tokio::test(start_paused = true)]
async fn a_request_that_was_not_to_be_refused_is_not_refused_as_the_guard_is_switched_off() {
    everything_passes_in(Mode::Off);
}

fn everything_passes_in(mode: Mode) {
    let gate = gate(&settings());
    gate.own_mode.change(mode);
    let now = Instant::now();
    let rule = |verdict| rule(&gate, gate.hash(&id(7)), verdict, now);
    assert_eq!(why(&rule(ABSENT)), Some(Why::Shadow));
    assert_eq!(why(&rule(Verdict::Present)), Some(Why::Present));
    let rulings: Vec<_> = (0..64).map(|_| rule(UNKNOWN)).collect();
    assert!(rulings.iter().all(|ruling| why(ruling) == Some(Why::Unknown)));
    assert!(matches!(rule(UNKNOWN), Ruling::Admit { no_room: Some(UNKNOWN), .. }));
}

/// The table as it is written, over sets that never lose an id.
#[derive(Default)]
struct Twin {
    found: HashMap<u64, Instant>,
    missed: HashMap<u64, Instant>,
    suspect: HashMap<u64, Instant>,
    /// When the copy was read.
    copied: Option<Instant>,
}

impl Twin {
    fn is_found(&self, id: u64, now: Instant) -> bool {
        self.found.get(&id).is_some_and(|at| now < *at + FOUND)
    }

    fn is_missed(&self, id: u64, now: Instant) -> bool {
        self.missed.get(&id).is_some_and(|at| now < *at + LONG_TTL.mul_f64(MISSED_LIFE))
    }

    /// What becomes of a request for an id that the copy holds if there is one.
    fn rule(&self, id: u64, verdict: Verdict, of_live: bool, now: Instant) -> &'static str {
        let is_copied = self.copied.is_some_and(|copied| {
            let noted = [&self.missed, &self.suspect].map(|set| set.get(&id));
            !noted.into_iter().flatten().any(|at| *at >= copied) && !self.is_missed(id, now)
        });
        match verdict {
            _ if self.is_found(id, now) => "found",
            _ if is_copied && of_live => "copied",
            Verdict::Absent(_) => "404",
            Verdict::Unknown(_) if is_copied => "passes",
            Verdict::Present if !self.is_missed(id, now) => "passes",
            _ => "lane",
        }
    }

    /// One that is missed stays so from now on.
    fn mark(&mut self, id: u64, now: Instant) {
        let is_missed = self.is_missed(id, now);
        let noted = if is_missed { &mut self.missed } else { &mut self.suspect };
        noted.insert(id, now);
    }

    fn ends(&mut self, id: u64, how: u64, now: Instant) {
        let found = self.is_found(id, now);
        match how {
            0 | 3 => {
                self.missed.remove(&id);
                self.suspect.remove(&id);
                if how == 0 {
                    self.found.insert(id, now);
                }
            }
            1 if found => {
                self.found.remove(&id);
                self.mark(id, now);
            }
            1 => drop(self.missed.insert(id, now)),
            2 if !found => drop(self.missed.insert(id, now)),
            4 => {
                self.found.remove(&id);
                self.mark(id, now);
            }
            5 if !found => self.mark(id, now),
            2 | 5 => {}
            _ => self.copied = Some(now),
        }
    }
}

/// With a null's life, and in steps, for which ids live to the moment as long as the twin says.
const LONG_TTL: Duration = Duration::from_secs(100);
const WIDE: (u32, u32) = (100_000, 1_000_000);

#[tokio::test(start_paused = true)]
async fn the_gate_decides_as_the_table_does() {
    for seed in 1..=200_u64 {
        let mut state = seed.wrapping_mul(0x2545_F491_4F6C_DD1D);
        let mut draw = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        let (lane_concurrency, lane_per_second) = WIDE;
        let wide = Settings { lane_concurrency, lane_per_second, ..settings() };
        let gate = gate(&Settings { nulls: NegativeCaching::new().ttl(LONG_TTL), ..wide });
        let mut twin = Twin::default();
        let (mut now, step) = (Instant::now(), FOUND / 16);
        for _ in 0..500 {
            now += step * [0, 0, 0, 1, 3, 20][draw(6) as usize];
            let n = draw(6);
            let verdict = [ABSENT, NULL, Verdict::Present, UNKNOWN][draw(4) as usize];
            let hash = gate.hash(&id(n));
            let of_live = draw(2) == 0;
            let is_copied = twin.copied.is_some_and(|copied| gate.is_trusted(hash, copied, now));
            let ruled = if gate.found.holds(hash, now) {
                "found"
            } else if is_copied && of_live {
                "copied"
            } else {
                let subject = Subject { is_copied, ..asked(hash, verdict) };
                match gate.rule(&mut [subject], 0, now) {
                    Ruling::Refuse(_) => "404",
                    Ruling::Admit { permit: None, .. } => "passes",
                    Ruling::Admit { .. } => "lane",
                    Ruling::Busy(_) => "no room, though there is",
                }
            };
            assert_eq!(ruled, twin.rule(n, verdict, of_live, now), "seed {seed}");
            let how = draw(8);
            match how {
                0 => gate.found(hash, now),
                1 => {
                    gate.missing(hash, now);
                }
                2 => gate.not_answered(hash, now),
                3 => gate.inserted(&id(n)),
                4 => gate.removed(&id(n), now),
                5 => gate.doubted(hash, now),
                _ => {}
            }
            twin.ends(n, how, now);
        }
    }
}

/// What can be known of an id; the last is found lately.
const KNOWN: [Option<Verdict>; 6] =
    [Some(ABSENT), Some(NULL), Some(Verdict::Present), Some(MISSED), Some(UNKNOWN), None];
/// The fourth id of all is missed.
const MISSED: Verdict = Verdict::Present;

fn gate_of_lists((lane_concurrency, lane_per_second): (u32, u32), mode: Mode) -> Gate {
    let gate = gate(&Settings { lane_concurrency, lane_per_second, ..settings() });
    gate.own_mode.change(mode);
    gate.missing(gate.hash(&id(3)), Instant::now());
    gate
}

/// Each list of three of them, with repeats.
fn lists() -> impl Iterator<Item = [usize; 3]> {
    (0..216).map(|n| [n % 6, n / 6 % 6, n / 36])
}

fn subjects(gate: &Gate, list: &[usize]) -> Vec<Subject> {
    let subject = |n: usize| {
        let hash = gate.hash(&id(n as u64));
        let found = || Subject::new(id(0), hash).unasked(Why::Found);
        KNOWN[n].map_or_else(found, |verdict| asked(hash, verdict))
    };
    list.iter().map(|n| subject(*n)).collect()
}

fn readings(ids: &[Subject]) -> Vec<Option<Why>> {
    ids.iter().map(|of| of.reading).collect()
}

fn rule_list(gate: &Gate, list: &[usize], unread: usize) -> Ruling {
    gate.rule(&mut subjects(gate, list), unread, Instant::now())
}

#[tokio::test(start_paused = true)]
async fn a_list_is_refused_when_all_its_ids_are_and_else_each_has_its_own_row() {
    let gate = gate_of_lists(WIDE, Mode::Enforce);
    for list in lists() {
        let alone = list.map(|n| match rule_list(&gate, &[n], 0) {
            Ruling::Admit { why, .. } => Some(why),
            Ruling::Refuse(_) => None,
            Ruling::Busy(_) => panic!("there is room"),
        });
        for unread in [0, 1] {
            let is_absent = unread == 0 && list.iter().all(|id| *id < 2);
            let mut ids = subjects(&gate, &list);
            match gate.rule(&mut ids, unread, Instant::now()) {
                Ruling::Refuse(proof) => {
                    assert!(is_absent, "{list:?}");
                    assert_eq!(proof == Proof::Null, list.contains(&1), "{list:?}");
                }
                Ruling::Admit { permit, .. } => {
                    assert!(!is_absent, "{list:?}");
                    assert_eq!(readings(&ids), alone, "{list:?}");
                    let needs_lane = list.iter().any(|id| *id == 3 || *id == 4);
                    assert_eq!(permit.is_some(), needs_lane, "{list:?}");
                }
                busy @ Ruling::Busy(_) => panic!("{list:?}: {busy:?}"),
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn in_shadow_mode_every_list_passes_and_no_id_is_called_absent() {
    for mode in [Mode::Shadow, Mode::Off] {
        every_list_passes_in(mode);
    }
}

fn every_list_passes_in(mode: Mode) {
    let gate = gate_of_lists((1, 1), mode);
    for list in lists() {
        let mut ids = subjects(&gate, &list);
        let ruling = gate.rule(&mut ids, 0, Instant::now());
        let Ruling::Admit { why, .. } = ruling else { panic!("{list:?}") };
        assert!(readings(&ids).iter().all(Option::is_some), "{list:?}");
        let would_be_refused = list.iter().all(|id| *id < 2);
        assert_eq!(why == Why::Shadow, would_be_refused, "{list:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_lane_holds_up_the_lists_that_need_it_and_refuses_none() {
    let gate = gate_of_lists((1, 1), Mode::Enforce);
    let _full = rule_list(&gate, &[4], 0);
    for list in lists() {
        let needs_lane = list.iter().any(|id| *id == 3 || *id == 4);
        let is_busy = matches!(rule_list(&gate, &list, 0), Ruling::Busy(verdict)
            if !matches!(verdict, Verdict::Absent(_)));
        assert_eq!(is_busy, needs_lane, "{list:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn lists_bring_no_more_ids_through_the_lane_than_single_requests() {
    let gate = gate_of_lists((64, 500), Mode::Enforce);
    let mut passed = 0;
    for _ in 0..10_000 {
        // Each is answered at once.
        passed += 100 * usize::from(matches!(rule_list(&gate, &[4; 100], 0), Ruling::Admit { .. }));
        tokio::time::advance(Duration::from_millis(1)).await;
    }
    assert!((5_000..=64 + 5_000 + 100).contains(&passed), "{passed} in ten seconds");
}

#[tokio::test(start_paused = true)]
async fn a_list_with_an_unknown_id_keeps_to_the_policy() {
    for (on_unknown, passes) in [(OnUnknown::Pass, true), (OnUnknown::Shed, false)] {
        let gate = gate(&Settings { on_unknown, ..settings() });
        for list in [&[4][..], &[5, 4], &[0, 4, 2]] {
            let ruling = rule_list(&gate, list, 0);
            assert_eq!(matches!(ruling, Ruling::Admit { .. }), passes, "{list:?}");
            assert_eq!(matches!(ruling, Ruling::Busy(_)), !passes, "{list:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_absent_id_of_a_list_is_a_sample_at_a_time() {
    let gate = Gate::new(&Settings { audits: 1, ..settings() }, Arc::default());
    tokio::time::advance(Duration::from_secs(5)).await;
    let mut ids = subjects(&gate, &[0; 100]);
    assert!(matches!(gate.rule(&mut ids, 0, Instant::now()), Ruling::Admit { .. }), "no sample");
    assert_eq!(readings(&ids).iter().filter(|reading| reading.is_some()).count(), 1);
    assert!(matches!(rule_list(&gate, &[0; 100], 0), Ruling::Refuse(Proof::Filter)));
}
