//! Filters that other systems write, in Redis, as they lay them out: read, written, and trusted by one statement.
//!
//! Such a filter has no header. So an operator states that it is whole (*trust*), in a key beside each of its keys: which Redis
//! process, which layout and numbers, how long the key is. For that a bitmap is made a few clear bytes longer than any program that
//! writes it anew makes it. *Evidence* is what is read of all that: statement, numbers, and length of the key. It speaks for
//! itself: whether the statement holds is seen from the evidence and the Redis process that gave it.
//!
//! | step | in one pipeline | then |
//! |---|---|---|
//! | check | evidence, bits, evidence | a clear bit is an absence only if one statement holds by both, on the connection in use; else it is unknown, and a statement that does not hold is taken back |
//! | insert | evidence, bits set, evidence | a statement that does not hold is taken back *first*. Acknowledged if both are of one statement, or there is none. Where one was made between them, it may be about another string: the insert is repeated |
//! | look | evidence | on each new connection, and once a second |
//! | trust | bits counted, ids that exist looked for; then a script that writes the statement if the length is still the same | |
//!
//! Why this refuses no id that exists, as long as what was stated is true and writers only set bits: when the statement was made,
//! the strings had all ids; what was acknowledged later was set in strings of the stated length on the process that is stated,
//! or no process trusts them any more. A string that is gone, cut, of another type or written anew has another length. Redis
//! restarted or failed over is another process, even with statement and bits as they were. A process that has found a
//! statement not to hold believes no statement that is as old, even if it cannot take it back. What this does not
//! notice is in the guide's page `other_filters`.
//!
//! There are no nulls: programs that do not know the guard write to the filter, and would not take a null away.

pub(crate) mod filter;
mod layout;
mod part;
mod statement;
pub(crate) mod trust;

mod go_zero;
mod guava;
mod orestes;
mod php_bkdr;
mod redisbloom;
mod redisson;
mod rueidisprob;

use std::sync::Arc;

use tokio::task::JoinSet;
use tokio::time::Instant;

use self::filter::ForeignFilter;
use self::part::Part;
use super::link::attempts::ATTEMPT;
use super::link::node::{self, SentCheck};
use super::map::endpoint::Endpoint;
use super::{Answer, Condition, Lookups, Sought, Survey};
use crate::error::StoreError;
use crate::filter::Generation;
use crate::id::Id;
use crate::settings::Settings;
use crate::store::link::session::Purpose;
use crate::verdict::Doubt;

pub(crate) struct ForeignStore {
    name: Arc<str>,
    /// One for each key of the filter. Never empty.
    parts: Vec<Arc<Part>>,
}

impl ForeignStore {
    pub(crate) fn new(settings: &Settings, filter: &ForeignFilter, servers: &[Endpoint]) -> Self {
        let part = |(at, key): &(usize, String)| Part::new(filter, key, &servers[*at], settings);
        let parts = filter.keys.iter().map(part).collect();
        Self { name: settings.name.as_str().into(), parts }
    }

    fn part(&self, id: &Id) -> &Arc<Part> {
        &self.parts[self.parts[0].layout.key(id.as_bytes())]
    }

    fn ids_of<'a>(&self, part: &Arc<Part>, ids: impl IntoIterator<Item = &'a Id>) -> Vec<&'a [u8]> {
        let here = |id: &&Id| Arc::ptr_eq(self.part(id), part);
        ids.into_iter().filter(here).map(Id::as_bytes).collect()
    }

    pub(crate) fn spawn(&self, tasks: &mut JoinSet<()>) {
        for part in &self.parts {
            node::start(part, &part.node, &self.name, tasks);
        }
    }

    pub(crate) fn check(&self, ids: &[Sought<'_>], now: Instant) -> Answer<Lookups> {
        let send = |(id, _): &Sought<'_>| self.part(id).send(id, now, ids.len() == 1);
        SentCheck::answers(ids.iter().map(send))
    }

    pub(crate) async fn add(&self, ids: Vec<Id>) -> Result<(), StoreError> {
        for part in &self.parts {
            part.add(&self.ids_of(part, &ids)).await?;
        }
        Ok(())
    }

    pub(crate) async fn distrust(
        &self,
        id: &Id,
        generation: Generation,
    ) -> Result<Option<Doubt>, StoreError> {
        self.part(id).distrust(generation).await.map(|()| None)
    }

    /// Returns the parts as one filter, that is live where all are.
    pub(crate) fn condition(&self) -> Condition {
        let conditions = || self.parts.iter().map(|part| part.condition());
        let live = conditions().map(|(live, _)| live).reduce(|one, other| Ok(one?.with(other?)));
        let live = live.expect("a filter has a key");
        let trouble = conditions().find_map(|(_, trouble)| trouble);
        Condition::of(live, trouble)
    }

    pub(crate) async fn survey(&self) -> Result<Survey, StoreError> {
        let connection = self.parts[0].node.link.connected(Purpose::Inserts, ATTEMPT).await?;
        let now_us = connection.redis_us(Instant::now());
        Ok(Survey { live: self.condition().live, now_us, due_us: None })
    }

    pub(crate) fn unfit(&self, reason: &str) -> StoreError {
        self.parts[0].unfit(reason)
    }
}
