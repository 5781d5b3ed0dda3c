//! The steps of the guide's page, taken or left out, and in which order they were.

use std::time::Duration;

use bloom_guard::{BloomGuard, Mode};

use super::{BRIEF, LONG};

/// What a trial does, in the words of the page.
pub(super) struct Steps {
    pub(super) are_taken: bool,
    order: Vec<&'static str>,
}

impl Steps {
    pub(super) fn taken() -> Self {
        Self { are_taken: true, order: Vec::new() }
    }

    pub(super) fn left_out() -> Self {
        Self { are_taken: false, order: Vec::new() }
    }

    /// Returns what the page has to say.
    pub(super) fn in_words(&self) -> String {
        self.order.join("; ")
    }

    /// Says what the trial does next, whether or not steps are taken.
    pub(super) fn then(&mut self, words: &'static str) {
        self.order.push(words);
    }

    /// For how long the new filter settles.
    pub(super) fn settle(&mut self) -> Duration {
        self.then("`.settle(7 days)`");
        if self.are_taken { LONG } else { BRIEF }
    }

    /// The filter's name, where that of before is `users`.
    pub(super) fn name(&mut self) -> &'static str {
        self.then("another name");
        if self.are_taken { "users-2" } else { "users" }
    }

    /// An operator has one process stop refusals in all.
    pub(super) async fn off(&mut self, fleet: &[&BloomGuard]) {
        self.then("`set_fleet_mode(Mode::Off)`");
        if self.are_taken {
            fleet[0].set_fleet_mode(Mode::Off).await.unwrap();
            assert!(
                fleet.iter().all(|guard| guard.mode() == Mode::Off),
                "it returns when all follow"
            );
        }
    }

    /// An operator has one process say that all insert now.
    pub(super) async fn enforce(&mut self, guard: &BloomGuard) {
        self.then("`enforce_everywhere()`");
        if self.are_taken {
            guard.enforce_everywhere().await.unwrap();
        }
    }
}
