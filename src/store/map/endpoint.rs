//! Where Redis is: a URL that has been read.

use std::fmt;
use std::sync::Arc;

use super::cluster::{Cluster, Slots};
use crate::error::SettingError;
use crate::store::link::access::Access;
use crate::store::link::connector::Connector;

/// Where Redis is.
#[derive(Clone)]
pub(crate) enum Endpoint {
    /// At an address, or where Sentinels say.
    Primary(Arc<dyn Connector>),
    Cluster(Arc<Cluster>),
}

impl Endpoint {
    /// Returns the same place with this access.
    ///
    /// # Errors
    ///
    /// It does not go with what the URL says.
    pub(crate) fn with(&self, access: &Access) -> Result<Self, SettingError> {
        Ok(match self {
            Self::Primary(connector) => {
                Self::Primary(connector.with(access)?.unwrap_or_else(|| Arc::clone(connector)))
            }
            Self::Cluster(cluster) => Self::Cluster(Arc::new(cluster.with(access)?)),
        })
    }

    /// Returns what connects to the server that has a key. Which key that is may change.
    pub(crate) fn connector(
        &self,
        key: impl Fn() -> Option<Arc<str>> + Send + Sync + 'static,
    ) -> Arc<dyn Connector> {
        match self {
            Self::Primary(connector) => Arc::clone(connector),
            Self::Cluster(cluster) => Arc::new(cluster.to_slot_of(key)),
        }
    }

    /// Returns what tells on which nodes keys are, where there are several.
    pub(crate) fn slots(&self, keys: Arc<[Arc<str>]>) -> Option<Slots> {
        match self {
            Self::Primary(_) => None,
            Self::Cluster(cluster) => Some(cluster.slots_of(keys)),
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Primary(connector) => connector.fmt(f),
            Self::Cluster(cluster) => cluster.fmt(f),
        }
    }
}
