//! What a filter's metadata say.

use ::redis::cmd;

use super::server::Server;
use crate::error::StoreError;
use crate::mode::Mode;
use crate::store::redis::keys::Keys;

/// The fields that are read, in this order; the two last are bytes.
const NUMBERS: [&str; 13] = [
    "since",
    "live",
    "epoch",
    "reach",
    "polled",
    "stated",
    "blind",
    "settles",
    "seq",
    "last",
    "mode_at",
    "unvouched",
    "asked",
];

/// What a filter's metadata say. Moments are by Redis's clock, ms since 1970, and 0 where there is none.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Metadata {
    /// When this life of the metadata began.
    pub since_ms: i64,
    /// The last generation that went live, µs.
    pub live_us: i64,
    /// The token of the rebuild that began last, µs.
    pub epoch_us: i64,
    /// How long a create mark lasts, ms.
    pub reach_ms: i64,
    /// When a process has looked at them last; it notes that every five seconds.
    pub polled_ms: i64,
    /// Until when no null is stored.
    pub blind_ms: i64,
    /// Until when the filter settles; 0 once it has.
    pub settles_ms: i64,
    /// The mode of all processes.
    pub mode: Mode,
    /// When it was set, µs.
    pub mode_us: i64,
    /// Until when no rebuild goes live that began before.
    pub unvouched_ms: i64,
    /// When a rebuild was asked for last, µs.
    pub asked_us: i64,
    /// The number of the last entry of the journal.
    pub(super) seq: i64,
    /// When it was written.
    pub(super) last_ms: i64,
    pub(super) key_id: Option<u32>,
    pub(super) run: Option<u32>,
    /// The secret key, where it was drawn and not given.
    pub(super) key: Option<[u8; 16]>,
}

impl Metadata {
    /// Reads them.
    pub(super) async fn read(server: &Server, keys: &Keys) -> Result<Self, StoreError> {
        let mut ask = cmd("HMGET");
        ask.arg(&keys.meta).arg(&NUMBERS).arg(&["kid", "run", "mode", "key"]);
        let mut fields = server.step("HMGET", ask).await?.array()?.into_iter();
        let mut next = || fields.next().map_or(Ok(None), |field| field.optional_bytes());
        let mut numbers = [0; NUMBERS.len()];
        for number in &mut numbers {
            let text = next()?.and_then(|bytes| String::from_utf8(bytes).ok());
            *number = text.and_then(|text| text.parse().ok()).unwrap_or(0);
        }
        let mut text = || Ok::<_, StoreError>(String::from_utf8(next()?.unwrap_or_default()).ok());
        let [since_ms, live_us, epoch_us, reach_ms, polled, stated, blind_ms, rest @ ..] = numbers;
        let [settles_ms, seq, last_ms, mode_us, unvouched_ms, asked_us] = rest;
        let hex = |text: Option<String>| text.and_then(|text| u32::from_str_radix(&text, 16).ok());
        let (key_id, run) = (hex(text()?), hex(text()?));
        let mode = text()?.and_then(|letter| Mode::from_letter(&letter)).unwrap_or_default();
        let key = next()?.and_then(|bytes| bytes.try_into().ok());
        let polled_ms = polled.max(stated);
        Ok(Self {
            since_ms,
            live_us,
            epoch_us,
            reach_ms,
            polled_ms,
            blind_ms,
            settles_ms,
            mode,
            mode_us,
            unvouched_ms,
            asked_us,
            seq,
            last_ms,
            key_id,
            run,
            key,
        })
    }
}
