//! A rebuild, step by step.

use super::{Steps, Turn};
use crate::instance::{Event, Step};
use crate::rules::Rule;
use crate::state::{Bits, FilterCopy, Ids, Next, Rebuild, State};

impl Turn<'_> {
    pub(super) fn rebuild(&self, steps: &mut Steps) {
        let process = self.process();
        let begins = Some(Rebuild::default()).filter(|_| process.left.rebuilds > 0);
        let Some(rebuild) = process.rebuild.or(begins) else { return };
        if process.rebuild.is_some() {
            self.renew(&rebuild, steps);
        }
        let step = self.model.of.order[usize::from(rebuild.at)];
        // Without a connection a process can scan, and take up its own filter as a copy.
        match step {
            Step::ScanX => self.scan(&rebuild, 0, steps),
            Step::ScanY => self.scan(&rebuild, 1, steps),
            Step::Keep => self.keep(&rebuild, steps),
            _ if !process.is_connected => {}
            Step::Lease => self.lease(&rebuild, steps),
            Step::Outgrown => self.allocate_again(&rebuild, steps),
            Step::Recent => self.read_recent(&rebuild, steps),
            Step::Upload => self.upload(&rebuild, steps),
            Step::Swap => self.swap(&rebuild, steps),
        }
    }

    /// A step is taken: the next one comes, if there is one.
    fn proceed(&self, event: Option<Event>, mut next: State, rebuild: Rebuild, steps: &mut Steps) {
        let order = self.model.of.order;
        let process = &mut next.processes[self.me];
        let is_none = |at: &usize| order[*at] == Step::ScanY && self.model.of.ids == 1;
        process.left.rebuilds -= u8::from(process.rebuild.is_none());
        let at = usize::from(rebuild.at);
        let further = (at + 1..order.len()).find(|at| !is_none(at));
        process.rebuild = further.map(|further| Rebuild { at: further as u8, ..rebuild });
        steps.event(event, next, [self.name(), "rebuilds:", order[at].says()]);
    }

    /// Frees what was built, gives the lease back, and ends.
    fn give_up(&self, rebuild: &Rebuild, why: &'static str, steps: &mut Steps) {
        let mut next = self.with(|process| process.rebuild = None);
        let redis = &mut next.redis;
        redis.next = redis.next.filter(|next| !is_by_nonce(next, rebuild));
        if redis.lease == rebuild.nonce {
            redis.lease = 0;
        }
        let event = self.state.redis.next.is_none().then_some(Event::NextGone);
        steps.event(event, next, [self.name(), "gives its rebuild up:", why]);
    }

    /// Takes a lease again that has expired, while nobody has unlinked the filter.
    fn renew(&self, rebuild: &Rebuild, steps: &mut Steps) {
        let redis = &self.state.redis;
        let is_there = redis.next.is_some_and(|next| is_by_nonce(&next, rebuild));
        if redis.lease == 0 && is_there && self.process().is_connected && self.is_joined() {
            let mut next = *self.state;
            next.redis.lease = rebuild.nonce;
            steps.step(next, [self.name(), "rebuilds:", "takes its lease again"]);
        }
    }

    fn lease(&self, rebuild: &Rebuild, steps: &mut Steps) {
        if self.state.redis.lease != 0 || !self.is_joined() {
            return;
        }
        let mut next = State { nonces: self.state.nonces + 1, ..*self.state };
        let (redis, nonce) = (&mut next.redis, next.nonces);
        let live = redis.bits.map_or(0, |bits| bits.token);
        let built = redis.next.map_or(0, |next| next.token);
        let token = redis.meta.epoch.max(live).max(built) + 1;
        (redis.meta.epoch, redis.lease) = (token, nonce);
        let (leased, lease_number, incarnation) =
            (self.state.now, redis.meta.last, redis.meta.incarnation);
        redis.next = Some(Next { token, nonce, stamp: lease_number, ..Next::default() });
        let rebuild = Rebuild { token, nonce, incarnation, leased, lease_number, ..*rebuild };
        self.proceed(None, next, rebuild, steps);
    }

    /// Reads the record. Where it is not whole the scan has to wait, if it is still to come.
    fn read_recent(&self, rebuild: &Rebuild, steps: &mut Steps) {
        let (model, meta, recent) = (self.model, &self.state.redis.meta, &self.state.redis.recent);
        // What was inserted earlier is committed, or never will be.
        let is_since = |time: u8| time + model.window() >= rebuild.leased;
        let is_floor_young = recent.floor_counts && is_since(recent.floor_time);
        let ends_odd = recent.greatest() != meta.last;
        let may_lack =
            is_floor_young && model.has(Rule::R12Floor) || ends_odd && model.has(Rule::R12Greatest);
        let is_whole = !may_lack;
        let has_scanned = model.of.order[..usize::from(rebuild.at)].contains(&Step::ScanX);
        if !is_whole && has_scanned && model.has(Rule::R12AfterScan) {
            return self.give_up(rebuild, "the record is not whole, and the scan is over", steps);
        }
        let mut read = *rebuild;
        let is_read = |id: &usize| recent.numbers[*id] > 0 && is_since(recent.times[*id]);
        (0..2).filter(is_read).for_each(|id| read.ids.add(id));
        let since = if ends_odd { rebuild.leased } else { recent.floor_time };
        read.waits_since = if is_whole { 0 } else { 1 + since };
        let is_of_read = is_whole || !model.has(Rule::R14OnlyWhole);
        read.position = if is_of_read { meta.last } else { rebuild.lease_number };
        self.proceed(None, *self.state, read, steps);
    }

    fn scan(&self, rebuild: &Rebuild, id: usize, steps: &mut Steps) {
        let model = self.model;
        let waits =
            rebuild.waits_since > 0 && self.state.now < rebuild.waits_since + model.window();
        if waits || model.has(Rule::R10BeforeScan) && !self.have_repeated() {
            return;
        }
        let mut scanned = *rebuild;
        if self.state.rows.has(id) {
            scanned.ids.add(id);
        }
        self.proceed(None, *self.state, scanned, steps);
    }

    /// Whether all processes have joined and repeated theirs.
    fn have_repeated(&self) -> bool {
        let joined = self.state.redis.meta.incarnation;
        let mut living = self.state.processes.iter().filter(|process| process.is_alive);
        living.all(|process| process.incarnation == joined && process.repeats == Ids::default())
            || !self.model.has(Rule::R10Wait)
    }

    /// As it must not: the filter is made anew under the same lease.
    fn allocate_again(&self, rebuild: &Rebuild, steps: &mut Steps) {
        self.proceed(None, self.with_new_filter(rebuild), *rebuild, steps);
    }

    fn with_new_filter(&self, rebuild: &Rebuild) -> State {
        let (mut next, Rebuild { token, nonce, .. }) = (*self.state, *rebuild);
        let stamp = next.redis.meta.last;
        next.redis.next = Some(Next { token, nonce, stamp, ..Next::default() });
        next.redis.lease = nonce;
        next
    }

    fn upload(&self, rebuild: &Rebuild, steps: &mut Steps) {
        let (lease, has) = (self.state.redis.lease, |rule| self.model.has(rule));
        let makes_anew = lease == rebuild.nonce && !has(Rule::R5MadeOnce)
            || lease == 0 && !has(Rule::R5LeaseWithNext);
        if self.state.redis.next.is_none() && makes_anew {
            let next = self.with_new_filter(rebuild);
            return steps
                .step(next, [self.name(), "rebuilds:", "finds no filter, and makes it anew"]);
        }
        let mut next = *self.state;
        let Some(built) = next.redis.next.as_mut().filter(|next| self.is_own(next, rebuild)) else {
            return self.give_up(rebuild, "its filter is gone", steps);
        };
        built.ids.0 |= rebuild.ids.0;
        built.is_uploaded = true;
        let last = self.state.redis.meta.last;
        let position = if has(Rule::R14NotUpload) { rebuild.position } else { last };
        self.proceed(None, next, Rebuild { position, ..*rebuild }, steps);
    }

    fn is_own(&self, next: &Next, rebuild: &Rebuild) -> bool {
        self.is_same((next.token, next.nonce), (rebuild.token, rebuild.nonce))
    }

    /// The filter, if it may go live.
    fn swappable(&self, rebuild: &Rebuild) -> Option<Next> {
        let (redis, has) = (&self.state.redis, |rule| self.model.has(rule));
        let next = redis.next.filter(|next| self.is_own(next, rebuild))?;
        let is_joined = redis.meta.incarnation == rebuild.incarnation;
        let is_newer = redis.bits.is_none_or(|bits| bits.token < rebuild.token);
        let may = (is_joined || !has(Rule::R13Incarnation))
            && (next.stamp == redis.meta.last || !has(Rule::R5Stamp))
            && (next.is_uploaded || !has(Rule::R5Pieces))
            && rebuild.leased >= redis.meta.unvouched;
        (may && is_newer).then_some(next)
    }

    fn swap(&self, rebuild: &Rebuild, steps: &mut Steps) {
        let Some(built) = self.swappable(rebuild) else {
            return self.give_up(rebuild, "its filter may not go live", steps);
        };
        if !self.model.has(Rule::R10BeforeScan) && !self.have_repeated() {
            return;
        }
        let mut next = *self.state;
        let redis = &mut next.redis;
        let (run, incarnation, token) = (self.process().run, redis.meta.incarnation, rebuild.token);
        let (stamp, nonce, ids) = (redis.meta.last, built.nonce, built.ids);
        redis.bits = Some(Bits { token, nonce, is_disproved: false, stamp, run, incarnation, ids });
        (redis.next, redis.meta.live) = (None, token);
        let has_lease = redis.lease == rebuild.nonce;
        redis.lease = if has_lease { 0 } else { redis.lease };
        let ends_settling = self.ends_settling(rebuild);
        redis.meta.is_settled |= ends_settling;
        let event = match (ends_settling, incarnation > 1, has_lease) {
            (true, ..) => Some(Event::SettlingEnds),
            (_, true, _) => Some(Event::SwapAfterLoss),
            (.., false) => Some(Event::SwapWithoutLease),
            _ => None,
        };
        let position = if self.model.has(Rule::R14NotSwap) { rebuild.position } else { stamp };
        // Only a copy needs what was found.
        let ids = if self.model.of.keeps_copy { rebuild.ids } else { Ids::default() };
        self.proceed(event, next, Rebuild { position, ids, ..*rebuild }, steps);
    }

    fn ends_settling(&self, rebuild: &Rebuild) -> bool {
        let Some((_, settles)) = self.model.of.settling else { return false };
        let is_by_lease = self.model.has(Rule::R20Lease) && self.model.has(Rule::R20Rebuild);
        let moment = if is_by_lease { rebuild.leased } else { self.state.now };
        moment > settles || moment == settles && !self.model.has(Rule::R20StrictlyLater)
    }

    fn keep(&self, rebuild: &Rebuild, steps: &mut Steps) {
        let Rebuild { token, nonce, ids, position, .. } = *rebuild;
        let is_of_now = self.process().incarnation == rebuild.incarnation;
        let mut next = *self.state;
        if self.model.of.keeps_copy && is_of_now {
            next.processes[self.me].copy = Some(FilterCopy { token, nonce, ids, position });
        }
        self.proceed(None, next, *rebuild, steps);
    }
}

fn is_by_nonce(next: &Next, rebuild: &Rebuild) -> bool {
    next.token == rebuild.token && next.nonce == rebuild.nonce
}
