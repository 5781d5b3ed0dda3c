//! Each reason not to believe a filter holds by itself.

use ::redis::{RedisResult, Value};

use super::*;
use crate::filter::{Generation, Sizing, State};
use crate::id::Digest;
use crate::settings::Settings;
use crate::store::BoxFuture;
use crate::store::link::process::RedisProcess;
use crate::store::link::resp::Packed;
use crate::store::link::session::Handshake as _;
use crate::store::link::transport::Transport;
use crate::store::redis::connection::tests::{Scripted, joined, joined_by, reached, unreached};
use crate::store::redis::view::tests::reply;

fn to(run: u32, incarnation: &[u8], newest: i64) -> Connection {
    joined(Scripted::new([]), run, incarnation, newest)
}

/// The header of a filter that was built on a Redis process, under the connections' secret key.
fn header(generation: i64, run: u32) -> Header {
    let key_id = to(run, b"first", 0).identity.digester.key_id();
    let generation = Generation::new(generation).unwrap();
    let header = Header::new(generation, 1, &Sizing::DEFAULT, run);
    Header { key_id, run, ..header }
}

#[tokio::test(start_paused = true)]
async fn a_filter_is_trusted_by_the_connection_whose_redis_key_and_generation_are_its_own() {
    let live = to(1, b"first", 7);
    for generation in [7, 8] {
        assert!(trusted(header(generation, 1), &live).is_ok());
    }
    assert_eq!(trusted(header(6, 1), &live), Err(Doubt::Suspect), "an older one put back");
    assert_eq!(trusted(header(7, 2), &live), Err(Doubt::Suspect), "of another process");
    let other_key = Header { key_id: 1, ..header(7, 1) };
    assert_eq!(trusted(other_key, &live), Err(Doubt::OtherKey));
}

#[tokio::test(start_paused = true)]
async fn absences_are_believed_where_the_own_inserts_are() {
    let (shards, here) = reached(Scripted::new([]));
    let shard = &shards.all[0];
    assert_eq!(shard.believes(&here), Ok(()), "there are none");
    shard
        .known
        .recent
        .acknowledged(&[Digest::from_bytes([1; 16])], here.identity.digester.key_id());
    shard.known.recent.note_held_by(b"first");
    assert_eq!(shard.believes(&here), Ok(()));
    let later = joined_by(&shard.node(), Scripted::new([]), 2, b"second", 0);
    shard.node().link.put_into_use(&later.on);
    assert_eq!(shard.believes(&later), Err(Doubt::Suspect));
    assert_eq!(shard.believes(&here), Err(Doubt::Disconnected), "its session was left");
}

/// Until a rebuild ends its settling it refuses nothing. A number ahead of the clock does not tell when it was built.
#[tokio::test(start_paused = true)]
async fn a_filter_is_due_once_its_time_to_settle_is_over_though_the_clock_was_set_back_since() {
    const SECOND: i64 = 1_000_000;
    for (settles_ms, built, is_due) in [
        (5_000, 4, true),
        (5_000, 20, true),
        (5_000, 7, false),
        (15_000, 4, false),
        (15_000, 20, false),
        (0, 20, false),
    ] {
        let live = header(built * SECOND, 1).with_state(State::Live);
        let (shards, _there) = reached(Scripted::new([Some(reply(&live, 10 * SECOND, 0))]));
        let shard = &shards.all[0];
        shard.known.note_settling(settles_ms);
        let (survey, _) = shard.look(SURVEY).await.unwrap();
        assert_eq!(
            survey.due_us.is_some(),
            is_due,
            "settles until {settles_ms}, built at {built} s"
        );
    }
}

/// A Redis to which many connect at once: each command waits for those before it.
struct Busy(Mutex<Instant>);

impl Transport for Busy {
    fn send(&self, packed: Packed) -> BoxFuture<'_, RedisResult<Vec<Value>>> {
        let mut free = self.0.lock();
        *free = (*free).max(Instant::now()) + Duration::from_millis(20) * packed.commands as u32;
        let answered = *free;
        Box::pin(async move {
            tokio::time::sleep_until(answered).await;
            Ok(vec![Value::Okay])
        })
    }
}

#[tokio::test(start_paused = true)]
async fn many_shards_are_joined_by_a_redis_that_has_no_time_for_all_at_once() {
    let settings = Settings {
        sizing: Sizing::sharded(1_000_000, 0.01, 256).unwrap(),
        ..Settings::new("users".into())
    };
    let shards = unreached(&settings);
    let process = RedisProcess { run: 1, major: 7 };
    let busy = Busy(Mutex::new(Instant::now()));
    let joined = shards.groups.servers[0].join.join(&busy, &process).await;
    // What it says is no reply to a join. But it is heard to the end.
    let error = joined.err().expect("no shard is joined");
    assert!(error.to_string().contains("join"), "{error}");
    assert!(!matches!(error, StoreError::NoAnswer { doubt: Doubt::Timeout, .. }), "{error}");
}
