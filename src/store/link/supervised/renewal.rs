//! A connection that goes on by another transport, with new credentials.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;

use tokio::time::{sleep, sleep_until};

use super::{BACKOFF, Link, LinkTrouble};
use crate::error::StoreError;
use crate::store::link::connection::Connection;
use crate::store::link::credentials::renewal;
use crate::store::link::resp::Packed;

impl<I: Send + Sync> Link<I> {
    /// Has a connection go on by another transport before the credentials of the one in use end, for as long as it is polled. Where
    /// there are none to be had it stays as it is, for as long as Redis bears it.
    pub(super) async fn keep_credentials(&self, connection: &Arc<Connection<I>>) -> Infallible {
        while let Some(end) = connection.transport().until() {
            sleep_until(renewal(end)).await;
            let mut wait = BACKOFF.0;
            while let Err(error) = self.renew(connection).await {
                let trouble = LinkTrouble::of(&error);
                if wait == BACKOFF.0 {
                    tracing::warn!(
                        redis = ?self.connector,
                        purpose = self.purpose.as_str(),
                        reason = trouble.reason,
                        "the credentials of a connection in use end, and there are no new ones yet"
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

    /// Has a connection go by a new transport, if that leads to the same process.
    async fn renew(&self, connection: &Arc<Connection<I>>) -> Result<(), StoreError> {
        let transport = self.open().await?;
        let (process, ..) = self.inspect(&*transport).await?;
        if process != connection.process {
            self.withdraw(connection);
            return Ok(());
        }
        transport.tell(self.introduction());
        if let Some(reason) = transport.replaced().await {
            return Err(StoreError::disconnected(reason));
        }
        connection.go_by(transport);
        Ok(())
    }

    /// Returns what shows in `CLIENT LIST` whose connection it is. A user who may not say so is no worse off. It
    /// is sent after the first reply: a server that hangs up says why in reply to the first command.
    pub(super) fn introduction(&self) -> Packed {
        let mut packed = Packed::default();
        packed.begin(3);
        for word in ["CLIENT", "SETNAME", &self.name] {
            packed.word(&[word.as_bytes()]);
        }
        packed
    }
}
