//! The part of a filter under one key: its connections, what is known of it, its checks and its inserts.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use ::redis::{Cmd, Value, cmd};
use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::filter::{ForeignFilter, Numbers};
use super::layout::{BloomSize, Extent, Layout, beside};
use super::statement::Statement;
use crate::error::StoreError;
use crate::filter::Generation;
use crate::id::Id;
use crate::nulls::scope::Scope;
use crate::refusal::Refusal;
use crate::settings::Settings;
use crate::store::link::attempts::{ATTEMPT, IDS_PER_CALL, attempts};
use crate::store::link::node::{Checks, Node, SentCheck, refuse};
use crate::store::link::process::RedisProcess;
use crate::store::link::queue::PendingCheck;
use crate::store::link::refusal::Consequences;
use crate::store::link::reply::{Reply, odd};
use crate::store::link::session::{Handshake, Purpose, Session};
use crate::store::link::transport::{HANDSHAKE, Transport, ask, exchange};
use crate::store::map::endpoint::Endpoint;
use crate::store::{BoxFuture, LiveFilter, Lookup};
use crate::verdict::{Doubt, Proof, Verdict};

const STEP: &str = "another system's filter";
/// Replaces a statement by a word: no process relies on it, and those that start later see that there was one.
const REVOKE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('SET', KEYS[1], 'ended') end return 1";

pub(super) struct Part {
    pub(super) layout: Arc<dyn Layout>,
    numbers: Numbers,
    /// The system, the key and the numbers that are given. A statement about others is not about this filter.
    pub(super) of: String,
    pub(super) key: String,
    pub(super) statement: String,
    pub(super) node: Arc<Node<(), Id>>,
    /// What the last look has found.
    known: ArcSwapOption<Known>,
    /// The newest statement that this process has found not to hold, and why. It believes none that is as old, even if it cannot
    /// revoke that one and all is as stated again.
    pub(super) lost: Mutex<Option<(Generation, Doubt)>>,
}

/// The evidence: what is in Redis at one moment, and whether the statement holds.
pub(super) struct Known {
    /// The numbers, or what is wrong with them.
    pub(super) size: Result<BloomSize, String>,
    pub(super) extent: Extent,
    statement: Option<Statement>,
    holds: Result<(), Doubt>,
}

impl Part {
    pub(super) fn new(
        filter: &ForeignFilter,
        key: &str,
        endpoint: &Endpoint,
        settings: &Settings,
    ) -> Arc<Self> {
        let mut of = format!("{} {key:?}", filter.system);
        if let Numbers::Given(BloomSize { bits: bits @ 1.., hashes }) = filter.numbers {
            of += &format!(" of {bits} bits, {hashes} an id");
        }
        Arc::new_cyclic(|part| Self {
            layout: Arc::clone(&filter.layout),
            numbers: filter.numbers.clone(),
            of,
            key: key.to_owned(),
            statement: beside(key, "bg:trust"),
            node: Arc::new(Node::new(
                endpoint.connector(|| None),
                settings,
                Arc::new(Weak::clone(part)),
            )),
            known: ArcSwapOption::empty(),
            lost: Mutex::default(),
        })
    }

    pub(super) fn unfit(&self, reason: impl fmt::Display) -> StoreError {
        StoreError::given_up(Refusal::UNFIT, format!("{}: {reason}", self.of))
    }

    /// Returns the commands that read the evidence. GETEX only reads, and Redis takes it for a write: a replica refuses it, and a
    /// primary that was demoted.
    fn evidence(&self) -> impl Iterator<Item = Cmd> {
        let statement = cmd("GETEX").arg(&self.statement).clone();
        [statement].into_iter().chain(self.numbers.ask()).chain([self.layout.measure(&self.key)])
    }

