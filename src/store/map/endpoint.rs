//! Where Redis is: a URL that has been read.

use std::fmt;
use std::sync::Arc;

use ::redis::ConnectionInfo;

use super::cluster::{Cluster, Slots};
use super::named::Named;
use super::sentinel::{NamedPrimary, Sentinels};
use crate::error::SettingError;
use crate::store::link::connector::{Access, Address, Connector};

#[derive(Clone)]
pub(crate) enum Endpoint {
    /// At an address; none in tests.
    Primary(Arc<dyn Connector>, Option<ConnectionInfo>),
    /// Where Sentinels say.
    Sentinels(NamedPrimary, Access),
    Cluster(Arc<Cluster>),
}

impl Endpoint {
    pub(super) fn at(info: ConnectionInfo, access: Access) -> Self {
        Self::Primary(Arc::new(Address::new(info.clone(), access)), Some(info))
    }

    /// Returns the same endpoint with this access. Fails if the URL cannot have that beside it.
    pub(crate) fn with(&self, access: &Access) -> Result<Self, SettingError> {
        Ok(match self {
            Self::Primary(_, Some(info)) => {
                access.judge(info)?;
                Self::at(info.clone(), access.clone())
            }
            Self::Primary(_, None) => self.clone(),
            Self::Sentinels(named, _) => {
                access.judge(&named.redis)?;
                Self::Sentinels(named.clone(), access.clone())
            }
            Self::Cluster(cluster) => Self::Cluster(Arc::new(cluster.with(access)?)),
        })
    }

    /// Returns a connector to the server that has a key. Which key that is may change.
    pub(crate) fn connector(
        &self,
        key: impl Fn() -> Option<Arc<str>> + Send + Sync + 'static,
    ) -> Arc<dyn Connector> {
        match self {
            Self::Primary(connector, _) => Arc::clone(connector),
            Self::Sentinels(named, access) => {
                Arc::new(Named::by(Sentinels::new(named.clone(), access.clone())))
            }
            Self::Cluster(cluster) => {
                let cluster = Arc::clone(cluster);
                let keys = Box::new(move || key().into_iter().collect());
                Arc::new(Named::by(Slots { cluster, keys }))
            }
        }
    }

    /// Returns the user that the URL names, or Redis's own.
    #[cfg(feature = "cli")]
    pub(crate) fn user(&self) -> &str {
        let info = match self {
            Self::Primary(_, info) => info.as_ref(),
            Self::Sentinels(named, _) => Some(&named.redis),
            Self::Cluster(cluster) => Some(&cluster.redis),
        };
        info.and_then(|info| info.redis_settings().username()).unwrap_or("default")
    }

    pub(crate) fn slots(&self, keys: Arc<[Arc<str>]>) -> Option<Slots> {
        let Self::Cluster(cluster) = self else { return None };
        Some(Slots { cluster: Arc::clone(cluster), keys: Box::new(move || keys.to_vec()) })
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.connector(|| None).fmt(f)
    }
}
