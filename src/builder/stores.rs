//! Which store a guard has.

use std::sync::Arc;

use super::old::OwnFilter;
use crate::error::SettingError;
use crate::id::SecretKey;
use crate::settings::Settings;
use crate::store::Store;
use crate::store::foreign::ForeignStore;
use crate::store::foreign::filter::ForeignFilter;
use crate::store::map::endpoint::Endpoint;
use crate::store::memory::MemoryStore;
use crate::store::migrating::MigratingStore;
use crate::store::redis::RedisStore;

/// The store that answers, and the one whose filter another system writes, where it is that one, or moves away from it.
pub(super) type Stores = (Arc<dyn Store>, Option<Arc<ForeignStore>>);

/// Makes the store of a guard.
pub(super) fn store(
    settings: &Settings,
    redis: Option<&Endpoint>,
    foreign: Option<&ForeignFilter>,
    old: Option<&OwnFilter>,
    is_migrating: bool,
) -> Result<Stores, SettingError> {
    if let Some(old) = old {
        let redis = redis.ok_or(SettingError::ForeignWithoutRedis)?;
        let own = RedisStore::new(settings, redis.clone());
        let (of_old, at) = old.beside(settings, redis)?;
        let old = Arc::new(own.beside(&of_old, at));
        return Ok((Arc::new(MigratingStore::new(Arc::new(own), old)), None));
    }
    let Some(filter) = foreign else { return Ok((own(settings, redis)?, None)) };
    let server = redis.ok_or(SettingError::ForeignWithoutRedis)?;
    if filter.endpoints(server).any(|one| matches!(one, Endpoint::Cluster(_))) {
        return Err(SettingError::ForeignInCluster);
    }
    let old = Arc::new(ForeignStore::new(settings, filter, server, is_migrating));
    let store: Arc<dyn Store> = if is_migrating {
        Arc::new(MigratingStore::new(own(settings, redis)?, Arc::<ForeignStore>::clone(&old)))
    } else {
        Arc::<ForeignStore>::clone(&old)
    };
    Ok((store, Some(old)))
}

/// Makes the store of a filter of the guard's own.
fn own(settings: &Settings, redis: Option<&Endpoint>) -> Result<Arc<dyn Store>, SettingError> {
    if let Some(server) = redis {
        return Ok(Arc::new(RedisStore::new(settings, server.clone())));
    }
    let key = settings.secret_key.clone().map_or_else(SecretKey::random, Ok);
    let key = key.map_err(|error| SettingError::Random { reason: error.to_string() })?;
    Ok(Arc::new(MemoryStore::new(settings, &key)))
}
