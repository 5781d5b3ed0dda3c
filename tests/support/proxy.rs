//! A TCP proxy that cuts connections at a chosen request, or does something between two commands of one.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// Where a connection is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// The request never arrives.
    BeforeRequest,
    /// The request is carried out, its reply is lost.
    BeforeReply,
}

/// What is done between two commands of a request.
struct Between {
    /// The request has this in it.
    request: Vec<u8>,
    /// The second command begins so, the last that does.
    command: Vec<u8>,
    action: Box<dyn FnOnce() + Send>,
}

/// Forwards connections to a server on loopback.
pub struct Proxy {
    port: u16,
    state: Arc<State>,
    _tasks: JoinSet<()>,
}

struct State {
    target: u16,
    /// Requests left until the cut; negative when none is armed.
    left: AtomicI64,
    cut: Mutex<Cut>,
    requests: AtomicU64,
    between: Mutex<Option<Between>>,
    fired: Notify,
}

impl Proxy {
    /// Starts a proxy to a port.
    pub async fn start(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let state = Arc::new(State {
            target,
            left: AtomicI64::new(-1),
            cut: Mutex::new(Cut::BeforeRequest),
            requests: AtomicU64::new(0),
            between: Mutex::default(),
            fired: Notify::new(),
        });
        let mut tasks = JoinSet::new();
        let shared = Arc::clone(&state);
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(forward(client, Arc::clone(&shared)));
            }
        });
        Self { port, state, _tasks: tasks }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The proxy's URL.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Cuts the connection that sends the n-th request from now, counting from 0.
    pub fn arm(&self, n: u64, cut: Cut) {
        *self.state.cut.lock().unwrap() = cut;
        self.state.left.store(i64::try_from(n).unwrap(), Ordering::SeqCst);
    }

    /// Takes the cut back; returns whether it was still to come.
    pub fn disarm(&self) -> bool {
        self.state.left.swap(-1, Ordering::SeqCst) >= 0
    }

    /// Has something done in the next request that has some bytes in it: before the last command of it that begins so, and
    /// after the reply to those ahead.
    pub fn between(&self, request: &str, command: &str, action: impl FnOnce() + Send + 'static) {
        let (request, command) = (request.into(), command.into());
        let between = Between { request, command, action: Box::new(action) };
        *self.state.between.lock().unwrap() = Some(between);
    }

    /// Returns once the cut has been made, or what is between two commands has been done.
    pub async fn fired(&self) {
        self.state.fired.notified().await;
    }

    /// Requests seen so far.
    pub fn requests(&self) -> u64 {
        self.state.requests.load(Ordering::SeqCst)
    }
}

async fn forward(mut client: TcpStream, state: Arc<State>) {
    let Ok(mut server) = TcpStream::connect(("127.0.0.1", state.target)).await else { return };
    client.set_nodelay(true).ok();
    server.set_nodelay(true).ok();
    let (mut request, mut reply) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    loop {
        tokio::select! {
            read = client.read(&mut request) => {
                let Ok(read @ 1..) = read else { return };
                state.requests.fetch_add(1, Ordering::SeqCst);
                let cut = (state.left.fetch_sub(1, Ordering::SeqCst) == 0)
                    .then(|| *state.cut.lock().unwrap());
                let begun = ahead(&mut client, &mut server, &request[..read], &state).await;
                let rest = &request[begun..read];
                if cut != Some(Cut::BeforeRequest) && server.write_all(rest).await.is_err() {
                    return;
                }
                if cut == Some(Cut::BeforeReply) {
                    carried_out(&mut client, &mut server, &mut request, &mut reply).await;
                }
                if cut.is_some() {
                    state.fired.notify_one();
                    return;
                }
            }
            read = server.read(&mut reply) => {
                let Ok(read @ 1..) = read else { return };
                if client.write_all(&reply[..read]).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Waits for a reply, whose arrival says that the request was carried out; of a long one the rest may be
/// on its way yet.
async fn carried_out(
    client: &mut TcpStream,
    server: &mut TcpStream,
    request: &mut [u8],
    reply: &mut [u8],
) {
    loop {
        tokio::select! {
            _ = server.read(reply) => return,
            read = client.read(request) => {
                let Ok(read @ 1..) = read else { return };
                if server.write_all(&request[..read]).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Sends what is ahead of the command that something is done before, and does it; returns how much that is.
async fn ahead(
    client: &mut TcpStream,
    server: &mut TcpStream,
    request: &[u8],
    state: &State,
) -> usize {
    let find = |bytes: &[u8]| request.windows(bytes.len()).rposition(|part| part == bytes);
    let is_it = |between: &mut Between| find(&between.request).is_some();
    let Some(between) = state.between.lock().unwrap().take_if(is_it) else { return 0 };
    let at = find(&between.command).expect("the command");
    let mut reply = vec![0; 1 << 20];
    server.write_all(&request[..at]).await.expect("the server");
    let read = server.read(&mut reply).await.expect("a reply");
    client.write_all(&reply[..read]).await.expect("the client");
    // It may wait for a server.
    tokio::task::spawn_blocking(between.action).await.expect("what is done");
    state.fired.notify_one();
    at
}
