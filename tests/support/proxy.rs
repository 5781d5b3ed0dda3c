//! A TCP proxy that does something between two commands of a request.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;

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
    between: Mutex<Option<Between>>,
    fired: Notify,
}

impl Proxy {
    /// Starts a proxy to a port.
    pub async fn start(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let state = State { target, between: Mutex::default(), fired: Notify::new() };
        let state = Arc::new(state);
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

    /// The proxy's URL.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Has something done in the next request that has some bytes in it: before the last command of it that begins so, and
    /// after the reply to those ahead.
    pub fn between(&self, request: &str, command: &str, action: impl FnOnce() + Send + 'static) {
        let (request, command) = (request.into(), command.into());
        let between = Between { request, command, action: Box::new(action) };
        *self.state.between.lock().unwrap() = Some(between);
    }

    /// Returns once what is between two commands has been done.
    pub async fn fired(&self) {
        self.state.fired.notified().await;
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
                let begun = ahead(&mut client, &mut server, &request[..read], &state).await;
                if server.write_all(&request[begun..read]).await.is_err() {
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
