//! Reads the copy, piece by piece, when a filter has gone live.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use ::redis::cmd;
use tokio::time::{Instant, sleep};

use super::{Copies, FilterCopy, Room};
use crate::error::StoreError;
use crate::filter::Header;
use crate::filter::lengths::{BLOCK_LEN, FRONT_LEN};
use crate::random;
use crate::refusal::Refusal;
use crate::store::link::resp::Packed;
use crate::store::link::session::Purpose;
use crate::store::redis::check::answer::Head;
use crate::store::redis::connection::Connection;
use crate::store::redis::incarnation::join_all::is_turn_of;
use crate::store::redis::shard::Shard;
use crate::store::scan;

const PERIOD: Duration = Duration::from_secs(1);
const DEADLINE: Duration = Duration::from_secs(1);
/// Blocks read at once, 64 KiB: Redis holds a reply until its reader has taken it, and a poll that waits behind it ends a session.
const BLOCKS: u32 = 1_024;
/// The most bytes a second, and the least rest after a piece, as a multiple of the time that it took: where many processes read
/// at once, each reads less.
const PACE: f64 = (16 << 20) as f64;
const REST: u32 = 4;
/// Processes read at different moments: within the first time after a start, and within a tenth of the time between two rebuilds,
/// the second at most, after a swap.
const SPREAD: (Duration, Duration) = (Duration::from_secs(3), Duration::from_secs(5 * 60));
const SPREAD_PARTS: u32 = 10;

impl Shard {
    pub(crate) async fn keep_copy(self: Arc<Self>) {
        let mut told = None;
        for turn in 0.. {
            sleep(PERIOD).await;
            let Some(header) = self.filter.load_full() else { continue };
            if self.copies.damaged.load(Ordering::Relaxed) == header.generation.get() {
                continue;
            }
            if let Some(copy) = self.copies.of(&header) {
                // Without requests it would fall behind.
                if copy.is_behind() || is_turn_of(self.number, self.of, turn) {
                    self.catch_up_by_pages(&copy).await;
                }
                continue;
            }
            sleep(self.copies.wait(&header)).await;
            // Another may have gone live meanwhile.
            let Some(header) = self.filter.load_full() else { continue };
            if let Err(error) = self.load_copy(&header).await
                && !error.is(Refusal::LOST)
                && told.replace(header.generation) != Some(header.generation)
            {
                tracing::warn!(
                    filter = &*self.known.settings().name,
                    %error,
                    "the live filter is not copied: Redis is asked also for ids that exist"
                );
            }
        }
    }

    /// Reads the filter with this header, if it is live before and after.
    async fn load_copy(&self, header: &Header) -> Result<(), StoreError> {
        let room = self.copies.room(header.string_len())?;
        let connection = self.connected(Purpose::Rebuilds, DEADLINE).await?;
        let read = Instant::now();
        let position = self.is_live(header, &connection).await?.stamp;
        let filter = scan::empty(header.geometry).await?;
        for from in (0..header.geometry.blocks).step_by(BLOCKS as usize) {
            let begun = Instant::now();
            let blocks = from..header.geometry.blocks.min(from + BLOCKS);
            let first = FRONT_LEN + blocks.start as usize * BLOCK_LEN;
            let len = blocks.len() * BLOCK_LEN;
            let mut piece = cmd("GETRANGE");
            piece.arg(&self.known.keys.bits).arg(first).arg(first + len - 1);
            let piece = Packed::from(piece).for_long_replies(len);
            let piece = connection.ask("a copy", piece, DEADLINE).await?.bytes()?;
            filter.read_blocks(blocks, &piece).ok_or_else(replaced)?;
            let paced = Duration::from_secs_f64(piece.len() as f64 / PACE);
            sleep(paced.max(begun.elapsed() * REST)).await;
        }
        self.is_live(header, &connection).await?;
        let digester = connection.identity.digester.clone();
        let built = built(header, &connection, read);
        let copy = FilterCopy {
            header: *header,
            digester,
            filter,
            built,
            read,
            // Inserts that come while it is read may be in it or not.
            position: AtomicI64::new(position),
            is_behind: AtomicBool::new(false),
            room,
        };
        self.copies.current.store(Some(Arc::new(copy)));
        Ok(())
    }

    /// Fails unless the filter with this header is live, and holds all that was inserted.
    async fn is_live(&self, header: &Header, bulk: &Connection) -> Result<Head, StoreError> {
        let mut packed = Packed::default();
        Head::ask(&mut packed, &self.known.keys, header);
        let replies = bulk.send(packed, DEADLINE).await?;
        let head = Head::read(&mut replies.into_iter())?;
        let is_of = head.is_of(header) && head.vouches_for(header, bulk).is_ok();
        let is_live = is_of && head.holds_all(bulk);
        if is_live { Ok(head) } else { Err(replaced()) }
    }
}

fn replaced() -> StoreError {
    StoreError::lost("the end of the copy")
}

/// Returns when the build of a filter began: its generation says so, by Redis's clock.
fn built(header: &Header, bulk: &Connection, now: Instant) -> Instant {
    let ago = bulk.on.redis_us(now).saturating_sub(header.generation.get());
    let ago = Duration::from_micros(u64::try_from(ago).unwrap_or(0));
    now.checked_sub(ago).unwrap_or(now)
}

impl Copies {
    fn wait(&self, header: &Header) -> Duration {
        let between = self.current.load().as_ref().map(|copy| {
            let between = header.generation.get().saturating_sub(copy.header.generation.get());
            Duration::from_micros(u64::try_from(between).unwrap_or(0))
        });
        let spread = match between {
            None => SPREAD.0,
            // A copy of the same filter was left behind: the stream of inserts may go on.
            Some(Duration::ZERO) => SPREAD.1,
            Some(between) => (between / SPREAD_PARTS).min(SPREAD.1),
        };
        spread.mul_f64(random::fraction())
    }

    /// Takes room for a copy. Where there is none for two, the one before makes way: it would only grow old.
    fn room(&self, bytes: u64) -> Result<Room, StoreError> {
        let room = Room::take(bytes, self.limit).or_else(|| {
            self.current.store(None);
            Room::take(bytes, self.limit)
        });
        room.ok_or_else(|| {
            let limit = self.limit;
            let reason = format!(
                "{bytes} bytes are more than copy_limit, {limit}, or than other copies of this process leave of it"
            );
            StoreError::given_up(Refusal::OTHER, reason)
        })
    }
}
