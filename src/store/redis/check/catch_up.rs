//! The fence: one small question to Redis proves absent all ids of a batch that this process's copy lacks.
//!
//! A copy holds all inserts up to its position, and the record of recent inserts has those beyond it. So the record's entries, the
//! metadata and the header, asked for after the requests have arrived, bring the copy up to the last insert. In Raft this is a
//! read index (Ongaro's dissertation, §6.4), with the filter as the state machine. Where anything is odd, ids are asked for one by
//! one.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::answer::{Head, PAGE, Page};
use super::batch::{Part, ask};
use crate::store::redis::connection::NodeSession;
use crate::store::redis::copy::FilterCopy;
use crate::store::redis::shard::Shard;

/// Time between two pages, where a copy is behind by more than one.
const PAGE_PAUSE: Duration = Duration::from_millis(50);

impl Shard {
    /// Brings a copy of the live filter up to the last insert, a page at a time.
    pub(crate) async fn catch_up_by_pages(&self, copy: &Arc<FilterCopy>) {
        let mut before = None;
        while copy.position() != before {
            before = copy.position();
            if self.catch_up(copy).await {
                return;
            }
            sleep(PAGE_PAUSE).await;
        }
    }

    /// Brings a copy up to the last insert. Returns whether it holds all inserts before the call; until it does, ids are asked for
    /// one by one.
    pub(crate) async fn catch_up(&self, copy: &Arc<FilterCopy>) -> bool {
        let (node, deadline) = (self.node(), self.known.settings().check_deadline);
        let Some(on) = node.link.current() else { return false };
        let mut part = Part::new(self, Arc::new(NodeSession { node, on }), &[]);
        let live = self.filter.load_full().filter(|live| live.is_same_build(&copy.header));
        let Some(live) = live.filter(|_| part.believed.is_ok()) else {
            copy.note_behind(true);
            return false;
        };
        part.prepare(live, Some(Arc::clone(copy)));
        let mut parts = [part];
        ask(&mut parts, 1, deadline).await;
        parts[0].is_proven
    }
}

impl FilterCopy {
    /// Takes in the record's entries beyond `since`. Returns whether the copy holds the last insert.
    pub(super) fn take_page(&self, page: &Page, head: &Head, since: i64) -> bool {
        if page.has_floor {
            self.leave_behind();
            return false;
        }
        self.hold(page.digests.iter());
        // The three numbers differ where an insert came between the commands.
        let greatest = page.greatest.unwrap_or(since);
        let is_last = greatest == head.stamp && greatest == head.last;
        if is_last || page.digests.len() >= PAGE {
            self.advance_to(greatest);
        }
        is_last
    }
}

#[cfg(test)]
mod tests;
