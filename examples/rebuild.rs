//! A filter rebuilt from a `SQLite` database, by schedule and by hand.
//!
//! `cargo run --release --example rebuild --features cron`: shows the progress, then ends.

use std::time::Duration;

use bloom_guard::{BloomGuard, BoxError, PathPattern, RebuildError, Schedule, from_blocking};
use rusqlite::Connection;
use tokio::time::sleep;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("orders.sqlite");
    let database = Connection::open(&path)?;
    database.execute_batch(
        "CREATE TABLE orders (number TEXT PRIMARY KEY);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500000)
         INSERT INTO orders SELECT printf('A-%06d', i) FROM n;",
    )?;

    // One statement is one snapshot. Any error, also halfway, leaves the live filter as it is.
    let source = from_blocking(move |ids| {
        let database = Connection::open(&path)?;
        let mut orders = database.prepare("SELECT number FROM orders")?;
        let mut rows = orders.query([])?;
        while let Some(row) = rows.next()? {
            ids.push(row.get::<_, String>(0)?)?;
        }
        Ok(())
    });
    let guard = BloomGuard::builder("orders", PathPattern::<String>::new("/orders/{number}")?)
        .in_process()
        .capacity(1_000_000, 0.001)
        .rebuild(Schedule::cron("30 3 * * *"), source) // every night, UTC; the first one now
        .build()?;

    while !guard.state().is_ready() {
        let status = guard.rebuild_status();
        println!("{:>8}: {} ids scanned", status.step.as_str(), status.ids_scanned);
        sleep(Duration::from_millis(20)).await;
    }
    println!("{:#?}", guard.state());

    // Written past the guard: refused until a rebuild has found it. Use `insert` instead.
    database.execute("INSERT INTO orders VALUES ('B-1')", [])?;
    let report = guard.rebuild_now().await?;
    println!("{report:#?}");
    assert_eq!(report.ids, 500_001);

    // A source that suddenly holds far fewer ids looks like a mistake, and is taken for one.
    database.execute("DELETE FROM orders WHERE number > 'A-001000'", [])?;
    let error = guard.rebuild_now().await.expect_err("the table has shrunk");
    println!("given up: {error}");
    assert!(matches!(*error, RebuildError::Shrunk { found: 1_000, .. }));
    assert_eq!(guard.rebuild_accepting_loss().await?.ids, 1_000);
    Ok(())
}
