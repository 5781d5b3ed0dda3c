//! Requests as they are sent: raw targets over TCP to a real server, once without a guard and once with.

use std::net::SocketAddr;

use axum::Router;
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderValue, Request, StatusCode, Uri};
use axum::middleware;
use axum::response::Response;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Marks what the application answered, or the guard: not the server by itself.
const MARK: &str = "x-application";

/// An application served over HTTP/1 and HTTP/2 on loopback; stopped on drop.
pub struct Server {
    pub address: SocketAddr,
    _task: JoinSet<()>,
}

impl Server {
    pub async fn start(app: Router) -> Self {
        let app = app.layer(middleware::map_response(async |mut response: Response| {
            response.headers_mut().insert(MARK, HeaderValue::from_static("1"));
            response
        }));
        let service = TowerToHyperService::new(app);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let service = service.clone();
                connections.spawn(async move {
                    let server = auto::Builder::new(TokioExecutor::new());
                    // However it ends, the client tells.
                    server.serve_connection(TokioIo::new(stream), service).await.ok();
                });
                while connections.try_join_next().is_some() {}
            }
        });
        Self { address, _task: task }
    }
}

/// What came back.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: StatusCode,
    pub body: Vec<u8>,
    /// Whether the request came as far as the application.
    pub arrived: bool,
}

/// A client of one server.
pub enum Client {
    /// Bytes on a socket, as nobody's library would send them.
    Http1 {
        address: SocketAddr,
        open: Option<TcpStream>,
    },
    Http2 {
        address: SocketAddr,
        sender: http2::SendRequest<Empty<Bytes>>,
        _task: JoinSet<()>,
    },
}

impl Client {
    pub fn http1(server: &Server) -> Self {
        Self::Http1 { address: server.address, open: None }
    }

    pub async fn http2(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("a connection");
        let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
        let (sender, connection) = handshake.expect("a handshake");
        let mut task = JoinSet::new();
        task.spawn(async move {
            connection.await.ok();
        });
        Self::Http2 { address, sender, _task: task }
    }

    /// Asks for a target; `None` if that cannot be said in this version of HTTP.
    pub async fn ask(&mut self, target: &[u8]) -> Option<Answer> {
        match self {
            Self::Http1 { address, open } => {
                let mut stream = match open.take() {
                    Some(stream) => stream,
                    None => TcpStream::connect(*address).await.expect("a connection"),
                };
                let request = [b"GET ", target, b" HTTP/1.1\r\nhost: h\r\n\r\n"].concat();
                stream.write_all(&request).await.expect("a request is written");
                let answer = read(&mut stream).await;
                // What the server refuses by itself it closes the connection for.
                *open = answer.arrived.then_some(stream);
                Some(answer)
            }
            Self::Http2 { address, sender, .. } => {
                // A client would make a path of what is none: of a fragment alone, for one.
                let path =
                    target.starts_with(b"/").then(|| PathAndQuery::try_from(target))?.ok()?;
                let uri = Uri::builder().scheme("http").authority("h").path_and_query(path);
                let request = Request::get(uri.build().ok()?).body(Empty::new()).ok()?;
                sender.ready().await.expect("the connection is open");
                let response = match sender.send_request(request).await {
                    // Of a long target's frames or bytes the server has had enough, and it hangs up.
                    Err(error) if format!("{error:?}").contains("ENHANCE_YOUR_CALM") => {
                        *self = Self::http2(*address).await;
                        return None;
                    }
                    answered => answered.expect("an answer"),
                };
                let (parts, body) = response.into_parts();
                let body = body.collect().await.expect("a whole body").to_bytes().to_vec();
                let arrived = parts.headers.contains_key(MARK);
                Some(Answer { status: parts.status, body, arrived })
            }
        }
    }
}

/// Reads one response, whose length hyper always names.
async fn read(stream: &mut TcpStream) -> Answer {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        assert_ne!(stream.read_buf(&mut bytes).await.expect("an answer"), 0, "{bytes:?}");
    };
    let text = std::str::from_utf8(&bytes[..head]).expect("a head");
    let mut lines = text.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).expect("a status");
    let status = status.parse().expect("a status");
    let header = |wanted: &str| {
        let mut fields = text.split("\r\n").filter_map(|line| line.split_once(": "));
        fields.find(|(name, _)| *name == wanted).map(|(_, value)| value.to_owned())
    };
    let arrived = header(MARK).is_some();
    let len = header("content-length").map_or(0, |len| len.parse().expect("a length"));
    let mut body = bytes.split_off(head);
    while body.len() < len {
        assert_ne!(stream.read_buf(&mut body).await.expect("a body"), 0);
    }
    assert_eq!(body.len(), len, "one answer to one request");
    Answer { status, body, arrived }
}
