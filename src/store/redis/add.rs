//! The add: acknowledged when every filter that needs the bits has them.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::Shared;
use super::link::connection::Live;
use super::rebuild::swap::GRACE;
use super::refusal::{Again, REFUSED_WAIT, Refusal};
use super::reply::Reply;
use super::script::{ADD, VIEW};
use super::view::{Seen, View};
use crate::error::StoreError;
use crate::filter::{Header, State};
use crate::id::{Digest, Id};

/// How long one attempt may take, and how many there are.
const ATTEMPT: Duration = Duration::from_millis(250);
const ATTEMPTS: u32 = 3;
/// How often the filters may change under one add before it gives up.
const CHANGES: u32 = 8;
/// Bits set by one call, which keeps a script well below a millisecond.
const BITS_PER_CALL: usize = 512;
/// How long swaps wait for the next call of a replay: for as long as for its first.
const HOLD: Duration = GRACE;

impl Shared {
    /// Acknowledges ids, a script's worth at a time.
    pub(super) async fn add(&self, ids: Vec<Id>) -> Result<(), StoreError> {
        let mut rest = ids.as_slice();
        while !rest.is_empty() {
            let taken = self.add_some(rest).await?;
            rest = rest.get(taken..).unwrap_or_default();
        }
        Ok(())
    }

    /// Adds the first ids of a slice; returns how many.
    async fn add_some(&self, ids: &[Id]) -> Result<usize, StoreError> {
        let mut failures = 0;
        let mut changes = 0;
        loop {
            match self.try_add(ids).await {
                Ok(Added::Done(taken)) => return Ok(taken),
                Ok(Added::Stale) if changes < CHANGES => changes += 1,
                Ok(Added::Stale) => return Err(StoreError::Changing),
                // An unknown outcome is simply repeated: an add is idempotent.
                Err(error) => {
                    failures += 1;
                    match next_try(&error) {
                        Some(wait) if failures < ATTEMPTS => sleep(wait).await,
                        _ => return Err(error),
                    }
                }
            }
        }
    }

    async fn try_add(&self, ids: &[Id]) -> Result<Added, StoreError> {
        let live = self.adds.connected(ATTEMPT).await?;
        let view = self.known_view(&live).await?;
        let digester = &live.identity.digester;
        let digests: Vec<Digest> =
            ids[..view.taken(ids.len())].iter().map(|id| digester.digest(id)).collect();
        let noted = self.own.begin(&digests, digester.key_id());
        // A replay on a later connection may have gone by already, without this add.
        if !self.adds.uses(&live) {
            let reason = "the connection was given up".to_owned();
            return Err(StoreError::Disconnected { reason });
        }
        let reply = self.send_add(&live, &view, &digests, None).await?;
        let added = self.read_added(&live, reply, digests.len())?;
        if let Added::Done(_) = added {
            noted.acknowledged();
        }
        Ok(added)
    }

    /// Adds digests once more, on this connection and no other.
    pub(super) async fn add_again(
        &self,
        live: &Arc<Live>,
        digests: &[Digest],
    ) -> Result<(), StoreError> {
        let (mut rest, mut changes) = (digests, 0);
        while !rest.is_empty() {
            let view = self.known_view(live).await?;
            let digests = &rest[..view.taken(rest.len())];
            let reply = self.send_add(live, &view, digests, Some(HOLD)).await?;
            match self.read_added(live, reply, digests.len())? {
                Added::Done(taken) => {
                    rest = rest.get(taken..).unwrap_or_default();
                    changes = 0;
                }
                Added::Stale if changes < CHANGES => changes += 1,
                Added::Stale => return Err(StoreError::Changing),
            }
        }
        Ok(())
    }

    /// Returns both headers, if this crate can set their bits.
    async fn known_view(&self, live: &Arc<Live>) -> Result<Arc<View>, StoreError> {
        let view = match self.view.load_full() {
            Some(view) => view,
            None => Arc::new(self.read_view(live, ATTEMPT).await?),
        };
        if let Some(newer) = view.live.newer.as_ref().or(view.next.newer.as_ref()) {
            self.view.store(None);
            let reason = format!("holds a filter of {newer}, newer than this crate");
            return Err(StoreError::Foreign { key: self.keys.bits.clone(), reason });
        }
        Ok(view)
    }