    fn read(
        &self,
        replies: &mut impl Iterator<Item = Value>,
        run: u32,
    ) -> Result<Known, StoreError> {
        let mut next = || Reply::new(STEP, replies.next().unwrap_or(Value::Nil));
        let stored = next().optional_bytes()?;
        let mut size = self.numbers.read(&mut next)?;
        let extent = self.layout.extent(next())?;
        let mut statement = stored.as_deref().and_then(Statement::decode);
        let holds = match &statement {
            None if stored.is_none() => Err(Doubt::NoFilter),
            None => Err(Doubt::Gone),
            Some(stated) if stated.run != run => Err(Doubt::Suspect),
            Some(stated) if stated.of != self.of => {
                size = Err(format!("{} is stated to be whole, at the same key", stated.of));
                statement = None;
                Err(Doubt::Damaged)
            }
            Some(stated) if size.as_ref() != Ok(&stated.size) => Err(Doubt::Damaged),
            Some(stated) => stated.fits(&extent),
        };
        Ok(Known { size, extent, statement, holds })
    }

    /// Asks commands between two readings of the evidence; returns both, and the replies between.
    async fn ask_between(
        &self,
        purpose: Purpose,
        session: &Arc<Session<()>>,
        commands: impl IntoIterator<Item = Cmd>,
        deadline: Duration,
    ) -> Result<([Known; 2], Vec<Value>), StoreError> {
        let all = self.evidence().chain(commands).chain(self.evidence()).collect();
        let replies = self.node.link.ask(purpose, session, all, deadline).await?;
        let between = replies.len() - 2 * self.evidence().count();
        let (mut replies, run) = (replies.into_iter(), session.process.run);
        let before = self.read(&mut replies, run)?;
        let between = replies.by_ref().take(between).collect();
        Ok(([before, self.read(&mut replies, run)?], between))
    }

