//! The brake on nulls: a broken backend must not have its 404s remembered.
//!
//! What it watches is how requests end for ids that were lately *seen to exist*. Deletions make a few
//! of those 404; a backend that lost its route, its tenant or its data makes many. The 404s of ids that
//! were never seen say nothing: an attacker chooses how many there are, and a brake that he could pull
//! would be a way to switch nulls off.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How long one look takes in.
const WINDOW: Duration = Duration::from_secs(1);
/// How long the brake holds after the last bad window.
const HOLD: Duration = Duration::from_secs(10);
/// The share of 404s that is a jump, if it is also so many times the usual.
const SHARE: f64 = 0.2;
const TIMES: f64 = 5.0;
/// A share that is a jump whatever is usual.
const CERTAIN: f64 = 0.9;
/// Fewer 404s than this are no jump.
const LEAST: u64 = 8;
/// The weight of a window in the usual share.
const WEIGHT: f64 = 0.1;

/// Holds nulls back while ids that exist are answered with 404.
#[derive(Debug)]
pub(crate) struct Brake {
    /// Which requests it is for, in words.
    requests: &'static str,
    found: AtomicU64,
    lost: AtomicU64,
    held: AtomicBool,
    look: Mutex<Look>,
}

#[derive(Debug)]
struct Look {
    began: Instant,
    found: u64,
    lost: u64,
    /// How many were lost at the last look, and when the last of them was.
    latest: (u64, Instant),
    usual: f64,
    held_until: Option<Instant>,
}

impl Brake {
    pub(crate) fn new(requests: &'static str, now: Instant) -> Self {
        Self {
            requests,
            found: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            held: AtomicBool::new(false),
            look: Mutex::new(Look {
                began: now,
                found: 0,
                lost: 0,
                latest: (0, now),
                usual: 0.0,
                held_until: None,
            }),
        }
    }

    /// An id that was seen to exist was found again.
    pub(crate) fn found(&self) {
        self.found.fetch_add(1, Ordering::Relaxed);
    }

    /// An id that was seen to exist was answered with 404.
    pub(crate) fn lost(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether it was held at the last look.
    pub(crate) fn is_held(&self) -> bool {
        self.held.load(Ordering::Relaxed)
    }

    /// Looks at how things stand; returns whether nulls are held back.
    pub(crate) fn look(&self, now: Instant) -> bool {
        let found = self.found.load(Ordering::Relaxed);
        let lost = self.lost.load(Ordering::Relaxed);
        let mut look = self.look.lock().unwrap_or_else(PoisonError::into_inner);
        let was_held = look.held_until.is_some();
        let is_held = look.judge(found, lost, now);
        if is_held && !was_held {
            tracing::error!(
                requests = self.requests,
                "many ids that were seen to exist are answered with 404: none is remembered"
            );
        }
        if was_held && !is_held {
            look.held_until = None;
            tracing::info!(requests = self.requests, "404s are remembered again");
        }
        self.held.store(is_held, Ordering::Relaxed);
        is_held
    }
}

impl Look {
    fn judge(&mut self, found: u64, lost: u64, now: Instant) -> bool {
        let (new_found, new_lost) = (found - self.found.min(found), lost - self.lost.min(lost));
        let all = new_found + new_lost;
        let share = if all == 0 { 0.0 } else { new_lost as f64 / all as f64 };
        let whole = now.saturating_duration_since(self.began) >= WINDOW;
        let was_held = self.held_until.is_some_and(|until| now < until);
        if lost > self.latest.0 {
            self.latest = (lost, now);
        }
        // It is pulled by the first few, and kept by what a whole window shows: a burst before anything
        // else is found must not do.
        let jumps = new_lost >= LEAST && share > (TIMES * self.usual).clamp(SHARE, CERTAIN);
        if jumps && (whole || !was_held) {
            self.held_until = Some(self.latest.1 + HOLD);
        }
        let held = self.held_until.is_some_and(|until| now < until);
        if whole {
            // What happens under the brake is not usual, however long it lasts.
            if all > 0 && !held {
                self.usual += WEIGHT * (share - self.usual);
            }
            (self.began, self.found, self.lost) = (now, found, lost);
        }
        held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(brake: &Brake, found: u32, lost: u32, now: &mut Instant) -> bool {
        (0..found).for_each(|_| brake.found());
        (0..lost).for_each(|_| brake.lost());
        *now += WINDOW;
        brake.look(*now)
    }

    #[tokio::test(start_paused = true)]
    async fn a_backend_that_loses_what_exists_is_not_believed() {
        let mut now = Instant::now();
        let brake = Brake::new("any", now);
        for _ in 0..60 {
            assert!(!second(&brake, 1_000, 10, &mut now), "deletions are usual");
        }
        assert!(second(&brake, 500, 500, &mut now));
        for _ in 0..300 {
            assert!(second(&brake, 100, 900, &mut now), "for as long as it lasts");
        }
        for _ in 0..9 {
            assert!(second(&brake, 1_000, 10, &mut now), "and ten seconds more");
        }
        assert!(!second(&brake, 1_000, 10, &mut now));
    }

    #[tokio::test(start_paused = true)]
    async fn it_acts_within_the_window_in_which_the_jump_begins() {
        let now = Instant::now();
        let brake = Brake::new("any", now);
        for _ in 0..LEAST {
            assert!(!brake.look(now));
            brake.lost();
        }
        assert!(brake.look(now));
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_of_a_few_does_not_keep_it_held_where_many_are_found() {
        let mut now = Instant::now();
        let brake = Brake::new("any", now);
        let burst = |now| {
            (0..LEAST).for_each(|_| {
                brake.lost();
                brake.look(now);
            });
            brake.look(now)
        };
        assert!(burst(now));
        for _ in 0..9 {
            assert!(second(&brake, 1_000, 0, &mut now), "ten seconds");
            // As the next window begins, before anything else is found.
            burst(now);
        }
        assert!(!second(&brake, 1_000, 0, &mut now));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_usual_is_no_jump() {
        let mut now = Instant::now();
        let brake = Brake::new("any", now);
        for percent in 0..=20 {
            for _ in 0..30 {
                let lost = percent * 10;
                assert!(!second(&brake, 1_000 - lost, lost, &mut now), "{percent} %");
            }
        }
    }
}
