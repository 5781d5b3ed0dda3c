//! The check: one plain BITFIELD and one GET in one round trip.
//!
//! BITFIELD is flagged as a write even where it only reads, so a demoted or isolated primary refuses
//! it instead of answering from stale bits; its GET form creates nothing.

use std::sync::Arc;
use std::time::Duration;

use ::redis::{Pipeline, Value, cmd};
use tokio::time::{Instant, timeout};

use super::link::connection::Connection;
use super::refusal::doubt;
use super::reply::Reply;
use super::shared::{Shared, trusted};
use crate::error::StoreError;
use crate::filter::format::{GENERATION_OFFSET, SEAL_FROM_END, STAMP_FROM_END, STATE_OFFSET};
use crate::filter::{Header, Membership, Position, State};
use crate::id::{Digest, Id};
use crate::nulls::scope::Scope;
use crate::store::{Lookup, NullClaim};
use crate::verdict::{Doubt, Proof, Verdict};

/// A connection that finds a filter of another secret key enrols again, this often at most.
const RE_ENROL: Duration = Duration::from_secs(1);

impl Shared {
    /// Answers a check within its deadline, whatever Redis does.
    pub(super) async fn check(self: Arc<Self>, id: Id, at: Instant) -> Lookup {
        let unknown = |doubt| Lookup {
            verdict: Verdict::Unknown(doubt),
            scope: Scope::Everyone,
            claim: NullClaim { asked_us: 0, generation: None },
        };
        let Ok(_permit) = self.in_flight.try_acquire() else {
            return unknown(Doubt::Overloaded);
        };
        let deadline = self.check_deadline;
        match timeout(deadline, self.ask_twice(&id, at, deadline)).await {
            Ok(Ok(lookup)) => lookup,
            Ok(Err(doubt)) => {
                self.note_doubt(doubt);
                unknown(doubt)
            }
            Err(_) => unknown(Doubt::Timeout),
        }
    }

    /// Asks, and asks once more if the filter was replaced since this process last looked.
    async fn ask_twice(&self, id: &Id, at: Instant, deadline: Duration) -> Result<Lookup, Doubt> {
        let live = self.checks.current().ok_or(Doubt::Disconnected)?;
        let asked_us = live.redis_us(at);
        let digest = live.identity.digester.digest(id);
        for _ in 0..2 {
            let header = match self.filter.load_full() {
                Some(header) => header,
                None => self.look(&live, deadline).await?,
            };
            let position = header.geometry.position(&digest);
            let known = self.seen.seq(&live.identity.incarnation);
            // An answer from before the replay may be read after it.
            let believed = self.believes(&live);
            let answer = self.ask(&live, &header, &position, &digest, deadline).await?;
            if answer.generation == header.generation.get() {
                let verdict = answer.verdict(&header, &position, &live);
                if let Err(Doubt::Disproved | Doubt::NotLive) = verdict {
                    // The header this process knows says otherwise: it is not to be shown any more.
                    self.forget(&header);
                }
                if verdict == Err(Doubt::OtherKey) && live.age() > RE_ENROL {
                    // The metadata may have been made anew since: join it again.
                    self.checks.withdraw(&live);
                }
                let (verdict, scope) = verdict?;
                if answer.stamp < known {
                    // It is an older one than was seen: the next connection finds out what has happened.
                    self.checks.withdraw(&live);
                    return Err(Doubt::Suspect);
                }
                self.seen.note(&live.identity.incarnation, answer.stamp);
                if matches!(verdict, Verdict::Absent(_)) {
                    believed?;
                    self.believes(&live)?;
                }
                let claim = NullClaim { asked_us, generation: Some(header.generation) };
                return Ok(Lookup { verdict, scope, claim });
            }
            self.forget(&header);
        }
        Err(Doubt::Changing)
    }

    /// Reads the live header and keeps it, if it is one.
    async fn look(&self, live: &Arc<Connection>, deadline: Duration) -> Result<Arc<Header>, Doubt> {
        let view = self.read_view(&self.checks, live, deadline).await;
        let header = self.live_in(&view.map_err(|error| doubt(&error))?)?;
        self.adopt(&header, &live.identity.incarnation)
    }

    /// Says what this filter says of a digest, if it is still the live one.
    pub(super) async fn look_up(
        &self,
        live: &Arc<Connection>,
        header: &Header,
        digest: &Digest,
        deadline: Duration,
    ) -> Result<Verdict, Doubt> {
        let position = header.geometry.position(digest);
        let answer = self.ask(live, header, &position, digest, deadline).await?;
        if answer.generation != header.generation.get() {
            return Err(Doubt::Changing);
        }
        answer.verdict(header, &position, live).map(|(verdict, _)| verdict)
    }

    async fn ask(
        &self,
        live: &Arc<Connection>,
        header: &Header,
        position: &Position,
        digest: &Digest,
        deadline: Duration,
    ) -> Result<Answer, Doubt> {
        let from_end = |bytes| (header.string_len() as usize - bytes) * 8;
        let mut bits = cmd("BITFIELD");
        bits.arg(&self.keys.bits);
        bits.arg("GET").arg("i64").arg(GENERATION_OFFSET * 8);
        bits.arg("GET").arg("u8").arg(STATE_OFFSET * 8);
        bits.arg("GET").arg("i64").arg(from_end(SEAL_FROM_END));
        bits.arg("GET").arg("i64").arg(from_end(STAMP_FROM_END));
        for word in 0..8 {
            bits.arg("GET").arg("i64").arg((position.byte_offset() as usize + word * 8) * 8);
        }
        let mut null = cmd("GET");
        null.arg(self.keys.null(digest));
        let mut commands = Pipeline::with_capacity(2);
        commands.add_command(bits).add_command(null);
        let replies = self.checks.ask(live, &commands, deadline).await;
        replies.and_then(Answer::read).map_err(|error| doubt(&error))
    }
}

/// What Redis said to a check.
struct Answer {
    generation: i64,
    state: i64,
    seal: i64,
    stamp: i64,
    words: [u64; 8],
    null: Option<Vec<u8>>,
}

impl Answer {
    fn read(replies: Vec<Value>) -> Result<Self, StoreError> {
        let [bits, null] = Reply::new("a check", Value::Array(replies)).fields()?;
        let [generation, state, seal, stamp, block @ ..] = bits.fields::<12>()?;
        Ok(Self {
            generation: generation.int()?,
            state: state.int()?,
            seal: seal.int()?,
            stamp: stamp.int()?,
            words: Reply::words(block)?,
            null: null.optional_bytes()?,
        })
    }

    /// Judges an answer of the generation that was asked for.
    fn verdict(
        &self,
        header: &Header,
        position: &Position,
        live: &Connection,
    ) -> Result<(Verdict, Scope), Doubt> {
        if self.state == i64::from(State::Disproved.as_byte()) {
            return Err(Doubt::Disproved);
        }
        if self.state != i64::from(State::Live.as_byte()) {
            return Err(Doubt::NotLive);
        }
        if self.seal != header.generation.seal() {
            return Err(Doubt::Truncated);
        }
        trusted(*header, live)?;
        if position.is_in(&self.words) == Membership::Never {
            return Ok((Verdict::Absent(Proof::Filter), Scope::Everyone));
        }
        // A null counts for the generation it was found under: with the filter its claim may be lost.
        if let Some([scope, of @ ..]) = self.null.as_deref()
            && let Some(scope) = Scope::from_byte(*scope)
            && of == header.generation.get().to_string().as_bytes()
        {
            return Ok((Verdict::Absent(Proof::Null), scope));
        }
        Ok((Verdict::Present, Scope::Everyone))
    }
}
