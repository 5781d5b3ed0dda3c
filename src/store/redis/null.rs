//! Nulls.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::connection::Connection;
use super::shard::Shard;
use super::shards::Shards;
use crate::error::StoreError;
use crate::id::Id;
use crate::nulls::scope::Scope;
use crate::store::link::reply::odd;
use crate::store::link::script::Script;
use crate::store::link::session::Purpose;
use crate::store::{NewNull, NullClaim, Removed};

static NULL: Script = Script::new("null.lua", include_str!("null.lua"));

const REMOVE: Duration = Duration::from_millis(250);

/// Whether the application told of a deletion, as the script takes it.
const BY_REMOVAL: &[u8] = b"1";
const BY_RESPONSE: &[u8] = b"";

impl Shards {
    pub(crate) async fn remove(&self, id: &Id, ttl: Duration) -> Result<Removed, StoreError> {
        // Before anything that may take long: the id may be created anew meanwhile.
        let asked = Instant::now();
        let shard = self.shard_of(id);
        let live = shard.connected(Purpose::Inserts, REMOVE).await?;
        let asked_us = live.on.redis_us(asked);
        let view = shard.read_view(&live, REMOVE, &[]).await?;
        let generation = view.live().ok().map(|header| header.generation);
        let claim = NullClaim { asked_us, generation };
        let null = NewNull { claim, scope: Scope::Everyone, ttl };
        shard.write_null(&live, id, null, BY_REMOVAL, REMOVE).await
    }
}

impl Shard {
    pub(super) async fn remember(self: Arc<Self>, id: Id, null: NewNull) -> Option<Removed> {
        let live = self.current(Purpose::Checks).ok()?;
        let deadline = self.known.settings().check_deadline;
        let writing = self.write_null(&live, &id, null, BY_RESPONSE, deadline);
        // In all, also where the script has to be sent again: a response waits for this.
        timeout(deadline, writing).await.ok()?.ok()
    }

    async fn write_null(
        &self,
        live: &Connection,
        id: &Id,
        null: NewNull,
        by: &[u8],
        deadline: Duration,
    ) -> Result<Removed, StoreError> {
        let NewNull { claim: NullClaim { asked_us, generation }, scope, ttl } = null;
        // Without a filter nothing is refused.
        let Some(generation) = generation else { return Ok(Removed::Withheld) };
        let digest = live.identity.digester.digest(id);
        let null = self.known.keys.null(&digest);
        let keys = [&null, &self.known.keys.recent, &self.known.keys.meta].map(String::as_str);
        let value = format!("{}{}", char::from(scope.as_byte()), generation.get());
        let ttl = ttl.as_millis().to_string();
        let latest = asked_us
            .saturating_add(self.known.settings().nulls.handler_time.as_micros() as i64)
            .to_string();
        let args: [&[u8]; 6] = [
            value.as_bytes(),
            ttl.as_bytes(),
            latest.as_bytes(),
            digest.as_bytes(),
            by,
            &live.identity.incarnation,
        ];
        let reply = live.script(&NULL, &keys, &args, deadline).await?.text()?;
        match reply.as_str() {
            "OK" => Ok(Removed::Remembered),
            "CREATED" | "LATE" => Ok(Removed::Withheld),
            _ => Err(odd(NULL.name(), reply)),
        }
    }
}
