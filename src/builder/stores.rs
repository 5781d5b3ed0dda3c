//! Which stores a guard has.

use std::sync::Arc;

use crate::error::SettingError;
use crate::id::SecretKey;
use crate::settings::Settings;
use crate::store::Store;
use crate::store::foreign::ForeignStore;
use crate::store::foreign::filter::ForeignFilter;
use crate::store::link::endpoint::Endpoint;
use crate::store::memory::MemoryStore;
use crate::store::migrating::MigratingStore;
use crate::store::redis::RedisStore;

/// The stores of one guard.
pub(super) struct Stores {
    /// The one that answers requests.
    pub(super) answering: Arc<dyn Store>,
    /// The one whose filter is rebuilt.
    pub(super) rebuilt: Arc<dyn Store>,
    /// The one whose filter another system writes.
    pub(super) foreign: Option<Arc<ForeignStore>>,
}

impl Stores {
    /// Makes them. A filter of another system is moved away from, or not.
    pub(super) fn new(
        settings: &Settings,
        redis: Option<&Endpoint>,
        foreign: Option<(&ForeignFilter, bool)>,
    ) -> Result<Self, SettingError> {
        let Some((filter, is_migrating)) = foreign else {
            let own = own(settings, redis)?;
            return Ok(Self { answering: Arc::clone(&own), rebuilt: own, foreign: None });
        };
        let server = redis.ok_or(SettingError::ForeignWithoutRedis)?;
        let old = Arc::new(ForeignStore::new(settings, filter, server, is_migrating));
        let foreign = Some(Arc::clone(&old));
        if is_migrating {
            let own = own(settings, redis)?;
            let answering = Arc::new(MigratingStore::new(Arc::clone(&own), old));
            return Ok(Self { answering, rebuilt: own, foreign });
        }
        Ok(Self { answering: Arc::<ForeignStore>::clone(&old), rebuilt: old, foreign })
    }
}

/// Returns the store of a filter of the guard's own.
fn own(settings: &Settings, redis: Option<&Endpoint>) -> Result<Arc<dyn Store>, SettingError> {
    if let Some(server) = redis {
        return Ok(Arc::new(RedisStore::new(settings, server.clone())));
    }
    let key = settings.secret_key.clone().map_or_else(SecretKey::random, Ok);
    let key = key.map_err(|error| SettingError::Random { reason: error.to_string() })?;
    Ok(Arc::new(MemoryStore::new(settings, &key)))
}
