//! States that a filter is whole, once what is there shows that its layout and numbers are the writer's.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ::redis::{Cmd, Value, cmd};
use futures_util::future::try_join_all;
use tokio::time::Instant;

use super::ForeignStore;
use super::layout::{BloomSize, Extent, MOST_BITS};
use super::part::{Part, held};
use super::statement::Statement;
use crate::error::StoreError;
use crate::filter::Generation;
use crate::id::Id;
use crate::store::link::reply::Reply;
use crate::store::link::session::{Purpose, Session};

/// How often wrong numbers may be taken for right ones.
const CHANCE: f64 = 1e-9;
/// A filter that holds a larger share of absent ids shows nothing, and refuses hardly any.
const MOST_FOUND: f64 = 0.9;
const DEADLINE: Duration = Duration::from_secs(5);
/// Bytes counted by one command, which keeps Redis busy for less than a millisecond.
const PIECE: u64 = 1 << 20;
const ASKED: usize = 500;
/// A bitmap is made longer by 1 to so many clear bytes: no program that writes it anew gives it that length.
const LONGER: u64 = 64;

/// What is to be stated of a part, and the length of its string then; none for a module's filter.
struct Draft {
    statement: Statement,
    length: Option<u64>,
}

impl ForeignStore {
    pub(crate) async fn trust(&self, known: &BTreeSet<Id>) -> Result<(), StoreError> {
        let drafts = try_join_all(self.parts.iter().map(|part| part.survey())).await?;
        self.judge(known, &drafts)?;
        let mut missing = 0;
        for (part, draft) in self.parts.iter().zip(&drafts) {
            missing += part.missing(&self.ids_of(part, known), draft.statement.size).await?;
        }
        if missing > 0 {
            return Err(self.parts[0].unfit(format!(
                "{missing} of {} ids that exist are not in it: compare its numbers, and how ids are written as bytes, with the \
                 program that writes it; where they are right, have it write what is missing",
                known.len()
            )));
        }
        let stated = self.parts.iter().zip(drafts).map(|(part, draft)| part.state(draft));
        try_join_all(stated).await.map(drop)
    }

    fn judge(&self, known: &BTreeSet<Id>, drafts: &[Draft]) -> Result<(), StoreError> {
        let part = &self.parts[0];
        let rates = drafts.iter().map(|Draft { statement, .. }| statement.rate(statement.ids));
        let rate = rates.fold(0.0, f64::max);
        if rate > MOST_FOUND {
            return Err(part.unfit(format!(
                "{rate:.3} of the ids that do not exist are in it: compare its numbers with the program that writes it, or have \
                 that make a larger filter"
            )));
        }
        // Where most bits of an id may be alike under other numbers, each id counts as one bit.
        let size = drafts[0].statement.size;
        let bits = if part.layout.is_even() { 1 } else { size.hashes };
        let needed = (CHANCE.ln() * f64::from(bits) / rate.ln()).ceil().max(1.0) as usize;
        let given =
            known.iter().filter(|id| part.layout.shows_numbers(size, id.as_bytes())).count();
        if given >= needed {
            return Ok(());
        }
        Err(part.unfit(format!(
            "{given} ids were given that show its numbers, and {needed} are needed. Of a BKDR filter, short ids show nothing"
        )))
    }
}

impl Part {
    async fn survey(&self) -> Result<Draft, StoreError> {
        let connection = self.node.link.connected(Purpose::Inserts, DEADLINE).await?;
        let run = connection.process.run;
        let known = self.look(&*connection.transport(Purpose::Inserts), run).await?;
        let size = *known.size.as_ref().map_err(|reason| self.unfit(reason))?;
        // Redis's clock may have been set back.
        let lost_us = self.lost.lock().map_or(0, |(lost, _)| lost.get());
        let us = connection.redis_us(Instant::now()).max(lost_us + 1);
        let generation = Generation::new(us).ok_or_else(|| self.unfit("redis has no clock"))?;
        let of = self.of.clone();
        let (length, ids, capacity, stated) = match known.extent {
            Extent::Module { bytes, ids, capacity } => (None, ids, capacity, bytes),
            Extent::String(bytes) => {
                let set = self.measure(&connection, bytes, size.bits).await?;
                let full = size.bits.div_ceil(8);
                let longer = full + 1 + us.cast_unsigned() % LONGER;
                let stated = if bytes > full { bytes } else { longer };
                (Some(bytes), size.estimated_ids(set), size.estimated_ids(size.bits / 2), stated)
            }
        };
        if ids == 0 {
            return Err(self.unfit(format!("key {:?} holds no id", self.key)));
        }
        let statement = Statement { run, generation, ids, capacity, length: stated, size, of };
        Ok(Draft { statement, length })
    }

