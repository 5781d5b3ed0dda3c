//! The table for a request that lists ids: each has its row, and the request is decided as one.
//!
//! | the ids | the request |
//! |---|---|
//! | all absent | 404 |
//! | any missed lately or unknown | enters the lane with as many as need it, or is answered 503 |
//! | otherwise | passes |

use std::time::Duration;

use tokio::time::Instant;

use super::{Gate, Known, RETRY, Row, Why};
use crate::decide::lane::Permit;
use crate::decide::recent::IdHash;
use crate::mode::Mode;
use crate::verdict::{Proof, Verdict};

/// What is known of the ids that a request lists.
pub(crate) struct Listed<'a> {
    /// Each with what is known of it, or why it passes unasked.
    pub(crate) ids: &'a [(IdHash, Result<Known, Why>)],
    /// How many more are listed that are no ids. What they mean to the handler is not known, so with any the
    /// request is not refused as absent.
    pub(crate) unread: usize,
}

/// What becomes of the request.
#[derive(Debug)]
pub(crate) enum ListRuling {
    Admit(ListAdmission),
    Refuse(Proof),
    /// There is no room for it now.
    Busy {
        verdict: Verdict,
        retry_after: Duration,
    },
}

/// A request that passes.
#[derive(Debug)]
pub(crate) struct ListAdmission {
    /// Why it passes.
    pub(crate) why: Why,
    /// That of an id for which the lane is, if there is one.
    pub(crate) verdict: Verdict,
    /// Of each id, why it may be read, or what proves it absent.
    pub(crate) ids: Vec<Result<Why, Proof>>,
    /// Its permit for the lane, until it is answered.
    pub(crate) permit: Option<Permit>,
}

/// What the table says of each id, and what they need together.
struct Rows {
    ids: Vec<Result<Why, Proof>>,
    /// How many need the lane; none of them can have it where unknown ones are shed.
    limited: Result<u32, Duration>,
    /// The verdict on one of them.
    verdict: Verdict,
}

impl Gate {
    /// Decides on a request that lists ids.
    pub(crate) fn rule_list(&self, list: &Listed<'_>, now: Instant) -> ListRuling {
        let is_milder = self.mode() != Mode::Enforce;
        let Rows { mut ids, limited, verdict } = self.rows(list, now);
        let absent = proof(&ids).filter(|_| list.unread == 0);
        let room = limited.and_then(|limited| match limited {
            0 => Ok(None),
            limited => self.enter_lane(limited, now).map(Some),
        });
        let why = why(&ids);
        let (why, permit) = match (absent, room) {
            (None, Ok(permit)) => (why, permit),
            (Some(proof), _) if is_milder => (Why::Shadow(proof), None),
            (_, Err(_)) if is_milder => (Why::ShadowBusy, None),
            (Some(proof), _) => return ListRuling::Refuse(proof),
            (_, Err(retry_after)) => return ListRuling::Busy { verdict, retry_after },
        };
        if is_milder {
            ids.iter_mut().for_each(|id| *id = id.or_else(|proof| Ok(Why::Shadow(proof))));
        }
        ListRuling::Admit(ListAdmission { why, verdict, ids, permit })
    }

    fn rows(&self, list: &Listed<'_>, now: Instant) -> Rows {
        let ids = Vec::with_capacity(list.ids.len());
        let mut rows = Rows { ids, limited: Ok(0), verdict: Verdict::Present };
        for &(id, known) in list.ids {
            let known = match known {
                Ok(known) => known,
                Err(why) => {
                    rows.ids.push(Ok(why));
                    continue;
                }
            };
            let verdict = known.verdict;
            rows.ids.push(match self.row(id, known, now) {
                Row::Pass(why) => Ok(why),
                Row::Refuse(proof) => Err(proof),
                Row::Lane(why) => {
                    rows.verdict = verdict;
                    rows.limited = rows.limited.map(|limited| limited + 1);
                    Ok(why)
                }
                Row::Shed => {
                    rows.verdict = verdict;
                    rows.limited = Err(RETRY.0);
                    Ok(Why::Unknown)
                }
            });
        }
        rows
    }
}

/// Why a request passes, by its ids.
fn why(ids: &[Result<Why, Proof>]) -> Why {
    let sample = ids.iter().flatten().find(|why| matches!(why, Why::Sample(_)));
    if let Some(sample) = sample {
        *sample
    } else if ids.iter().flatten().any(|why| matches!(why, Why::Unknown | Why::Unsettled)) {
        Why::Unknown
    } else if ids.iter().all(|id| *id == Ok(Why::Found)) {
        Why::Found
    } else if ids.iter().all(|id| matches!(id, Ok(Why::Found | Why::Copied))) {
        Why::Copied
    } else {
        Why::Present
    }
}

