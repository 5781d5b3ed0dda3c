//! Nulls and create marks.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::link::connection::{Connection, Link};
use super::script::Script;
use super::shared::Shared;
use crate::error::StoreError;
use crate::filter::Header;
use crate::id::Id;
use crate::nulls::scope::Scope;
use crate::store::{Asked, Remembered};

static NULL: Script = Script::new("null.lua", include_str!("null.lua"));

/// How long an application's `remove` may take.
const REMOVE: Duration = Duration::from_millis(250);

/// The letter of a null that a handler's 404 is the reason for.
pub(super) const HEARD: u8 = b'N';
/// The letter of one that the application has told of.
pub(super) const TOLD: u8 = b'R';

/// A null to be written.
struct Null {
    letter: u8,
    asked: Instant,
    scope: Scope,
    ttl: Duration,
}

impl Shared {
    /// Remembers that the handler found an id missing.
    pub(super) async fn remember(
        self: Arc<Self>,
        id: Id,
        asked: Asked,
        scope: Scope,
        ttl: Duration,
    ) -> Remembered {
        let (Some(live), Some(header)) = (self.checks.current(), self.filter.load_full()) else {
            return Remembered::Failed;
        };
        if asked.generation != Some(header.generation) {
            return Remembered::Late;
        }
        let deadline = self.check_deadline;
        let null = Null { letter: HEARD, asked: asked.at, scope, ttl };
        let writing = self.write_null(&self.checks, &live, &header, &id, null, deadline);
        // In all: a response waits for this, also where the script has to be sent again.
        match timeout(deadline, writing).await {
            Ok(Ok(remembered)) => remembered,
            Ok(Err(_)) | Err(_) => Remembered::Failed,
        }
    }

    /// Remembers that the application deleted an id.
    pub(super) async fn remove(&self, id: &Id, ttl: Duration) -> Result<Remembered, StoreError> {
        let asked = Instant::now();
        let live = self.adds.connected(REMOVE).await?;
        let view = self.read_view(&self.adds, &live, REMOVE).await?;
        let Ok(header) = view.live() else {
            // Without a filter nothing is refused, and nothing has to be.
            return Ok(Remembered::Late);
        };
        let null = Null { letter: TOLD, asked, scope: Scope::ALL, ttl };
        self.write_null(&self.adds, &live, &header, id, null, REMOVE).await
    }

    async fn write_null(
        &self,
        link: &Link,
        live: &Arc<Connection>,
        header: &Header,
        id: &Id,
        null: Null,
        deadline: Duration,
    ) -> Result<Remembered, StoreError> {
        let Null { letter, asked, scope, ttl } = null;
        let share = self.retention.handler;
        if asked.elapsed() > share {
            return Ok(Remembered::Late);
        }
        let digest = live.identity.digester.digest(id);
        let null = self.keys.null(&digest);
        let keys = [&null, &self.keys.bits, &self.keys.marks, &self.keys.meta].map(String::as_str);
        let head = header.encode();
        let [letter, scope] = [letter, scope.as_byte()].map(char::from);
        let value = format!("{letter}{scope}{}", header.generation.get());
        let ttl = ttl.as_millis().to_string();
        let latest = live.redis_us(asked).saturating_add(share.as_micros() as i64).to_string();
        let args: [&[u8]; 5] =
            [&head[16..32], value.as_bytes(), ttl.as_bytes(), latest.as_bytes(), digest.as_bytes()];
        let reply = link.script(live, &NULL, &keys, &args, deadline).await?.text()?;
        match reply.as_str() {
            "OK" => Ok(Remembered::Stored),
            "CREATED" => Ok(Remembered::Created),
            "LATE" | "STALE" => Ok(Remembered::Late),
            _ => Err(StoreError::Odd { step: NULL.name(), answer: reply }),
        }
    }
}
