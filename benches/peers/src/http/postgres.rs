//! The PostgreSQL that the applications ask, and its processor time.

use std::fs::{read_dir, read_to_string};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_postgres::{Client, NoTls};

use self::cluster::Cluster;
use super::traffic::DELETED;

#[path = "../../../../tests/postgres/cluster.rs"]
mod cluster;

pub struct Postgres {
    cluster: Arc<Cluster>,
    process: u32,
}

impl Postgres {
    /// Starts it, with a row for each id but the deleted one.
    pub async fn start(ids: u64) -> Self {
        let cluster = Cluster::shared();
        let file = cluster.socket().join("data/postmaster.pid");
        let text = read_to_string(file).expect("a running server");
        let process = text.lines().next().and_then(|line| line.parse().ok()).expect("its number");
        let postgres = Self { cluster, process };
        let schema = format!(
            "CREATE TABLE users (id bigint PRIMARY KEY, name text NOT NULL);
             INSERT INTO users SELECT id, 'user ' || id FROM generate_series({}, {}) AS id;
             VACUUM ANALYZE users",
            DELETED + 1,
            ids - 1
        );
        let client = postgres.connect().await;
        for statement in schema.split(';') {
            client.batch_execute(statement).await.expect("a table");
        }
        postgres
    }

    pub async fn connect(&self) -> Client {
        let socket = self.cluster.socket().display();
        let settings = format!("host={socket} user=postgres dbname=postgres");
        let begun = Instant::now();
        loop {
            match tokio_postgres::connect(&settings, NoTls).await {
                Ok((client, connection)) => {
                    tokio::spawn(connection);
                    return client;
                }
                // It may still be starting.
                Err(error) => assert!(begun.elapsed() < Duration::from_secs(20), "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub async fn version(&self) -> String {
        let row = self.connect().await.query_one("SHOW server_version", &[]).await;
        row.expect("an answer").get(0)
    }

    /// Returns the processor time of the server and of all processes that it has started.
    pub fn cpu(&self) -> Duration {
        let server = Stat::read(&format!("/proc/{}", self.process)).expect("a running server");
        let processes = read_dir("/proc").expect("Linux").flatten();
        let stats = processes.filter_map(|process| Stat::read(process.path()));
        let children = stats.filter(|stat| stat.parent == u64::from(self.process));
        let ticks = server.own + server.of_ended + children.map(|stat| stat.own).sum::<u64>();
        // Hundredths of a second on every Linux.
        Duration::from_millis(10 * ticks)
    }
}

/// What Linux says of a process (proc(5)).
struct Stat {
    parent: u64,
    /// Its processor time, and that of children that have ended.
    own: u64,
    of_ended: u64,
}

impl Stat {
    fn read(process: impl AsRef<Path>) -> Option<Self> {
        let stat = read_to_string(process.as_ref().join("stat")).ok()?;
        let (_, fields) = stat.rsplit_once(") ")?;
        let field = |nth| fields.split(' ').nth(nth)?.parse::<u64>().ok();
        Some(Self {
            parent: field(1)?,
            own: field(11)? + field(12)?,
            of_ended: field(13)? + field(14)?,
        })
    }
}
