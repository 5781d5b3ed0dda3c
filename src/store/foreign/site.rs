//! A foreign filter's part on one Redis: its connections, its checks and its inserts.

use std::sync::Arc;
use std::time::Duration;

use ::redis::Cmd;
use tokio::time::Instant;

use super::bitmap;
use super::handshake::Looks;
use super::known::Known;
use super::layout::{Kind, Place};
use super::module;
use super::round::{Asked, Round};
use super::rounds::Rounds;
use super::size::BloomSize;
use super::trust::Trust;
use crate::error::StoreError;
use crate::filter::Generation;
use crate::nulls::scope::Scope;
use crate::settings::Settings;
use crate::store::link::attempts::{ATTEMPT, Attempts, IDS_PER_CALL};
use crate::store::link::connection;
use crate::store::link::node::{Node, SentCheck};
use crate::store::link::supervised::Purpose;
use crate::store::link::transport::pipeline;
use crate::store::map::endpoint::Endpoint;
use crate::store::{Condition, Lookup, NullClaim};
use crate::verdict::{Doubt, Verdict};

/// A connection on which there is nothing to learn.
pub(super) type Connection = connection::Connection<()>;

/// A filter's part on one Redis.
pub(super) struct Site {
    pub(super) trust: Arc<Trust>,
    pub(super) node: Arc<Node<(), Asked, Verdict>>,
    pub(super) rounds: Rounds,
    pub(super) check_deadline: Duration,
}

impl Site {
    pub(super) fn new(trust: Trust, endpoint: &Endpoint, settings: &Settings) -> Self {
        let trust = Arc::new(trust);
        // Connections that check look at the filter; those that only write do not.
        let key: Arc<str> = trust.keys.first().into();
        let connector = endpoint.connector(move || Some(Arc::clone(&key)));
        let node = Node::new(&connector, settings, |purpose| {
            Arc::new(Looks((purpose == Purpose::Checks).then(|| Arc::clone(&trust))))
        });
        Self {
            node: Arc::new(node),
            rounds: Rounds::default(),
            check_deadline: settings.check_deadline,
            trust,
        }
    }

    /// Asks what is known of an id; the answer comes within the deadline, whatever Redis does.
    pub(super) fn send(
        self: &Arc<Self>,
        id: &[u8],
        at: Instant,
        alone: bool,
    ) -> Result<SentToSite, Doubt> {
        let live = self.node.checks.current().ok_or(Doubt::Disconnected)?;
        let known = self.trust.known().ok_or(Doubt::Disconnected)?;
        let asked = Asked::new(&self.trust, known, id)?;
        let generation = asked.known.believed().ok().map(|believed| believed.record.generation);
        let claim = NullClaim { asked_us: live.redis_us(at), generation };
        let sent = self.node.check(self, live, asked, at + self.check_deadline, alone)?;
        Ok(SentToSite { sent, claim })
    }

    /// Acknowledges ids whose bits are all on this Redis.
    pub(super) async fn add(&self, ids: &[&[u8]]) -> Result<(), StoreError> {
        for ids in ids.chunks(IDS_PER_CALL) {
            let mut attempts = Attempts::default();
            while let Err(error) = self.try_add(ids).await {
                attempts.next_after(error).await?;
            }
        }
        Ok(())
    }

