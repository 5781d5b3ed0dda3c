//! Tells the guard of rows that another program writes.
//!
//! A trigger writes an entry into an outbox, in the transaction of the row. This task inserts the ids of all
//! entries, and then deletes the entries. `NOTIFY` only wakes it.
//!
//! | | |
//! |---|---|
//! | promised | a row that a handler shows is never refused: handlers show no row that has an entry (`database::name`), and an entry is deleted after the guard was told, within its `longest_transaction` |
//! | | no row is lost: while this task is away, entries wait for it |
//! | not promised | that a row is shown at once: it takes as long as this task does, and for as long as Redis is away it is not shown |
//!
//! With `NOTIFY` alone, which arrives after the commit, a row would be refused until its id is inserted; and until a
//! rebuild has read it, if nobody listened. A program that can call `insert` before its commit needs none of this.

use std::convert::Infallible;
use std::future::poll_fn;
use std::time::Duration;

use bloom_guard::{BloomGuard, BoxError};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls, Socket, tls::NoTlsStream};

use crate::database::LONGEST;

/// Entries taken at once.
const SOME: i64 = 10_000;
/// How often the outbox is read without a notification.
const PERIOD: Duration = Duration::from_secs(10);

/// Tells the guard for ever. One instance of the service is enough; several do no harm.
pub(crate) async fn listen(config: Config, guard: BloomGuard) {
    loop {
        let Err(error) = listen_once(&config, &guard).await;
        eprintln!("the listener connects again: {error}");
        sleep(Duration::from_secs(1)).await;
    }
}

async fn listen_once(config: &Config, guard: &BloomGuard) -> Result<Infallible, BoxError> {
    let (client, connection) = config.connect(NoTls).await?;
    let woken = Notify::new();
    tokio::try_join!(tell(&client, guard, &woken), hear(connection, &woken)).map(|(never, _)| never)
}

async fn tell(client: &Client, guard: &BloomGuard, woken: &Notify) -> Result<Infallible, BoxError> {
    client.batch_execute("SET statement_timeout = '120s'; LISTEN example_outbox").await?;
    loop {
        // The deletion commits within the guard's `longest_transaction` of the insert, or not at all.
        while timeout(LONGEST, tell_some(client, guard)).await?? == SOME as usize {}
        timeout(PERIOD, woken.notified()).await.ok();
    }
}

/// Tells the guard of some entries, and deletes them; returns how many.
async fn tell_some(client: &Client, guard: &BloomGuard) -> Result<usize, BoxError> {
    let oldest = "SELECT entry, id FROM example_outbox ORDER BY entry LIMIT $1";
    let rows = client.query(oldest, &[&SOME]).await?;
    let (entries, ids): (Vec<i64>, Vec<i64>) =
        rows.iter().map(|row| (row.get::<_, i64>(0), row.get::<_, i64>(1))).unzip();
    guard.insert_many(&ids).await?;
    client.execute("DELETE FROM example_outbox WHERE entry = ANY($1)", &[&entries]).await?;
    Ok(rows.len())
}

async fn hear(
    mut connection: Connection<Socket, NoTlsStream>,
    woken: &Notify,
) -> Result<Infallible, BoxError> {
    while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
        if let AsyncMessage::Notification(_) = message? {
            woken.notify_one();
        }
    }
    Err("PostgreSQL closed the connection".into())
}
