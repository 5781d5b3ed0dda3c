//! A look at a whole foreign filter.

use std::sync::Arc;

use super::kind::{Asker, DEADLINE, Kind, Sight, Sum};
use super::known::{Numbers, read_numbers};
use super::layout::Layout;
use super::site::Connection;
use super::site::Site;
use super::size::BloomSize;
use crate::error::StoreError;

/// What there is of a foreign filter, at one moment.
///
/// Made by [`ForeignHandle::inspect`](crate::ForeignHandle::inspect), and what
/// [`trust_after`](crate::ForeignHandle::trust_after) wants to see: trust is stated in what was looked at, and in nothing
/// that took its place since.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Inspection {
    /// How large the filter is made: with the numbers in Redis, where the system keeps them there.
    pub size: BloomSize,
    /// The bytes there are of it now.
    pub bytes: u64,
    /// The bits that are set; none where a module keeps the filter, which does not tell.
    pub bits_set: u64,
    /// How many ids it holds, as estimated from that: `-m/k · ln(1 - set/m)`. A module counts them.
    pub ids: u64,
    /// The share of ids that do not exist and are found all the same: `(set/m)^k`. With a module it is estimated from
    /// bytes, capacity and ids.
    pub false_positive_rate: f64,
    pub(super) sites: Vec<SiteInspection>,
}

/// What there is on one Redis.
#[derive(Debug, Clone)]
pub(super) struct SiteInspection {
    pub(super) run: u32,
    pub(super) config: Numbers,
    pub(super) size: BloomSize,
    pub(super) sight: Sight,
}

impl Inspection {
    /// Puts together what there is on all instances.
    pub(super) fn of(sites: Vec<SiteInspection>, layout: &dyn Layout, kind: &dyn Kind) -> Self {
        let size = sites.first().map_or(BloomSize::new(0, 0), |site| site.size);
        let sights: Vec<&Sight> = sites.iter().map(|site| &site.sight).collect();
        let bits_set = sights.iter().flat_map(|sight| &sight.keys).map(|key| key.bits_set).sum();
        let Sum { size, bytes, ids, rate } = kind.sum(layout, size, &sights);
        Self { size, bytes, bits_set, ids, false_positive_rate: rate, sites }
    }
}

impl Site {
    /// Looks at all of the filter that is here.
    pub(super) async fn inspect(&self) -> Result<SiteInspection, StoreError> {
        let trust = &self.trust;
        let connection = self.node.inserts.connected(DEADLINE).await?;
        let config = self.read_config(&connection).await?;
        let size = trust.layout.size(&config).map_err(|reason| trust.foreign(&reason))?;
        let known = trust.known();
        let believed = known.as_ref().and_then(|known| known.believed().ok());
        let (end, seal) = (trust.layout.end(size), believed.map(|believed| believed.record.seal));
        let sight = trust.kind.inspect(self.asker(&connection), &trust.keys, end, seal).await?;
        Ok(SiteInspection { run: connection.process.run, config, size, sight })
    }

    /// Reads the numbers, if Redis has them.
    pub(super) async fn read_config(
        &self,
        connection: &Arc<Connection>,
    ) -> Result<Numbers, StoreError> {
        read_numbers(self.asker(connection).all(self.trust.config()).await?.pop())
    }

    pub(super) fn asker<'a>(&'a self, connection: &'a Arc<Connection>) -> Asker<'a> {
        Asker { link: &self.node.inserts, connection }
    }
}
