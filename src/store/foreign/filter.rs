//! The type that the application gives.

use std::sync::Arc;

use ::redis::{Cmd, cmd};

use super::layout::{BloomSize, Layout};
use crate::error::{SettingError, StoreError};
use crate::filter::bounded;
use crate::store::link::reply::Reply;
use crate::store::map::endpoint::Endpoint;

/// A Bloom filter that another system writes: which layout it has, where it is, and how large it was made.
///
/// Given to [`Builder::foreign`](crate::Builder::foreign). Each constructor is named after the system; the guide's page
/// [`other_filters`](crate::guide::other_filters) has them in a table.
#[derive(Debug)]
pub struct ForeignFilter {
    pub(super) system: &'static str,
    /// Its keys, each with the index of its Redis: 0 is the guard's.
    pub(super) keys: Vec<(usize, String)>,
    pub(super) numbers: Numbers,
    pub(super) layout: Arc<dyn Layout>,
    /// Further instances beside the guard's Redis.
    pub(crate) others: Vec<Endpoint>,
    pub(crate) problem: Option<SettingError>,
}

#[derive(Debug, Clone)]
pub(super) enum Numbers {
    /// Only the application knows them.
    Given(BloomSize),
    InHash(Config),
}

/// The hash in Redis that has the numbers.
#[derive(Debug, Clone)]
pub(super) struct Config {
    pub(super) key: String,
    /// The fields of the number of bits, and of bits an id, each with its greatest value.
    pub(super) sizes: [(&'static str, u64); 2],
    /// A field that has to hold this.
    pub(super) method: Option<(&'static str, &'static str)>,
}

impl ForeignFilter {
    pub(super) fn new(
        system: &'static str,
        key: impl Into<String>,
        numbers: Numbers,
        layout: impl Layout,
    ) -> Self {
        let keys = vec![(0, key.into())];
        Self { system, keys, numbers, layout: Arc::new(layout), others: Vec::new(), problem: None }
    }

    pub(super) fn bounded(self, setting: &'static str, value: u64, min: u64, max: u64) -> Self {
        self.judged(bounded(setting, value, &(min..=max)))
    }

    pub(super) fn rated(self, setting: &'static str, ids: u64, rate: f64) -> Self {
        let bounds = f64::MIN_POSITIVE..=1.0;
        let possible = bounded("false-positive rate", rate, &bounds);
        self.bounded(setting, ids, 1, u64::MAX).judged(possible)
    }

    pub(super) fn on_instances(mut self, urls: &[&str]) -> Self {
        for url in urls {
            match Endpoint::parse(url) {
                Ok(endpoint) => self.others.push(endpoint),
                Err(error) => self = self.judged(Err(error)),
            }
        }
        self
    }

    fn judged(mut self, judged: Result<(), SettingError>) -> Self {
        self.problem = self.problem.or(judged.err());
        self
    }
}

impl Numbers {
    pub(super) fn ask(&self) -> Option<Cmd> {
        let Self::InHash(Config { key, sizes, method }) = self else { return None };
        let mut fields = vec![sizes[0].0, sizes[1].0];
        fields.extend(method.map(|(field, _)| field));
        Some(cmd("HMGET").arg(key).arg(fields).clone())
    }

    /// Reads the reply; the inner error says in words what is wrong with the numbers.
    pub(super) fn read(
        &self,
        reply: impl FnOnce() -> Reply,
    ) -> Result<Result<BloomSize, String>, StoreError> {
        match self {
            Self::Given(size) => Ok(Ok(*size)),
            Self::InHash(config) => {
                let values = reply().array()?.into_iter().map(Reply::optional_bytes);
                Ok(config.size(&values.collect::<Result<Vec<_>, _>>()?))
            }
        }
    }
}

impl Config {
    /// Sets bits, if the filter still has the numbers that they were computed for.
    pub(super) fn set_bits(&self, size: BloomSize, key: &str, bits: Vec<u64>) -> Cmd {
        let [(m, _), (k, _)] = self.sizes;
        let mut script = cmd("EVAL");
        script.arg(include_str!("set_if_sized.lua")).arg(2).arg(&self.key).arg(key);
        script.arg(m).arg(size.bits).arg(k).arg(size.hashes).arg(bits).clone()
    }

    fn size(&self, values: &[Option<Vec<u8>>]) -> Result<BloomSize, String> {
        let text = |at: usize| std::str::from_utf8(values.get(at)?.as_deref()?).ok();
        let number = |at: usize| {
            let (field, most) = self.sizes[at];
            let number = text(at).and_then(|text| text.parse().ok());
            number.filter(|number| (1..=most).contains(number)).ok_or_else(|| {
                format!(
                    "the {field} in {:?} is not between 1 and {most}: was the filter initialised, or deleted?",
                    self.key
                )
            })
        };
        match self.method {
            Some((field, method)) if text(2) != Some(method) => {
                Err(format!("the {field} in {:?} is not {method}", self.key))
            }
            _ => Ok(BloomSize { bits: number(0)?, hashes: number(1)? as u32 }),
        }
    }
}
