//! Filters that other systems write, in Redis, as they lay them out: read, written, and trusted by one statement.
//!
//! | file | what |
//! |---|---|
//! | `filter`, `layout`, `size` | the type that the application gives; what a system's file says; sizes as libraries compute them |
//! | `go_zero`, `guava`, `orestes`, `php_bkdr`, `redisbloom`, `redisson`, `rueidisprob` | a file for each system |
//! | `statement` | which statement there is about the part on one Redis, and whether it holds |
//! | `site` | the part's connections, checks and inserts |
//! | `trust` | what shows that a filter is the writer's, and how trust is stated |
//!
//! Such a filter has no header. So an operator states that it is whole (*trust*), in a key beside it: which Redis process,
//! which layout and numbers, how long each key is. For that a bitmap is made a few clear bytes longer than any program that
//! writes it anew makes it. *Evidence* is what is read of all that: statement, config, and length of each key.
//!
//! | step | in one pipeline | then |
//! |---|---|---|
//! | check | evidence, bits, evidence | a clear bit is an absence only if both are as stated, by the process that is stated, on the connection in use; else it is unknown, and the statement is taken back |
//! | insert | evidence, bits set, evidence | acknowledged if both are as stated, or if no process relies on a statement any more: what was found wrong is taken back *first*. A statement made meanwhile may be about another string: the insert is repeated |
//! | look | statement and config; lengths | on each new connection for checks, and once a second |
//! | trust | bits counted, ids that exist looked for; then a script that writes the statement if each length is still the same | |
//!
//! Why this refuses no id that exists, as long as what was stated is true and writers only set bits: when the statement was made,
//! the strings had all ids; what was acknowledged later was set in strings of the stated length on the process that is stated,
//! or no process trusts them any more. A string that is gone, cut, of another type or written anew has another length. Redis
//! restarted or failed over is another process, even with statement and bits as they were. A process that has found a
//! statement not to hold believes no statement that is as old, even if it cannot take it back. What this does not
//! notice is in the guide's page `other_filters`.
//!
//! There are no nulls: programs that do not know the guard write to the filter, and would not take a null away.

pub(crate) mod filter;
mod layout;
mod site;
mod size;
mod statement;
pub(crate) mod trust;

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

use self::filter::ForeignFilter;
use self::layout::Layout;
use self::site::{SentToSite, Site};
use self::statement::Part;
use self::trust::{CHANCE, MOST_FOUND, Sight, TrustError};
use super::link::attempts::ATTEMPT;
use super::link::node;
use super::map::endpoint::Endpoint;
use super::{
    Answer, Begun, BoxFuture, Condition, Distrusted, FleetChange, Lookups, NewNull, Remembered,
    Sought, Store, Survey,
};
use crate::background::Background;
use crate::error::{FleetError, StoreError};
use crate::filter::Generation;
use crate::id::Id;
use crate::mode::SharedMode;
use crate::settings::Settings;

const NO_FLEET: &str = "the guard keeps nothing beside another system's filter that all processes go by: set_mode in each";
const NOT_BUILT: &str = "only the system that writes it builds it";

/// The store whose filter another system writes. Its background tasks end with it.
pub(crate) struct ForeignStore {
    name: Arc<str>,
    layout: Arc<dyn Layout>,
    /// One for each Redis that the filter is spread over. Never empty.
    sites: Vec<Arc<Site>>,
    background: Background,
}

impl ForeignStore {
    pub(crate) fn new(settings: &Settings, filter: &ForeignFilter, endpoint: &Endpoint) -> Self {
        let layout = Arc::clone(&filter.layout);
        let site = |(instance, endpoint)| {
            Arc::new(Site::new(Part::new(&layout, instance), endpoint, settings))
        };
        let sites = filter.endpoints(endpoint).enumerate().map(site).collect();
        let name = settings.name.as_str().into();
        Self { name, layout, sites, background: Background::default() }
    }

    /// Returns the part that an id belongs to.
    fn site(&self, id: &Id) -> &Arc<Site> {
        &self.sites[self.layout.instance(id.as_bytes()) % self.sites.len()]
    }

    /// Returns those of some ids whose bits are at a site.
    fn ids_at<'a>(&self, ids: impl IntoIterator<Item = &'a Id>, site: &Arc<Site>) -> Vec<&'a [u8]> {
        let here = |id: &&Id| Arc::ptr_eq(self.site(id), site);
        ids.into_iter().filter(here).map(Id::as_bytes).collect()
    }

    /// States that the filter is whole: these ids exist, and are in it.
    pub(crate) async fn trust(&self, known: &BTreeSet<Id>) -> Result<(), TrustError> {
        let mut sights = Vec::with_capacity(self.sites.len());
        for site in &self.sites {
            sights.push(site.survey().await?);
        }
        self.is_shown(known, &sights)?;
        let mut missing = 0;
        for (site, seen) in self.sites.iter().zip(&sights) {
            missing += site.missing(&self.ids_at(known, site), seen).await?;
        }
        if missing > 0 {
            return self.unfit(format!(
                "{missing} of {} ids that exist are not in it: compare its numbers, and how ids are written as bytes, with the \
                 program that writes it; where they are right, have it write what is missing",
                known.len()
            ));
        }
        for (site, seen) in self.sites.iter().zip(&sights) {
            site.state(seen).await?;
        }
        Ok(())
    }

    /// Judges whether these ids are enough to show that the numbers are the writer's.
    fn is_shown(&self, known: &BTreeSet<Id>, sights: &[Sight]) -> Result<(), TrustError> {
        let rate = sights.iter().map(Sight::rate).fold(0.0, f64::max);
        if rate > MOST_FOUND {
            return self.unfit(format!(
                "{rate:.3} of the ids that do not exist are in it: compare its numbers with the program that writes it, or have \
                 that make a larger filter"
            ));
        }
        // Where most bits of an id may be alike under other numbers, each id counts as one bit.
        let bits = if self.layout.is_even() { 1 } else { sights[0].size.hashes };
        let needed = (CHANCE.ln() * f64::from(bits) / rate.ln()).ceil().max(1.0) as u64;
        let shows = |id: &&Id| self.layout.shows_numbers(id.as_bytes());
        let given = known.iter().filter(shows).count() as u64;
        if given >= needed {
            return Ok(());
        }
        self.unfit(format!(
            "{given} ids were given that show its numbers, and {needed} are needed. Of a BKDR filter, short ids show nothing"
        ))
    }

    fn unfit(&self, reason: String) -> Result<(), TrustError> {
        Err(TrustError::Unfit { filter: format!("{:?}", self.layout), reason })
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

    fn distrust(
        &self,
        id: &Id,
        generation: Generation,
    ) -> BoxFuture<'_, Result<Distrusted, StoreError>> {
        let site = Arc::clone(self.site(id));
        Box::pin(async move { site.distrust(generation).await.map(|()| Distrusted::Stays) })
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
        let error = self.sites[0].part.error(NO_FLEET);
        Box::pin(std::future::ready(Err(error.into())))
    }

    fn begin(&self, _: i64) -> BoxFuture<'_, Result<Begun, StoreError>> {
        let error = self.sites[0].part.error(NOT_BUILT);
        Box::pin(std::future::ready(Err(error)))
    }
}
