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
use crate::store::{NullClaim, Remembered};

static NULL: Script = Script::new("null.lua", include_str!("null.lua"));

/// How long an application's `remove` may take.
const REMOVE: Duration = Duration::from_millis(250);

/// A null to be written.
struct Null {
    source: Source,
    asked: Instant,
    scope: Scope,
    ttl: Duration,
}

/// On whose word a null rests.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    /// A handler answered 404.
    Response,
    /// The application told of a deletion, which may be a transaction's length ago.
    Removal,
}

impl Shared {
    /// Remembers that the handler found an id missing.
    pub(super) async fn remember(
        self: Arc<Self>,
        id: Id,
        claim: NullClaim,
        scope: Scope,
        ttl: Duration,
    ) -> Remembered {
        let (Some(live), Some(header)) = (self.checks.current(), self.filter.load_full()) else {
            return Remembered::Failed;
        };
        if claim.generation != Some(header.generation) {
            return Remembered::Late;
        }
        let deadline = self.check_deadline;
        let null = Null { source: Source::Response, asked: claim.at, scope, ttl };
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
        let null = Null { source: Source::Removal, asked, scope: Scope::Everyone, ttl };
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
        let Null { source, asked, scope, ttl } = null;
        let share = self.retention.handler;
        if asked.elapsed() > share {
            return Ok(Remembered::Late);
        }
        let digest = live.identity.digester.digest(id);
        let null = self.keys.null(&digest);
        let keys = [&null, &self.keys.bits, &self.keys.marks, &self.keys.meta].map(String::as_str);
        let head = header.encode();
        let value = format!("{}{}", char::from(scope.as_byte()), header.generation.get());
        let removal: &[u8] = if source == Source::Removal { b"1" } else { b"" };
        let ttl = ttl.as_millis().to_string();
        let latest = live.redis_us(asked).saturating_add(share.as_micros() as i64).to_string();
        let args: [&[u8]; 6] = [
            &head[16..32],
            value.as_bytes(),
            ttl.as_bytes(),
            latest.as_bytes(),
            digest.as_bytes(),
            removal,
        ];
        let reply = link.script(live, &NULL, &keys, &args, deadline).await?.text()?;
        match reply.as_str() {
            "OK" => Ok(Remembered::Stored),
            "CREATED" => Ok(Remembered::Created),
            "LATE" | "STALE" => Ok(Remembered::Late),
            _ => Err(StoreError::Odd { step: NULL.name(), answer: reply }),
        }
    }
}
