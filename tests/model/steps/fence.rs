//! What a copy is asked by: the fence, which answers, and the page, which only brings it up.
//!
//! Both read what the record has beyond the copy's position.

use super::{Steps, Turn};
use crate::instance::{Event, Reading};
use crate::rules::Rule;
use crate::state::{Fence, FilterCopy, IDS, Ids, State};

/// A member of the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Member {
    number: u8,
    /// `None` is the floor.
    id: Option<usize>,
}

/// One of the two at one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Fence,
    Page,
}

impl Turn<'_> {
    pub(super) fn fence(&self, steps: &mut Steps) {
        if self.model.of.fences {
            match self.process().fence {
                None => self.send_fence(steps),
                Some(fence) => self.go_on(Kind::Fence, &fence, steps),
            }
        }
    }

    pub(super) fn page(&self, steps: &mut Steps) {
        match self.process().page {
            None => self.send_page(steps),
            Some(page) => self.go_on(Kind::Page, &page, steps),
        }
    }

    /// A request for an id that the copy lacks.
    fn send_fence(&self, steps: &mut Steps) {
        let process = self.process();
        let Some(copy) = process.copy.filter(|_| self.believes()) else { return };
        let joins = !self.model.has(Rule::R17NotJoined);
        for id in 0..self.model.of.ids {
            if copy.ids.has(id) || !(self.state.rows.has(id) || joins) {
                continue;
            }
            let fence = self.beyond(&copy, id);
            let next = self.with(|process| process.fence = Some(fence));
            steps.step(next, |_| {
                let (name, since) = (self.name(), fence.since);
                format!("a request for {} at {name}: a fence is sent, from {since} on", IDS[id])
            });
        }
    }

    fn beyond(&self, copy: &FilterCopy, id: usize) -> Fence {
        Fence {
            evidence: self.evidence(Some((copy.token, copy.nonce))),
            id: u8::from(id == 1),
            since: copy.position,
            ..Fence::default()
        }
    }

    /// A page, where it would find an id. Its first reading is made as it begins.
    fn send_page(&self, steps: &mut Steps) {
        let process = self.process();
        let Some(copy) = process.copy.filter(|_| self.believes()) else { return };
        let is_behind = self.state.redis.recent.numbers.iter().any(|of| *of > copy.position);
        if process.left.pages == 0 || !is_behind {
            return;
        }
        let mut page = self.beyond(&copy, 0);
        let mut next = self.with(|process| process.left.pages -= 1);
        let first = self.model.readings[0];
        if first != Reading::Asked {
            let Some(evidence) = self.read(first, &page.evidence, &mut next) else { return };
            page.evidence = evidence;
        }
        next.processes[self.me].page = Some(page);
        steps.step(next, |_| format!("{} asks for a page from {} on", self.name(), page.since));
    }

    fn go_on(&self, kind: Kind, fence: &Fence, steps: &mut Steps) {
        let reading = Self::reading(self.model.readings, &fence.evidence);
        match reading {
            Some(_) if !self.process().is_connected => {
                self.end(kind, None, "its connection is gone", steps)
            }
            Some(Reading::Asked) => self.read_record(kind, fence, steps),
            Some(reading) => {
                let mut next = *self.state;
                match self.read(reading, &fence.evidence, &mut next) {
                    None => {
                        self.end(kind, None, &format!("the {reading:?} speaks against it"), steps)
                    }
                    Some(evidence) => {
                        let mut read = Fence { evidence, ..*fence };
                        // If the floor is no member of the record, it was read with the first header.
                        read.has_floor |= evidence.read == 1
                            && !self.model.has(Rule::R2FloorInRecord)
                            && self.state.redis.recent.floor > fence.since;
                        *slot(&mut next, self.me, kind) = Some(read);
                        steps.step(next, |_| {
                            self.has_read(kind, reading, evidence.stamp, evidence.last)
                        });
                    }
                }
            }
            None if kind == Kind::Fence => self.answer(fence, steps),
            None => self.take_page(fence, steps),
        }
    }

    fn has_read(&self, kind: Kind, reading: Reading, stamp: u8, last: u8) -> String {
        match reading {
            Reading::Metadata => {
                format!("{}'s {kind:?} reads the metadata: last {last}", self.name())
            }
            _ => format!("{}'s {kind:?} reads the header: stamp {stamp}", self.name()),
        }
    }

    fn end(&self, kind: Kind, copy: Option<FilterCopy>, why: &str, steps: &mut Steps) {
        let mut next = self.with(|process| process.copy = copy.or(process.copy));
        *slot(&mut next, self.me, kind) = None;
        steps.step(next, |_| format!("{}'s {kind:?} ends: {why}", self.name()));
    }

    /// Members of the record beyond a position, by number; as many as a page has. Equal numbers come in any order.
    fn read_record(&self, kind: Kind, fence: &Fence, steps: &mut Steps) {
        let (recent, size) = (&self.state.redis.recent, self.model.of.page);
        let floor = (recent.floor > fence.since && self.model.has(Rule::R2FloorInRecord))
            .then_some(Member { number: recent.floor, id: None });
        let entries = (0..self.model.of.ids)
            .map(|id| Member { number: recent.numbers[id], id: Some(id) })
            .filter(|member| member.number > fence.since);
        let mut members: Vec<Member> = entries.chain(floor).collect();
        members.sort_by_key(|member| (member.number, member.id));
        let mut orders = vec![members.clone()];
        // Of two ids, and the floor, two may have one number.
        for at in 1..members.len() {
            if members[at - 1].number == members[at].number {
                let mut other = members.clone();
                other.swap(at - 1, at);
                orders.push(other);
            }
        }
        for mut order in orders {
            order.truncate(if size == 0 { usize::MAX } else { size });
            self.has_members(kind, fence, &order, steps);
        }
    }

    fn has_members(&self, kind: Kind, fence: &Fence, members: &[Member], steps: &mut Steps) {
        let mut read = *fence;
        read.evidence.read += 1;
        read.ids = Ids::default();
        members.iter().filter_map(|member| member.id).for_each(|id| read.ids.add(id));
        read.greatest = members.last().map_or(0, |member| member.number);
        read.has_floor |= members.iter().any(|member| member.id.is_none());
        let mut next = *self.state;
        *slot(&mut next, self.me, kind) = Some(read);
        steps.step(next, |_| {
            let floor = if read.has_floor { " and a floor above the position" } else { "" };
            let (name, greatest) = (self.name(), read.greatest);
            format!("{name}'s {kind:?} reads the record: {}{floor}, up to {greatest}", read.ids)
        });
    }

    /// The reply of a fence is handled.
    fn answer(&self, fence: &Fence, steps: &mut Steps) {
        let Some(copy) = self.copy_for(fence, Rule::R17Position) else {
            return self.end(Kind::Fence, None, "another copy is there by now", steps);
        };
        if !self.is_good(fence) {
            return self.end(Kind::Fence, None, "it proves nothing", steps);
        }
        let mut copy = copy;
        copy.ids.add_all(fence.ids);
        let read_up_to = fence.greatest.max(fence.evidence.stamp);
        let is_right = self.model.has(Rule::R16Position);
        let to = if is_right { read_up_to } else { self.state.redis.meta.last };
        copy.position = copy.position.max(to);
        let mut asked = Ids::only(usize::from(fence.id));
        if !self.model.has(Rule::R17NotJoined) {
            asked = self.state.rows;
        }
        let missing = asked.and(self.state.rows).without(copy.ids);
        let next = self.with(|process| {
            process.fence = None;
            process.copy = Some(copy);
        });
        let name = self.name();
        if !missing.is_empty() {
            let id = missing.first();
            return steps.event(Event::FalseAbsence, next, |_| {
                format!(
                    "{name}'s fence is good up to {}: {id} is ABSENT, but is committed",
                    copy.position
                )
            });
        }
        let mut others =
            (0..self.model.of.ids).filter(|id| !self.state.rows.has(*id) && !copy.ids.has(*id));
        let refuses = others.next().map(|_| Event::FenceRefuses);
        steps.event(refuses, next, |_| {
            format!("{name}'s fence is good: its copy has {} up to {}", copy.ids, copy.position)
        });
    }

    /// The copy that a reply counts for: the one that was asked for, or one of its filter that has as much.
    fn copy_for(&self, fence: &Fence, rule: Rule) -> Option<FilterCopy> {
        let (process, evidence) = (self.process(), &fence.evidence);
        let is_joined = self.believes() && process.incarnation == evidence.incarnation;
        let copy = process.copy.filter(|_| is_joined)?;
        let is_same = self.is_same((copy.token, copy.nonce), (evidence.token, evidence.nonce));
        let has_as_much = copy.position >= fence.since || !self.model.has(rule);
        (is_same && has_as_much).then_some(copy)
    }

    /// Whether the record was read without a gap from the position to the last insert.
    fn is_good(&self, fence: &Fence) -> bool {
        let (stamp, since) = (fence.evidence.stamp, fence.since);
        if fence.has_floor && self.model.has(Rule::R16Floor) {
            return false;
        }
        if self.model.of.is_header_known {
            // The only header comes last, so nothing may lie between.
            let greatest = fence.greatest.max(since);
            return greatest == stamp && greatest == fence.evidence.last;
        }
        let reaches = stamp == since || fence.greatest >= stamp;
        stamp >= since && (reaches || !self.model.has(Rule::R16Reaches))
    }

    /// The reply of a page is handled: it answers nobody.
    fn take_page(&self, page: &Fence, steps: &mut Steps) {
        let Some(copy) = self.copy_for(page, Rule::R17PagePosition) else {
            return self.end(Kind::Page, None, "another copy is there by now", steps);
        };
        if page.has_floor && self.model.has(Rule::R16PageFloor) {
            return self.end(Kind::Page, None, "the floor is above the position", steps);
        }
        let mut copy = copy;
        copy.ids.add_all(page.ids);
        copy.position = copy.position.max(page.greatest);
        let next = self.with(|process| {
            process.page = None;
            process.copy = Some(copy);
        });
        steps.event(Event::PageMoves, next, |_| {
            format!(
                "{} takes the page: its copy has {} up to {}",
                self.name(),
                copy.ids,
                copy.position
            )
        });
    }
}

fn slot(state: &mut State, me: usize, kind: Kind) -> &mut Option<Fence> {
    let process = &mut state.processes[me];
    match kind {
        Kind::Fence => &mut process.fence,
        Kind::Page => &mut process.page,
    }
}
