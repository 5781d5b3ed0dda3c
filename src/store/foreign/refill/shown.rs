//! What shows that the numbers are the writer's.

use crate::store::foreign::evidence::CHANCE;

/// One kind of evidence: ids of the source that the filter had before the refill, or bits of it that are the source's.
#[derive(Debug, Clone, Copy)]
pub(super) struct Evidence {
    /// How many were looked at, and how many of them fit.
    pub(super) tries: u64,
    pub(super) fit: u64,
    /// The chance that one fits by chance.
    pub(super) chance: f64,
    /// How many have to fit that do not do so by chance.
    pub(super) least: f64,
}

impl Evidence {
    /// Whether more fit than chance has in one of 10⁹ cases (Hoeffding 1963, theorem 1), and as many as have to.
    pub(super) fn shows(&self) -> bool {
        let Self { tries, fit, chance, least } = *self;
        let (count, share) = (tries as f64, fit as f64 / tries as f64);
        if tries == 0 || share <= chance {
            return false;
        }
        let term =
            |is: f64, by_chance: f64| if is == 0.0 { 0.0 } else { is * (is / by_chance).ln() };
        let surprise = count * (term(share, chance) + term(1.0 - share, 1.0 - chance));
        let explained = count * (share - chance) / (1.0 - chance);
        surprise > -CHANCE.ln() && explained >= least
    }
}

/// Says what is wrong with a filter for which nothing shows the numbers.
pub(super) fn wrong(ids: u64, held: u64, has: u64) -> String {
    format!(
        "of {ids} ids of the source {held} are in it, and it has some {has}: compare layout, numbers and how ids are written \
         with the program that writes it. Where they are right, most of what it has was deleted: see trust_after"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_by_more_than_chance_has_and_by_most_of_what_there_is() {
        for (tries, fit, chance, least, shows) in [
            // All that is there is the source's.
            (1_000, 1_000, 1e-3, 500.0, true),
            // One id in a filter that is nearly empty: chance has none.
            (1_000_000, 1, 1e-40, 0.5, true),
            (1_000_000, 0, 1e-40, 0.5, false),
            // What chance has, and a little more.
            (1_000_000, 10_000, 0.01, 0.0, false),
            (1_000_000, 10_200, 0.01, 0.0, false),
            (1_000_000, 11_000, 0.01, 0.0, true),
            // A guard has inserted some by its own numbers, and the writer many more by others.
            (1_000_000, 20_000, 0.01, 350_000.0, false),
            // Half of what it has was deleted, or more.
            (1_000, 1_000, 1e-3, 995.0, true),
            (1_000, 1_000, 1e-3, 1_050.0, false),
            (0, 0, 0.5, 5.0, false),
            (10, 10, 1.0, 0.0, false),
        ] {
            let evidence = Evidence { tries, fit, chance, least };
            assert_eq!(evidence.shows(), shows, "{evidence:?}");
        }
    }
}
