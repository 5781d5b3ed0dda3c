//! Which store a guard has.

use std::sync::Arc;

use super::old::Old;
use super::{Other, Place};
use crate::builder::here::{self, Stores};
use crate::error::SettingError;
use crate::settings::Settings;
use crate::store::foreign::ForeignStore;
use crate::store::foreign::filter::ForeignFilter;
use crate::store::map::endpoint::Endpoint;
use crate::store::migrating::MigratingStore;
use crate::store::redis::RedisStore;

impl Place {
    /// Makes the store of a guard.
    pub(super) fn store(&self, settings: &Settings) -> Result<Stores, SettingError> {
        let Some(redis) = &self.redis else {
            return match &self.other {
                Other::None => here::stores(settings),
                Other::Instead(_) | Other::Left(_) => Err(SettingError::ForeignWithoutRedis),
            };
        };
        let own = |former| RedisStore::new(settings, redis, former);
        match &self.other {
            Other::None => Ok(Stores { store: Arc::new(own(None)), foreign: None }),
            Other::Instead(filter) => {
                let foreign = foreign(settings, filter, redis, false)?;
                Ok(Stores { store: Arc::<ForeignStore>::clone(&foreign), foreign: Some(foreign) })
            }
            Other::Left(Old::Foreign(filter)) => {
                let old = foreign(settings, filter, redis, true)?;
                let former = Arc::<ForeignStore>::clone(&old);
                let name = old.key().to_owned();
                let own = own(Some(name.clone()));
                let store = Arc::new(MigratingStore::new(own, former, name));
                Ok(Stores { store, foreign: Some(old) })
            }
            Other::Left(Old::Own(old)) => {
                let name = old.to_string();
                let own = own(Some(name.clone()));
                let (of_old, at) = old.beside(settings, redis)?;
                let old = Arc::new(own.beside(&of_old, &at));
                let store = Arc::new(MigratingStore::new(own, old, name));
                Ok(Stores { store, foreign: None })
            }
        }
    }
}

/// Makes the store of a filter that another system writes.
fn foreign(
    settings: &Settings,
    filter: &ForeignFilter,
    redis: &Endpoint,
    is_left: bool,
) -> Result<Arc<ForeignStore>, SettingError> {
    if filter.endpoints(redis).any(|one| matches!(one, Endpoint::Cluster(_))) {
        return Err(SettingError::ForeignInCluster);
    }
    Ok(Arc::new(ForeignStore::new(settings, filter, redis, is_left)))
}
