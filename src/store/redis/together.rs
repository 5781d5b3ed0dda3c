//! How several filters that hold the ids of one together stand.

use crate::store::{Condition, CopyState, FleetView, Record, ShardsState, Survey};

impl CopyState {
    fn with(self, other: Self) -> Self {
        Self {
            generation: self.generation.min(other.generation),
            bytes: self.bytes + other.bytes,
            built: self.built.min(other.built),
            age: self.age.max(other.age),
            fenced: self.fenced + other.fenced,
            ..self
        }
    }
}

impl Record {
    /// Returns two as one, which reaches as far back as the shorter.
    pub(crate) fn with(self, other: Self) -> Self {
        Self {
            ids: self.ids + other.ids,
            reaches: [self.reaches, other.reaches].into_iter().flatten().min(),
            required: self.required.max(other.required),
        }
    }
}

impl Survey {
    /// Whether the filter was built before this moment, µs. A generation ahead of the clock says that the clock was set back, and
    /// nothing of the filter's age.
    pub(crate) fn is_older_than(&self, before_us: i64) -> bool {
        let is_older = |built: i64| built < before_us || built > self.now_us;
        self.live.as_ref().map_or(true, |live| is_older(live.generation.get()))
    }

    /// Returns two surveys as one: live if both filters are.
    pub(crate) fn with(self, other: Self) -> Self {
        Self {
            live: self.live.and_then(|one| other.live.map(|other| one.with(other))),
            now_us: self.now_us.max(other.now_us),
            due_us: self.due_us.max(other.due_us),
        }
    }
}

impl FleetView {
    pub(crate) fn with(mut self, other: Self) -> Self {
        self.metadata.extend(other.metadata);
        let longest_transaction = self.longest_transaction.max(other.longest_transaction);
        Self { longest_transaction, ..self }
    }
}

impl Condition {
    /// Returns the condition of a filter from its shards'. The trouble says how many do not answer, and why the first does not.
    pub(crate) fn of_shards(shards: Vec<Self>) -> Self {
        let all = shards.len() as u64;
        let silent: Vec<&Self> = shards.iter().filter(|shard| shard.live.is_err()).collect();
        let live = all - silent.len() as u64;
        let why = silent.first().filter(|_| live > 0).map(|first| {
            let why = first.trouble.as_deref().unwrap_or_default();
            format!("{} of {all} shards do not answer: {why}", all - live)
        });
        let together = shards.into_iter().reduce(Self::with).expect("there is a shard");
        let shards = (all > 1).then_some(ShardsState { live, all });
        Self { shards, trouble: why.or(together.trouble), ..together }
    }

    /// Returns two conditions as one: live if either filter is.
    fn with(self, other: Self) -> Self {
        let live = match (self.live, other.live) {
            (Ok(one), Ok(other)) => Ok(one.with(other)),
            (Ok(live), Err(_)) | (Err(_), Ok(live)) => Ok(live),
            (Err(doubt), Err(_)) => Err(doubt),
        };
        let copies = [self.copy, other.copy].into_iter().flatten();
        Self {
            live,
            shards: None,
            copy: copies.reduce(CopyState::with),
            settling: self.settling.max(other.settling),
            record: self.record.zip(other.record).map(|(one, other)| one.with(other)),
            trouble: self.trouble.or(other.trouble),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Generation;
    use crate::store::LiveFilter;

    #[test]
    fn what_was_rebuilt_on_each_node_is_due_no_more_though_their_clocks_are_apart() {
        let (ahead, rebuilt) = (60_000_000, 1_000);
        let survey = |clock: i64, asked: Option<i64>| {
            let generation = Generation::new(clock + rebuilt).unwrap();
            let live = LiveFilter::new(generation, (1, 1), (0.01, 0.01), 1);
            Survey::new(Ok(live), clock + 2 * rebuilt, asked.map(|asked| clock + asked))
        };
        let both = |asked| survey(ahead, asked).with(survey(1_000_000, asked)).due_us;
        assert_eq!(both(Some(0)), None);
        assert_eq!(both(Some(rebuilt)), Some(ahead + rebuilt));
    }
}
