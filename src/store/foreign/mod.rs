//! Filters that other systems write, in Redis, as they lay them out.
//!
//! | file | what |
//! |---|---|
//! | `filter`, `layout` | the type that the application gives, and what a system's file says |
//! | `go_zero`, `guava`, `orestes`, `php_bkdr`, `redisbloom`, `redisson`, `rueidisprob` | a file for each system |
//! | `hash`, `size` | what several systems compute alike |
//! | `site`, `keys`, `handshake` | the part of a filter on one Redis: connections, checks, inserts |
//! | `bitmap`, `module` | what differs between bits of a string, and what a module of Redis keeps |
//! | `round`, `rounds`, `batch` | many checks in one round trip or two, and what their replies mean |
//! | `seal`, `known`, `trust`, `record` | when a missing bit may be believed |
//! | `refill` | sets what the source has, and states trust |
//! | `inspection`, `evidence` | a look at the whole filter, and what shows that trust may be stated |
//! | `handle` | what the application can ask of such a filter |
//!
//! A new system is a file of its own, and its lines here. There is no journal and there are no nulls: programs that do not
//! know the guard write to the filter, and would not take a null away.

mod batch;
mod bitmap;
pub(crate) mod error;
mod evidence;
pub(crate) mod filter;
pub(crate) mod handle;
mod handshake;
mod hash;
pub(crate) mod inspection;
mod keys;
mod known;
mod layout;
mod module;
mod record;
mod refill;
mod round;
mod rounds;
mod seal;
mod site;
pub(crate) mod size;
mod trust;

mod go_zero;
mod guava;
mod orestes;
mod php_bkdr;
mod redisbloom;
mod redisson;
mod rueidisprob;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use self::error::TrustError;
use self::filter::ForeignFilter;
use self::inspection::Inspection;
use self::layout::Layout;
use self::refill::{Pause, Refill};
use self::site::{SentToSite, Site};
use self::trust::Trust;
use super::link::attempts::ATTEMPT;
use super::link::node;
use super::map::endpoint::Endpoint;
use super::{
    Answer, Begun, BoxFuture, Condition, FleetChange, Lookups, NewNull, Remembered, Sought, Store,
    Survey,
};
use crate::background::Background;
use crate::error::{FleetError, StoreError};
use crate::filter::Generation;
use crate::id::Id;
use crate::mode::SharedMode;
use crate::settings::Settings;

const NO_FLEET: &str = "the guard keeps nothing beside another system's filter that all processes go by: set_mode in each";
const TRUSTED: &str = "it is trusted: there is nothing to refill";

/// The store whose filter another system writes. Its background tasks end with it.
pub(crate) struct ForeignStore {
    name: Arc<str>,
    layout: Arc<dyn Layout>,
    /// One for each Redis that the filter is spread over. Never empty.
    sites: Vec<Arc<Site>>,
    longest_transaction: Duration,
    pause: Arc<Pause>,
    background: Background,
}

impl ForeignStore {
    pub(crate) fn new(settings: &Settings, filter: &ForeignFilter, endpoint: &Endpoint) -> Self {
        let layout = Arc::clone(&filter.layout);
        let site = |(instance, endpoint)| {
            let trust = Trust::new(filter, instance);
            Arc::new(Site::new(trust, endpoint, settings))
        };
        let sites = filter.endpoints(endpoint).enumerate().map(site).collect();
        let name = settings.name.as_str().into();
        Self {
            name,
            layout,
            sites,
            longest_transaction: settings.longest_transaction,
            pause: Arc::default(),
            background: Background::default(),
        }
    }

    /// Returns the part that an id belongs to.
    fn site(&self, id: &Id) -> &Arc<Site> {
        &self.sites[self.layout.instance(id.as_bytes()) % self.sites.len()]
    }

