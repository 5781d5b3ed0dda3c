//! Connects to the primary that the Sentinels name.
//!
//! One Sentinel alone may be in the smaller part of a divided network, and not know of a failover. So all that the URL
//! names are asked at once, and what counts is the server that a majority of them agrees on: of all, not of those that
//! answer. They are asked before a connection is made, again before it is used, and once a second after that. A
//! connection in use is left when a majority names another server, not when there is no majority: then whoever
//! is asked is as good as before.
//!
//! See <https://redis.io/docs/latest/develop/reference/sentinel-clients/>.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::Arc;

use ::redis::{ConnectionInfo, cmd};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::named::{Names, Server};
use crate::error::{SettingError, StoreError};
use crate::store::link::access::Access;
use crate::store::link::connector::{Address, CONNECT, Connector};
use crate::store::link::reply::odd;
use crate::store::link::transport::{Transport, Trouble, ask};

const ASKED: &str = "SENTINEL GET-MASTER-ADDR-BY-NAME";

/// Connects to the primary that a majority of some Sentinels knows by a name.
#[derive(Clone)]
pub(super) struct Sentinels {
    each: Vec<Arc<Sentinel>>,
    name: Arc<str>,
    /// How to connect to the primary, wherever it is.
    redis: ConnectionInfo,
    access: Access,
}

/// A Sentinel, and the connection on which it answered last.
struct Sentinel {
    address: Address,
    transport: Mutex<Option<Arc<dyn Transport>>>,
}

impl Sentinels {
    pub(super) fn new(sentinels: Vec<ConnectionInfo>, name: &str, redis: ConnectionInfo) -> Self {
        let sentinel = |info| Sentinel {
            address: Address::new(info, Access::default()),
            transport: Mutex::default(),
        };
        let each = sentinels.into_iter().map(sentinel).map(Arc::new).collect();
        Self { each, name: name.into(), redis, access: Access::default() }
    }
}

impl Names for Sentinels {
    const OF_A_CLUSTER: bool = false;

    /// Asks all Sentinels, and returns the server that a majority names, or what each has said, if there is none.
    async fn primary(&self) -> io::Result<Server> {
        let all = self.each.len();
        let majority = all / 2 + 1;
        let (answer, mut answers) = mpsc::channel(all);
        for sentinel in &self.each {
            let sentinel = Arc::clone(sentinel);
            let name = Arc::clone(&self.name);
            let answer = answer.clone();
            // It goes on when a majority has been found: whether a Sentinel answers is known then, too.
            tokio::spawn(async move {
                let named = sentinel.names(&name).await;
                let said = match &named {
                    Ok(server) => format!("{:?} names {server}", sentinel.address),
                    Err(error) => format!("{:?}: {error}", sentinel.address),
                };
                answer.send((named.ok(), said)).await.ok();
            });
        }
        drop(answer);
        let mut votes = HashMap::<Server, usize>::new();
        let mut all_said = Vec::new();
        while let Some((named, said)) = answers.recv().await {
            all_said.push(said);
            let Some(server) = named else { continue };
            let votes = votes.entry(server.clone()).or_default();
            *votes += 1;
            if *votes >= majority {
                return Ok(server);
            }
        }
        all_said.sort();
        let name = &self.name;
        let said = all_said.join("; ");
        let text =
            format!("{majority} of {all} sentinels have to name the same primary {name:?}: {said}");
        Err(io::Error::new(io::ErrorKind::NotConnected, text))
    }

    fn dial(&self, server: &Server) -> Arc<dyn Connector> {
        Arc::new(server.address(&self.redis, &self.access))
    }

    fn with(&self, access: &Access) -> Result<Option<Self>, SettingError> {
        access.judge(&self.redis)?;
        let sentinel = |it: &Arc<Sentinel>| Sentinel {
            address: it.address.with_access(access.to_sentinels()),
            transport: Mutex::default(),
        };
        let each = self.each.iter().map(sentinel).map(Arc::new).collect();
        Ok(Some(Self { each, access: access.clone(), ..self.clone() }))
    }
}

impl Sentinel {
    /// Asks which server is the primary of this name.
    async fn names(&self, name: &str) -> Result<Server, StoreError> {
        let late = StoreError::late(CONNECT);
        let named = timeout(CONNECT, self.ask(name)).await.unwrap_or(Err(late));
        if named.is_err() {
            self.keep(None);
        }
        named
    }

    async fn ask(&self, name: &str) -> Result<Server, StoreError> {
        let kept = self.transport.lock().clone();
        let transport = match kept {
            Some(transport) => transport,
            None => self.address.connect().await.map_err(Trouble::from)?,
        };
        let mut get = cmd("SENTINEL");
        get.arg("GET-MASTER-ADDR-BY-NAME").arg(name);
        let reply = ask(&*transport, ASKED, get, CONNECT).await?;
        self.keep(Some(transport));
        if reply.is_nil() {
            let answer = format!("nothing: it knows no primary {name:?}");
            return Err(odd(ASKED, answer));
        }
        let [host, port] = reply.fields()?;
        let port = port.int()?;
        let no_port = |_| odd(ASKED, format!("the port {port}"));
        Ok(Server { host: host.text()?, port: u16::try_from(port).map_err(no_port)? })
    }

    fn keep(&self, transport: Option<Arc<dyn Transport>>) {
        *self.transport.lock() = transport;
    }
}

impl fmt::Debug for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of the sentinels ", self.name)?;
        f.debug_list().entries(self.each.iter().map(|sentinel| &sentinel.address)).finish()?;
        match self.redis.redis_settings().db() {
            0 => Ok(()),
            database => write!(f, ", database {database}"),
        }
    }
}
