//! The guard in front of a plain hyper service, its filter in this process.
//!
//! `cargo run --example hyper`: serves on loopback, asks itself, ends.

use std::convert::Infallible;

use bloom_guard::{BloomGuard, BoxError, PathPattern, Schedule, from_iter};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tower::ServiceBuilder;

/// Books 1 to 1,000 exist.
async fn show(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let id: Option<u32> = request.uri().path().rsplit('/').next().and_then(|id| id.parse().ok());
    let found = id.is_some_and(|id| (1..=1_000).contains(&id));
    println!("handler: {} is looked up", request.uri());
    let mut response = Response::new(Full::from(if found { "a book" } else { "no such book" }));
    *response.status_mut() = if found { StatusCode::OK } else { StatusCode::NOT_FOUND };
    Ok(response)
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let guard = BloomGuard::builder("books", PathPattern::<u32>::new("/books/{id}")?)
        .in_process()
        .capacity(1_000, 1e-6)
        .rebuild(Schedule::manual(), from_iter(|| 1..=1_000_u32))
        .build()?;
    guard.ready().await;

    let service = ServiceBuilder::new().layer(guard.clone()).service_fn(show);
    let service = TowerToHyperService::new(service);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = service.clone();
            tokio::spawn(async move {
                let server = auto::Builder::new(TokioExecutor::new());
                server.serve_connection(TokioIo::new(stream), service).await
            });
        }
    });

    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    for (id, expected) in [("7", 200), ("007", 200), ("7000", 404), ("seven", 404)] {
        let response = client.get(format!("http://{address}/books/{id}").parse()?).await?;
        println!("/books/{id}: {}", response.status());
        assert_eq!(response.status(), expected);
    }
    let stats = guard.stats();
    assert_eq!(
        (stats.present, stats.admitted_found),
        (1, 1),
        "the second request finds book 7 found already"
    );
    assert_eq!((stats.absent_by_filter, stats.invalid), (1, 1));
    Ok(())
}
