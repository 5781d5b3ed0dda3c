//! A rebuild, step by step.

use super::Turn;
use crate::rules::Rule::*;
use crate::state::{Filter, Ids, Rebuild, Redis, State, Step};

impl Turn<'_> {
    pub(super) fn rebuild(&mut self) {
        let (process, redis) = (self.process(), &self.state.redis);
        let begins = (process.rebuilds > 0).then(Rebuild::default);
        let Some(rebuild) = process.rebuild.or(begins) else { return };
        let own = rebuild.own;
        let is_there = redis.next.is_some_and(|next| next.nonce == own.nonce);
        if redis.lease == 0 && is_there && self.is_joined() {
            let words = [self.name(), "rebuilds:", "takes its lease again"];
            self.step(words, |next| next.redis.lease = own.nonce);
        }
        // Without a connection a process can scan, and take up its own filter as a copy.
        match self.model.order[usize::from(rebuild.at)] {
            Step::Scan => self.scan(rebuild),
            Step::Keep => {
                let is_of_now = process.incarnation == own.incarnation;
                let copy = Some(own).filter(|_| is_of_now).or(process.copy);
                self.proceed("keeps its copy", self.with(|process| process.copy = copy), rebuild);
            }
            _ if !process.is_connected => {}
            Step::Lease if redis.lease != 0 || !self.is_joined() => {}
            Step::Lease => self.lease(rebuild),
            Step::Outgrown => self.proceed("outgrows it", self.allocated(own), rebuild),
            Step::Recent => self.read_recent(rebuild),
            Step::Upload => self.upload(rebuild),
            Step::Swap => self.swap(rebuild),
        }
    }

    /// A step is taken: the next one comes, if there is one.
    fn proceed(&mut self, says: &'static str, mut next: State, rebuild: Rebuild) {
        let process = &mut next.processes[self.me];
        process.rebuilds -= u8::from(process.rebuild.is_none());
        let is_last = usize::from(rebuild.at) + 1 == self.model.order.len();
        process.rebuild = (!is_last).then_some(Rebuild { at: rebuild.at + 1, ..rebuild });
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

    fn lease(&mut self, rebuild: Rebuild) {
        let Redis { meta, bits, next, .. } = self.state.redis;
        let [live, built] = [bits, next].map(|of| of.map_or(0, |of| of.token));
        let token = meta.epoch.max(live).max(built) + 1;
        let nonce = self.state.nonces + 1;
        let (incarnation, stamp) = (meta.incarnation, meta.last);
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
        let has_scanned = model.order[..usize::from(rebuild.at)].contains(&Step::Scan);
        if may_lack && has_scanned && model.has(R12AfterScan) {
            return self.give_up(rebuild, "the record is not whole, and the scan is over");
        }
        for id in (0..2).filter(|id| recent.numbers[*id] > 0 && is_since(recent.times[*id])) {
            rebuild.own.ids.add(id);
        }
        if may_lack {
            let since = if ends_odd { rebuild.leased } else { recent.floor_time };
            rebuild.waits_until = since + model.window() + 1;
        }
        if !may_lack || !model.has(R14OnlyWhole) {
            rebuild.own.stamp = meta.last;
        }
        self.proceed("reads the record", *self.state, rebuild);
    }

    /// Looks for all rows at once: of each id it only matters when that was looked for.
    fn scan(&mut self, mut rebuild: Rebuild) {
        let may = self.have_repeated() || !self.has(R10BeforeScan);
        if may && self.state.now >= rebuild.waits_until {
            rebuild.own.ids.0 |= self.state.rows.0;
            self.proceed("scans", *self.state, rebuild);
        }
    }

    /// Whether all processes have joined and repeated theirs.
    fn have_repeated(&self) -> bool {
        let joined = self.state.redis.meta.incarnation;
        let mut living = self.state.processes.iter().filter(|of| of.incarnation > 0);
        living.all(|process| process.incarnation == joined && process.repeats == Ids::default())
            || !self.has(R10Wait)
    }

    fn upload(&mut self, mut rebuild: Rebuild) {
        let redis = &self.state.redis;
        let makes_anew = redis.lease == rebuild.own.nonce && !self.has(R5MadeOnce)
            || redis.lease == 0 && !self.has(R5LeaseWithNext);
        if redis.next.is_none() && makes_anew {
            let words = [self.name(), "rebuilds:", "finds no filter, and makes it anew"];
            return self.push(self.allocated(rebuild.own), words);
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

    /// Whether a filter may go live.
    fn is_swappable(&self, next: &Filter, rebuild: Rebuild) -> bool {
        let Redis { meta, bits, .. } = &self.state.redis;
        self.is_same(next, &rebuild.own)
            && (next.stamp == meta.last || !self.has(R5Stamp))
            && (next.is_uploaded || !self.has(R5Pieces))
            && (rebuild.own.incarnation == meta.incarnation || !self.has(R13Incarnation))
            && rebuild.leased >= meta.unvouched
            && bits.is_none_or(|bits| bits.token < rebuild.own.token)
    }

    fn swap(&mut self, mut rebuild: Rebuild) {
        let mut next = *self.state;
        let Redis { meta, bits, next: built, lease, .. } = &mut next.redis;
        let Some(new) = built.take().filter(|new| self.is_swappable(new, rebuild)) else {
            return self.give_up(rebuild, "its filter may not go live");
        };
        if !self.has(R10BeforeScan) && !self.have_repeated() {
            return;
        }
        let (stamp, incarnation) = (meta.last, meta.incarnation);
        *bits = Some(Filter { stamp, incarnation, is_uploaded: false, ..new });
        meta.live = new.token;
        let has_lease = *lease == rebuild.own.nonce;
        *lease = if has_lease { 0 } else { *lease };
        let is_by_lease = self.has(R20Lease) && self.has(R20Rebuild);
        let moment = if is_by_lease { rebuild.leased } else { self.state.now };
        let later = moment + u8::from(!self.has(R20StrictlyLater));
        let ends_settling = self.model.settling.is_some_and(|(_, settles)| later > settles);
        meta.is_settled |= ends_settling;
        let says = match (ends_settling, incarnation > 1, has_lease) {
            (true, ..) => "swaps, and settling ends",
            (_, true, _) => "swaps after a loss",
            (.., false) => "swaps without its lease",
            _ => "swaps",
        };
        rebuild.own.stamp = if self.has(R14NotSwap) { rebuild.own.stamp } else { stamp };
        self.proceed(says, next, rebuild);
    }
}
