//! Tells the guard of rows that another program writes: a trigger announces them, a listener inserts them.
//!
//! | | |
//! |---|---|
//! | promised | a row that is announced while the listener is connected is served soon after its commit |
//! | not promised | that it is served at once: PostgreSQL sends an announcement **after** the commit, so there is a moment in which the row is refused |
//! | | that all are heard: one sent while the listener is away is lost, and the row is refused until a rebuild has read it |
//!
//! In that moment the guard's sample of refusals may come upon the row. Then it takes the filter out of use and
//! rebuilds it. A program that can call `insert` before its commit should; an outbox table that is read instead
//! of `LISTEN` loses nothing, and is as late.

use std::future::poll_fn;
use std::time::Duration;

use bloom_guard::{BloomGuard, BoxError, ChangeError};
use tokio::time::sleep;
use tokio_postgres::{AsyncMessage, Config, Connection, NoTls, Socket, tls::NoTlsStream};

/// Listens for ever. One instance of the service is enough.
pub(crate) async fn listen(config: Config, guard: BloomGuard) {
    let mut missed_some = false;
    loop {
        if let Err(error) = listen_once(&config, &guard, missed_some).await {
            eprintln!("the listener connects again: {error}");
        }
        missed_some = true;
        sleep(Duration::from_secs(1)).await;
    }
}

async fn listen_once(
    config: &Config,
    guard: &BloomGuard,
    missed_some: bool,
) -> Result<(), BoxError> {
    let (client, connection) = config.connect(NoTls).await?;
    let start = async {
        client.batch_execute("LISTEN example_users").await?;
        // Only now: what is written from here on is announced.
        if missed_some {
            guard.rebuild_now().await?;
        }
        Ok(())
    };
    tokio::try_join!(start, hear(connection, guard)).map(|_| ())
}

async fn hear(
    mut connection: Connection<Socket, NoTlsStream>,
    guard: &BloomGuard,
) -> Result<(), BoxError> {
    while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
        if let AsyncMessage::Notification(announced) = message? {
            insert(guard, announced.payload()).await;
        }
    }
    Err("PostgreSQL closed the connection".into())
}

/// Inserts an id, however long Redis is away.
async fn insert(guard: &BloomGuard, id: &str) {
    while let Err(error) = guard.insert(id).await {
        eprintln!("user {id} is not served yet: {error}");
        if matches!(error, ChangeError::Invalid(_)) {
            return;
        }
        sleep(Duration::from_secs(1)).await;
    }
}
