//! What one process is told: its settings. They may differ from process to process, and from one start of a
//! process to the next, as in a rolling deploy.

use super::Flavour;
use crate::rng::Rng;

/// The settings of one process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Process {
    pub(crate) capacity: u64,
    pub(crate) rate: f64,
    pub(crate) longest_transaction: u64,
    pub(crate) longest_rebuild: u64,
    pub(crate) handler_time: u64,
    pub(crate) recent_ids: u64,
}

impl Process {
    /// A filter of 3.9 MB, which is uploaded in 15 pieces.
    pub(crate) const LARGE: (u64, f64) = (2_000_000, 0.001);

    pub(super) fn draw(rng: &mut Rng, flavour: Flavour) -> Self {
        use Flavour::Forgetful;
        Self {
            capacity: rng.pick(&[100, 200, 400]),
            rate: rng.pick(&[0.2, 0.02, 0.002, 0.0002]),
            // Short where the record is in the way.
            longest_transaction: match flavour {
                Forgetful => 1000,
                _ => rng.pick(&[1000, 2000, 4000]),
            },
            longest_rebuild: rng.pick(&[12_000, 20_000, 60_000]),
            // Where nulls are to outlive their filter, the record must not keep them away.
            handler_time: match flavour {
                Forgetful => rng.pick(&[100, 100, 100, 4000]),
                _ => rng.pick(&[100, 100, 400, 2000]),
            },
            recent_ids: rng.pick(&[8, 30, 1000, 1_000_000]),
        }
    }

    /// Mostly the same for all, but for the longest transaction; sometimes each its own.
    pub(super) fn draw_all(rng: &mut Rng, flavour: Flavour) -> [Self; 4] {
        let mut first = Self::draw(rng, flavour);
        if rng.happens(20) {
            (first.capacity, first.rate) = Self::LARGE;
        }
        let (differ, transactions) = (rng.happens(200), rng.happens(400));
        [(); 4].map(|()| {
            let own = Self::draw(rng, flavour);
            match (differ, transactions) {
                (true, _) => own,
                (_, true) => Self { longest_transaction: own.longest_transaction, ..first },
                _ => first,
            }
        })
    }
}
