//! What a rebuild does only while it has its token, and on the Redis process that it began on.

use std::sync::Arc;
use std::time::Duration;

use ::redis::{Arg, Cmd};

use crate::error::StoreError;
use crate::store::foreign::site::Site;
use crate::store::redis::link::connection::Connection;
use crate::store::redis::script::Script;

static WHILE_REFILLED: Script =
    Script::new("while_refilled.lua", include_str!("while_refilled.lua"));

/// How long one call of a rebuild may take.
pub(super) const CALL: Duration = Duration::from_secs(5);
/// The life of the marker and of the new keys, renewed three times as often.
pub(super) const LIFE: Duration = Duration::from_secs(10);

/// A rebuild's token on one Redis.
#[derive(Clone)]
pub(super) struct Fence {
    pub(super) site: Arc<Site>,
    pub(super) token: String,
    /// The process that it began on.
    pub(super) run: u32,
}

impl Fence {
    /// Returns a connection to the process that the rebuild began on.
    pub(super) async fn connected(&self) -> Result<Arc<Connection>, StoreError> {
        let connection = self.site.adds.connected(CALL).await?;
        if connection.process.run == self.run {
            Ok(connection)
        } else {
            Err(StoreError::OtherRedis)
        }
    }

    /// Runs commands, unless the rebuild has lost its token; says whether it did.
    pub(super) async fn run(&self, commands: &[Cmd]) -> Result<bool, StoreError> {
        let connection = self.connected().await?;
        let token = self.token.as_bytes();
        self.site.while_refilled(&connection, token, commands, CALL).await
    }
}

impl Site {
    /// Runs commands, if a rebuild is under way that has this token; says whether it did.
    pub(crate) async fn while_refilled(
        &self,
        connection: &Arc<Connection>,
        token: &[u8],
        commands: &[Cmd],
        deadline: Duration,
    ) -> Result<bool, StoreError> {
        let words = encoded(commands);
        let args: Vec<&[u8]> = [token].into_iter().chain(words.iter().map(Vec::as_slice)).collect();
        let keys = [&*self.trust.marker];
        let ran = self.adds.script(connection, &WHILE_REFILLED, &keys, &args, deadline).await?;
        Ok(ran.int()? == 1)
    }
}

/// Returns commands as scripts take them: for each the number of its words, and the words.
pub(super) fn encoded(commands: &[Cmd]) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    for command in commands {
        let of_it = command.args_iter().filter_map(|word| match word {
            Arg::Simple(word) => Some(word.to_vec()),
            _ => None,
        });
        let at = words.len();
        words.push(Vec::new());
        words.extend(of_it);
        words[at] = (words.len() - at - 1).to_string().into_bytes();
    }
    words
}
