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
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::named::{Names, Server};
use crate::error::StoreError;
use crate::refusal::Refusal;
use crate::store::link::connector::{Access, Address, CONNECT, Connector};
use crate::store::link::reply::odd;
use crate::store::link::transport::{Transport, ask, meaning};

const ASKED: &str = "SENTINEL GET-MASTER-ADDR-BY-NAME";

/// A primary, by the name that Sentinels have for it.
#[derive(Clone)]
pub(crate) struct NamedPrimary {
    pub(super) sentinels: Vec<ConnectionInfo>,
    pub(super) name: Arc<str>,
    /// How to connect to it, wherever it is.
    pub(super) redis: ConnectionInfo,
}

pub(super) struct Sentinels {
    each: Vec<Arc<Sentinel>>,
    primary: NamedPrimary,
    access: Access,
}

/// A Sentinel, and the connection on which it answered last.
struct Sentinel {
    address: Address,
    transport: Mutex<Option<Arc<dyn Transport>>>,
}

impl Sentinels {
    pub(super) fn new(primary: NamedPrimary, access: Access) -> Self {
        let sentinel = |info: &ConnectionInfo| Sentinel {
            address: Address::new(info.clone(), access.to_sentinels()),
            transport: Mutex::default(),
        };
        let each = primary.sentinels.iter().map(sentinel).map(Arc::new).collect();
        Self { each, primary, access }
    }
}

impl Names for Sentinels {
    const OF_A_CLUSTER: bool = false;

    /// Asks all Sentinels, and returns the server that a majority names. Fails with what each has said.
    async fn primary(&self) -> io::Result<Server> {
        let all = self.each.len();
        let majority = all / 2 + 1;
        let (answer, mut answers) = mpsc::channel(all);
        for sentinel in &self.each {
            let sentinel = Arc::clone(sentinel);
            let name = Arc::clone(&self.primary.name);
            let answer = answer.clone();
            // It goes on when there is a majority: the next question needs its connection.
            tokio::spawn(async move {
                let late = StoreError::late(CONNECT);
                let named = timeout(CONNECT, sentinel.ask(&name)).await.unwrap_or(Err(late));
                let said = match &named {
                    Ok(server) => format!("{:?} names {server}", sentinel.address),
                    Err(error) => format!("{:?}: {error}", sentinel.address),
                };
                answer.send((named.ok(), said)).await.ok();
            });
        }
        drop(answer);
        let mut votes = Vec::new();
        let mut all_said = Vec::new();
        while let Some((named, said)) = answers.recv().await {
            all_said.push(said);
            let Some(server) = named else { continue };
            votes.push(server.clone());
            if votes.iter().filter(|vote| **vote == server).count() >= majority {
                return Ok(server);
            }
        }
        all_said.sort();
        let name = &self.primary.name;
        let said = all_said.join("; ");
        let text =
            format!("{majority} of {all} sentinels have to name the same primary {name:?}: {said}");
        Err(io::Error::new(io::ErrorKind::NotConnected, text))
    }

    fn dial(&self, server: &Server) -> Arc<dyn Connector> {
        Arc::new(server.address(&self.primary.redis, &self.access))
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
        let port = port.int()?;
        let no_port = |_| odd(ASKED, format!("the port {port}"));
        Ok(Server { host: host.text()?, port: u16::try_from(port).map_err(no_port)? })
    }
}

impl fmt::Debug for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of the sentinels ", self.primary.name)?;
        f.debug_list().entries(self.each.iter().map(|sentinel| &sentinel.address)).finish()?;
        match self.primary.redis.redis_settings().db() {
            0 => Ok(()),
            database => write!(f, ", database {database}"),
        }
    }
}
