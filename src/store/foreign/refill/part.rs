//! The part of a refill on one Redis: all that it asks there, and in one process of it.

use std::sync::Arc;

use ::redis::{Cmd, cmd};

use super::bits::Bits;
use crate::error::StoreError;
use crate::store::Live;
use crate::store::foreign::error::TrustError;
use crate::store::foreign::inspection::{DEADLINE, SAMPLED, Sight, SiteInspection};
use crate::store::foreign::layout::Kind;
use crate::store::foreign::module::seal_ids;
use crate::store::foreign::record::Record;
use crate::store::foreign::site::{Connection, Site};
use crate::store::foreign::{bitmap, seal};
use crate::store::link::process::Eviction;
use crate::store::link::reply::Reply;
use crate::store::link::resp::Packed;
use crate::store::link::transport::one;
use crate::verdict::Doubt;

const BEGIN: &str = concat!(include_str!("../is_clear.lua"), include_str!("refill.lua"));
const BITS: &str = concat!(include_str!("../refilling.lua"), include_str!("refill_bits.lua"));
const RENEW: &str = concat!(include_str!("../refilling.lua"), include_str!("refill_renew.lua"));
/// Bytes read by one command.
const READ: u64 = 64 << 10;

/// The part on one Redis.
#[derive(Clone)]
pub(super) struct Part {
    pub(super) site: Arc<Site>,
    /// What was found as the refill began.
    pub(super) seen: SiteInspection,
    /// About as many ids as the source should give, as was known when trust was last stated.
    pub(super) previous: u64,
    /// The refill's word.
    pub(super) word: Arc<str>,
}

impl Part {
    /// Looks whether the filter may be refilled.
    pub(super) async fn fit(site: &Arc<Site>, word: &Arc<str>) -> Result<Self, StoreError> {
        let trust = &site.trust;
        let connection = site.node.inserts.connected(DEADLINE).await?;
        let memory = site.ask_one(&connection, cmd("INFO").arg("memory").clone()).await?.text()?;
        if Eviction::parse(&memory) == Eviction::Takes {
            let reason = "a filter that may be evicted is not refilled".to_owned();
            return Err(StoreError::Refused { doubt: Doubt::Eviction, reason });
        }
        let config = site.read_config(&connection).await?;
        let size = trust.layout.size(&config).map_err(|reason| trust.foreign(&reason))?;
        let previous = trust.proven(&trust.of(&config)).ok_or_else(|| {
            trust.foreign("its numbers were never shown to be the writer's: see trust_after")
        })?;
        let seal = match trust.layout.kind() {
            Kind::Bitmap => seal::place(trust.layout.end(size)),
            Kind::Module => None,
        };
        let sight = Sight { seal, ..Sight::default() };
        let seen = SiteInspection { run: connection.process.run, config, size, sight };
        Ok(Self { site: Arc::clone(site), seen, previous, word: Arc::clone(word) })
    }

    /// Returns where a bitmap's seal belongs, or what a module's is made of.
    pub(super) fn seal_at(&self) -> Result<u64, StoreError> {
        self.seen.sight.seal.ok_or_else(|| self.site.trust.foreign("it has no room for a seal"))
    }

    /// Returns a connection to the process on which the refill began.
    async fn connection(&self) -> Result<Arc<Connection>, StoreError> {
        let connection = self.site.node.inserts.connected(DEADLINE).await?;
        if connection.process.run == self.seen.run {
            Ok(connection)
        } else {
            Err(StoreError::OtherRedis)
        }
    }

    pub(super) async fn ask(&self, command: Cmd) -> Result<Reply, StoreError> {
        self.site.ask_one(&self.connection().await?, command).await
    }

    /// A script on the statement and all keys, with the refill's word as its first argument.
    fn script(&self, script: &str) -> Cmd {
        let keys = &self.site.trust.keys;
        let mut command = cmd("EVAL");
        command.arg(script).arg(keys.all().len() + 1);
        command.arg(&keys.statement).arg(keys.all().collect::<Vec<_>>()).arg(&*self.word);
        command
    }

    /// Puts the word in the statement's place, and seals each key. False where another refill goes on.
    pub(super) async fn begin(&mut self) -> Result<bool, StoreError> {
        let mut command = self.script(BEGIN);
        command.arg(Record::run_as_text(self.seen.run));
        command.arg(self.site.trust.lost().map_or(0, |(lost, _)| lost.get()));
        if let Kind::Bitmap = self.site.trust.layout.kind() {
            let end = self.site.trust.layout.end(self.seen.size);
            command.arg(&seal::draw().to_be_bytes()).arg(self.seal_at()? / 8).arg(end);
        }
        let reply = self.ask(command).await?;
        match reply.int()? {
            1 => {}
            -1 => {
                return Err(self
                    .site
                    .trust
                    .foreign("bits are set behind its last: it has other numbers"));
            }
            _ => return Ok(false),
        }
        if let Kind::Module = self.site.trust.layout.kind() {
            let seal = self.site.seal_for_refill(&self.connection().await?).await?;
            self.seen.sight.seal = Some(seal);
            self.renew().await?;
        }
        Ok(true)
    }

