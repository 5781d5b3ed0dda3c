//! The load generator: connections that are kept alive, each with one request at a time.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::traffic::Traffic;
use crate::ids::Random;

pub const CONNECTIONS: u64 = 64;

/// What the requests of a round were answered.
#[derive(Default)]
pub struct Load {
    pub took: Duration,
    /// How long each request took in nanoseconds, shortest first.
    latencies: Vec<u32>,
    /// The same, of those for ids that exist.
    of_existing: Vec<u32>,
    /// Existing ids that were answered 404.
    pub false_404s: u64,
    /// Requests that were answered neither 200 nor 404.
    pub odd: u64,
}

impl Load {
    pub fn requests(&self) -> u64 {
        self.latencies.len() as u64
    }

    /// Returns the latency in microseconds that this share of requests did not exceed.
    pub fn quantile(&self, share: f64) -> f64 {
        quantile(&self.latencies, share)
    }

    /// Returns the same of requests for ids that exist, if there were any.
    pub fn quantile_of_existing(&self, share: f64) -> Option<f64> {
        (!self.of_existing.is_empty()).then(|| quantile(&self.of_existing, share))
    }
}

fn quantile(sorted: &[u32], share: f64) -> f64 {
    let last = sorted.len() - 1;
    f64::from(sorted[(last as f64 * share) as usize]) / 1e3
}

/// Sends requests for this long.
pub async fn send(
    address: SocketAddr,
    traffic: Traffic,
    ids: u64,
    seed: u64,
    time: Duration,
) -> Load {
    let begun = Instant::now();
    let mut connections = JoinSet::new();
    for connection in 0..CONNECTIONS {
        let random = Random::new(seed << 32 | connection);
        connections.spawn(async move {
            let mut client = Client::connect(address).await;
            client.send(traffic, ids, random, begun + time).await
        });
    }
    let mut all = Load::default();
    for one in connections.join_all().await {
        all.latencies.extend(one.latencies);
        all.of_existing.extend(one.of_existing);
        all.false_404s += one.false_404s;
        all.odd += one.odd;
    }
    all.took = begun.elapsed();
    all.latencies.sort_unstable();
    all.of_existing.sort_unstable();
    all
}

struct Client {
    stream: TcpStream,
    /// What has come of the response.
    response: Vec<u8>,
}

impl Client {
    async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("the server listens");
        stream.set_nodelay(true).expect("a socket");
        Self { stream, response: Vec::with_capacity(4096) }
    }

    async fn send(
        &mut self,
        traffic: Traffic,
        ids: u64,
        mut random: Random,
        until: Instant,
    ) -> Load {
        let mut load = Load::default();
        loop {
            let (id, exists) = traffic.draw(ids, &mut random);
            let begun = Instant::now();
            if begun >= until {
                return load;
            }
            let status = self.get(id).await;
            let took = u32::try_from(begun.elapsed().as_nanos()).unwrap_or(u32::MAX);
            load.latencies.push(took);
            if exists {
                load.of_existing.push(took);
            }
            load.false_404s += u64::from(exists && status == *b"404");
            load.odd += u64::from(status != *b"200" && status != *b"404");
        }
    }

    /// Returns the status.
    async fn get(&mut self, id: u64) -> [u8; 3] {
        let request = format!("GET /users/{id} HTTP/1.1\r\nhost: peers\r\n\r\n");
        self.stream.write_all(request.as_bytes()).await.expect("an open connection");
        self.response.clear();
        while !is_complete(&self.response) {
            let read = self.stream.read_buf(&mut self.response).await.expect("an open connection");
            assert!(read > 0, "the server closed the connection");
        }
        self.response[9..12].try_into().expect("three digits")
    }
}

/// Whether a response is complete: by its length, or by its last chunk.
fn is_complete(response: &[u8]) -> bool {
    let Some(head) = response.windows(4).position(|four| four == b"\r\n\r\n") else { return false };
    let lines = response[..head].split(|byte| *byte == b'\n');
    for line in lines {
        if let Some(length) = header(line, b"content-length:") {
            let length: usize = length.trim().parse().expect("a number");
            return response.len() >= head + 4 + length;
        }
    }
    response.ends_with(b"0\r\n\r\n")
}

fn header<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a str> {
    let (start, value) = line.split_at_checked(name.len())?;
    start.eq_ignore_ascii_case(name).then(|| std::str::from_utf8(value).ok()).flatten()
}