    /// Says that a guard's own filter can do something, and this one cannot.
    fn cannot<T, E>(&self, why: &str) -> BoxFuture<'_, Result<T, E>>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        Box::pin(std::future::ready(Err(self.sites[0].trust.foreign(why).into())))
    }

    pub(crate) async fn inspect(&self) -> Result<Inspection, StoreError> {
        let mut found = Vec::with_capacity(self.sites.len());
        for site in &self.sites {
            found.push(site.inspect().await?);
        }
        Ok(Inspection::of(found, &*self.layout))
    }

    /// States that the filter which was inspected is whole: these ids exist, and are in it.
    pub(crate) async fn trust_after(
        &self,
        seen: &Inspection,
        known: &BTreeSet<Id>,
    ) -> Result<(), TrustError> {
        seen.is_shown_by(known, &*self.layout)?;
        for (site, seen_there) in self.sites.iter().zip(&seen.sites) {
            site.look_for(&self.ids_at(known, site), seen_there).await?;
        }
        for (site, seen_there) in self.sites.iter().zip(&seen.sites) {
            // Some of them may be deleted. So a source should give half as many at least.
            site.trust_after(seen_there, (seen.ids, seen.ids / 2), "").await?;
        }
        Ok(())
    }

    /// Returns those of some ids whose bits are at a site.
    fn ids_at<'a>(&self, ids: impl IntoIterator<Item = &'a Id>, site: &Arc<Site>) -> Vec<&'a [u8]> {
        let here = |id: &&Id| Arc::ptr_eq(self.site(id), site);
        ids.into_iter().filter(here).map(Id::as_bytes).collect()
    }
}

impl Store for ForeignStore {
    fn start(&self) {
        self.background.start(|tasks| {
            for site in &self.sites {
                node::start(site, &site.node, 2, &self.name, tasks);
            }
        });
    }

    fn check(&self, ids: &[Sought<'_>], now: Instant) -> Answer<Lookups> {
        let send = |(id, _): &Sought<'_>| self.site(id).send(id.as_bytes(), now, ids.len() == 1);
        Answer::to_all(ids.iter().map(send), SentToSite::answer)
    }

    fn add(&self, ids: Vec<Id>) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            for site in &self.sites {
                site.add(&self.ids_at(&ids, site)).await?;
            }
            Ok(())
        })
    }

    /// Remembers nothing: an id that another program inserts would still be refused.
    fn remember(&self, _: &Id, _: NewNull) -> Answer<Remembered> {
        Answer::Ready(Remembered::Late)
    }

    fn remove(&self, _: &Id, _: Duration) -> BoxFuture<'_, Result<Remembered, StoreError>> {
        Box::pin(std::future::ready(Ok(Remembered::Late)))
    }

    fn distrust(&self, _: &Id, generation: Generation) -> BoxFuture<'_, Result<(), StoreError>> {
        self.sites.iter().for_each(|site| site.distrust(generation));
        Box::pin(std::future::ready(Ok(())))
    }

    fn condition(&self) -> Condition {
        let mut conditions = self.sites.iter().map(|site| site.condition());
        let first = conditions.next().expect("a filter is somewhere");
        conditions.fold(first, |one, other| if one.live.is_ok() { other } else { one })
    }

    fn survey(&self) -> BoxFuture<'_, Result<Survey, StoreError>> {
        Box::pin(async {
            let connection = self.sites[0].node.inserts.connected(ATTEMPT).await?;
            let now_us = connection.redis_us(Instant::now());
            Ok(Survey { live: self.condition().live, now_us, due_us: None })
        })
    }

    fn fleet_mode(&self) -> Arc<SharedMode> {
        Arc::default()
    }

    fn change_fleet(&self, _: FleetChange) -> BoxFuture<'_, Result<(), FleetError>> {
        self.cannot(NO_FLEET)
    }

    fn begin(&self, _: i64) -> BoxFuture<'_, Result<Begun, StoreError>> {
        Box::pin(async {
            let mut is_whole = true;
            for site in &self.sites {
                is_whole &= site.look().await?;
            }
            if is_whole {
                return Err(self.sites[0].trust.foreign(TRUSTED));
            }
            if let Some(left) = self.pause.left() {
                let reason = format!("trust did not last: it is refilled in {} s", left.as_secs());
                return Err(self.sites[0].trust.foreign(&reason));
            }
            let (layout, pause) = (Arc::clone(&self.layout), Arc::clone(&self.pause));
            Refill::begin(layout, &self.sites, self.longest_transaction, pause).await
        })
    }
}
