//! One shard of a filter, or all of it.

use std::sync::Arc;

use futures_util::future::join_all;

use super::looked::Looked;
use super::metadata::Metadata;
use super::server::{Said, Server};
use crate::error::StoreError;
use crate::filter::{Generation, Header, State};
use crate::id::Digest;
use crate::store::link::process::RedisProcess;
use crate::store::link::refusal::doubt;
use crate::store::link::reply::Reply;
use crate::store::link::resp::{Packed, Replies};
use crate::store::link::script::Sending;
use crate::store::redis::check::answer::{
    BYTES_A_HEAD, BYTES_AN_ID, Heads, Inquiry, ask_primary, commands, read, read_primary,
};
use crate::store::redis::keys::Keys;
use crate::store::redis::shard::{VIEW, trusted_by};
use crate::store::redis::view::View;
use crate::store::{JournalReach, Live};
use crate::verdict::{Doubt, Verdict};

/// How many ids are asked for by one batch of commands.
const ASKED: usize = 1_024;
/// How often a question is put to a filter that keeps changing.
const TRIES: usize = 3;

/// One shard of a filter, as it was read.
#[derive(Debug)]
pub struct Shard {
    pub(super) keys: Keys,
    pub(super) server: Arc<Server>,
    /// Why its node could not be asked; nothing else is known of it then.
    pub away: Option<String>,
    /// Why Redis refuses checks.
    pub refuses_checks: Option<Doubt>,
    /// Whether Redis may evict any key.
    pub may_evict: bool,
    /// Its metadata.
    pub metadata: Metadata,
    live: Result<Header, Doubt>,
    /// The filter that is being built.
    pub next: Option<NextFilter>,
    /// The address that the process that rebuilds it had when it began, as that process sees it, or nothing; none where there is no
    /// rebuild.
    pub rebuilt_by: Option<String>,
    /// How far back the journal reaches; none where that cannot be told.
    pub journal: Option<JournalReach>,
    /// Redis's clock, µs.
    pub now_us: i64,
}

/// A filter that is being built.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct NextFilter {
    /// How many bytes it takes.
    pub bytes: u64,
    /// Whether all that the source gave is in it.
    pub is_catching_up: bool,
}

impl Shard {
    pub(super) async fn read(keys: Keys, server: Arc<Server>) -> Result<Self, StoreError> {
        let (process, may_evict) = server.process().await?;
        let refuses_checks = refuses_checks(&server, &keys).await?;
        let metadata = Metadata::read(&server, &keys).await?;
        let view = view(&server, &keys).await?;
        let lease = server.ask(&["GET", keys.lock.as_str()]).await?;
        let rebuilt_by = (lease != Said::Nil).then(|| holder(&lease.text()).to_owned());
        let journal = journal(&server, &keys, &metadata, view.now_us).await?;
        let next = &view.next;
        let next = next.filter.as_ref().ok().map(|header| NextFilter {
            bytes: next.len,
            is_catching_up: header.state == State::CatchingUp,
        });
        let live = trusted(&view, &metadata, &process);
        let now_us = view.now_us;
        Ok(Self {
            keys,
            server,
            away: None,
            refuses_checks,
            may_evict,
            metadata,
            live,
            next,
            rebuilt_by,
            journal,
            now_us,
        })
    }

    /// One whose node cannot be asked.
    pub(super) fn away(keys: Keys, error: &StoreError) -> Self {
        let reason = error.to_string();
        Self {
            keys,
            server: Arc::new(Server::away(&reason)),
            away: Some(reason),
            refuses_checks: None,
            may_evict: false,
            metadata: Metadata::default(),
            live: Err(doubt(error)),
            next: None,
            rebuilt_by: None,
            journal: None,
            now_us: 0,
        }
    }

    async fn read_again(&mut self) -> Result<(), StoreError> {
        let (process, _) = self.server.process().await?;
        self.metadata = Metadata::read(&self.server, &self.keys).await?;
        let view = view(&self.server, &self.keys).await?;
        self.live = trusted(&view, &self.metadata, &process);
        Ok(())
    }

