//! A session that goes on by other connections, with new credentials.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;

use tokio::time::{sleep, sleep_until};

use super::{BACKOFF, Link, LinkTrouble};
use crate::error::StoreError;
use crate::store::link::credentials::renewal;
use crate::store::link::session::Session;

impl<I: Send + Sync> Link<I> {
    /// Has a session go on by other connections before the credentials of those in use end, for as long as it is polled. Where
    /// there are none to be had it stays as it is, for as long as Redis bears it.
    pub(super) async fn keep_credentials(&self, session: &Arc<Session<I>>) -> Infallible {
        while let Some(end) = session.credentials_end() {
            sleep_until(renewal(end)).await;
            let mut wait = BACKOFF.0;
            while let Err(error) = self.renew(session).await {
                let trouble = LinkTrouble::of(&error);
                if wait == BACKOFF.0 {
                    tracing::warn!(
                        redis = ?self.connector,
                        reason = trouble.reason,
                        "the credentials of the connections in use end, and there are no new ones yet"
                    );
                }
                self.trouble.store(Some(Arc::new(trouble)));
                sleep(wait).await;
                wait = (wait * 2).min(BACKOFF.1);
            }
            self.trouble.store(None);
        }
        pending().await
    }

    /// Has a session go by new connections, if they lead to the same process.
    async fn renew(&self, session: &Arc<Session<I>>) -> Result<(), StoreError> {
        let (transports, process, ..) = self.open().await?;
        if process != session.process {
            self.withdraw(session);
            return Ok(());
        }
        if let Some(reason) = transports[0].replaced().await {
            return Err(StoreError::disconnected(reason));
        }
        session.go_by(transports);
        Ok(())
    }
}
