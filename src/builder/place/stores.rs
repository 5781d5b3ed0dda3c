//! Which store a guard has.

use std::sync::Arc;

use super::Place;
use crate::builder::here;
use crate::error::SettingError;
use crate::guard::Stores;
use crate::settings::Settings;
use crate::store::foreign::ForeignStore;
use crate::store::map::endpoint::Endpoint;
use crate::store::redis::RedisStore;

impl Place {
    /// Makes the store of a guard.
    pub(super) fn store(&self, settings: &Settings) -> Result<Stores, SettingError> {
        match (&self.redis, &self.foreign) {
            (None, _) => here::stores(settings),
            (Some(redis), None) => {
                let store = Arc::new(RedisStore::new(settings, redis));
                Ok(Stores { store, foreign: None })
            }
            (Some(redis), Some(filter)) => {
                if filter.endpoints(redis).any(|one| matches!(one, Endpoint::Cluster(_))) {
                    return Err(SettingError::ForeignInCluster);
                }
                let foreign = Arc::new(ForeignStore::new(settings, filter, redis));
                Ok(Stores { store: Arc::<ForeignStore>::clone(&foreign), foreign: Some(foreign) })
            }
        }
    }
}
