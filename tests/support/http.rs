//! An axum server on loopback and the clients that talk to it.

use std::net::SocketAddr;

use axum::Router;
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// An application being served on a free port; stopped on drop.
pub struct HttpServer {
    address: SocketAddr,
    _task: JoinSet<()>,
}

impl HttpServer {
    /// Serves an application.
    pub async fn start(app: Router) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let mut task = JoinSet::new();
        task.spawn(async move { axum::serve(listener, app).await.expect("never ends") });
        Self { address, _task: task }
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Opens a connection.
    pub async fn connect(&self) -> HttpClient {
        let stream = TcpStream::connect(self.address).await.expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        let (sender, connection) = handshake(TokioIo::new(stream)).await.expect("a handshake");
        let mut task = JoinSet::new();
        task.spawn(async move {
            // However it ends, the next request tells.
            connection.await.ok();
        });
        HttpClient { sender, _task: task }
    }
}

/// One connection, never reopened: what it has survived shows in the next request.
pub struct HttpClient {
    sender: SendRequest<Empty<Bytes>>,
    _task: JoinSet<()>,
}

impl HttpClient {
    /// Sends a request and reads the whole response.
    pub async fn send(&mut self, method: Method, target: &str) -> Response<Bytes> {
        let request = Request::builder()
            .method(method)
            .uri(target)
            .header("host", "localhost")
            .body(Empty::new())
            .unwrap_or_else(|error| panic!("{target}: {error}"));
        self.sender.ready().await.expect("the connection is open");
        let response = self.sender.send_request(request).await.expect("an answer");
        let (parts, body) = response.into_parts();
        let body = body.collect().await.expect("a whole body").to_bytes();
        Response::from_parts(parts, body)
    }

    /// Sends a GET.
    pub async fn get(&mut self, target: &str) -> Response<Bytes> {
        self.send(Method::GET, target).await
    }
}
