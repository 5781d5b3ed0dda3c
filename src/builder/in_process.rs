//! Where a guard's filter is, without the crate feature `redis`: in this process.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::error::SettingError;
use crate::middleware::layer::BloomGuard;
use crate::settings::Settings;
use crate::store::Store;
use crate::store::memory::MemoryStore;

/// In this process.
#[derive(Debug, Default)]
pub(crate) struct Place {}

#[expect(clippy::unused_self, reason = "with the feature `redis` a filter may be elsewhere")]
impl Place {
    pub(super) fn store(
        &mut self,
        settings: &Settings,
        _: &BTreeSet<&'static str>,
        problems: Vec<(&'static str, SettingError)>,
    ) -> Result<Store, Vec<SettingError>> {
        if !problems.is_empty() {
            return Err(problems.into_iter().map(|(_, problem)| problem).collect());
        }
        let store = MemoryStore::new(settings).map_err(|problem| vec![problem])?;
        Ok(Store::Memory(Arc::new(store)))
    }

    pub(super) const fn note(&self, _: &BloomGuard) {}
}
