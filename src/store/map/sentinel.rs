//! Connects to the primary that the Sentinels name.
//!
//! A Sentinel in the smaller part of a divided network does not know of a failover. So all that the URL names are asked at once, and
//! a majority of all decides, not of the Sentinels that answer. They are asked before a connection is made, again before it is used, and
//! once a second after that. A connection in use is left if a majority names another server, not if there is no majority.
//!
//! See <https://redis.io/docs/latest/develop/reference/sentinel-clients/>.

use std::fmt;
use std::io;
use std::sync::Arc;

use ::redis::{ConnectionInfo, cmd};
use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::time::timeout;

use super::endpoint::{Endpoint, Server};
use super::named::Names;
use crate::error::StoreError;
use crate::refusal::Refusal;
use crate::store::link::connector::{Address, CONNECT, Connector};
use crate::store::link::reply::odd;
use crate::store::link::transport::{Transport, ask, meaning};

const ASKED: &str = "SENTINEL GET-MASTER-ADDR-BY-NAME";

pub(super) struct Sentinels {
    each: Vec<Sentinel>,
    /// The name that they have for the primary.
    name: Arc<str>,
    database: i64,
}

/// A Sentinel, and the connection on which it answered last.
struct Sentinel {
    address: Address,
    transport: Mutex<Option<Arc<dyn Transport>>>,
}

impl Sentinels {
    pub(super) fn new(sentinels: &[ConnectionInfo], name: &Arc<str>, endpoint: &Endpoint) -> Self {
        // They have credentials of their own.
        let mut access = endpoint.access.clone();
        access.credentials = None;
        let sentinel = |info: &ConnectionInfo| Sentinel {
            address: Address::new(info.clone(), access.clone()),
            transport: Mutex::default(),
        };
        let each = sentinels.iter().map(sentinel).collect();
        let database = endpoint.server.redis_settings().db();
        Self { each, name: Arc::clone(name), database }
    }
}

impl Names for Sentinels {
    const OF_A_CLUSTER: bool = false;

    /// Asks all Sentinels, and returns the server that a majority names. Fails with what each has said.
    async fn primary(&self) -> io::Result<Server> {
        let ask = async |sentinel: &Sentinel| {
            let late = StoreError::late(CONNECT);
            timeout(CONNECT, sentinel.ask(&self.name)).await.unwrap_or(Err(late))
        };
        let named = join_all(self.each.iter().map(ask)).await;
        let (all, majority) = (named.len(), named.len() / 2 + 1);
        let votes = |server: &Server| named.iter().flatten().filter(|vote| *vote == server).count();
        if let Some(server) = named.iter().flatten().find(|server| votes(server) >= majority) {
            return Ok(server.clone());
        }
        let said = self.each.iter().zip(&named).map(|(sentinel, named)| match named {
            Ok(server) => format!("{:?} names {server}", sentinel.address),
            Err(error) => format!("{:?}: {error}", sentinel.address),
        });
        let said = said.collect::<Vec<_>>().join("; ");
        let name = &self.name;
        let text =
            format!("{majority} of {all} sentinels have to name the same primary {name:?}: {said}");
        Err(io::Error::new(io::ErrorKind::NotConnected, text))
    }
}

impl Sentinel {
    async fn ask(&self, name: &str) -> Result<Server, StoreError> {
        // A connection without an answer is dropped.
        let kept = self.transport.lock().take();
        let transport = match kept {
            Some(transport) => transport,
            None => self.address.connect().await.map_err(|error| meaning(&error))?,
        };
        let mut get = cmd("SENTINEL");
        get.arg("GET-MASTER-ADDR-BY-NAME").arg(name);
        let reply = ask(&*transport, ASKED, get, CONNECT).await.map_err(|error| {
            let is_unknown = error.is(Refusal::UNSUPPORTED);
            if is_unknown { odd(ASKED, "an error: it is no sentinel") } else { error }
        })?;
        *self.transport.lock() = Some(transport);
        if reply.is_nil() {
            let answer = format!("nothing: it knows no primary {name:?}");
            return Err(odd(ASKED, answer));
        }
        let [host, port] = reply.fields()?;
        Ok(Server { host: host.text()?, port: port.port()? })
    }
}

impl fmt::Debug for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of the sentinels ", self.name)?;
        f.debug_list().entries(self.each.iter().map(|sentinel| &sentinel.address)).finish()?;
        match self.database {
            0 => Ok(()),
            database => write!(f, ", database {database}"),
        }
    }
}
