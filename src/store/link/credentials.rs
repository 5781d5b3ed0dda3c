//! User and password that change: the application is asked for them at each connection.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::error::{BoxError, chain};
use crate::random;
use crate::refusal::PROVIDER;
use crate::store::BoxFuture;

/// How long a provider may take.
const ASKED: Duration = Duration::from_secs(5);
/// For how long connections share an answer, also one that Redis refuses.
const FRESH: Duration = Duration::from_secs(1);
/// How long before credentials end others are asked for, at most; at least half of it.
const AHEAD: Duration = Duration::from_secs(10);

/// A user and a password for Redis, and when they end. What [`Builder::credentials`](crate::Builder::credentials) is given returns them.
///
/// Its `Debug` form shows no password.
#[derive(Clone)]
pub struct Credentials {
    pub(super) user: Option<String>,
    pub(super) password: String,
    /// When to ask for others.
    pub(super) renewal: Option<Instant>,
}

impl Credentials {
    /// Returns a password that does not end, for the user that the URL names, or else Redis's default user.
    #[must_use]
    pub fn new(password: impl Into<String>) -> Self {
        Self { user: None, password: password.into(), renewal: None }
    }

    /// Names the user.
    #[must_use]
    pub fn user(self, user: impl Into<String>) -> Self {
        Self { user: Some(user.into()), ..self }
    }

    /// Has them end after this time, counted from this call. The provider is asked for others five to ten seconds before, or in the
    /// last half of a shorter time, and connections show them to Redis by AUTH; not more than once a second.
    #[must_use]
    pub fn expires_in(self, time: Duration) -> Self {
        // At random, so that processes do not all renew theirs at once.
        let ahead = AHEAD.min(time / 2).mul_f64(0.5 + random::fraction() / 2.0);
        Self { renewal: Instant::now().checked_add(time - ahead), ..self }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left = self.renewal.map(|at| at.saturating_duration_since(Instant::now()));
        f.debug_struct("Credentials")
            .field("user", &self.user)
            .field("renewed_in", &left)
            .finish_non_exhaustive()
    }
}

type Source = dyn Fn() -> BoxFuture<'static, Result<Credentials, BoxError>> + Send + Sync;

pub(crate) struct Provider {
    source: Box<Source>,
    last: Mutex<Option<(Credentials, Instant)>>,
}

impl Provider {
    pub(crate) fn new<F, Asked, E>(source: F) -> Self
    where
        F: Fn() -> Asked + Send + Sync + 'static,
        Asked: Future<Output = Result<Credentials, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        let source = Arc::new(source);
        let source = move || -> BoxFuture<'static, _> {
            let source = Arc::clone(&source);
            Box::pin(async move { source().await.map_err(Into::into) })
        };
        Self { source: Box::new(source), last: Mutex::default() }
    }

    pub(super) async fn credentials(&self) -> io::Result<Credentials> {
        let asked = async {
            let mut last = self.last.lock().await;
            if let Some((given, at)) = &*last
                && at.elapsed() < FRESH
            {
                return Ok(given.clone());
            }
            // A task of its own: if it panics, nothing else ends. Dropped here, it ends.
            let mut alone = JoinSet::new();
            alone.spawn((self.source)());
            let given = match alone.join_next().await {
                Some(Ok(Ok(given))) => given,
                Some(Ok(Err(error))) => {
                    return Err(failed(format_args!("failed: {}", chain(&*error))));
                }
                _ => return Err(failed("panicked")),
            };
            *last = Some((given.clone(), Instant::now()));
            Ok(given)
        };
        let late = |_| failed(format_args!("has not answered within {ASKED:?}"));
        timeout(ASKED, asked).await.map_err(late)?
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider").finish_non_exhaustive()
    }
}

fn failed(how: impl fmt::Display) -> io::Error {
    io::Error::other(format!("{PROVIDER} {how}"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn others_are_asked_for_some_seconds_before_credentials_end() {
        let second = Duration::from_secs(1);
        for (time, earliest, latest) in [
            (3_600 * second, 3_590 * second, 3_595 * second),
            (20 * second, 10 * second, 15 * second),
            (4 * second, 2 * second, 3 * second),
            (Duration::ZERO, Duration::ZERO, Duration::ZERO),
        ] {
            for _ in 0..100 {
                let given = Credentials::new("token").expires_in(time);
                let after = given.renewal.unwrap() - Instant::now();
                assert!((earliest..=latest).contains(&after), "{time:?}: {after:?}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn connections_that_are_made_together_share_an_answer() {
        let asked = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&asked);
        let provider = Provider::new(move || {
            let count = Arc::clone(&count);
            async move {
                tokio::time::sleep(Duration::from_millis(300)).await;
                let number = count.fetch_add(1, Ordering::SeqCst);
                Ok::<_, BoxError>(Credentials::new(number.to_string()))
            }
        });
        let given = async || provider.credentials().await.unwrap().password;
        let three = tokio::join!(given(), given(), given());
        assert_eq!(three, ("0".to_owned(), "0".to_owned(), "0".to_owned()));
        tokio::time::sleep(FRESH).await;
        assert_eq!(given().await, "1");
    }
}
