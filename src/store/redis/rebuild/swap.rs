//! B8 to B10: prove the building filter, put it live, and know that it is.

use std::time::Duration;

use ::redis::{Pipeline, Value, cmd};
use tokio::time::sleep;

use super::build::{BLOCKS_PER_CALL, CALL, RedisBuild, outcome};
use crate::error::StoreError;
use crate::filter::format::{BLOCK_LEN, HEADER_LEN};
use crate::filter::{Filter, Header, Membership, State};
use crate::id::Digest;
use crate::store::redis::reply::Reply;
use crate::store::redis::script::SWAP;

/// Digests looked up at once.
const DIGESTS_PER_CALL: usize = 64;
/// How often the swap is tried when its reply is lost.
const ATTEMPTS: u32 = 3;
/// How long the first filter of an incarnation waits before it goes live, with Redis taking writes all
/// the time: everybody alive has found the incarnation by then and has begun to replay. An idle
/// connection is polled once a second; an attempt to connect takes 0.75 s at most, the wait before it
/// 0.5 s.
pub(crate) const GRACE: Duration = Duration::from_secs(2);
/// How often a swap that has to wait is tried.
const HELD: Duration = Duration::from_millis(50);

impl RedisBuild {
    /// B8: header, length and trailer; no chunk with fewer bits than the local filter's; the sample
    /// and every replayed id present.
    pub(crate) async fn verify_building(
        &mut self,
        filter: &Filter,
        sample: &[Digest],
    ) -> Result<(), StoreError> {
        let header = self.header(State::CatchingUp, "the verification")?;
        self.verify_frame(&header).await?;
        self.verify_counts(&header, filter).await?;
        for digests in sample.chunks(DIGESTS_PER_CALL) {
            self.verify_digests(&header, digests).await?;
        }
        for digests in self.replayed.chunks(DIGESTS_PER_CALL) {
            self.verify_digests(&header, digests).await?;
        }
        self.verify_frame(&header).await
    }

    async fn verify_frame(&self, header: &Header) -> Result<(), StoreError> {
        let live = self.same_redis().await?;
        let view = self.shared.survey_view(&self.shared.bulk, &live, CALL).await?;
        if view.next.filter.as_ref() != Ok(header) {
            return Err(StoreError::Lost { step: "the verification" });
        }
        let seal = header.string_len() - header.trailer().len() as u64;
        let mut commands = Pipeline::with_capacity(1);
        let mut read = cmd("GETRANGE");
        read.arg(&self.shared.keys.next).arg(seal).arg(-1);
        commands.add_command(read);
        let [trailer] = self.ask("GETRANGE", &commands).await?;
        if trailer.bytes()? == header.trailer() {
            Ok(())
        } else {
            Err(StoreError::Lost { step: "the verification" })
        }
    }

    async fn verify_counts(&self, header: &Header, filter: &Filter) -> Result<(), StoreError> {
        let blocks = header.geometry.blocks();
        let mut from = 0;
        while from < blocks {
            let to = blocks.min(from.saturating_add(BLOCKS_PER_CALL));
            let first = HEADER_LEN + from as usize * BLOCK_LEN;
            let last = HEADER_LEN + to as usize * BLOCK_LEN - 1;
            let mut count = cmd("BITCOUNT");
            count.arg(&self.shared.keys.next).arg(first).arg(last);
            let mut commands = Pipeline::with_capacity(1);
            commands.add_command(count);
            let [stored] = self.ask("BITCOUNT", &commands).await?;
            if stored.count()? < filter.ones_in(from..to) {
                return Err(StoreError::Lost { step: "the verification" });
            }
            from = to;
        }
        Ok(())
    }