    async fn try_add(&self, ids: &[&[u8]]) -> Result<(), StoreError> {
        let connection = self.node.inserts.connected(ATTEMPT).await?;
        let known = self.known().await?;
        let size = known.size.as_ref().map_err(|reason| self.trust.foreign(reason))?;
        let places = self.places(*size, ids);
        let of_each_key = || places.chunk_by(|one, other| one.key == other.key);
        let add = |places: &[Place]| {
            self.trust.layout.add(*size, self.trust.keys.at(places[0].key), places)
        };
        let mut commands: Vec<Cmd> = of_each_key().flat_map(add).collect();
        let adds = commands.len();
        // Behind them: what another filter took, that was there for a moment, is missing in this one.
        let firsts = of_each_key().map(|places| &places[0]);
        let round = Round::new(&self.trust, &known, firsts, &(0..1), None);
        commands.extend(round.commands());
        let mut replies = self.node.inserts.ask(&connection, &pipeline(commands), ATTEMPT).await?;
        self.node.keep_to_one_redis(&connection)?;
        let (_, whole) = round.read(replies.split_off(adds))?;
        self.trust.heed(&*connection.transport(), &known, whole).await;
        let new = match self.trust.layout.kind() {
            Kind::Bitmap => bitmap::had_clear_bits(&places, replies),
            Kind::Module => module::were_new(&places, replies)?,
        };
        let newest = places.into_iter().zip(new).rev().find(|(_, is_new)| *is_new);
        if let (Ok(believed), Some((newest, _))) = (known.believed(), newest) {
            believed.newest.store(Some(Arc::new(newest)));
        }
        Ok(())
    }

    /// Returns where ids go, sorted by their keys.
    pub(super) fn places(&self, size: BloomSize, ids: &[&[u8]]) -> Vec<Place> {
        let mut places: Vec<Place> =
            ids.iter().map(|id| self.trust.layout.place(size, id)).collect();
        places.sort_unstable();
        places
    }

    /// Returns what was found at the last look, or waits for a first one.
    pub(super) async fn known(&self) -> Result<Arc<Known>, StoreError> {
        if let Some(known) = self.trust.known() {
            return Ok(known);
        }
        self.node.checks.connected(ATTEMPT).await?;
        let reason = "not looked at yet".to_owned();
        self.trust.known().ok_or(StoreError::Disconnected { doubt: Doubt::Disconnected, reason })
    }

    /// Ends trust that was stated at a time, unless trust has ended so before: the handler answers for ids that do not exist.
    pub(super) fn distrust(&self, generation: Generation) {
        if let Some(known) = self.trust.known()
            && let Ok(believed) = known.believed()
            && believed.record.generation == generation
            && !believed.stays
        {
            self.trust.lose(believed, Doubt::Disproved);
        }
    }

    /// Looks at the filter now; returns whether it is believed.
    pub(super) async fn look(&self) -> Result<bool, StoreError> {
        let checks = self.node.checks.connected(ATTEMPT).await?;
        self.trust.look(&*checks.transport(), &checks.process).await?;
        Ok(self.is_trusted())
    }

    /// Whether the filter was believed at the last look.
    pub(super) fn is_trusted(&self) -> bool {
        self.trust.known().is_some_and(|known| known.believed().is_ok())
    }

    /// Returns what is known without asking Redis.
    pub(super) fn condition(&self) -> Condition {
        let broken =
            [&self.node.checks, &self.node.inserts].into_iter().find_map(|link| link.trouble());
        let trouble = broken.as_ref().map(|trouble| trouble.reason.clone());
        let Some(known) = self.node.checks.current().and_then(|_| self.trust.known()) else {
            let doubt = broken.map_or(Doubt::Disconnected, |trouble| trouble.doubt);
            return Condition {
                live: Err(doubt),
                shards: None,
                copy: None,
                settling: None,
                journal: None,
                trouble,
            };
        };
        let live = self.trust.live(&known);
        let trouble = trouble.or_else(|| Some(self.trust.explain(&known, live.as_ref().err()?)));
        Condition { live, shards: None, copy: None, settling: None, journal: None, trouble }
    }
}

/// A check that a part of the filter was sent.
pub(super) struct SentToSite {
    sent: SentCheck<Verdict>,
    claim: NullClaim,
}

impl SentToSite {
    pub(super) async fn answer(self) -> Lookup {
        let Self { sent, claim } = self;
        match sent.answer().await {
            Ok(verdict) => Lookup { verdict, scope: Scope::Everyone, claim },
            Err(doubt) => Lookup::unknown(doubt),
        }
    }
}
