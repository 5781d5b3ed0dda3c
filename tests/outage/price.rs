//! The price of the lane: which requests for records that exist are answered 503, and for how long.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bloom_guard::NegativeCaching;
use http::{Request, StatusCode};
use support::flood::{Site, every_ms, get};
use support::model::{Table, in_process};

const TTL: Duration = Duration::from_secs(10);

/// Whether a request for an existing record was answered 503, by second.
#[derive(Default)]
struct BySecond(Mutex<Vec<bool>>);

impl BySecond {
    fn note(&self, second: usize, status: StatusCode) {
        let mut seconds = self.0.lock().unwrap();
        if seconds.len() <= second {
            seconds.resize(second + 1, false);
        }
        assert_ne!(status, StatusCode::NOT_FOUND, "they exist");
        seconds[second] |= status == StatusCode::SERVICE_UNAVAILABLE;
    }

    /// The last second with a 503 in it.
    fn last_busy(&self) -> Option<usize> {
        self.0.lock().unwrap().iter().rposition(|busy| *busy)
    }
}

/// Scatters numbers: the finaliser of `MurmurHash3`.
fn scattered(n: u64) -> u64 {
    let n = (n ^ (n >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    (n ^ (n >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53) >> 20
}

/// Four requests a millisecond: half for 2,000 records that are asked for all the time, half for any of
/// 20,000. The backend answers 500 for half a minute.
#[tokio::test(start_paused = true)]
async fn after_half_a_minute_of_500s_the_lane_refuses_no_record_for_longer_than_two_lives_of_a_null()
 {
    const RECORDS: u64 = 20_000;
    let table = Table::with(0..RECORDS);
    let caching = NegativeCaching::new().ttl(TTL);
    let builder = in_process(&table, RECORDS, 0.001).negative_caching(caching);
    let site = Site::new(&table, builder.build().unwrap()).await;
    let (after, number) = (Arc::new(BySecond::default()), Arc::new(AtomicU64::new(0)));
    let traffic = |ms: u64, noted: bool| {
        let ask = |hot| {
            let (site, after) = (Arc::clone(&site), Arc::clone(&after));
            let n = number.fetch_add(1, Ordering::Relaxed);
            let id = if hot { n % 2_000 } else { scattered(n) % RECORDS };
            async move {
                let status = site.ask(id, get(id)).await;
                if noted {
                    after.note((ms / 1_000) as usize, status);
                }
            }
        };
        [true, false, true, false].map(ask).into()
    };
    every_ms(5_000, |ms| traffic(ms, false)).await;
    site.broken.store(true, Ordering::Relaxed);
    every_ms(30_000, |ms| traffic(ms, false)).await;
    site.broken.store(false, Ordering::Relaxed);
    every_ms(40_000, |ms| traffic(ms, true)).await;
    let last = after.last_busy();
    assert!(last.is_some_and(|last| last as u64 <= 2 * TTL.as_secs()), "{last:?}");
}

/// An attacker asks once for each of 800 records in a way that is answered 404, and from then on fills the
/// lane. The records are asked for 100 times a second.
#[tokio::test(start_paused = true)]
async fn cold_records_that_an_attacker_makes_missed_are_served_after_two_lives_of_a_null() {
    const RECORDS: u64 = 100_000;
    const COLD: u64 = 800;
    let table = Table::with(0..RECORDS);
    let caching = NegativeCaching::new().ttl(TTL);
    let builder = in_process(&table, RECORDS, 0.01).negative_caching(caching);
    let site = Site::new(&table, builder.build().unwrap()).await;
    let junk = site.false_positives(1_000).await;
    let after = Arc::new(BySecond::default());
    every_ms(COLD, |id| {
        let request = Request::get(format!("/users/{id}?revision=99")).body(String::new()).unwrap();
        vec![Arc::clone(&site).ask(id, request)]
    })
    .await;
    every_ms(40_000, |ms| {
        // One request in forty is for a cold record, at any moment among the attacker's.
        let ask = |n: u64| {
            let (site, after) = (Arc::clone(&site), Arc::clone(&after));
            let number = ms * 4 + n;
            let attacks = !scattered(number).is_multiple_of(40);
            let id = if attacks {
                junk[number as usize % junk.len()]
            } else {
                scattered(number) / 40 % COLD
            };
            let request = Request::get(format!("/users/{id}"));
            let request = if attacks { request.header("cookie", number) } else { request };
            let request = request.body(String::new()).unwrap();
            async move {
                let status = site.ask(id, request).await;
                if !attacks {
                    after.note((ms / 1_000) as usize, status);
                }
            }
        };
        (0..4).map(ask).collect()
    })
    .await;
    let last = after.last_busy();
    assert!(last.is_some_and(|last| last as u64 <= 2 * TTL.as_secs()), "{last:?}");
}
