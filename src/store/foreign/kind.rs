//! How a filter is kept: as a bitmap, or by a module of Redis. What differs between the two is said in a file for each.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ::redis::{Cmd, Value};

use super::info::Info;
use super::keys::Keys;
use super::known::{Believed, Known};
use super::layout::{Layout, Place};
use super::record::Stated;
use super::size::BloomSize;
use crate::error::StoreError;
use crate::store::BoxFuture;
use crate::store::link::connection::{Connection, Link};
use crate::store::link::reply::Reply;
use crate::store::link::wire::{Wire, pipeline};
use crate::verdict::Doubt;

/// How long each command of an inspection may take.
pub(super) const DEADLINE: Duration = Duration::from_secs(5);

/// A kind of filter.
pub(super) trait Kind: fmt::Debug + Send + Sync + 'static {
    /// Returns the commands that ask about ids.
    fn ask(&self, asked: &Query<'_>) -> Vec<Cmd>;

    /// Reads their replies, by what was read of the statement behind them.
    fn read(
        &self,
        asked: &Query<'_>,
        replies: &mut dyn Iterator<Item = Value>,
        stated: &Stated,
    ) -> Result<Found, StoreError>;

    /// Reads which ids were new, from the replies to the commands that inserted them.
    fn were_new(&self, places: &[Place], replies: Vec<Value>) -> Result<Vec<bool>, StoreError>;

    /// Looks at the filter; says whether it still is what was stated, if anything was.
    fn look<'a>(
        &'a self,
        wire: &'a dyn Wire,
        keys: &'a Keys,
        believed: Result<&'a Believed, Doubt>,
    ) -> BoxFuture<'a, Result<bool, StoreError>>;

    /// Looks at all of the filter that is here, the bits before `end`. `seal` is what it is believed to be sealed with.
    fn inspect<'a>(
        &'a self,
        asker: Asker<'a>,
        keys: &'a Keys,
        end: u64,
        seal: Option<u64>,
    ) -> BoxFuture<'a, Result<Sight, StoreError>>;

    /// Sums up what there is on all instances, of a filter of this size.
    fn sum(&self, layout: &dyn Layout, size: BloomSize, sights: &[&Sight]) -> Sum;

    /// Returns where the seal belongs, or what it is made of; or why the filter can have none.
    fn seal_of(&self, end: u64, sight: &Sight) -> Result<u64, &'static str>;

    /// Adds what the script needs that seals the filter.
    fn seal(&self, script: &mut Cmd, end: u64, seal: u64);

    /// Notes that trust in the filter was stated with its seal: after a loss it needs another one.
    fn note_stated(&self) {}

    /// Returns the size of a filter that is believed, how many ids it takes, and how many it has.
    fn extent(
        &self,
        layout: &dyn Layout,
        size: BloomSize,
        believed: &Believed,
    ) -> Result<(BloomSize, u64, u64), Doubt>;
}

/// Bits of one id that are asked for, and in which of the layout's keys.
pub(super) type Part<'a> = (usize, &'a [u64]);

/// Which ids have all the bits that were asked for, and whether what an absence rests on still is as it was.
pub(super) type Found = (Vec<bool>, Result<(), Doubt>);

/// What a round asks about.
pub(super) struct Query<'a> {
    pub(super) keys: &'a Keys,
    pub(super) known: &'a Known,
    /// Each id's once, and the newest insert's behind them.
    pub(super) places: Vec<&'a Place>,
    /// The bits of each that are asked for.
    pub(super) parts: Vec<Part<'a>>,
    /// How many ids a module's filter is known to have.
    pub(super) floor: u64,
}

/// What a look at all of a filter on one Redis has shown.
#[derive(Debug, Clone, Default)]
pub(super) struct Sight {
    /// Of a bitmap.
    pub(super) keys: Vec<KeyInspection>,
    /// As they are stored.
    pub(super) witnesses: Vec<u8>,
    /// What a module says.
    pub(super) info: Option<Info>,
    /// What a module's filter was sealed with, if it had room.
    pub(super) seal: Option<u64>,
}

/// What there is at one key.
#[derive(Debug, Clone)]
pub(super) struct KeyInspection {
    /// With whatever is behind the last bit.
    pub(super) bytes: u64,
    pub(super) bits_set: u64,
}

/// What there is of a filter on all instances.
pub(super) struct Sum {
    pub(super) size: BloomSize,
    pub(super) bytes: u64,
    pub(super) ids: u64,
    pub(super) rate: f64,
}

/// Asks Redis for what an inspection needs.
#[derive(Clone, Copy)]
pub(super) struct Asker<'a> {
    pub(super) link: &'a Link<()>,
    pub(super) connection: &'a Arc<Connection<()>>,
}

impl Asker<'_> {
    pub(super) async fn all(
        self,
        commands: impl IntoIterator<Item = Cmd>,
    ) -> Result<Vec<Reply>, StoreError> {
        let commands = pipeline(commands);
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        let replies = self.link.ask(self.connection, &commands, DEADLINE).await?;
        Ok(replies.into_iter().map(|value| Reply::new("an inspection", value)).collect())
    }

    pub(super) async fn one(self, command: Cmd) -> Result<Reply, StoreError> {
        let reply = self.all([command]).await?.pop();
        Ok(reply.unwrap_or_else(|| Reply::new("an inspection", Value::Nil)))
    }
}