    /// Sends digests; a replay says for how long swaps wait for its next call.
    async fn send_add(
        &self,
        live: &Arc<Live>,
        view: &View,
        digests: &[Digest],
        hold: Option<Duration>,
    ) -> Result<Reply, StoreError> {
        let nulls: Vec<String> = digests.iter().map(|digest| self.keys.null(digest)).collect();
        let mut keys = vec![
            self.keys.meta.as_str(),
            self.keys.log.as_str(),
            self.keys.bits.as_str(),
            self.keys.next.as_str(),
            self.keys.marks.as_str(),
        ];
        keys.extend(nulls.iter().map(String::as_str));
        let retention = &self.retention;
        let key_id = format!("{:08x}", live.identity.digester.key_id());
        let mark_ttl = retention.mark_ttl().as_millis().to_string();
        let journal_ttl = retention.span().as_millis().to_string();
        let entries = retention.journal_entries.to_string();
        let hold = hold.map_or_else(String::new, |hold| hold.as_millis().to_string());
        let packed: Vec<u8> = digests.iter().flat_map(|digest| *digest.as_bytes()).collect();
        let live_filter = Target::new(&view.live, view.adds_to_live(), digests);
        let next_filter = Target::new(&view.next, view.adds_to_next(), digests);
        let args: [&[u8]; 12] = [
            key_id.as_bytes(),
            mark_ttl.as_bytes(),
            journal_ttl.as_bytes(),
            entries.as_bytes(),
            &packed,
            live_filter.head,
            live_filter.len.as_bytes(),
            &live_filter.offsets,
            next_filter.head,
            next_filter.len.as_bytes(),
            &next_filter.offsets,
            hold.as_bytes(),
        ];
        self.adds.script(live, &ADD, &keys, &args, ATTEMPT).await
    }

    fn read_added(
        &self,
        live: &Arc<Live>,
        reply: Reply,
        taken: usize,
    ) -> Result<Added, StoreError> {
        let mut fields = reply.array()?.into_iter();
        let odd = || StoreError::Odd { step: ADD.name(), answer: "an unknown outcome".to_owned() };
        let outcome = fields.next().ok_or_else(odd)?.text()?;
        match outcome.as_str() {
            "OK" => {
                for link in [&self.checks, &self.bulk] {
                    if let Some(other) = link.live().filter(|other| other.server != live.server) {
                        link.withdraw(&other);
                        self.adds.withdraw(live);
                        let reason = "the connections lead to different redis processes".to_owned();
                        return Err(StoreError::Disconnected { reason });
                    }
                }
                Ok(Added::Done(taken))
            }
            "STALE" => {
                let fields = fields.collect::<Vec<_>>().try_into().map_err(|_| odd())?;
                self.view.store(Some(Arc::new(View::read(fields)?)));
                Ok(Added::Stale)
            }
            "KEY" => {
                // The metadata was lost or made anew: enrol again.
                self.view.store(None);
                for link in [&self.adds, &self.checks, &self.bulk] {
                    if let Some(live) = link.live() {
                        link.withdraw(&live);
                    }
                }
                self.adds.withdraw(live);
                Ok(Added::Stale)
            }
            _ => Err(odd()),
        }
    }

    /// Reads both headers over the connection for adds, and keeps them.
    async fn read_view(&self, live: &Arc<Live>, deadline: Duration) -> Result<View, StoreError> {
        let keys = [self.keys.bits.as_str(), self.keys.next.as_str()];
        let reply = self.adds.script(live, &VIEW, &keys, &[], deadline).await?;
        let view = View::read(reply.fields()?)?;
        self.view.store(Some(Arc::new(view.clone())));
        Ok(view)
    }
}

impl View {
    fn adds_to_live(&self) -> Option<&Header> {
        self.live.in_state(State::Live)
    }

    fn adds_to_next(&self) -> Option<&Header> {
        self.next.in_state(State::CatchingUp)
    }

    /// Returns how many of so many digests one call takes.
    fn taken(&self, digests: usize) -> usize {
        let hashes = [self.adds_to_live(), self.adds_to_next()]
            .into_iter()
            .flatten()
            .map(|header| usize::from(header.geometry.hashes()))
            .sum::<usize>()
            .max(16);
        digests.min((BITS_PER_CALL / hashes).max(1))
    }
}

/// What became of one attempt to add.
enum Added {
    /// The first so many ids are acknowledged.
    Done(usize),
    /// The filters, or the metadata, are others than this process knew.
    Stale,
}

/// What the script is told of one filter.
struct Target<'a> {
    head: &'a [u8],
    len: String,
    offsets: Vec<u8>,
}

impl<'a> Target<'a> {
    fn new(seen: &'a Seen, filter: Option<&Header>, digests: &[Digest]) -> Self {
        let offsets = filter.map(|header| offsets(header, digests)).unwrap_or_default();
        Self { head: &seen.head, len: seen.len.to_string(), offsets }
    }
}

/// Returns the bit offsets of digests in a filter, u32 big-endian each.
pub(super) fn offsets(header: &Header, digests: &[Digest]) -> Vec<u8> {
    digests
        .iter()
        .flat_map(|digest| header.geometry.position(digest).bit_offsets())
        .flat_map(u32::to_be_bytes)
        .collect()
}

/// Whether an attempt that failed so is worth another, and after which wait.
fn next_try(error: &StoreError) -> Option<Duration> {
    match error {
        StoreError::Disconnected { .. } | StoreError::Timeout { .. } => Some(Duration::ZERO),
        StoreError::Refused { reason } => {
            (Refusal::read(reason).again() == Again::Soon).then_some(REFUSED_WAIT)
        }
        _ => None,
    }
}
