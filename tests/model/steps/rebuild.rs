//! A rebuild, step by step.

use super::join::have_repeated;
use super::{Steps, Turn};
use crate::instance::{Event, Step};
use crate::rules::Rule;
use crate::state::{Bits, FilterCopy, IDS, Next, Rebuild, State};

impl Turn<'_> {
    pub(super) fn rebuild(&self, steps: &mut Steps) {
        let process = self.process();
        let rebuild = match process.rebuild {
            Some(rebuild) => {
                self.renew(&rebuild, steps);
                rebuild
            }
            None if process.left.rebuilds > 0 => Rebuild::default(),
            None => return,
        };
        let order = self.model.of.order;
        let step = order[usize::from(rebuild.at)];
        // A process that is not connected can scan, and take up its own filter as a copy.
        let is_local = matches!(step, Step::Scan(_) | Step::Fits | Step::Keep);
        if !is_local && !process.is_connected {
            return;
        }
        match step {
            Step::Lease | Step::LeaseOnly => self.lease(&rebuild, step == Step::Lease, steps),
            Step::Allocate => self.allocate(&rebuild, steps),
            Step::Recent => self.read_recent(&rebuild, steps),
            Step::Scan(id) => self.scan(&rebuild, id, steps),
            Step::Fits => self.fits(&rebuild, steps),
            Step::Upload => self.upload(&rebuild, steps),
            Step::Swap => self.swap(&rebuild, steps),
            Step::Keep => self.keep(&rebuild, steps),
        }
    }

    /// Takes this step: goes on to the next, if there is one.
    fn proceed(&self, next: &mut State, rebuild: Rebuild) {
        let process = &mut next.processes[self.me];
        if process.rebuild.is_none() {
            process.left.rebuilds -= 1;
        }
        let at = rebuild.at + 1;
        let goes_on = usize::from(at) < self.model.of.order.len();
        process.rebuild = goes_on.then_some(Rebuild { at, ..rebuild });
    }

    /// Frees what was built, gives the lease back, and ends.
    fn give_up(&self, rebuild: &Rebuild, why: &str, steps: &mut Steps) {
        let mut next = self.with(|process| process.rebuild = None);
        let redis = &mut next.redis;
        if redis.next.is_some_and(|next| next.token == rebuild.token && next.nonce == rebuild.nonce)
        {
            redis.next = None;
        }
        if redis.lease == rebuild.nonce {
            redis.lease = 0;
        }
        steps.step(next, |_| format!("{}'s rebuild gives up: {why}", self.name()));
    }

    fn is_own(&self, next: &Next, rebuild: &Rebuild) -> bool {
        self.is_same((next.token, next.nonce), (rebuild.token, rebuild.nonce))
    }

    fn is_joined(&self) -> bool {
        self.process().incarnation == self.state.redis.meta.incarnation
    }

    /// Its lease has expired, and nobody has unlinked its filter.
    fn renew(&self, rebuild: &Rebuild, steps: &mut Steps) {
        let redis = &self.state.redis;
        let is_there = redis
            .next
            .is_some_and(|next| next.token == rebuild.token && next.nonce == rebuild.nonce);
        let may = self.process().is_connected && self.is_joined() && rebuild.token != 0;
        if may && is_there && redis.lease == 0 {
            let mut next = *self.state;
            next.redis.lease = rebuild.nonce;
            steps.step(next, |_| format!("{}'s rebuild takes its lease again", self.name()));
        }
    }

    fn lease(&self, rebuild: &Rebuild, allocates: bool, steps: &mut Steps) {
        if self.state.redis.lease != 0 || !self.is_joined() {
            return;
        }
        let mut next = *self.state;
        next.nonces += 1;
        let redis = &mut next.redis;
        let live = redis.bits.map_or(0, |bits| bits.token);
        let built = redis.next.map_or(0, |next| next.token);
        let token = redis.meta.epoch.max(live).max(built) + 1;
        redis.meta.epoch = token;
        redis.lease = next.nonces;
        let (nonce, stamp) = (next.nonces, redis.meta.last);
        if allocates {
            redis.next = Some(Next { token, nonce, stamp, ..Next::default() });
        }
        let leased = Rebuild {
            token,
            nonce,
            incarnation: redis.meta.incarnation,
            leased: next.now,
            lease_number: stamp,
            ..*rebuild
        };
        self.proceed(&mut next, leased);
        steps.step(next, |_| {
            let with = if allocates { "with a filter" } else { "without a filter" };
            format!("{}'s rebuild takes the lease, {with}, of token {token}", self.name())
        });
    }

    fn allocate(&self, rebuild: &Rebuild, steps: &mut Steps) {
        if self.state.redis.lease != rebuild.nonce {
            return self.give_up(rebuild, "its lease is gone", steps);
        }
        let mut next = *self.state;
        let stamp = next.redis.meta.last;
        let Rebuild { token, nonce, .. } = *rebuild;
        next.redis.next = Some(Next { token, nonce, stamp, ..Next::default() });
        self.proceed(&mut next, Rebuild { lease_number: stamp, ..*rebuild });
        steps.step(next, |_| format!("{}'s rebuild allocates its filter", self.name()));
    }

    /// Reads the record. Where it is not whole the scan has to wait, if it is still to come.
    fn read_recent(&self, rebuild: &Rebuild, steps: &mut Steps) {
        let (model, meta, recent) = (self.model, &self.state.redis.meta, &self.state.redis.recent);
        // What was inserted earlier is committed, or never will be.
        let is_since = |time: u8| time + model.window() >= rebuild.leased;
        let is_floor_young = recent.floor_counts && is_since(recent.floor_time);
        let ends_odd = recent.greatest() != meta.last;
        let is_whole = !(is_floor_young && model.has(Rule::R12Floor))
            && !(ends_odd && model.has(Rule::R12Greatest));
        let before = &model.of.order[..usize::from(rebuild.at)];
        let has_scanned = before.iter().any(|step| matches!(step, Step::Scan(_)));
        if !is_whole && has_scanned && model.has(Rule::R12AfterScan) {
            return self.give_up(rebuild, "the record is not whole, and the scan is over", steps);
        }
        let mut read = *rebuild;
        for id in (0..model.of.ids).filter(|id| recent.numbers[*id] > 0) {
            if is_since(recent.times[id]) {
                read.ids.add(id);
            }
        }
        if !is_whole {
            read.waits_since = 1 + if ends_odd { rebuild.leased } else { recent.floor_time };
        }
        let is_of_read = is_whole || !model.has(Rule::R14OnlyWhole);
        read.position = if is_of_read { meta.last } else { rebuild.lease_number };
        let mut next = *self.state;
        self.proceed(&mut next, read);
        steps.step(next, |_| {
            let waits = if is_whole { "" } else { ", which is not whole: the scan has to wait" };
            format!("{}'s rebuild reads the record: {}{waits}", self.name(), read.ids)
        });
    }

    fn scan(&self, rebuild: &Rebuild, id: usize, steps: &mut Steps) {
        let model = self.model;
        let waits =
            rebuild.waits_since > 0 && self.state.now < rebuild.waits_since + model.window();
        let has_to_wait = model.has(Rule::R10Wait) && model.has(Rule::R10BeforeScan);
        if waits || has_to_wait && !have_repeated(self.state) {
            return;
        }
        let is_there = self.state.rows.has(id);
        let mut scanned = *rebuild;
        if is_there {
            scanned.ids.add(id);
        }
        let mut next = *self.state;
        self.proceed(&mut next, scanned);
        steps.step(next, |_| {
            let found = if is_there { "a row" } else { "no row" };
            format!("{}'s scan finds {found} of {}", self.name(), IDS[id])
        });
    }

    /// A source may have more rows than the filter has room for.
    fn fits(&self, rebuild: &Rebuild, steps: &mut Steps) {
        let mut next = *self.state;
        self.proceed(&mut next, *rebuild);
        steps.step(next, |_| format!("{}'s scan fits into its filter", self.name()));
        let process = self.process();
        if !process.is_connected {
            return;
        }
        if self.model.has(Rule::R5Outgrown) {
            if process.left.rebuilds > 0 {
                self.give_up(rebuild, "the scan outgrew its filter; it begins again", steps);
            }
            return;
        }
        let mut next = *self.state;
        let (redis, stamp) = (&mut next.redis, self.state.redis.meta.last);
        let Some(built) = redis.next.as_mut().filter(|next| self.is_own(next, rebuild)) else {
            return;
        };
        let Next { token, nonce, .. } = *built;
        *built = Next { token, nonce, stamp, ..Next::default() };
        self.proceed(&mut next, *rebuild);
        steps.step(next, |_| {
            format!("{}'s scan outgrew its filter, which is allocated again", self.name())
        });
    }

    fn upload(&self, rebuild: &Rebuild, steps: &mut Steps) {
        let mut next = *self.state;
        let redis = &mut next.redis;
        if redis.next.is_none() && self.makes_anew(rebuild) {
            redis.lease = rebuild.nonce;
            let Rebuild { token, nonce, .. } = *rebuild;
            let stamp = redis.meta.last;
            redis.next = Some(Next { token, nonce, stamp, ..Next::default() });
            return steps.step(next, |_| {
                format!("{}'s rebuild finds no filter, and makes it anew", self.name())
            });
        }
        let Some(built) = redis.next.as_mut().filter(|next| self.is_own(next, rebuild)) else {
            let is_gone = self.state.redis.next.is_none();
            if is_gone {
                steps.event(Event::NextGone, *self.state, |_| "its filter is gone".to_owned());
            }
            return self.give_up(rebuild, "its filter is gone", steps);
        };
        built.ids.add_all(rebuild.ids);
        built.is_uploaded = true;
        let is_right = self.model.has(Rule::R14NotUpload);
        let position = if is_right { rebuild.position } else { redis.meta.last };
        self.proceed(&mut next, Rebuild { position, ..*rebuild });
        steps.step(next, |_| format!("{}'s rebuild uploads {}", self.name(), rebuild.ids));
    }

    /// Whether a leader that finds no filter would make one, as it must not.
    fn makes_anew(&self, rebuild: &Rebuild) -> bool {
        let lease = self.state.redis.lease;
        let has_lease = lease == rebuild.nonce && !self.model.has(Rule::R5MadeOnce);
        has_lease || lease == 0 && !self.model.has(Rule::R5LeaseWithNext)
    }

    /// Why the swap refuses, if it does.
    fn refusal(&self, rebuild: &Rebuild) -> Result<Next, &'static str> {
        let (model, redis) = (self.model, &self.state.redis);
        let own = redis.next.filter(|next| self.is_own(next, rebuild));
        let next = own.ok_or("its filter is gone")?;
        let last = redis.meta.last;
        let refusals = [
            (
                Rule::R13Incarnation,
                redis.meta.incarnation != rebuild.incarnation,
                "another incarnation",
            ),
            (Rule::R5Stamp, next.stamp != last, "its filter lacks an insert"),
            (Rule::R5Pieces, !next.is_uploaded, "its filter lacks pieces"),
            (
                Rule::R9Vouched,
                rebuild.leased < redis.meta.unvouched,
                "nobody vouches for some inserts",
            ),
        ];
        let is_older = redis.bits.is_some_and(|bits| bits.token >= rebuild.token);
        let holds = |(rule, is_so, why): &(Rule, bool, &'static str)| {
            (*is_so && model.has(*rule)).then_some(*why)
        };
        match refusals.iter().find_map(holds) {
            Some(why) => Err(why),
            None if is_older => Err("a newer filter is live"),
            None => Ok(next),
        }
    }

    fn swap(&self, rebuild: &Rebuild, steps: &mut Steps) {
        let model = self.model;
        let built = match self.refusal(rebuild) {
            Ok(built) => built,
            Err(why) => return self.give_up(rebuild, why, steps),
        };
        let has_to_wait = model.has(Rule::R10Wait) && !model.has(Rule::R10BeforeScan);
        if has_to_wait && !have_repeated(self.state) {
            return;
        }
        let mut next = *self.state;
        let redis = &mut next.redis;
        let Rebuild { token, .. } = *rebuild;
        let (run, incarnation) = (self.process().run, redis.meta.incarnation);
        let (stamp, nonce) = (redis.meta.last, built.nonce);
        let live =
            Bits { token, nonce, is_disproved: false, stamp, run, incarnation, ids: built.ids };
        let mut event = (incarnation > 1).then_some(Event::SwapAfterLoss);
        (redis.bits, redis.next, redis.meta.live) = (Some(live), None, token);
        if redis.lease == rebuild.nonce {
            redis.lease = 0;
        } else {
            event = event.or(Some(Event::SwapWithoutLease));
        }
        if self.ends_settling(rebuild) {
            redis.meta.is_settled = true;
            event = event.or(Some(Event::SettlingEnds));
        }
        let is_right = model.has(Rule::R14NotSwap);
        let position = if is_right { rebuild.position } else { stamp };
        // Only a copy needs what was scanned.
        let ids = if model.of.keeps_copy { rebuild.ids } else { Default::default() };
        self.proceed(&mut next, Rebuild { position, ids, ..*rebuild });
        steps.event(event, next, |_| {
            format!("{}'s rebuild swaps: {} is live, of token {token}", self.name(), built.ids)
        });
    }

    fn ends_settling(&self, rebuild: &Rebuild) -> bool {
        let Some(settling) = self.model.of.settling else { return false };
        let is_by_lease = self.model.has(Rule::R20Lease) && self.model.has(Rule::R20Rebuild);
        let moment = if is_by_lease { rebuild.leased } else { self.state.now };
        moment > settling.settles
            || moment == settling.settles && !self.model.has(Rule::R20StrictlyLater)
    }

    fn keep(&self, rebuild: &Rebuild, steps: &mut Steps) {
        let Rebuild { token, nonce, ids, position, .. } = *rebuild;
        let is_of_now = self.process().incarnation == rebuild.incarnation;
        let mut next = *self.state;
        self.proceed(&mut next, *rebuild);
        if self.model.of.keeps_copy && is_of_now {
            next.processes[self.me].copy = Some(FilterCopy { token, nonce, ids, position });
        }
        steps.step(next, |_| format!("{}'s rebuild is over", self.name()));
    }
}
