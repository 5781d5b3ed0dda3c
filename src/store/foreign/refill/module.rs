//! The steps of a refill that differ where a module keeps the filter: it has no bits to copy, and takes ids.

use std::sync::Arc;

use ::redis::cmd;

use super::part::Part;
use super::shown::{Evidence, wrong};
use crate::error::StoreError;
use crate::store::foreign::module::{Info, SEALED, exist, flags, seal_ids};
use crate::store::foreign::site::{Connection, Site};

const IDS: &str = concat!(include_str!("../refilling.lua"), include_str!("refill_ids.lua"));
/// Ids asked for, or inserted, by one command: fewer than Lua's stack has room for.
const AT_ONCE: usize = 500;

/// Ids of the source, one behind the other.
#[derive(Default)]
pub(super) struct Ids {
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
    /// Those that the filter lacks, by number.
    missing: Vec<usize>,
}

impl Ids {
    pub(super) fn push(&mut self, id: &[u8]) {
        self.bytes.extend(id);
        self.ends.push(self.bytes.len());
    }

    pub(super) fn all(&self) -> u64 {
        self.ends.len() as u64
    }

    fn id(&self, number: usize) -> &[u8] {
        let first = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[first..self.ends[number]]
    }
}

impl Part {
    /// Asks which ids are missing, and judges whether those that are there show anything; returns the bytes of the others.
    pub(super) async fn compare_module(&self, ids: &mut Ids) -> Result<u64, StoreError> {
        let key = self.site.trust.keys.first();
        let info = Info::read(self.ask(Info::ask(key)).await?)?;
        let mut missing = Vec::new();
        for first in (0..ids.ends.len()).step_by(AT_ONCE) {
            let some = first..(first + AT_ONCE).min(ids.ends.len());
            let asked = exist(key, some.clone().map(|number| ids.id(number)), None);
            let held = flags(self.ask(asked).await?, some.len())?;
            missing.extend(some.zip(held).filter(|(_, held)| !held).map(|(number, _)| number));
        }
        ids.missing = missing;
        // The others are of the seal.
        let has = info.ids.saturating_sub(SEALED);
        let evidence = Evidence {
            tries: ids.all(),
            fit: ids.all() - ids.missing.len() as u64,
            chance: info.size().expected_rate(info.ids),
            least: has as f64 / 2.0,
        };
        if has > 0 && !evidence.shows() {
            return Err(self.site.trust.foreign(&wrong(ids.all(), evidence.fit, has)));
        }
        Ok(ids.missing.iter().map(|number| ids.id(*number).len() as u64).sum())
    }

    /// Inserts what is missing.
    pub(super) async fn insert(
        &self,
        ids: &Ids,
        progress: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<(), StoreError> {
        let trust = &self.site.trust;
        for some in ids.missing.chunks(AT_ONCE) {
            let mut command = cmd("EVAL");
            command.arg(IDS).arg(2).arg(&trust.keys.statement);
            command.arg(trust.keys.first()).arg(&*self.word).arg(SEALED);
            command.arg(seal_ids(self.seal_at()?).collect::<Vec<_>>());
            for number in some {
                command.arg(ids.id(*number));
            }
            let reply = self.ask(command).await?;
            if reply.int().is_ok() {
                return Err(StoreError::Lost { step: "the upload" });
            }
            flags(reply, some.len())?;
            progress(some.iter().map(|number| ids.id(*number).len() as u64).sum());
        }
        Ok(())
    }

    /// Returns how many ids the module says that it has.
    pub(super) async fn count_module(&self) -> Result<u64, StoreError> {
        let info = self.ask(Info::ask(self.site.trust.keys.first())).await?;
        Ok(Info::read(info)?.ids)
    }
}

impl Site {
    /// Seals a module's filter, if there is one, and it has room.
    pub(super) async fn seal_for_refill(
        &self,
        connection: &Arc<Connection>,
    ) -> Result<u64, StoreError> {
        let info = Info::read(self.ask_one(connection, Info::ask(self.trust.keys.first())).await?)?;
        if !info.has_room() || !info.is_legible() {
            return Err(self
                .trust
                .foreign("it has no room for a seal (16 ids), or a rate over 0.25"));
        }
        let statement = &self.trust.keys.statement;
        let kept =
            self.ask_one(connection, cmd("HMGET").arg(statement).arg("drawn").clone()).await?;
        let [kept] = kept.fields()?;
        if let Some(kept) = kept.optional_bytes()?
            && let Some(kept) = std::str::from_utf8(&kept).ok().and_then(|text| text.parse().ok())
        {
            self.trust.drawn.store(Some(Arc::new(kept)));
        }
        let seal = self.seal_module(connection).await?;
        // A process that comes after this one uses the same: each seal counts as 16 ids.
        let keep = cmd("HSET").arg(statement).arg("drawn").arg(seal).clone();
        self.ask_one(connection, keep).await?;
        Ok(seal)
    }
}
