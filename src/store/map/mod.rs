//! Where Redis is: a URL that has been read, and who says which server to connect to.

pub(crate) mod cluster;
pub(crate) mod endpoint;
mod named;
mod sentinel;
mod url;

use std::fmt;
use std::sync::Arc;

use cluster::Slots;
use endpoint::{Endpoint, Place};
use named::Named;
use sentinel::Sentinels;

use crate::store::link::connector::Connector;

impl Endpoint {
    /// Returns a connector to the server that has a key. Which key that is may change.
    pub(crate) fn connector(
        &self,
        key: impl Fn() -> Option<Arc<str>> + Send + Sync + 'static,
    ) -> Arc<dyn Connector> {
        match &self.place {
            Place::Address => (self.dial)(self.server.clone(), self.access.clone()),
            Place::Sentinels(sentinels, name) => {
                let sentinels = Sentinels::new(sentinels, name, self);
                Arc::new(Named::by(sentinels, self.clone()))
            }
            Place::Cluster(nodes) => {
                let keys = Box::new(move || key().into_iter().collect());
                let slots = Slots { endpoint: self.clone(), nodes: nodes.clone(), keys };
                Arc::new(Named::by(slots, self.clone()))
            }
        }
    }

    pub(crate) fn slots(&self, keys: Arc<[Arc<str>]>) -> Option<Slots> {
        let Place::Cluster(nodes) = &self.place else { return None };
        let keys = Box::new(move || keys.to_vec());
        Some(Slots { endpoint: self.clone(), nodes: nodes.clone(), keys })
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.connector(|| None).fmt(f)
    }
}