    /// Renews the word, and turns the seal over. The first sign of a loss, or of another config, ends the refill.
    pub(super) async fn renew(&self) -> Result<(), StoreError> {
        let (connection, trust) = (self.connection().await?, &self.site.trust);
        if self.site.read_config(&connection).await? != self.seen.config {
            self.release().await;
        }
        let seal = self.seal_at()?;
        match trust.layout.kind() {
            Kind::Bitmap => {
                let (transport, word) = (connection.transport(), self.word.as_bytes());
                bitmap::look(&*transport, &trust.keys, word, seal).await?;
            }
            Kind::Module => {
                let mut command = self.script(RENEW);
                self.ask(command.arg(seal_ids(seal).collect::<Vec<_>>()).clone()).await?;
            }
        }
        Ok(())
    }

    /// Reads the first bytes of a key.
    pub(super) async fn read(&self, key: &str, bytes: u64) -> Result<Vec<u8>, StoreError> {
        let mut found = Vec::with_capacity(bytes as usize);
        for first in (0..bytes).step_by(READ as usize) {
            let last = (first + READ).min(bytes) - 1;
            found.extend(self.bits(key, first, last, None).await?);
        }
        Ok(found)
    }

    /// Sets bits of a piece.
    pub(super) async fn set(&self, key: &str, first: usize, bits: &[u8]) -> Result<(), StoreError> {
        let last = first + bits.len() - 1;
        self.bits(key, first as u64, last as u64, Some(bits)).await.map(drop)
    }

    /// Reads a piece of a key, and sets bits in it, if it still is the one that was sealed.
    async fn bits(
        &self,
        key: &str,
        first: u64,
        last: u64,
        new: Option<&[u8]>,
    ) -> Result<Vec<u8>, StoreError> {
        let mut command = cmd("EVAL");
        command.arg(BITS).arg(2).arg(&self.site.trust.keys.statement).arg(key).arg(&*self.word);
        command.arg(self.seal_at()? / 8).arg(first).arg(last).arg(new);
        let command = Packed::from(&one(command)).for_long_replies(READ as usize);
        let connection = self.connection().await?;
        let replies = self.site.node.inserts.ask(&connection, command, DEADLINE).await?;
        let reply = Reply::new("a refill", replies.into_iter().next().unwrap_or_default());
        if reply.int().is_ok() {
            Err(StoreError::Lost { step: "the upload" })
        } else {
            reply.bytes()
        }
    }

    /// Seals this part for good, and states that it is whole. It has some `ids`, and the source gave `given`.
    pub(super) async fn state(
        &self,
        ids: u64,
        given: u64,
        keys: &[Option<Bits>],
    ) -> Result<Live, StoreError> {
        let mut seen = self.seen.clone();
        let here: Vec<_> = self.site.trust.keys.numbered().collect();
        for (number, (at, key)) in here.iter().enumerate() {
            let Some(bits) = &keys[*at] else { continue };
            let before = seen.sight.witnesses.len();
            for (first, word) in bits.sample((SAMPLED as usize / here.len()).max(1)) {
                seen.sight.witnesses.extend((number as u16).to_be_bytes());
                seen.sight.witnesses.extend(first.to_be_bytes());
                seen.sight.witnesses.extend(word);
            }
            if seen.sight.witnesses.len() == before {
                return Err(self.site.trust.foreign(&format!("the source has no id at {key:?}")));
            }
        }
        let counts = (ids, given);
        self.site.trust_after(&seen, counts, &self.word).await.map_err(|error| match error {
            TrustError::Store(error) => error,
            TrustError::Changed { .. } => StoreError::Lost { step: "the statement" },
            error => self.site.trust.foreign(&error.to_string()),
        })?;
        let known = self.site.known().await?;
        self.site.trust.live(&known).map_err(|_| StoreError::Changing)
    }

    /// Takes the word back, if it still is there.
    pub(super) async fn release(&self) {
        let mut command = cmd("EVAL");
        command.arg(include_str!("../revoke.lua")).arg(1).arg(&self.site.trust.keys.statement);
        command.arg(&*self.word).arg(0);
        if let Err(error) = self.ask(command).await {
            tracing::debug!(%error, "the refill's word stays until it lapses");
        }
    }
}
