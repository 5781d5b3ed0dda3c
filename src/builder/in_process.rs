//! Where a guard's filter is, without the crate feature `redis`: in this process.

use std::sync::Arc;

use crate::error::SettingError;
use crate::settings::Settings;
use crate::store::Store;
use crate::store::memory::MemoryStore;

#[derive(Debug, Default)]
pub(crate) struct Place {}

#[expect(clippy::unused_self, reason = "with the feature `redis` a filter may be elsewhere")]
impl Place {
    pub(super) fn store(
        self,
        settings: &Settings,
        judged: Vec<(&'static str, Result<(), SettingError>)>,
    ) -> Result<Store, Vec<SettingError>> {
        let problems: Vec<_> = judged.into_iter().filter_map(|(_, judged)| judged.err()).collect();
        if !problems.is_empty() {
            return Err(problems);
        }
        let store = MemoryStore::new(settings).map_err(|problem| vec![problem])?;
        Ok(Store::Memory(Arc::new(store)))
    }
}