    pub(super) fn trusted<'a>(&self, known: &'a Known) -> Result<&'a Statement, Doubt> {
        let lost = *self.lost.lock();
        match (&known.statement, lost) {
            (None, Some((_, why))) => Err(why),
            (Some(stated), Some((lost, why))) if stated.generation <= lost => Err(why),
            (stated, _) => known.holds.and(stated.as_ref().ok_or(Doubt::NoFilter)),
        }
    }

    /// Returns when the filter was stated to be whole, if one statement about this size holds before and behind the bits.
    fn stated(&self, [before, behind]: &[Known; 2], size: BloomSize) -> Result<Generation, Doubt> {
        let (before, behind) = (self.trusted(before)?, self.trusted(behind)?);
        let is_one = before == behind && behind.size == size;
        if is_one { Ok(behind.generation) } else { Err(Doubt::Suspect) }
    }

    fn lose(&self, generation: Generation, why: Doubt) {
        let mut lost = self.lost.lock();
        if lost.is_none_or(|(newest, _)| newest < generation) {
            *lost = Some((generation, why));
            tracing::error!(
                parent: None,
                filter = self.of,
                %why,
                "the filter is not what was stated to be whole: nothing is refused until that is stated again (trust_foreign)"
            );
        }
    }

    /// Ends trust, first here and then in all processes, if a reading after `known` shows that the filter is not as stated.
    async fn heed<'a>(
        &self,
        transport: &dyn Transport,
        known: Option<&'a Known>,
        read: Result<&'a [Known], &StoreError>,
    ) -> Result<(), StoreError> {
        let before = known.and_then(|known| known.statement.as_ref());
        let broken =
            |one: &'a Known| Some((one.statement.as_ref().or(before)?, self.trusted(one).err()?));
        let found = match read {
            Ok(read) => read
                .iter()
                .filter_map(broken)
                .find(|(_, why)| *why != Doubt::Refused(Refusal::FULL)),
            Err(error) => before
                .zip(Some(error.doubt()))
                .filter(|(_, why)| matches!(why, Doubt::Damaged | Doubt::Gone)),
        };
        let Some((stated, why)) = found else { return Ok(()) };
        self.lose(stated.generation, if why == Doubt::NoFilter { Doubt::Gone } else { why });
        let mut script = cmd("EVAL");
        script.arg(REVOKE).arg(1).arg(&self.statement).arg(stated.encode());
        ask(transport, STEP, script, HANDSHAKE).await.map(drop)
    }

    /// Reads the evidence. If Redis does not answer, what was known stays.
    pub(super) async fn look(
        &self,
        transport: &dyn Transport,
        run: u32,
    ) -> Result<Arc<Known>, StoreError> {
        let before = self.known.load_full();
        let replies = exchange(transport, self.evidence().collect(), HANDSHAKE).await;
        let read = replies.and_then(|replies| self.read(&mut replies.into_iter(), run));
        // The next look tries again.
        self.heed(transport, before.as_deref(), read.as_ref().map(std::slice::from_ref)).await.ok();
        let read = Arc::new(read?);
        self.known.store(Some(Arc::clone(&read)));
        Ok(read)
    }

    pub(super) fn send(
        self: &Arc<Self>,
        id: &Id,
        at: Instant,
        alone: bool,
    ) -> Result<SentCheck, Doubt> {
        let session = self.node.link.current().ok_or(Doubt::Disconnected)?;
        let known = self.known.load_full().ok_or(Doubt::Disconnected)?;
        if known.holds == Err(Doubt::NoFilter) {
            self.trusted(&known)?;
        }
        self.node.check(self, &session, id.clone(), at, alone)
    }

    pub(super) async fn add(&self, ids: &[&[u8]]) -> Result<(), StoreError> {
        for ids in ids.chunks(IDS_PER_CALL) {
            attempts(|| self.try_add(ids)).await?;
        }
        Ok(())
    }

    async fn try_add(&self, ids: &[&[u8]]) -> Result<(), StoreError> {
        let connection = self.node.link.connected(Purpose::Inserts, ATTEMPT).await?;
        let (transport, run) = (connection.transport(Purpose::Inserts), connection.process.run);
        let known = self.known.load_full().ok_or_else(|| self.unfit("not looked at yet"))?;
        let size = *known.size.as_ref().map_err(|reason| self.unfit(reason))?;
        let set = match &self.numbers {
            Numbers::InHash(config) => {
                let bits = ids.iter().flat_map(|id| self.layout.bits(size, id)).collect();
                vec![config.set_bits(size, &self.key, bits)]
            }
            _ => self.layout.add(size, &self.key, ids),
        };
        let read = self.ask_between(Purpose::Inserts, &connection, set, ATTEMPT).await;
        // Before the insert is acknowledged: a statement vouches for all acknowledged inserts.
        self.heed(&*transport, Some(&known), read.as_ref().map(|(found, _)| &found[..])).await?;
        let (found, replies) = read?;
        if !self.node.link.uses(&connection) {
            return Err(StoreError::not_yet());
        }
        replies.into_iter().try_for_each(|reply| is_added(Reply::new("an insert", reply)))?;
        let [before, behind] = &found;
        if before.statement == behind.statement && found.iter().all(|one| one.size == known.size) {
            return Ok(());
        }
        // Stated since, perhaps about another string than the bits went to.
        self.look(&*transport, run).await?;
        let reason = "the filter was stated to be whole meanwhile".to_owned();
        Err(StoreError::NoAnswer { doubt: Doubt::Suspect, reason })
    }

    /// Ends trust in a statement: an id that exists was found missing.
    pub(super) async fn distrust(&self, generation: Generation) -> Result<(), StoreError> {
        self.lose(generation, Doubt::Disproved);
        let connection = self.node.link.connected(Purpose::Inserts, ATTEMPT).await?;
        // This finds the statement, and revokes it.
        self.look(&*connection.transport(Purpose::Inserts), connection.process.run).await.map(drop)
    }

    pub(super) fn condition(&self) -> (Result<LiveFilter, Doubt>, Option<String>) {
        let Some(known) = self.node.link.current().and_then(|_| self.known.load_full()) else {
            let broken = self.node.link.session().err().unwrap_or_else(StoreError::not_yet);
            return (Err(broken.doubt()), Some(broken.reason()));
        };
        let live = self.trusted(&known).map(Statement::live);
        let trouble = live.as_ref().err().map(|why| {
            let unstated =
                || format!("{why}, and it is not stated that it is whole (trust_foreign)");
            let reason = known.size.as_ref().err().cloned().unwrap_or_else(unstated);
            format!("{}: {reason}", self.of)
        });
        (live, trouble)
    }
}