    /// The keys that it has, besides nulls.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        let Keys { bits, next, log, meta, lock, marks, .. } = &self.keys;
        let [blocks, masks] = self.keys.scratch();
        [bits, next, log, meta, lock, marks, blocks, masks].map(Clone::clone).to_vec()
    }

    /// What its keys begin with.
    #[must_use]
    pub fn prefix(&self) -> &str {
        self.keys.bits.trim_end_matches("bits")
    }

    /// The connection to its Redis.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// When the build of its live filter began, and how many ids were in it: or why a guard trusts none.
    ///
    /// # Errors
    ///
    /// Why it would not answer.
    pub fn generation(&self) -> Result<Generation, Doubt> {
        self.live.map(|header| header.generation)
    }

    /// Ids that the live filter was built from and sized for, the rate that it was sized for, the rate to expect, and its bytes.
    ///
    /// # Errors
    ///
    /// Why it would not answer.
    pub fn numbers(&self) -> Result<(u64, u64, f32, f64, u64), Doubt> {
        self.live.map(|header| {
            let Live { items, capacity, rate, expected_rate, bytes, .. } = Live::from(header);
            (items, capacity, rate, expected_rate, bytes)
        })
    }

    /// Asks what the filter says of these digests, by the commands of a guard's own checks.
    pub(super) async fn look(&mut self, digests: &[Digest]) -> Result<Vec<Looked>, StoreError> {
        // All of them are under way at once.
        let first = join_all(digests.chunks(ASKED).map(|asked| self.look_once(asked))).await;
        let mut looked = Vec::with_capacity(digests.len());
        for (asked, first) in digests.chunks(ASKED).zip(first) {
            match first? {
                Ok(found) => looked.extend(found),
                Err(doubt) => looked.extend(self.look_again(asked, doubt).await?),
            }
        }
        Ok(looked)
    }

    /// Asks those again whose filter was replaced meanwhile.
    async fn look_again(
        &mut self,
        digests: &[Digest],
        mut doubt: Doubt,
    ) -> Result<Vec<Looked>, StoreError> {
        let tries = if self.away.is_some() { 0 } else { TRIES - 1 };
        for _ in 0..tries {
            self.read_again().await?;
            match self.look_once(digests).await? {
                Ok(looked) => return Ok(looked),
                Err(found) => doubt = found,
            }
        }
        let unknown = Looked { verdict: Verdict::Unknown(doubt), only_anonymous: false };
        Ok(vec![unknown; digests.len()])
    }

    async fn look_once(
        &self,
        digests: &[Digest],
    ) -> Result<Result<Vec<Looked>, Doubt>, StoreError> {
        let header = match &self.live {
            Ok(header) => header,
            Err(doubt) => return Ok(Err(*doubt)),
        };
        let positions: Vec<_> =
            digests.iter().map(|digest| header.geometry.position(digest)).collect();
        let mut packed = Packed::with_capacity(digests.len() * BYTES_AN_ID + 2 * BYTES_A_HEAD);
        let (keys, positions) = (&self.keys, &positions);
        let inquiry = Inquiry { keys, header, digests, positions, heads: Heads::Whole };
        let inquiries = [inquiry];
        commands(&mut packed, &inquiries);
        let said = self.server.send(packed).await;
        let said = said.and_then(|bytes| read(&mut Replies::new("a check", &bytes), &inquiries));
        let said = said.map(|mut of_each| of_each.pop().unwrap_or(Err(Doubt::Odd)));
        let reply = match said.map_or_else(|error| of_redis(error).map(Err), Ok)? {
            Ok(reply) => reply,
            Err(doubt) => return Ok(Err(doubt)),
        };
        if let Err(doubt) = reply.head.is_live_and_whole(header) {
            return Ok(Err(doubt));
        }
        // It lacks entries that were written before.
        if reply.head.stamp < self.metadata.seq {
            return Ok(Err(Doubt::Suspect));
        }
        Ok(Ok(reply.verdicts(header).into_iter().map(Looked::from).collect()))
    }
}

