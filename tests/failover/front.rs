//! What users put in front of Redis: a proxy that leads new connections to the primary that the Sentinels name. Open ones stay.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::network::pass;
use crate::topology::{NAME, Topology};
use support::sentinel::Sentinel;

/// The proxy. Its clients see one address.
pub struct Front {
    port: u16,
    primary: watch::Receiver<u16>,
    /// For each port that connections lead to, one for each of them, and one here.
    open: Arc<Mutex<HashMap<u16, Arc<()>>>>,
    _tasks: JoinSet<()>,
}

impl Front {
    /// Starts a proxy that asks the Sentinels all the time. It reaches the servers on their own ports:
    /// a partition between the servers is none between them and the application.
    pub async fn start(topology: &Topology) -> Self {
        let nodes = [&topology.old, &topology.new];
        let routes: HashMap<u16, u16> =
            nodes.map(|node| (node.network.port(), node.server.port())).into();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let (named, primary) = watch::channel(topology.old.server.port());
        let open = Arc::default();
        let mut tasks = JoinSet::new();
        let sentinels = topology.sentinels.iter().map(Sentinel::port).collect();
        tasks.spawn(follow(sentinels, routes, named));
        tasks.spawn(accept(listener, primary.clone(), Arc::clone(&open)));
        Self { port, primary, open, _tasks: tasks }
    }

    /// The proxy's URL.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// The port it leads to now.
    pub fn primary(&self) -> u16 {
        *self.primary.borrow()
    }

    /// How many connections lead to a port.
    pub fn open_to(&self, port: u16) -> usize {
        self.open.lock().unwrap().get(&port).map_or(0, |open| Arc::strong_count(open) - 1)
    }
}

/// Names the primary that two Sentinels agree on.
async fn follow(sentinels: Vec<u16>, routes: HashMap<u16, u16>, named: watch::Sender<u16>) {
    let mut connections: Vec<Option<MultiplexedConnection>> = vec![None; sentinels.len()];
    loop {
        let mut votes: HashMap<u16, usize> = HashMap::new();
        for (port, connection) in sentinels.iter().zip(&mut connections) {
            match vote(*port, connection).await {
                Some(primary) => *votes.entry(primary).or_default() += 1,
                None => *connection = None,
            }
        }
        if let Some((primary, _)) = votes.into_iter().find(|(_, votes)| *votes >= 2) {
            let server = routes[&primary];
            named.send_if_modified(|now| std::mem::replace(now, server) != server);
        }
        sleep(Duration::from_millis(20)).await;
    }
}

async fn vote(port: u16, connection: &mut Option<MultiplexedConnection>) -> Option<u16> {
    let asking = async {
        if connection.is_none() {
            let client = redis::Client::open(format!("redis://127.0.0.1:{port}/")).ok()?;
            *connection = client.get_multiplexed_async_connection().await.ok();
        }
        let mut ask = redis::cmd("SENTINEL");
        ask.arg("GET-MASTER-ADDR-BY-NAME").arg(NAME);
        let (_, port): (String, u16) = ask.query_async(connection.as_mut()?).await.ok()?;
        Some(port)
    };
    timeout(Duration::from_millis(500), asking).await.ok()?
}

async fn accept(
    listener: TcpListener,
    primary: watch::Receiver<u16>,
    open: Arc<Mutex<HashMap<u16, Arc<()>>>>,
) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let target = *primary.borrow();
        let counted = Arc::clone(open.lock().unwrap().entry(target).or_default());
        connections.spawn(pass(client, target, counted));
        while connections.try_join_next().is_some() {}
    }
}