pub(super) fn held(bits: Reply, hashes: u32, ids: usize) -> Result<Vec<bool>, StoreError> {
    let bits = bits.array()?;
    let bits = bits.iter().map(Reply::flag).collect::<Result<Vec<_>, _>>()?;
    let hashes = hashes as usize;
    if bits.len() != ids * hashes {
        return Err(odd(STEP, format!("{} bits of {ids} ids", bits.len())));
    }
    Ok((0..ids).map(|id| bits[id * hashes..][..hashes].iter().all(|bit| *bit)).collect())
}

/// Reads the reply to an insert. A module's full filter may take only some of the ids.
fn is_added(reply: Reply) -> Result<(), StoreError> {
    if reply.int().is_ok() {
        return Ok(());
    }
    for reply in reply.array()? {
        if let Some(reason) = reply.error() {
            return Err(StoreError::Refused { doubt: Consequences::read(&reason).doubt, reason });
        }
        reply.int()?;
    }
    Ok(())
}

impl Checks for Part {
    type Identity = ();
    type Asked = Id;

    async fn answer(
        &self,
        node: &Arc<Node<(), Id>>,
        session: &Arc<Session<()>>,
        waiting: &mut Vec<PendingCheck<Id>>,
    ) {
        let known = self.known.load_full();
        let known = known.as_deref().and_then(|known| Some((known, *known.size.as_ref().ok()?)));
        let Some((known, size)) = known else {
            return refuse(waiting.drain(..), Doubt::Damaged);
        };
        let ids: Vec<&[u8]> = waiting.iter().map(|one| one.asked.as_bytes()).collect();
        let count = ids.len();
        let asked = [self.layout.ask(size, &self.key, &ids)];
        let read = self.ask_between(Purpose::Checks, session, asked, node.check_deadline).await;
        let read = read.and_then(|(found, between)| {
            let bits = between.into_iter().next().unwrap_or(Value::Nil);
            Ok((found, held(Reply::new(STEP, bits), size.hashes, count)?))
        });
        match &read {
            Ok((found, held)) => {
                let is_live = node.link.uses(session);
                let stated = if is_live { self.stated(found, size) } else { Err(Doubt::Suspect) };
                for (one, held) in waiting.drain(..).zip(held) {
                    let (verdict, at) = match (held, stated) {
                        (true, stated) => (Verdict::Present, stated.ok()),
                        (false, Ok(at)) => (Verdict::Absent(Proof::Filter), Some(at)),
                        (false, Err(doubt)) => (Verdict::Unknown(doubt), None),
                    };
                    one.answer.send(Lookup::of(verdict, Scope::Everyone, at)).ok();
                }
            }
            Err(error) => refuse(waiting.drain(..), error.doubt()),
        }
        // The next look tries again.
        let read = read.as_ref().map(|(found, _)| &found[..]);
        self.heed(&*session.transport(Purpose::Checks), Some(known), read).await.ok();
    }
}

impl Handshake<()> for Weak<Part> {
    fn join<'a>(
        &'a self,
        transport: &'a dyn Transport,
        process: &'a RedisProcess,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let part = self.upgrade().ok_or_else(StoreError::not_yet)?;
            part.look(transport, process.run).await.map(drop)
        })
    }

    fn recheck<'a>(
        &'a self,
        transport: &'a dyn Transport,
        process: &'a RedisProcess,
        (): &'a (),
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            match self.join(transport, process).await {
                // A Redis that refuses this answers no check either, and says why: but for missing rights.
                Err(StoreError::Refused { doubt, .. })
                    if doubt != Doubt::Refused(Refusal::DENIED) =>
                {
                    Ok(())
                }
                looked => looked,
            }
        })
    }
}

#[cfg(test)]
mod tests;
