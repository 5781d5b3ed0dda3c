//! A refill: what the source has is set in a filter that other programs go on writing, and the filter is trusted.
//!
//! | step | what | why |
//! |---|---|---|
//! | begin | each key is sealed, and the refill's word takes the statement's place | what is inserted from now on stays, or shows that it was lost |
//! | wait | the longest transaction, and two seconds | what was inserted before, and may be lost, is in the database by then |
//! | copy | the filter is read | |
//! | scan | the source's ids are set in a second copy; those whose bits all were there are counted | |
//! | compare | there are more than chance has, and they are half of what the filter has | by wrong numbers it would set bits that mean nothing |
//! | set | what is missing is set | |
//! | state | the statement takes the word's place | |
//!
//! Each script looks for word and seal in the step in which it writes. All of it is in one Redis process, and fails in another. Once
//! a second the word is renewed, the seal is turned over and the config read, as of a trusted filter: the first sign of a loss takes
//! the word away for good. So does a stall of three seconds, and other processes wait no longer for it.
//!
//! Numbers are shown by a statement, not by a refill: a guard inserts by its own, and so would find its own bits. The statement's
//! key keeps what was stated last, and each process does.
//!
//! | file | what |
//! |---|---|
//! | `part` | all that is asked of one Redis |
//! | `bits`, `module` | what is set: bits of strings, ids of a module's filter |
//! | `shown` | what shows that the numbers are right |
//! | `pause` | how soon the next one may follow |

mod bits;
mod module;
mod part;
mod pause;
mod shown;

use std::sync::Arc;
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::{Instant, sleep};

use self::bits::{Bits, Counts, PIECE};
use self::module::Ids;
use self::part::Part;
pub(super) use self::pause::Pause;
use self::shown::{Evidence, wrong};
use super::evidence::MOST_FOUND;
use super::layout::{Kind, Layout};
use super::record::REFILLED;
use super::site::Site;
use super::size::BloomSize;
use crate::error::StoreError;
use crate::filter::Sizing;
use crate::id::Id;
use crate::store::{Begun, BoxFuture, Build, BuildPart, Live, Parts, random_bytes};

/// By then no guard inserts on a Redis that was left before the refill began.
const LEFT: Duration = Duration::from_secs(2);
/// How often the word is renewed.
const RENEWAL: Duration = Duration::from_secs(1);

/// A refill of those parts of a filter that are not trusted.
pub(super) struct Refill {
    layout: Arc<dyn Layout>,
    /// One for each Redis; none where the filter is trusted.
    parts: Vec<Option<Part>>,
    /// Of the layout's keys, those that are refilled.
    keys: Vec<Option<Bits>>,
    /// The ids of a module's filter.
    ids: Ids,
    /// How many ids the source gave.
    given: u64,
    /// Those of them that show the numbers, and those of these whose bits were all there.
    counted: (u64, u64),
    longest_transaction: Duration,
    pause: Arc<Pause>,
    began: Instant,
}

impl Refill {
    /// Begins a refill of those of these parts that are not trusted, unless another one goes on.
    pub(super) async fn begin(
        layout: Arc<dyn Layout>,
        sites: &[Arc<Site>],
        longest_transaction: Duration,
        pause: Arc<Pause>,
    ) -> Result<Begun, StoreError> {
        let word: Arc<str> =
            format!("{REFILLED}{:016x}", u64::from_be_bytes(random_bytes()?)).into();
        let mut refill = Self {
            parts: Vec::with_capacity(sites.len()),
            keys: layout.keys().iter().map(|_| None).collect(),
            ids: Ids::default(),
            given: 0,
            counted: (0, 0),
            layout,
            longest_transaction,
            pause,
            began: Instant::now(),
        };
        for site in sites {
            match refill.begin_at(site, &word).await {
                Ok(true) => {}
                Ok(false) => {
                    refill.release().await;
                    return Ok(Begun::Busy);
                }
                Err(error) => {
                    refill.release().await;
                    return Err(error);
                }
            }
        }
        Ok(Begun::Leased(Box::new(refill)))
    }

