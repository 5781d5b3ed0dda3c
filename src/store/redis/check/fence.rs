//! The fence: one small question to Redis proves absent all ids that wait for it and that this process's copy lacks.
//!
//! A copy holds all inserts up to its position, and the record of recent inserts has those beyond it. So the record's entries, the
//! metadata and the header, asked for after the requests have arrived, bring the copy up to the last insert. In Raft this is a
//! read index (Ongaro's dissertation, §6.4), with the filter as the state machine. Where anything is odd, ids are asked for one by
//! one.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use super::answer::{Head, Page, next};
use super::fences::{Fence, Next};
use crate::error::StoreError;
use crate::filter::Header;
use crate::id::KeyedDigest;
use crate::nulls::scope::Scope;
use crate::store::link::queue::BATCHES;
use crate::store::link::resp::Packed;
use crate::store::link::session::Purpose;
use crate::store::redis::connection::{Connection, Identity, JoinedAll, NodeSession, RedisNode};
use crate::store::redis::copy::FilterCopy;
use crate::store::redis::shard::Shard;
use crate::store::redis::shards::Shards;
use crate::store::{Lookup, NullClaim};
use crate::verdict::{Doubt, Proof, Verdict};

/// The most entries of the record that one fence reads.
const PAGE: usize = 512;
const BYTES_A_PAGE: usize = PAGE * 64;
/// Roughly how many bytes the commands take.
const BYTES_A_FENCE: usize = 512;
/// Time between two pages, where a copy is behind by more than one.
const PAGE_PAUSE: Duration = Duration::from_millis(50);
/// Leads a fence to its end, whatever becomes of the task: nobody waits for one that nobody leads.
pub(super) struct Lead {
    node: Arc<RedisNode>,
    on: Arc<JoinedAll>,
    fence: Arc<Fence>,
    has_left: bool,
}

impl Lead {
    pub(super) fn new(node: &Arc<RedisNode>, on: &Arc<JoinedAll>, fence: &Arc<Fence>) -> Self {
        let (node, on, fence) = (Arc::clone(node), Arc::clone(on), Arc::clone(fence));
        Self { node, on, fence, has_left: false }
    }

    pub(super) fn start(self, shards: &Arc<Shards>) {
        let on = Arc::clone(&self.on);
        on.identity.fences.spawn(self.run(Arc::clone(shards)));
    }

    async fn run(mut self, shards: Arc<Shards>) {
        let deadline = self.node.check_deadline;
        let next = self.on.identity.fences.leave(deadline / BATCHES as u32).await;
        let Some(Next { of_shards, .. }) = next else { return };
        self.has_left = true;
        let shared =
            Arc::new(NodeSession { node: Arc::clone(&self.node), on: Arc::clone(&self.on) });
        let asked = shards.all.iter().filter(|shard| of_shards[shard.number].is_some());
        let asked = asked.filter_map(|shard| {
            let copy = shard.copies.to_fence(&*shard.filter.load_full()?)?;
            CatchUp::new(shard, copy, Arc::clone(&shared))
        });
        let asked: Vec<CatchUp<'_>> = asked.collect();
        let mut proven: Box<[_]> = vec![None; of_shards.len()].into();
        for CatchUp { shard, copy, connection, .. } in catch_up(asked, deadline).await {
            if let Some((ids, sample)) = of_shards[shard.number] {
                let sample = connection.identity.digester.keyed(sample);
                shard.copies.answered(ids, sample);
            }
            proven[shard.number] = Some(copy);
        }
        self.fence.0.set(proven).ok();
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        self.on.identity.fences.end(self.has_left);
        // Where nothing is proven, ids are asked for one by one.
        self.fence.0.set(Box::default()).ok();
    }
}

/// A check that waits for a fence.
pub(super) struct Fenced {
    pub(super) fence: Arc<Fence>,
    pub(super) shard: usize,
    pub(super) id: KeyedDigest,
    pub(super) at: Instant,
    /// When it was asked for, by Redis's clock, µs.
    pub(super) asked_us: i64,
}

impl Fenced {
    pub(super) async fn answer(self, shards: &Arc<Shards>) -> Lookup {
        let Self { fence, shard, id, at, asked_us } = self;
        let shard = &shards.all[shard];
        let deadline = at + shard.known.settings().check_deadline;
        let Ok(proven) = timeout_at(deadline, fence.0.wait()).await else {
            return Lookup::unknown(Doubt::Timeout);
        };
        let Some(copy) = proven.get(shard.number).and_then(Option::as_ref) else {
            // On the heap: it takes a kilobyte, which a check that waits for a fence does not need.
            return Box::pin(shards.look_up_digest(shard, id, at)).await;
        };
        let lookup = if copy.lacks(&id) {
            let proof = Verdict::Absent(Proof::Filter);
            Lookup::of(proof, Scope::Everyone, Some(copy.header.generation))
        } else {
            // It teaches no null.
            Lookup::of(Verdict::Present, Scope::Everyone, None)
        };
        Lookup { claim: NullClaim { asked_us, ..lookup.claim }, ..lookup }
    }
}

