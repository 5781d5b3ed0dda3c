//! What a batch sends, and whom it answers.

use std::sync::atomic::{AtomicUsize, Ordering};

use ::redis::{RedisResult, Value};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::*;
use crate::filter::{Generation, Sizing, State};
use crate::id::Id;
use crate::settings::Settings;
use crate::store::BoxFuture;
use crate::store::link::node;
use crate::store::link::transport::Transport;
use crate::store::redis::connection::tests::{Scripted, joined, joined_by, unreached};
use crate::store::redis::copy::tests::copy_of;

struct Batch {
    shards: Shards,
    redis: Arc<Scripted>,
    live: Connection,
}

impl Batch {
    /// A store that knows a live filter.
    fn new() -> Self {
        let settings = Settings::new("users".into());
        let shards = unreached(&settings);
        let redis = Scripted::new([]);
        let live = joined(Arc::clone(&redis) as Arc<dyn Transport>, 1, b"first", 0);
        shards.groups.servers[0].node.link.put_into_use(&live.on);
        let generation = Generation::new(1).unwrap();
        let header = Header::new(generation, 1, &settings.sizing, 1);
        shards.all[0].filter.store(Some(Arc::new(header)));
        Self { shards, redis, live }
    }

    /// Asks for these digests; returns how many commands each request had.
    async fn ask(&self, asked: &[(u8, &Connection)]) -> Vec<usize> {
        let check = |&(byte, live): &(u8, &Connection)| PendingCheck {
            session: live.on.number,
            asked: Asked { digest: Digest::from_bytes([byte; 16]), may_fence: true },
            answer: oneshot::channel().0,
        };
        let mut checks = asked.iter().map(check).collect();
        let shards = &self.shards;
        node::answer(shards, &shards.groups.servers[0].node, &mut checks).await;
        assert!(checks.is_empty(), "each is answered");
        self.redis.sent.lock().drain(..).map(|sent| sent.commands).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn equal_ids_are_sent_once() {
    let batch = Batch::new();
    let live = &batch.live;
    // Two blocks, their nulls, the metadata and the header.
    assert_eq!(batch.ask(&[(2, live), (1, live), (2, live), (1, live)]).await, [5]);
    assert_eq!(batch.ask(&[(2, live), (2, live)]).await, [4]);
}

#[tokio::test(start_paused = true)]
async fn one_fence_answers_for_all_that_the_copy_lacks() {
    let batch = Batch::new();
    let (live, shard) = (&batch.live, &batch.shards.all[0]);
    let copy = copy_of(*shard.filter.load_full().unwrap(), &live.identity.digester, 10);
    copy.hold([Digest::from_bytes([3; 16])].iter());
    shard.copies.put(Arc::clone(&copy));
    // What was inserted since, the metadata and the header.
    assert_eq!(batch.ask(&[(1, live), (2, live)]).await, [3]);
    // And the block and the null of what the copy holds.
    assert_eq!(batch.ask(&[(1, live), (3, live)]).await, [5]);
    assert_eq!(batch.ask(&[(3, live)]).await, [4]);
    copy.note_behind(true);
    assert_eq!(batch.ask(&[(1, live), (2, live)]).await, [5]);
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_batch_that_nobody_sends_is_told_in_time() {
    let Batch { shards, live, .. } = Batch::new();
    let header = *shards.all[0].filter.load_full().unwrap();
    shards.all[0].copies.put(copy_of(header, &live.identity.digester, 10));
    let ids = [1, 2].map(|n| Id::display(&n).unwrap());
    let (shards, begun) = (Arc::new(shards), Instant::now());
    let lookups = shards.check(&ids.each_ref().map(|id| (id, None)), begun).answer().await;
    let late = |lookup: &Lookup| lookup.verdict == Verdict::Unknown(Doubt::Timeout);
    assert!(lookups.len() == 2 && lookups.iter().all(late), "{lookups:?}");
    assert!(
        begun.elapsed() <= shards.all[0].known.settings().check_deadline + Duration::from_millis(1)
    );
}

#[tokio::test(start_paused = true)]
async fn checks_of_another_connection_are_not_sent() {
    let batch = Batch::new();
    let other = joined(Arc::clone(&batch.redis) as Arc<dyn Transport>, 1, b"first", 0);
    assert_eq!(batch.ask(&[(1, &other), (2, &batch.live)]).await, [4]);
    assert_eq!(batch.ask(&[(1, &other), (2, &other)]).await, [0; 0]);
}

/// A Redis whose filter holds every id, and into which nothing was inserted since number 9.
struct Full(Header);

impl Transport for Full {
    fn send(&self, packed: Packed) -> BoxFuture<'_, RedisResult<Vec<Value>>> {
        let replies = self.replies(packed.commands, 9);
        Box::pin(async { Ok(replies) })
    }
}

impl Full {
    /// The replies to a look-up or a fence, after an insert of this number.
    fn replies(&self, commands: usize, last: i64) -> Vec<Value> {
        let text = |text: &str| Value::BulkString(text.into());
        let header = &self.0;
        let state = i64::from(State::Live.as_byte());
        let numbers = [header.generation.get(), state, header.generation.trailer_number(), last];
        let mut replies = match commands {
            4 => vec![Value::BulkString(vec![0xff; 64]), Value::Array(vec![Value::Nil])],
            _ => vec![Value::Array(Vec::new())],
        };
        replies.push(Value::Array(["first", &last.to_string(), "1", "0", "0"].map(text).into()));
        replies.push(Value::Array(numbers.map(Value::Int).into()));
        replies
    }
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_lacks_what_the_filter_holds_is_dropped() {
    let Batch { shards, live, .. } = Batch::new();
    let header = *shards.all[0].filter.load_full().unwrap();
    let header = Header { key_id: live.identity.digester.key_id(), run: 1, ..header };
    let live = joined(Arc::new(Full(header)), 1, b"first", 0);
    shards.groups.servers[0].node.link.put_into_use(&live.on);
    shards.all[0].filter.store(Some(Arc::new(header)));
    shards.all[0].copies.put(copy_of(header, &live.identity.digester, 9));
    let shards = Arc::new(shards);
    // A look-up goes by itself where no batch has left lately.
    tokio::time::advance(Duration::from_secs(1)).await;
    shards.audit_copy_of(&Id::display(&1).unwrap()).await;
    assert!(shards.all[0].copies.to_fence(&header).is_none());
}

/// A Redis into which three ids were inserted since number 9.
struct Inserted(Header);

impl Transport for Inserted {
    fn send(&self, packed: Packed) -> BoxFuture<'_, RedisResult<Vec<Value>>> {
        assert_eq!(packed.commands, 3, "a fence");
        let entries = [(7, "10"), (1, "11"), (5, "12")]
            .map(|(byte, number)| [vec![byte; 16], number.into()].map(Value::BulkString));
        let mut replies = Full(self.0).replies(3, 12);
        replies[0] = Value::Array(entries.concat());
        Box::pin(async { Ok(replies) })
    }
}

#[tokio::test(start_paused = true)]
async fn a_fence_proves_absent_what_neither_the_copy_nor_its_page_has() {
    let Batch { shards, live, .. } = Batch::new();
    let header = *shards.all[0].filter.load_full().unwrap();
    let header = Header { key_id: live.identity.digester.key_id(), run: 1, ..header };
    let live = joined(Arc::new(Inserted(header)), 1, b"first", 0);
    shards.all[0].copies.put(copy_of(header, &live.identity.digester, 9));
    let asked = |byte| Asked { digest: Digest::from_bytes([byte; 16]), may_fence: true };
    let node = &shards.groups.servers[0].node;
    node.link.put_into_use(&live.on);
    shards.all[0].filter.store(Some(Arc::new(header)));
    let (mut checks, answers): (Vec<_>, Vec<_>) = (1..=8)
        .map(|byte| {
            let (answer, received) = oneshot::channel();
            (PendingCheck { session: live.on.number, asked: asked(byte), answer }, received)
        })
        .unzip();
    node::answer(&shards, node, &mut checks).await;
    let mut said = Vec::new();
    for answer in answers {
        said.push(answer.await.unwrap().verdict == Verdict::Present);
    }
    assert_eq!(said, [1, 2, 3, 4, 5, 6, 7, 8].map(|byte| [1, 5, 7].contains(&byte)));
}

/// A node of a cluster that did not serve one of the slots for a moment.
#[derive(Default)]
struct Moved(AtomicUsize);

impl Transport for Moved {
    fn send(&self, _packed: Packed) -> BoxFuture<'_, RedisResult<Vec<Value>>> {
        let said: &[u8] = match self.0.fetch_add(1, Ordering::SeqCst) {
            0 => b"-MOVED 1 127.0.0.1:6379\r\n",
            _ => b"-OOM command not allowed\r\n",
        };
        let said = ::redis::parse_redis_value(said);
        Box::pin(async { Ok(vec![said?.extract_error()?]) })
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_is_left_where_a_slot_was_elsewhere_and_is_back() {
    let sizing = Sizing::sharded(1_000, 0.01, 2).unwrap();
    let shards = unreached(&Settings { sizing, ..Settings::new("users".into()) });
    let node = &shards.groups.servers[0].node;
    let redis = Arc::new(Moved::default());
    let live = joined_by(node, Arc::clone(&redis) as Arc<dyn Transport>, 1, b"first", 0);
    let header = Header::new(Generation::new(1).unwrap(), 1, &sizing, 1);
    for shard in &shards.all {
        shard.filter.store(Some(Arc::new(header)));
    }
    node.link.put_into_use(&live.on);
    let asked = Asked { digest: Digest::from_bytes([1; 16]), may_fence: false };
    let shared = Arc::new(NodeSession { node: Arc::clone(node), on: Arc::clone(&live.on) });
    let part = |shard| {
        let answer = oneshot::channel().0;
        let check = PendingCheck { session: live.on.number, asked, answer };
        Part::new(shard, Arc::clone(&shared), &[check])
    };
    let mut parts: Vec<_> = shards.all.iter().map(|shard| part(shard)).collect();
    ask_twice(&mut parts, 16, Duration::from_millis(25)).await;
    assert_eq!(redis.0.load(Ordering::SeqCst), 3);
    assert!(!node.link.uses(&live.on));
}