/// What proves all ids absent, if they are: a null, if any of them needed one.
fn proof(ids: &[Result<Why, Proof>]) -> Option<Proof> {
    let proofs: Option<Vec<Proof>> = ids.iter().map(|id| id.err()).collect();
    proofs?.into_iter().reduce(|all, proof| if all == Proof::Null { all } else { proof })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::decide::gate::Ruling;
    use crate::decide::lane::Width;
    use crate::decide::policy::{OnUnknown, Policy};
    use crate::id::Id;
    use crate::verdict::Doubt;

    const ABSENT: Verdict = Verdict::Absent(Proof::Filter);
    const NULL: Verdict = Verdict::Absent(Proof::Null);
    const UNKNOWN: Verdict = Verdict::Unknown(Doubt::Timeout);
    /// What can be known of an id; the last is found lately.
    const KNOWN: [Option<Verdict>; 6] =
        [Some(ABSENT), Some(NULL), Some(Verdict::Present), Some(MISSED), Some(UNKNOWN), None];
    /// The fourth id of all is missed.
    const MISSED: Verdict = Verdict::Present;

    fn gate(lane: Width, mode: Mode) -> Gate {
        let gate = Gate::new(&Policy { lane, audits: 0, ..Policy::default() }, Arc::default());
        gate.set_mode(mode);
        gate.note_built(ABSENT);
        gate.missing(hash(&gate, 3), Instant::now());
        gate
    }

    fn known(verdict: Verdict) -> Known {
        Known { verdict, is_copied: false, is_sampled: false }
    }

    fn hash(gate: &Gate, n: usize) -> IdHash {
        gate.hash(&Id::display(&n).unwrap())
    }

    fn wide() -> Width {
        Width { concurrency: 100_000, per_second: 1_000_000 }
    }

    /// Each list of three of them, with repeats.
    fn lists() -> impl Iterator<Item = [usize; 3]> {
        (0..216).map(|n| [n % 6, n / 6 % 6, n / 36])
    }

    fn rule(gate: &Gate, list: &[usize], unread: usize) -> ListRuling {
        let known = |id: usize| KNOWN[id].map(known).ok_or(Why::Found);
        let ids: Vec<_> = list.iter().map(|id| (hash(gate, *id), known(*id))).collect();
        gate.rule_list(&Listed { ids: &ids, unread }, Instant::now())
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_is_refused_when_all_its_ids_are_and_else_each_has_its_own_row() {
        let gate = gate(wide(), Mode::Enforce);
        for list in lists() {
            let alone = list.map(|id| match KNOWN[id] {
                None => Ok(Why::Found),
                Some(verdict) => match gate.rule(hash(&gate, id), known(verdict), Instant::now()) {
                    Ruling::Admit(admission) => Ok(admission.why),
                    Ruling::Refuse(proof) => Err(proof),
                    Ruling::Busy { .. } => panic!("there is room"),
                },
            });
            for unread in [0, 1] {
                let is_absent = unread == 0 && list.iter().all(|id| *id < 2);
                match rule(&gate, &list, unread) {
                    ListRuling::Refuse(proof) => {
                        assert!(is_absent, "{list:?}");
                        assert_eq!(proof == Proof::Null, list.contains(&1), "{list:?}");
                    }
                    ListRuling::Admit(admission) => {
                        assert!(!is_absent, "{list:?}");
                        assert_eq!(admission.ids, alone, "{list:?}");
                        let needs_lane = list.iter().any(|id| *id == 3 || *id == 4);
                        assert_eq!(admission.permit.is_some(), needs_lane, "{list:?}");
                    }
                    busy @ ListRuling::Busy { .. } => panic!("{list:?}: {busy:?}"),
                }
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn in_shadow_mode_every_list_passes_and_no_id_is_called_absent() {
        for mode in [Mode::Shadow, Mode::Off] {
            everything_passes_in(mode);
        }
    }

    fn everything_passes_in(mode: Mode) {
        let gate = gate(Width { concurrency: 1, per_second: 1 }, mode);
        for list in lists() {
            let ListRuling::Admit(admission) = rule(&gate, &list, 0) else { panic!("{list:?}") };
            assert!(admission.ids.iter().all(Result::is_ok), "{list:?}");
            let would_be_refused = list.iter().all(|id| *id < 2);
            assert_eq!(matches!(admission.why, Why::Shadow(_)), would_be_refused, "{list:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_lane_holds_up_the_lists_that_need_it_and_refuses_none() {
        let gate = gate(Width { concurrency: 1, per_second: 1 }, Mode::Enforce);
        let _full = rule(&gate, &[4], 0);
        for list in lists() {
            let needs_lane = list.iter().any(|id| *id == 3 || *id == 4);
            let is_busy = matches!(rule(&gate, &list, 0), ListRuling::Busy { verdict, .. }
                if !matches!(verdict, Verdict::Absent(_)));
            assert_eq!(is_busy, needs_lane, "{list:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn lists_bring_no_more_ids_through_the_lane_than_single_requests() {
        let gate = gate(Width { concurrency: 64, per_second: 500 }, Mode::Enforce);
        let mut passed = 0;
        for _ in 0..10_000 {
            // Each is answered at once.
            passed += 100 * usize::from(matches!(rule(&gate, &[4; 100], 0), ListRuling::Admit(_)));
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert!((5_000..=64 + 5_000 + 100).contains(&passed), "{passed} in ten seconds");
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_with_an_unknown_id_keeps_to_the_policy() {
        for (on_unknown, passes) in [(OnUnknown::Pass, true), (OnUnknown::Shed, false)] {
            let gate =
                Gate::new(&Policy { on_unknown, audits: 0, ..Policy::default() }, Arc::default());
            gate.note_built(ABSENT);
            for list in [&[4][..], &[5, 4], &[0, 4, 2]] {
                let ruling = rule(&gate, list, 0);
                assert_eq!(matches!(ruling, ListRuling::Admit(_)), passes, "{list:?}");
                assert_eq!(matches!(ruling, ListRuling::Busy { .. }), !passes, "{list:?}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_absent_id_of_a_list_is_a_sample_at_a_time() {
        let gate = Gate::new(&Policy { audits: 1, ..Policy::default() }, Arc::default());
        tokio::time::advance(Duration::from_secs(5)).await;
        let ListRuling::Admit(admission) = rule(&gate, &[0; 100], 0) else { panic!("no sample") };
        assert_eq!(admission.ids.iter().filter(|id| id.is_ok()).count(), 1);
        assert!(matches!(rule(&gate, &[0; 100], 0), ListRuling::Refuse(Proof::Filter)));
    }
}