    async fn measure(
        &self,
        connection: &Arc<Session<()>>,
        bytes: u64,
        bits: u64,
    ) -> Result<u64, StoreError> {
        let mut set = 0;
        for first in (0..bytes).step_by(PIECE as usize) {
            let last = (first + PIECE).min(bytes) - 1;
            let count = cmd("BITCOUNT").arg(&self.key).arg(first).arg(last).clone();
            set += self.ask_one(connection, count).await?.count()?;
        }
        let behind = cmd("GETRANGE").arg(&self.key).arg(bits / 8).arg(bits / 8 + LONGER).clone();
        let mut behind = self.ask_one(connection, behind).await?.bytes()?;
        if let Some(first) = behind.first_mut() {
            *first &= 0xff >> (bits % 8);
        }
        // Hardly any filter has all of its bits so far in front.
        let least = (bits as f64 * (CHANCE.ln() / set as f64).exp() / 8.0) as u64;
        let least = if self.layout.is_even() { least } else { 1 };
        let most = bits.div_ceil(8) + LONGER;
        let reason = if set == 0 {
            "holds no id".to_owned()
        } else if !(least..=most).contains(&bytes) {
            format!(
                "has {bytes} bytes, and not between {least} and {most}: compare the number of bits with the writer's"
            )
        } else if behind.iter().any(|byte| *byte != 0) {
            format!("has bits set from bit {bits} on: compare the number of bits with the writer's")
        } else if most > MOST_BITS / 8 {
            "has no room for the bytes that make it longer".to_owned()
        } else {
            return Ok(set);
        };
        Err(self.unfit(format!("key {:?} {reason}", self.key)))
    }

    async fn missing(&self, ids: &[&[u8]], size: BloomSize) -> Result<usize, StoreError> {
        let connection = self.node.link.connected(Purpose::Inserts, DEADLINE).await?;
        let mut missing = 0;
        for ids in ids.chunks(ASKED) {
            let reply = self.ask_one(&connection, self.layout.ask(size, &self.key, ids)).await?;
            let held = held(reply, size.hashes, ids.len())?;
            missing += held.into_iter().filter(|held| !held).count();
        }
        Ok(missing)
    }

    /// Writes the statement, if the key still has the length of the survey.
    async fn state(&self, Draft { statement, length }: Draft) -> Result<(), StoreError> {
        let connection = self.node.link.connected(Purpose::Inserts, DEADLINE).await?;
        let run = connection.process.run;
        if run != statement.run {
            return Err(self.unfit("another redis process answers"));
        }
        let keys: Vec<_> = [&self.statement].into_iter().chain(length.map(|_| &self.key)).collect();
        let mut script = cmd("EVAL");
        script.arg(include_str!("state.lua")).arg(keys.len()).arg(keys);
        script.arg(statement.encode()).arg(statement.length).arg(length);
        let is_stated = self.ask_one(&connection, script).await?.flag()?;
        let known = self.look(&*connection.transport(Purpose::Inserts), run).await?;
        if is_stated && self.trusted(&known) == Ok(&statement) {
            return Ok(());
        }
        Err(self.unfit("it changed while it was looked at: call again"))
    }

    async fn ask_one(
        &self,
        connection: &Arc<Session<()>>,
        command: Cmd,
    ) -> Result<Reply, StoreError> {
        let link = &self.node.link;
        let reply = link.ask(Purpose::Inserts, connection, command.into(), DEADLINE).await?.pop();
        Ok(Reply::new("trust", reply.unwrap_or(Value::Nil)))
    }
}
