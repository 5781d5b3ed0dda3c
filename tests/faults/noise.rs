//! Which answers are late because the machine was.
//!
//! Plain timers run beside all requests, on the same runtime. Where any of them was late while a request
//! was under way, the request could not be on time by as much: its task may have been in the queue of a
//! thread that the system had put aside, and the timer's in that of another.

use std::time::Duration;

use tokio::time::Instant;

/// Timers are that late at most where the machine has time for all.
pub(crate) const CALM: Duration = Duration::from_millis(5);

/// A timer: when it was due, and when it fired.
pub(crate) type Timer = (Instant, Instant);

/// What was late.
#[derive(Debug, Default)]
pub(crate) struct Noise {
    timers: Vec<Timer>,
    answers: Vec<Answer>,
}

#[derive(Debug)]
struct Answer {
    begun: Instant,
    ended: Instant,
    over: Duration,
    /// How late, in sum, the timers were that were set for this request.
    own: Duration,
}

impl Noise {
    /// Notes an answer that came so long after its deadline, and the timers that were set beside it.
    /// Returns how late those were in all.
    pub(crate) fn note(
        &mut self,
        (begun, ended): (Instant, Instant),
        over: Duration,
        timers: &[Timer],
    ) -> Duration {
        self.timers.extend(timers.iter().filter(|(due, fired)| *fired - *due > CALM));
        if over > Duration::ZERO {
            let own = timers.iter().map(|timer| late_by(timer, ended)).sum();
            self.answers.push(Answer { begun, ended, over, own });
        }
        timers.iter().map(|(due, fired)| *fired - *due).sum()
    }

    /// Returns the most by which an answer was late, the noise taken off.
    pub(crate) fn most_without(&self) -> Duration {
        self.answers.iter().map(|answer| self.without(answer)).max().unwrap_or_default()
    }

    fn without(&self, answer: &Answer) -> Duration {
        let around = self.timers.iter().filter(|(_, fired)| *fired > answer.begun);
        let latest = around.map(|timer| late_by(timer, answer.ended)).max().unwrap_or_default();
        answer.over.saturating_sub(latest.max(answer.own))
    }
}

/// How late a timer was at a moment.
fn late_by((due, fired): &Timer, at: Instant) -> Duration {
    at.min(*fired).saturating_duration_since(*due)
}
