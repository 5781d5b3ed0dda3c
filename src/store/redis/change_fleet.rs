//! Changes how all processes of the filter act.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::fleet::HOLDS;
use super::shard::Shard;
use crate::error::StoreError;
use crate::mode::Mode;
use crate::store::FleetChange;
use crate::store::link::reply::odd;
use crate::store::link::script::{Script, hex};
use crate::store::link::session::Purpose;

/// An operator who has refusals end must not have to wait for memory.
static CHANGE_FLEET: Script =
    Script::despite_oom("change_fleet.lua", include_str!("change_fleet.lua"));

const DEADLINE: Duration = Duration::from_secs(1);
/// How long after it was sent a change may be made: a later one would undo what others have set since.
const LATEST: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Judge,
    Make,
}

impl Shard {
    /// Changes the metadata, and waits until every process goes by it.
    pub(super) async fn change_fleet(
        &self,
        change: &FleetChange,
        how: Change,
    ) -> Result<(), StoreError> {
        let (expected, incarnation) = arguments(change, self.number);
        let asks = *change == FleetChange::Rebuild;
        let number = self.change_metadata(expected, incarnation, asks, how).await?;
        if let (Some(mode), Change::Make) = (change.mode(), how) {
            // Before a poll shows it, Redis may have lost it.
            self.known.common.note_mode(mode, number);
            // No process acts on what it read before.
            sleep(HOLDS).await;
            // Redis may have lost it before anybody else read it, or have been told another meanwhile.
            let now = self.change_metadata(Default::default(), &[], false, Change::Judge).await?;
            if now < number {
                return Err(StoreError::disconnected("redis has lost the mode that was set"));
            }
            if self.known.common.mode.get() != mode {
                return Err(StoreError::overtaken());
            }
        }
        Ok(())
    }

    /// Runs the script, and returns the mode's number.
    async fn change_metadata(
        &self,
        [mode, number, after]: [String; 3],
        incarnation: &[u8],
        asks: bool,
        how: Change,
    ) -> Result<i64, StoreError> {
        let connection = self.connected(Purpose::Inserts, DEADLINE).await?;
        let key_id = hex(connection.identity.digester.key_id());
        let latest = connection.on.redis_us(Instant::now() + LATEST).to_string();
        let asked: &[u8] = if asks { b"1" } else { b"" };
        let judge: &[u8] = if how == Change::Judge { b"1" } else { b"" };
        let [key_id, mode, number, after, latest] =
            [&key_id, &mode, &number, &after, &latest].map(|arg| arg.as_bytes());
        let args = [key_id, mode, number, after, incarnation, asked, judge, latest];
        let keys = [self.known.keys.meta.as_str()];
        let reply = connection.script(&CHANGE_FLEET, &keys, &args, DEADLINE).await?;
        let (outcome, fields) = reply.outcome()?;
        match (outcome.as_str(), fields.first()) {
            ("OK", Some(number)) => number.int(),
            ("OVERTAKEN", _) => Err(StoreError::overtaken()),
            // The next connection joins what is there.
            ("KEY" | "LATE", _) => {
                connection.withdraw();
                Err(StoreError::disconnected("redis has lost the metadata, or a clock has jumped"))
            }
            _ => Err(odd(CHANGE_FLEET.name(), outcome)),
        }
    }
}

impl FleetChange {
    /// Returns the mode that it sets.
    fn mode(&self) -> Option<Mode> {
        match self {
            Self::Mode(mode) => Some(*mode),
            Self::Enforce { .. } => Some(Mode::Enforce),
            Self::Rebuild => None,
        }
    }
}

/// Returns the mode, the number of the mode that it replaces, the moment after which the live filter's rebuild began, and
/// the incarnation of both, as a shard takes them.
fn arguments(change: &FleetChange, shard: usize) -> ([String; 3], &[u8]) {
    let mode = change.mode().map_or_else(String::new, |mode| mode.letter().to_string());
    let FleetChange::Enforce { seen, after } = change else {
        return ([mode, String::new(), String::new()], &[]);
    };
    let seen = &seen.metadata[shard];
    let after_us = after.metadata[shard].now_us;
    ([mode, seen.mode_number.to_string(), after_us.to_string()], &seen.incarnation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{FleetView, SeenMetadata};

    #[test]
    fn a_shards_filter_is_compared_with_its_own_redis_clock() {
        let view = |of: [(i64, i64); 2]| FleetView {
            metadata: of
                .map(|(mode_number, now_us)| {
                    let incarnation = now_us.to_string().into_bytes();
                    SeenMetadata { incarnation, mode_number, now_us }
                })
                .into(),
            longest_transaction: Duration::ZERO,
        };
        let (seen, after) = (view([(7, 10), (8, 1_000)]), view([(7, 20), (8, 1_020)]));
        let enforce = FleetChange::Enforce { seen, after };
        let text = |of: &str| of.to_owned();
        assert_eq!(arguments(&enforce, 0), ([text("e"), text("7"), text("20")], &b"10"[..]));
        assert_eq!(arguments(&enforce, 1), ([text("e"), text("8"), text("1020")], &b"1000"[..]));
    }
}
