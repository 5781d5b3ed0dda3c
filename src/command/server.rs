//! A bare connection to the server that has a key, for what no guard asks.

use std::sync::Arc;
use std::time::Duration;

use ::redis::Cmd;

use crate::error::StoreError;
use crate::store::link::reply::Reply;
use crate::store::link::resp::Packed;
use crate::store::link::transport::{self, Transport};
use crate::store::map::endpoint::Endpoint;

const DEADLINE: Duration = Duration::from_secs(10);
/// The longest reply: CLIENT LIST of some thousand connections.
const LONG: usize = 64 << 20;

pub(super) struct Server(Arc<dyn Transport>);

impl Server {
    pub(super) async fn open(endpoint: &Endpoint, key: &str) -> Result<Self, StoreError> {
        let key: Arc<str> = key.into();
        let connector = endpoint.connector(move || Some(Arc::clone(&key)));
        Ok(Self(connector.connect().await.map_err(|error| transport::meaning(&error))?))
    }

    pub(super) async fn ask<W: AsRef<[u8]>>(&self, words: &[W]) -> Result<Reply, StoreError> {
        let mut command = Cmd::new();
        for word in words {
            command.arg(word.as_ref());
        }
        let command = Packed::from(command).for_long_replies(LONG);
        transport::ask(&*self.0, "a command", command, DEADLINE).await
    }

    pub(super) fn is_of_cluster(&self) -> bool {
        self.0.is_to_a_cluster()
    }
}
