//! Is this name free? Most sign-ups are answered without the database, whose unique index has the last word.
//!
//! `cargo run --example name_taken`. In process, so that it needs no server.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use bloom_guard::extract::Query;
use bloom_guard::{BloomGuard, BoxError, Inserted, Schedule, Verdict, from_iter};

/// Stands for a table with a unique index on `name`.
#[derive(Default)]
struct Accounts(Mutex<BTreeSet<String>>);

impl Accounts {
    fn commit(&self, name: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name.into())
    }
}

/// For the form, at each key. "Taken" may be wrong once in a thousand times: the rate of false positives.
async fn looks_free(guard: &BloomGuard, name: &str) -> Result<bool, BoxError> {
    Ok(matches!(guard.check(name).await?, Verdict::Absent(_)))
}

/// For the button. The insert comes before the commit, as always; the index decides.
async fn sign_up(guard: &BloomGuard, accounts: &Accounts, name: &str) -> Result<bool, BoxError> {
    let inserted = guard.insert(name).await?;
    let committed = accounts.commit(name);
    println!("{name}: {inserted:?}, {}", if committed { "signed up" } else { "taken" });
    // Of all who ask for a new name at once one is told that it is new, and commits, if the transaction does.
    assert!(committed || inserted != Inserted::New);
    Ok(committed)
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let accounts = Accounts(Mutex::new(["ada", "grace"].map(String::from).into()));
    let names = || ["ada", "grace"].map(String::from);
    let guard = BloomGuard::builder("names", Query::<String>::new("name"))
        .in_process()
        .rebuild(Schedule::manual(), from_iter(names))
        .build()?;
    guard.ready().await;
    assert!(!looks_free(&guard, "ada").await? && looks_free(&guard, "alan").await?);
    assert!(!sign_up(&guard, &accounts, "ada").await?);
    assert!(sign_up(&guard, &accounts, "alan").await?);
    assert!(!sign_up(&guard, &accounts, "alan").await?);
    Ok(())
}
