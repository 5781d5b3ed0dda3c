//! The keys of a filter on one Redis.

use super::layout::Layout;

/// Where a filter's bits on one Redis are, and the statement about them.
pub(super) struct Keys {
    /// Each with its place among the layout's. Never empty.
    here: Vec<(usize, String)>,
    /// Where the statement is.
    pub(super) statement: String,
}

impl Keys {
    /// Returns those of a layout that are on this instance.
    pub(super) fn on(layout: &dyn Layout, instance: usize) -> Self {
        let here = |(at, (its, key))| (its == instance).then_some((at, key));
        let here: Vec<_> = layout.keys().into_iter().enumerate().filter_map(here).collect();
        let statement = beside(here.first().map_or("", |(_, key)| key), "bg:trust");
        Self { here, statement }
    }

    /// Returns all of them.
    pub(super) fn all(&self) -> impl ExactSizeIterator<Item = &str> {
        self.here.iter().map(|(_, key)| key.as_str())
    }

    /// Returns all of them, each with its place among the layout's.
    pub(super) fn numbered(&self) -> impl Iterator<Item = (usize, &str)> {
        self.here.iter().map(|(at, key)| (*at, key.as_str()))
    }

    /// Returns the first.
    pub(super) fn first(&self) -> &str {
        self.all().next().unwrap_or_default()
    }

    /// Returns one by its place among the layout's.
    pub(super) fn at(&self, place: usize) -> &str {
        self.here.iter().find(|(at, _)| *at == place).map_or("", |(_, key)| key)
    }
}

/// Returns a key beside another: in the same slot of a cluster.
pub(super) fn beside(key: &str, what: &str) -> String {
    if key.contains('{') { format!("{key}:{what}") } else { format!("{{{key}}}:{what}") }
}