/// Tries the command of a check, and returns what Redis lacks to take it.
async fn refuses_checks(server: &Server, keys: &Keys) -> Result<Option<Doubt>, StoreError> {
    let mut packed = Packed::default();
    ask_primary(&mut packed, keys);
    match server
        .send(packed)
        .await
        .and_then(|bytes| read_primary(&mut Replies::new("a check", &bytes)))
    {
        Ok(()) => Ok(None),
        Err(error) => of_redis(error).map(Some),
    }
}

/// What a refusal leaves in doubt. That of a right is one of whoever looks, not of the guard.
fn of_redis(error: StoreError) -> Result<Doubt, StoreError> {
    match doubt(&error) {
        Doubt::OutOfMemory | Doubt::Disk | Doubt::Replica | Doubt::Isolated | Doubt::WrongType => {
            Ok(doubt(&error))
        }
        _ => Err(error),
    }
}

/// Reads both headers and Redis's clock.
async fn view(server: &Server, keys: &Keys) -> Result<View, StoreError> {
    let keys = [&keys.bits, &keys.next, &keys.meta].map(String::as_str);
    let reply = server.step(VIEW.name(), VIEW.command(Sending::Whole, &keys, &[])).await?;
    let [view @ .., _, _, _, _] = reply.fields::<12>()?;
    View::read(view)
}

/// Returns the address in a lock, as `rebuild/lease.rs` writes it; it may be empty.
fn holder(lock: &str) -> &str {
    lock.split_once('@').map_or("", |(_, address)| address)
}

/// Returns the live filter, or why a guard that joined now would not trust it.
fn trusted(view: &View, metadata: &Metadata, process: &RedisProcess) -> Result<Header, Doubt> {
    let header = view.live().map_err(|doubt| match doubt {
        Doubt::NoFilter if metadata.live_us > 0 => Doubt::Gone,
        doubt => doubt,
    })?;
    // Metadata of another process of Redis: nothing of before counts.
    if metadata.run != Some(process.run) {
        return Err(Doubt::Suspect);
    }
    let key_id = metadata.key_id.ok_or(Doubt::OtherKey)?;
    trusted_by(header, key_id, process.run, metadata.live_us)
}

/// Reads how far back the journal reaches, as `join.lua` does.
async fn journal(
    server: &Server,
    keys: &Keys,
    metadata: &Metadata,
    now_us: i64,
) -> Result<Option<JournalReach>, StoreError> {
    let mut oldest = ::redis::cmd("XRANGE");
    oldest.arg(&keys.log).arg("-").arg("+").arg("COUNT").arg(1);
    let entries = server.step("XRANGE", oldest).await?.array()?;
    let dropped = match entries.into_iter().next() {
        Some(entry) => last_dropped(entry)?,
        None => Some(if metadata.seq > 0 { metadata.last_ms } else { 0 }),
    };
    let Some(dropped_ms) = dropped else { return Ok(None) };
    let ms = |ms: i64| std::time::Duration::from_millis(u64::try_from(ms).unwrap_or(0));
    let reaches = (dropped_ms > 0).then(|| ms(now_us / 1000 - dropped_ms));
    Ok(Some(JournalReach { reaches, required: ms(metadata.reach_ms) / 2 }))
}

/// When the entry before the oldest one was written; 0 if that is the first of all, none where it does not tell.
fn last_dropped(oldest: Reply) -> Result<Option<i64>, StoreError> {
    let [_, fields] = oldest.fields::<2>()?;
    let mut before = None;
    for [name, value] in fields.pairs()? {
        match name.text()?.as_str() {
            "s" if value.int().is_ok_and(|number| number == 1) => return Ok(Some(0)),
            "p" => before = value.int().ok(),
            _ => {}
        }
    }
    Ok(before)
}