    /// Begins at one Redis. False where another refill goes on there.
    async fn begin_at(&mut self, site: &Arc<Site>, word: &Arc<str>) -> Result<bool, StoreError> {
        if site.is_trusted() {
            self.parts.push(None);
            return Ok(true);
        }
        let mut part = Part::fit(site, word).await?;
        let begun = part.begin().await;
        // Without an answer it may have begun.
        self.parts.push(Some(part));
        begun
    }

    fn parts_there(&self) -> impl Iterator<Item = &Part> {
        self.parts.iter().flatten()
    }

    /// Reads what there is.
    async fn copy(&mut self) -> Result<(), StoreError> {
        (self.given, self.counted) = (0, (0, 0));
        self.ids = Ids::default();
        for part in self.parts.iter().flatten() {
            if let Kind::Module = self.layout.kind() {
                continue;
            }
            for (at, key) in part.site.trust.keys.numbered() {
                let bytes = part.seal_at()? / 8;
                self.keys[at] = Some(Bits::new(part.read(key, bytes).await?));
            }
        }
        Ok(())
    }

    /// Takes an id of the source.
    fn take(&mut self, id: &Id) {
        self.given += 1;
        let id = id.as_bytes();
        let number = self.layout.instance(id) % self.parts.len();
        let Some(part) = &self.parts[number] else { return };
        if let Kind::Module = self.layout.kind() {
            return self.ids.push(id);
        }
        let place = self.layout.place(part.seen.size, id);
        if let Some(Some(bits)) = self.keys.get_mut(place.key) {
            let all = bits.set(&place.bits);
            if self.layout.shows_numbers(id) {
                self.counted.0 += 1;
                self.counted.1 += u64::from(all);
            }
        }
    }

    /// Judges whether the numbers are the writer's, and whether there is room; returns how many bytes are to be set.
    async fn compare(&mut self) -> Result<u64, StoreError> {
        let Some(part) = self.parts.iter().flatten().next() else { return Ok(0) };
        if let Kind::Module = self.layout.kind() {
            return part.compare_module(&mut self.ids).await;
        }
        let mut counts = Counts::default();
        let (mut keys, mut bytes) = (0, 0);
        for bits in self.keys.iter().flatten() {
            bits.count(&mut counts).await;
            keys += 1;
            bytes += (bits.pieces().count() * PIECE) as u64;
        }
        // Parts that are trusted are left out.
        let size = BloomSize { bits: self.layout.end(part.seen.size) * keys, ..part.seen.size };
        self.judge(counts, size).map_err(|reason| part.site.trust.foreign(&reason))?;
        Ok(bytes)
    }

    /// Says what is wrong with the numbers, or that there is no room.
    fn judge(&self, counts: Counts, size: BloomSize) -> Result<(), String> {
        let rate = |set: u64, of_an_id: u32| (set as f64 / size.bits as f64).powf(of_an_id.into());
        let (is_even, has) = (self.layout.is_even(), size.estimated_ids(counts.found));
        let ids = Evidence {
            tries: self.counted.0,
            fit: self.counted.1,
            // Where most bits may be alike, each id counts as one bit, and bits do not tell how many ids there are.
            chance: rate(counts.found, if is_even { size.hashes } else { 1 }),
            least: if is_even { has as f64 / 2.0 } else { 0.0 },
        };
        // As of a refill that was cut off. Where the numbers are a multiple of the writer's, it is half of them.
        let bits = Evidence {
            tries: counts.found,
            fit: counts.both,
            chance: rate(counts.given, 1),
            least: counts.found as f64 * 0.9,
        };
        if counts.found > 0 && !ids.shows() && !(is_even && bits.shows()) {
            return Err(wrong(ids.tries, ids.fit, has));
        }
        let full = rate(counts.all(), size.hashes);
        if full <= MOST_FOUND {
            return Ok(());
        }
        Err(format!("with the source's ids, {full:.3} of those that do not exist would be in it"))
    }

