//! A guard whose filter is in this process.

use std::sync::Arc;

use crate::error::SettingError;
use crate::guard::Stores;
use crate::id::SecretKey;
use crate::random;
use crate::settings::Settings;
use crate::store::memory::MemoryStore;

/// Makes the store of a filter in this process.
pub(super) fn stores(settings: &Settings) -> Result<Stores, SettingError> {
    let draw = || random::bytes().map(SecretKey::new);
    let key = settings.secret_key.clone().map_or_else(draw, Ok);
    let key = key.map_err(|error| SettingError::Random { reason: error.to_string() })?;
    Ok(Stores { store: Arc::new(MemoryStore::new(settings, &key)), foreign: None })
}
