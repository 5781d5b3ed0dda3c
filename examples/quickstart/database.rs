//! A table of users in a `SQLite` file, with a pool of connections and a count of queries.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bloom_guard::BoxError;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

pub(crate) struct Database {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
    queries: AtomicU64,
}

impl Database {
    /// Creates the file with users 1 to `users`.
    pub(crate) fn create(path: &Path, users: i64) -> Result<Self, BoxError> {
        let database = Self {
            path: path.to_owned(),
            idle: Mutex::new(Vec::new()),
            queries: AtomicU64::new(0),
        };
        database.with(|connection| {
            connection.pragma_update(None, "journal_mode", "wal")?;
            let table = "CREATE TABLE users (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT)";
            connection.execute(table, [])?;
            let transaction = connection.transaction()?;
            let mut insert = transaction.prepare("INSERT INTO users (name) VALUES (?1)")?;
            for id in 1..=users {
                insert.execute([format!("user {id}")])?;
            }
            drop(insert);
            Ok(transaction.commit()?)
        })?;
        Ok(database)
    }

    /// The queries for a user so far.
    pub(crate) fn queries(&self) -> u64 {
        self.queries.load(Ordering::Relaxed)
    }

    pub(crate) fn name(&self, id: i64) -> Result<Option<String>, BoxError> {
        self.queries.fetch_add(1, Ordering::Relaxed);
        self.with(|connection| {
            let mut select = connection.prepare_cached("SELECT name FROM users WHERE id = ?1")?;
            Ok(select.query_row([id], |row| row.get(0)).optional()?)
        })
    }

    /// Creates a user; commits only if `before_commit` agrees.
    pub(crate) fn create_user(
        &self,
        name: &str,
        before_commit: impl FnOnce(i64) -> Result<(), BoxError>,
    ) -> Result<i64, BoxError> {
        self.with(|connection| {
            let behavior = TransactionBehavior::Immediate;
            let transaction = connection.transaction_with_behavior(behavior)?;
            transaction.execute("INSERT INTO users (name) VALUES (?1)", [name])?;
            let id = transaction.last_insert_rowid();
            before_commit(id)?;
            transaction.commit()?;
            Ok(id)
        })
    }

    /// Deletes a user; returns whether there was one.
    pub(crate) fn delete(&self, id: i64) -> Result<bool, BoxError> {
        self.with(|connection| Ok(connection.execute("DELETE FROM users WHERE id = ?1", [id])? > 0))
    }

    /// Hands out every id, from one snapshot.
    pub(crate) fn each_id(
        &self,
        mut take: impl FnMut(i64) -> Result<(), BoxError>,
    ) -> Result<(), BoxError> {
        self.with(|connection| {
            let mut select = connection.prepare("SELECT id FROM users")?;
            let mut rows = select.query([])?;
            while let Some(row) = rows.next()? {
                take(row.get(0)?)?;
            }
            Ok(())
        })
    }

    /// Works with a connection of the pool.
    fn with<T>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, BoxError>,
    ) -> Result<T, BoxError> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let pooled = idle().pop();
        let mut connection = match pooled {
            Some(connection) => connection,
            None => Connection::open(&self.path)?,
        };
        connection.busy_timeout(Duration::from_secs(5))?;
        let result = work(&mut connection);
        idle().push(connection);
        result
    }
}
