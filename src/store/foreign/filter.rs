//! The type that the application gives.

use std::sync::Arc;

use super::layout::Layout;
use crate::error::SettingError;
use crate::filter::SizingError;
use crate::settings;
use crate::store::link::access::Access;
use crate::store::map::endpoint::Endpoint;

/// A Bloom filter that another system writes: which layout it has, where it is, and how large it was made.
///
/// Given to [`Builder::foreign`](crate::Builder::foreign). Each constructor is named after the system; the guide's page
/// [`other_filters`](crate::guide::other_filters) has them in a table.
#[derive(Debug)]
pub struct ForeignFilter {
    pub(super) layout: Arc<dyn Layout>,
    /// The instances that it is spread over, beside the guard's Redis.
    pub(super) others: Vec<Endpoint>,
    problem: Option<SettingError>,
}

impl ForeignFilter {
    pub(super) fn new(layout: impl Layout) -> Self {
        Self { layout: Arc::new(layout), others: Vec::new(), problem: None }
    }

    /// Notes that a number has to be within bounds.
    pub(super) fn bounded(self, setting: &'static str, value: u64, min: u64, max: u64) -> Self {
        let within = settings::number(setting, value, &(min..=max));
        self.judged(within)
    }

    /// Notes that a filter for `ids` ids at `rate` has to be possible.
    pub(super) fn rated(self, setting: &'static str, ids: u64, rate: f64) -> Self {
        let error = SizingError::Rate { value: rate, min: f64::MIN_POSITIVE, max: 1.0 };
        let possible = (rate > 0.0 && rate <= 1.0).then_some(()).ok_or_else(|| error.into());
        self.bounded(setting, ids, 1, u64::MAX).judged(possible)
    }

    /// Has the filter spread over further instances.
    pub(super) fn on_instances(mut self, urls: &[&str]) -> Self {
        for url in urls {
            match Endpoint::parse(url) {
                Ok(endpoint) => self.others.push(endpoint),
                Err(error) => self = self.judged(Err(error)),
            }
        }
        self
    }

    /// Returns where the filter is, when its first part is there.
    pub(crate) fn endpoints<'a>(
        &'a self,
        first: &'a Endpoint,
    ) -> impl Iterator<Item = &'a Endpoint> {
        [first].into_iter().chain(&self.others)
    }

    /// Has its further instances reached with this access.
    ///
    /// # Errors
    ///
    /// It does not go with what the URL of one says.
    pub(crate) fn reach_with(&mut self, access: &Access) -> Result<(), SettingError> {
        for other in &mut self.others {
            *other = other.with(access)?;
        }
        Ok(())
    }

    fn judged(mut self, judged: Result<(), SettingError>) -> Self {
        self.problem = self.problem.or(judged.err());
        self
    }

    /// Says whether there can be such a filter. To be called once.
    pub(crate) fn judge(&mut self) -> Result<(), SettingError> {
        self.problem.take().map_or(Ok(()), Err)
    }
}