    /// Sets what is missing.
    async fn set(&self, progress: &(dyn Fn(u64) + Send + Sync)) -> Result<(), StoreError> {
        for part in self.parts_there() {
            if let Kind::Module = self.layout.kind() {
                part.insert(&self.ids, progress).await?;
                continue;
            }
            for (at, key) in part.site.trust.keys.numbered() {
                for (first, bytes) in self.keys[at].iter().flat_map(Bits::pieces) {
                    part.set(key, first, bytes).await?;
                    progress(bytes.len() as u64);
                }
            }
        }
        Ok(())
    }

    /// States that the filter is whole.
    async fn state(&self) -> Result<Live, StoreError> {
        let mut counts = Counts::default();
        for bits in self.keys.iter().flatten() {
            bits.count(&mut counts).await;
        }
        let mut live = None;
        for part in self.parts_there() {
            let ids = match self.layout.kind() {
                Kind::Bitmap => self.layout.whole(part.seen.size).estimated_ids(counts.all()),
                Kind::Module => part.count_module().await?,
            };
            live = Some(part.state(ids, self.given, &self.keys).await?);
        }
        self.pause.note(self.began);
        live.ok_or(StoreError::Lost { step: "the statement" })
    }
}

impl Build for Refill {
    fn previous(&self) -> Option<u64> {
        self.parts_there().map(|part| part.previous).max()
    }

    fn keep_lease(&self) -> BoxFuture<'static, ()> {
        let parts: Vec<Part> = self.parts_there().cloned().collect();
        Box::pin(async move {
            loop {
                sleep(RENEWAL).await;
                for part in &parts {
                    // Where it was lost, the next step says so.
                    if let Err(error) = part.renew().await {
                        tracing::debug!(%error, "the refill's word is not renewed");
                    }
                }
            }
        })
    }

    fn wait(&self) -> Duration {
        self.longest_transaction + LEFT
    }

    fn prepare(&mut self, _: Sizing) -> BoxFuture<'_, Result<u64, StoreError>> {
        Box::pin(async {
            sleep(self.wait()).await;
            self.copy().await?;
            // Whether there is room shows once all are in.
            Ok(u64::MAX)
        })
    }

    fn write<'a>(&'a mut self, ids: &'a mut Vec<Id>) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async {
            ids.drain(..).for_each(|id| self.take(&id));
            yield_now().await;
            Ok(())
        })
    }

    fn parts(&mut self) -> BoxFuture<'_, Result<Parts<'_>, StoreError>> {
        Box::pin(std::future::ready(Ok((vec![self as &mut dyn BuildPart], Vec::new()))))
    }

    fn release(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            for part in self.parts_there() {
                part.release().await;
            }
        })
    }
}

impl BuildPart for Refill {
    /// There is none.
    fn read_journal(&mut self) -> BoxFuture<'_, Result<u64, StoreError>> {
        Box::pin(std::future::ready(Ok(0)))
    }

    fn allocate(&mut self) -> BoxFuture<'_, Result<u64, StoreError>> {
        Box::pin(self.compare())
    }

    fn upload<'a>(
        &'a mut self,
        progress: &'a (dyn Fn(u64) + Send + Sync),
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.set(progress))
    }

    /// Inserts go to this very filter.
    fn catch_up(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn replay(&mut self) -> BoxFuture<'_, Result<u64, StoreError>> {
        Box::pin(std::future::ready(Ok(0)))
    }

    /// The statement's script looks at its witnesses.
    fn verify(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn swap(&mut self) -> BoxFuture<'_, Result<Live, StoreError>> {
        Box::pin(self.state())
    }
}
