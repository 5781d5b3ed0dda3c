//! Where a guard's filter is, without the crate feature `redis`: in this process.

use std::collections::BTreeSet;

use super::here;
use crate::error::SettingError;
use crate::guard::Stores;
use crate::middleware::layer::BloomGuard;
use crate::settings::Settings;

/// In this process.
#[derive(Debug, Default)]
pub(crate) struct Place {}

#[expect(clippy::unused_self, reason = "with the feature `redis` a filter may be elsewhere")]
impl Place {
    pub(super) fn stores(
        &mut self,
        settings: &Settings,
        _: &BTreeSet<&'static str>,
        problems: Vec<(&'static str, SettingError)>,
    ) -> Result<Stores, Vec<SettingError>> {
        if !problems.is_empty() {
            return Err(problems.into_iter().map(|(_, problem)| problem).collect());
        }
        here::stores(settings).map_err(|problem| vec![problem])
    }

    pub(super) const fn is_shared(&self) -> bool {
        false
    }

    pub(super) const fn note(&self, _: &BloomGuard) {}
}
