//! What a fence asks, and what it makes of the answer: it brings the copy up to the last insert.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::sleep;

use super::answer::{BYTES_A_FILTER, Head, Inquiry, decimal};
use super::fence::{Leaving, PARTS};
use crate::error::StoreError;
use crate::filter::Header;
use crate::id::Digest;
use crate::store::link::reply::odd;
use crate::store::link::resp::{Packed, Replies};
use crate::store::link::session::Purpose;
use crate::store::redis::connection::Connection;
use crate::store::redis::copy::FilterCopy;
use crate::store::redis::shard::Shard;

/// The most entries of the record that one fence reads.
const PAGE: usize = 512;
/// The most bytes that an entry takes in a reply.
const BYTES_AN_ENTRY: usize = 64;
/// Time between two pages, where a copy is behind by more than one.
const PAGE_PAUSE: Duration = Duration::from_millis(50);

impl Shard {
    /// Sends fences for as long as it is polled.
    pub(crate) async fn send_fences(self: Arc<Self>) {
        let mut under_way = FuturesUnordered::new();
        loop {
            tokio::select! {
                leaving = self.fence.leaves() => under_way.push(self.answer(leaving)),
                Some(()) = under_way.next() => {}
            }
        }
    }

    async fn answer(&self, leaving: Leaving<'_>) {
        let copy = self.filter.load_full().and_then(|live| self.copies.to_fence(&live));
        let proven = match copy {
            Some(copy) => self.catch_up(&copy, leaving.waiting).await.then_some(copy),
            None => None,
        };
        leaving.ends(proven);
    }

    /// Brings a copy of the live filter up to the last insert, a page at a time.
    pub(crate) async fn catch_up_by_pages(&self, copy: &FilterCopy) {
        let mut before = None;
        while copy.position() != before {
            before = copy.position();
            if self.catch_up(copy, 1).await {
                return;
            }
            sleep(PAGE_PAUSE).await;
        }
    }

    /// Brings a copy up to the last insert. Returns whether it has all that was inserted before this was asked; else ids are asked for
    /// by themselves until it has.
    pub(crate) async fn catch_up(&self, copy: &FilterCopy, callers: usize) -> bool {
        let is_proven = self.ask_for_the_rest(copy, callers).await;
        copy.falls_behind(!is_proven);
        is_proven
    }

    /// Asks Redis what the copy lacks, and puts it there.
    async fn ask_for_the_rest(&self, copy: &FilterCopy, callers: usize) -> bool {
        let Some(connection) = self.current(Purpose::Checks) else { return false };
        let believes = || self.believes(&connection).is_ok();
        let Some(since) = copy.position().filter(|_| believes()) else { return false };
        let Some(header) = self.filter.load_full() else { return false };
        if !header.is_same_build(&copy.header) {
            return false;
        }
        let known = self.known.seen.last_in(&connection.identity.incarnation);
        let said = self.ask_since(&header, since, &connection, callers).await;
        if let Err(StoreError::GivenUp { .. }) = said {
            // Whose reply it is, is not known any more.
            connection.node.link.withdraw(&connection.on);
        }
        let Ok((page, head)) = said else { return false };
        let judged = self.judge(&header, known, head.if_of(&header), &connection);
        // An answer from before a join, or from before own inserts were repeated, may be read after it.
        judged.is_ok() && believes() && copy.takes(&page, head, since)
    }

    /// Asks what was inserted beyond a number, and what the filter with this header says.
    async fn ask_since(
        &self,
        header: &Header,
        since: i64,
        connection: &Connection,
        callers: usize,
    ) -> Result<(Page, Head), StoreError> {
        let of = Inquiry::of(header, connection, &self.known.keys);
        let mut packed = Packed::with_capacity(BYTES_A_FILTER);
        Page::ask(&mut packed, &of, since);
        Head::ask(&mut packed, &of);
        let packed = packed.for_long_replies(PAGE * BYTES_AN_ENTRY);
        // What waits for it has waited for a part of its time.
        let deadline = self.known.settings.check_deadline;
        let deadline = deadline - deadline / PARTS;
        let replies = connection.send(callers, packed, deadline).await?;
        let mut replies = Replies::new("a fence", &replies);
        let page = Page::read(&mut replies)?;
        let head = Head::read(&mut replies, &of)?;
        replies.end()?;
        Ok((page, head))
    }
}

/// The record's entries beyond a number, the first ones.
#[derive(Debug, Default)]
struct Page {
    digests: Vec<Digest>,
    /// The greatest number among them, the floor's too.
    greatest: Option<i64>,
    /// Whether something beyond the number was dropped.
    has_floor: bool,
}

impl Page {
    fn ask(packed: &mut Packed, of: &Inquiry<'_>, since: i64) {
        packed.begin(8);
        packed.word(&[b"ZRANGEBYSCORE"]);
        packed.word(&[of.keys.recent.as_bytes()]);
        packed.word(&[b"(", itoa::Buffer::new().format(since).as_bytes()]);
        packed.word(&[b"+inf"]);
        packed.word(&[b"WITHSCORES"]);
        packed.word(&[b"LIMIT"]);
        packed.number(0);
        packed.number(PAGE);
    }

    fn read(replies: &mut Replies<'_>) -> Result<Self, StoreError> {
        let mut page = Self::default();
        let items = replies.items()?;
        for _ in 0..items / 2 {
            let (member, score) = (replies.bytes()?, replies.bytes()?);
            let odd = || odd("ZRANGEBYSCORE", "a foreign member");
            match member {
                Some(b"floor") => page.has_floor = true,
                member => {
                    let digest = member.and_then(|bytes| <[u8; Digest::LEN]>::try_from(bytes).ok());
                    page.digests.push(Digest::from_bytes(digest.ok_or_else(odd)?));
                }
            }
            page.greatest = Some(score.and_then(decimal).ok_or_else(odd)?);
        }
        Ok(page)
    }

    fn is_full(&self) -> bool {
        self.digests.len() >= PAGE
    }
}

impl FilterCopy {
    /// Takes in what was found beyond a position of its own. Returns whether it is up to the last insert.
    fn takes(&self, page: &Page, head: Head, since: i64) -> bool {
        if page.has_floor {
            self.is_left_behind();
            return false;
        }
        self.hold(page.digests.iter());
        // All three places hold the last number, but where an insert came between the commands.
        let greatest = page.greatest.unwrap_or(since);
        let is_last = greatest == head.stamp && greatest == head.last;
        if is_last || page.is_full() {
            self.moves_to(greatest);
        }
        is_last
    }
}

#[cfg(test)]
mod tests;
