//! A rebuild, step by step.

use super::Turn;
use crate::instance::Step;
use crate::rules::Rule::*;
use crate::state::{Filter, Ids, Rebuild, State};

impl Turn<'_> {
    pub(super) fn rebuild(&mut self) {
        let process = self.process();
        let begins = (process.left.rebuilds > 0).then(Rebuild::default);
        let Some(rebuild) = process.rebuild.or(begins) else { return };
        self.renew(rebuild);
        // Without a connection a process can scan, and take up its own filter as a copy.
        match self.model.order[usize::from(rebuild.at)] {
            Step::ScanX => self.scan(rebuild, 0),
            Step::ScanY => self.scan(rebuild, 1),
            Step::Keep => self.keep(rebuild),
            _ if !process.is_connected => {}
            Step::Lease => self.lease(rebuild),
            // As it must not: the filter is made anew under the same lease.
            Step::Outgrown => self.proceed("outgrows it", self.allocated(rebuild.own), rebuild),
            Step::Recent => self.read_recent(rebuild),
            Step::Upload => self.upload(rebuild),
            Step::Swap => self.swap(rebuild),
        }
    }

    /// A step is taken: the next one comes, if there is one.
    fn proceed(&mut self, says: &'static str, mut next: State, rebuild: Rebuild) {
        let order = self.model.order;
        let is_none = |at: &usize| order[*at] == Step::ScanY && self.model.ids == 1;
        let further = (usize::from(rebuild.at) + 1..order.len()).find(|at| !is_none(at));
        let process = &mut next.processes[self.me];
        process.left.rebuilds -= u8::from(process.rebuild.is_none());
        process.rebuild = further.map(|further| Rebuild { at: further as u8, ..rebuild });
        self.push(next, [self.name(), "rebuilds:", says]);
    }

    /// Frees what was built, gives the lease back, and ends.
    fn give_up(&mut self, rebuild: Rebuild, why: &'static str) {
        let mut next = self.with(|process| process.rebuild = None);
        let nonce = rebuild.own.nonce;
        next.redis.next = next.redis.next.filter(|next| next.nonce != nonce);
        if next.redis.lease == nonce {
            next.redis.lease = 0;
        }
        self.push(next, [self.name(), "gives its rebuild up:", why]);
    }

    /// Takes a lease again that has expired, while nobody has unlinked the filter.
    fn renew(&mut self, rebuild: Rebuild) {
        let redis = &self.state.redis;
        let is_there = redis.next.is_some_and(|next| next.nonce == rebuild.own.nonce);
        if redis.lease == 0 && is_there && self.process().is_connected && self.is_joined() {
            let words = [self.name(), "rebuilds:", "takes its lease again"];
            self.step(words, |next| next.redis.lease = rebuild.own.nonce);
        }
    }

    fn lease(&mut self, rebuild: Rebuild) {
        let redis = &self.state.redis;
        if redis.lease != 0 || !self.is_joined() {
            return;
        }
        let [live, built] = [redis.bits, redis.next].map(|of| of.map_or(0, |of| of.token));
        let (incarnation, stamp) = (redis.meta.incarnation, redis.meta.last);
        let token = redis.meta.epoch.max(live).max(built) + 1;
        let nonce = self.state.nonces + 1;
        let own = Filter { token, nonce, incarnation, stamp, ..rebuild.own };
        let mut next = self.allocated(own);
        next.nonces = nonce;
        next.redis.meta.epoch = token;
        let rebuild = Rebuild { own, leased: self.state.now, ..rebuild };
        self.proceed("takes the lease, and allocates its filter", next, rebuild);
    }

    /// The building filter is there, empty and under its lease.
    fn allocated(&self, own: Filter) -> State {
        let mut next = *self.state;
        next.redis.next = Some(Filter { stamp: next.redis.meta.last, ids: Ids::default(), ..own });
        next.redis.lease = own.nonce;
        next
    }

    /// Reads the record. Where it is not whole the scan has to wait, if it is still to come.
    fn read_recent(&mut self, mut rebuild: Rebuild) {
        let (model, meta, recent) = (self.model, &self.state.redis.meta, &self.state.redis.recent);
        // What was inserted earlier is committed, or never will be.
        let is_since = |time: u8| time + model.window() >= rebuild.leased;
        let is_floor_young = recent.floor_counts && is_since(recent.floor_time);
        let ends_odd = recent.greatest() != meta.last;
        let may_lack = is_floor_young && model.has(R12Floor) || ends_odd && model.has(R12Greatest);
        let has_scanned = model.order[..usize::from(rebuild.at)].contains(&Step::ScanX);
        if may_lack && has_scanned && model.has(R12AfterScan) {
            return self.give_up(rebuild, "the record is not whole, and the scan is over");
        }
        for id in (0..2).filter(|id| recent.numbers[*id] > 0 && is_since(recent.times[*id])) {
            rebuild.own.ids.add(id);
        }
        if may_lack {
            let since = if ends_odd { rebuild.leased } else { recent.floor_time };
            rebuild.waits_since = 1 + since;
        }
        if !may_lack || !model.has(R14OnlyWhole) {
            rebuild.own.stamp = meta.last;
        }
        self.proceed("reads the record", *self.state, rebuild);
    }

    fn scan(&mut self, mut rebuild: Rebuild, id: usize) {
        let until = rebuild.waits_since + self.model.window();
        let waits = rebuild.waits_since > 0 && self.state.now < until;
        if waits || self.has(R10BeforeScan) && !self.have_repeated() {
            return;
        }
        if self.state.rows.has(id) {
            rebuild.own.ids.add(id);
        }
        self.proceed(
            ["looks for the row of x", "looks for the row of y"][id],
            *self.state,
            rebuild,
        );
    }

    /// Whether all processes have joined and repeated theirs.
    fn have_repeated(&self) -> bool {
        let joined = self.state.redis.meta.incarnation;
        let mut living = self.state.processes.iter().filter(|process| process.is_alive);
        living.all(|process| process.incarnation == joined && process.repeats == Ids::default())
            || !self.has(R10Wait)
    }

    fn upload(&mut self, mut rebuild: Rebuild) {
        let redis = &self.state.redis;
        let makes_anew = redis.lease == rebuild.own.nonce && !self.has(R5MadeOnce)
            || redis.lease == 0 && !self.has(R5LeaseWithNext);
        if redis.next.is_none() && makes_anew {
            let next = self.allocated(rebuild.own);
            return self
                .push(next, [self.name(), "rebuilds:", "finds no filter, and makes it anew"]);
        }
        let Some(built) = redis.next.filter(|next| self.is_same(next, &rebuild.own)) else {
            return self.give_up(rebuild, "its filter is gone");
        };
        let mut next = *self.state;
        let ids = Ids(built.ids.0 | rebuild.own.ids.0);
        next.redis.next = Some(Filter { ids, is_uploaded: true, ..built });
        if !self.has(R14NotUpload) {
            rebuild.own.stamp = redis.meta.last;
        }
        self.proceed("uploads what it has found", next, rebuild);
    }

    /// The filter, if it may go live.
    fn swappable(&self, Rebuild { own, leased, .. }: Rebuild) -> Option<Filter> {
        let redis = &self.state.redis;
        let next = redis.next.filter(|next| self.is_same(next, &own))?;
        let is_joined = redis.meta.incarnation == own.incarnation;
        let is_newer = redis.bits.is_none_or(|bits| bits.token < own.token);
        let may = (is_joined || !self.has(R13Incarnation))
            && (next.stamp == redis.meta.last || !self.has(R5Stamp))
            && (next.is_uploaded || !self.has(R5Pieces))
            && leased >= redis.meta.unvouched;
        (may && is_newer).then_some(next)
    }

    fn swap(&mut self, mut rebuild: Rebuild) {
        let Some(built) = self.swappable(rebuild) else {
            return self.give_up(rebuild, "its filter may not go live");
        };
        if !self.has(R10BeforeScan) && !self.have_repeated() {
            return;
        }
        let mut next = *self.state;
        let redis = &mut next.redis;
        let (stamp, incarnation) = (redis.meta.last, redis.meta.incarnation);
        redis.bits = Some(Filter { stamp, incarnation, is_uploaded: false, ..built });
        redis.next = None;
        redis.meta.live = built.token;
        let has_lease = redis.lease == rebuild.own.nonce;
        if has_lease {
            redis.lease = 0;
        }
        let ends_settling = self.ends_settling(rebuild);
        redis.meta.is_settled |= ends_settling;
        let says = match (ends_settling, incarnation > 1, has_lease) {
            (true, ..) => "swaps, and settling ends",
            (_, true, _) => "swaps after a loss",
            (.., false) => "swaps without its lease",
            _ => "swaps",
        };
        if !self.has(R14NotSwap) {
            rebuild.own.stamp = stamp;
        }
        self.proceed(says, next, rebuild);
    }

    fn ends_settling(&self, rebuild: Rebuild) -> bool {
        let Some((_, settles)) = self.model.settling else { return false };
        let is_by_lease = self.has(R20Lease) && self.has(R20Rebuild);
        let moment = if is_by_lease { rebuild.leased } else { self.state.now };
        moment > settles || moment == settles && !self.has(R20StrictlyLater)
    }

    fn keep(&mut self, rebuild: Rebuild) {
        let is_of_now = self.process().incarnation == rebuild.own.incarnation;
        let next = self.with(|process| {
            process.copy = Some(rebuild.own).filter(|_| is_of_now).or(process.copy);
        });
        self.proceed("keeps what it has found as its copy", next, rebuild);
    }
}