    async fn verify_digests(&self, header: &Header, digests: &[Digest]) -> Result<(), StoreError> {
        let mut commands = Pipeline::with_capacity(digests.len());
        let positions: Vec<_> =
            digests.iter().map(|digest| header.geometry.position(digest)).collect();
        for position in &positions {
            let mut bits = cmd("BITFIELD");
            bits.arg(&self.shared.keys.next);
            for word in 0..8 {
                bits.arg("GET").arg("i64").arg((position.byte_offset() as usize + word * 8) * 8);
            }
            commands.add_command(bits);
        }
        let live = self.same_redis().await?;
        let replies = self.shared.bulk.ask(&live, &commands, CALL).await?;
        for (position, reply) in positions.iter().zip(replies) {
            let mut words = [0; 8];
            for (word, reply) in
                words.iter_mut().zip(Reply::new("the verification", reply).fields::<8>()?)
            {
                *word = reply.int()?.cast_unsigned();
            }
            if position.is_in(&words) == Membership::Never {
                return Err(StoreError::Lost { step: "the verification" });
            }
        }
        Ok(())
    }

    async fn ask<const N: usize>(
        &self,
        step: &'static str,
        commands: &Pipeline,
    ) -> Result<[Reply; N], StoreError> {
        let live = self.same_redis().await?;
        let replies = self.shared.bulk.ask(&live, commands, CALL).await?;
        Reply::new(step, Value::Array(replies)).fields()
    }

    /// B9, and B10 where its reply is lost: the live header tells what became of it.
    pub(crate) async fn put_live(&mut self) -> Result<(), StoreError> {
        let mut attempt = 1;
        loop {
            match self.swap_unheld().await {
                Err(StoreError::Disconnected { .. } | StoreError::Timeout { .. })
                    if attempt < ATTEMPTS =>
                {
                    attempt += 1;
                }
                Err(error) => return Err(error),
                Ok(()) => break,
            }
            if self.is_live().await? {
                break;
            }
        }
        let live = self.header(State::Live, "the swap")?;
        self.shared.adopt(&live, &self.incarnation).ok();
        Ok(())
    }

    /// Swaps once nobody has adds to replay any more.
    async fn swap_unheld(&self) -> Result<(), StoreError> {
        loop {
            match self.try_swap().await?.as_str() {
                "HELD" => sleep(HELD).await,
                answer => return outcome("the swap", answer.to_owned()),
            }
        }
    }

    async fn try_swap(&self) -> Result<String, StoreError> {
        let live = self.same_redis().await?;
        let header = self.header(State::CatchingUp, "the swap")?;
        let len = header.string_len().to_string();
        let ours = header.encode();
        let swapped = header.with_state(State::Live).encode();
        let keys = &self.shared.keys;
        let names = [&keys.next, &keys.bits, &keys.meta, &keys.log].map(String::as_str);
        let entries = self.shared.retention.journal_entries.to_string();
        let grace = GRACE.as_millis().to_string();
        let began = self.began_ms.to_string();
        let generation = header.generation.get().to_string();
        let args: [&[u8]; 9] = [
            &ours,
            &swapped,
            len.as_bytes(),
            &self.incarnation,
            &self.condemned.0,
            entries.as_bytes(),
            grace.as_bytes(),
            began.as_bytes(),
            generation.as_bytes(),
        ];
        let reply = self.shared.bulk.script(&live, &SWAP, &names, &args, CALL).await?;
        reply.text()
    }

    /// B10: whether the live filter is the one that was built.
    async fn is_live(&self) -> Result<bool, StoreError> {
        let live = self.same_redis().await?;
        let view = self.shared.survey_view(&self.shared.bulk, &live, CALL).await?;
        Ok(view.live.filter == Ok(self.header(State::Live, "the swap")?))
    }
}

/// Says that a process cannot replay its adds, and how long their transactions may stay open yet.
pub(crate) fn unvouched(open_ms: u64) -> StoreError {
    let open = Duration::from_millis(open_ms);
    let reason = format!("inserts that nobody can replay may become visible for {open:?} yet");
    StoreError::JournalGap { reason }
}