/// What brings the copy of a shard up to the last insert.
struct CatchUp<'a> {
    shard: &'a Shard,
    connection: Connection,
    header: Arc<Header>,
    copy: Arc<FilterCopy>,
    /// What the copy holds all inserts up to.
    since: i64,
    /// The number of the last insert that this process knew of.
    known: i64,
}

impl<'a> CatchUp<'a> {
    /// Returns nothing where an absence could not be believed.
    fn new(shard: &'a Shard, copy: Arc<FilterCopy>, shared: Arc<NodeSession>) -> Option<Self> {
        let connection = Connection::of(shared, Purpose::Checks, shard.number).ok()?;
        let header = shard.filter.load_full()?;
        let since = copy.position().filter(|_| header.is_same_build(&copy.header))?;
        shard.believes(&connection).ok()?;
        let known = shard.known.seen.last_in(&connection.identity.incarnation);
        Some(Self { shard, connection, header, copy, since, known })
    }

    /// Takes the answer in. Returns whether the copy holds all inserts before the question.
    fn take(&self, page: &Page, head: &Head) -> bool {
        let Self { shard, connection, header, copy, since, known } = self;
        let judged = shard.judge(header, *known, Ok(head), connection);
        judged.and_then(|()| shard.believes(connection)).is_ok()
            && copy.take_page(page, head, *since)
    }
}

/// Brings copies up to the last insert, by a session that all of them share. Returns those that hold all inserts before the call.
async fn catch_up(all: Vec<CatchUp<'_>>, deadline: Duration) -> impl Iterator<Item = CatchUp<'_>> {
    let said = match all.first() {
        Some(first) => ask(&all, &first.connection, deadline).await,
        None => Ok(Vec::new()),
    };
    if let Err(error) = &said {
        for CatchUp { shard, connection, .. } in &all {
            shard.heed(error, connection);
        }
    }
    let mut said = said.unwrap_or_default().into_iter();
    all.into_iter().filter(move |one| {
        let is_proven = said.next().is_some_and(|(page, head)| one.take(&page, &head));
        one.copy.note_behind(!is_proven);
        is_proven
    })
}

async fn ask(
    all: &[CatchUp<'_>],
    connection: &Connection,
    deadline: Duration,
) -> Result<Vec<(Page, Head)>, StoreError> {
    let mut packed = Packed::with_capacity(all.len() * BYTES_A_FENCE);
    for CatchUp { shard, header, since, .. } in all {
        let keys = &shard.known.keys;
        Page::ask(&mut packed, keys, &format!("({since}"), PAGE);
        Head::ask(&mut packed, keys, header);
    }
    let packed = packed.for_long_replies(all.len() * BYTES_A_PAGE);
    let mut replies = connection.send(packed, deadline).await?.into_iter();
    all.iter().map(|_| Ok((Page::read(next(&mut replies)?)?, Head::read(&mut replies)?))).collect()
}

impl Shards {
    /// Asks for an id by itself, if its digest is by the key of the session in use.
    pub(crate) async fn look_up_digest(
        self: &Arc<Self>,
        shard: &Shard,
        id: KeyedDigest,
        at: Instant,
    ) -> Lookup {
        let digest = |joined: &Identity| id.by(&joined.digester).map(|_| id);
        self.look_up_by_id(shard, digest, at).await
    }
}

impl Shard {
    /// Brings a copy of the live filter up to the last insert, a page at a time.
    pub(crate) async fn catch_up_by_pages(&self, copy: &Arc<FilterCopy>) {
        let mut before = None;
        while copy.position() != before {
            before = copy.position();
            if self.catch_up(copy).await {
                return;
            }
            sleep(PAGE_PAUSE).await;
        }
    }

    /// Brings a copy up to the last insert. Returns whether it holds all inserts before the call; until it does, ids are asked for
    /// one by one.
    pub(crate) async fn catch_up(&self, copy: &Arc<FilterCopy>) -> bool {
        let (node, deadline) = (self.node(), self.known.settings().check_deadline);
        let Some(on) = node.link.current() else { return false };
        let shared = Arc::new(NodeSession { node, on });
        let Some(one) = CatchUp::new(self, Arc::clone(copy), shared) else {
            copy.note_behind(true);
            return false;
        };
        catch_up(vec![one], deadline).await.next().is_some()
    }
}

impl FilterCopy {
    /// Takes in the record's entries beyond `since`. Returns whether the copy holds the last insert.
    fn take_page(&self, page: &Page, head: &Head, since: i64) -> bool {
        if page.has_floor {
            self.leave_behind();
            return false;
        }
        self.hold(page.digests.iter());
        // The three numbers differ where an insert came between the commands.
        let greatest = page.greatest.unwrap_or(since);
        let is_last = greatest == head.stamp && greatest == head.last;
        if is_last || page.digests.len() >= PAGE {
            self.advance_to(greatest);
        }
        is_last
    }
}

#[cfg(test)]
mod tests;
