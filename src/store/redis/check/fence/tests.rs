use ::redis::{RedisResult, Value};

use parking_lot::Mutex;

use super::*;
use crate::filter::{Generation, Sizing, State};
use crate::id::{Digest, Digester, Id, SecretKey};
use crate::settings::Settings;
use crate::store::BoxFuture;
use crate::store::link::reply::Reply;
use crate::store::link::transport::Transport;
use crate::store::redis::check::fences::{ENOUGH, GAP, Joined};
use crate::store::redis::connection::tests::{Scripted, joined, joined_by, unreached};
use crate::store::redis::copy::tests::copy_of;

fn digest(byte: u8) -> Digest {
    Digest::from_bytes([byte; 16])
}

/// A copy that holds all inserts up to 10.
fn copy() -> Arc<FilterCopy> {
    let header = Header::new(Generation::new(1).unwrap(), 6, &Sizing::new(100, 0.001).unwrap(), 7);
    copy_of(header, &Digester::new(&SecretKey::new([7; 16]), "users"), 10)
}

fn page(entries: &[(u8, i64)]) -> Page {
    let digests = entries.iter().map(|(byte, _)| digest(*byte)).collect();
    Page { digests, greatest: entries.last().map(|(_, number)| *number), has_floor: false }
}

#[test]
fn a_copy_is_up_to_the_last_insert_only_where_record_metadata_and_header_agree_on_it() {
    for (entries, last, stamp, is_last) in [
        (&[][..], 10, 10, true),
        (&[(1, 11), (2, 12)], 12, 12, true),
        // The record is lost, or an older copy.
        (&[], 12, 12, false),
        (&[(1, 11)], 12, 12, false),
        // An insert came between the commands, or the metadata or the filter are older copies.
        (&[(1, 11)], 11, 12, false),
        (&[(1, 11)], 12, 11, false),
        (&[(1, 11)], 10, 11, false),
        (&[(1, 11)], 10, 10, false),
    ] {
        let copy = copy();
        assert_eq!(
            copy.take_page(&page(entries), &Head::at(last, stamp), 10),
            is_last,
            "{entries:?}"
        );
        assert_eq!(copy.position(), Some(if is_last { stamp } else { 10 }), "{entries:?}");
        for (byte, _) in entries {
            assert!(copy.holds(&digest(*byte)), "what was inserted is held all the same");
        }
    }
}

#[test]
fn a_copy_that_is_behind_by_more_than_a_page_answers_nothing_until_it_has_read_the_rest() {
    let copy = copy();
    let full: Vec<(u8, i64)> = (0..PAGE as i64).map(|n| (1, 11 + n)).collect();
    let greatest = 10 + PAGE as i64;
    assert!(!copy.take_page(&page(&full), &Head::at(greatest + 1, greatest + 1), 10));
    assert_eq!(copy.position(), Some(greatest));
    assert!(copy.take_page(
        &page(&[(2, greatest + 1)]),
        &Head::at(greatest + 1, greatest + 1),
        greatest
    ));
    assert_eq!(copy.position(), Some(greatest + 1));
}

#[test]
fn a_copy_that_lacks_what_the_record_has_dropped_is_read_again() {
    let copy = copy();
    let dropped = Page { has_floor: true, ..page(&[(1, 12)]) };
    assert!(!copy.take_page(&dropped, &Head::at(12, 12), 10));
    assert_eq!(copy.position(), None);
    copy.advance_to(13);
    assert_eq!(copy.position(), None, "a fence that was under way changes nothing");
}

#[test]
fn no_entry_is_passed_over_because_it_is_not_understood() {
    let read = |fields: &[&[u8]]| {
        let fields = fields.iter().map(|field| Value::BulkString(field.to_vec())).collect();
        Page::read(Reply::new("a fence", Value::Array(fields)))
    };
    let found = read(&[&[3; 16], b"7", b"floor", b"8"]).unwrap();
    assert_eq!((found.digests, found.greatest, found.has_floor), (vec![digest(3)], Some(8), true));
    assert_eq!(read(&[]).unwrap().greatest, None);
    for odd in [&[&[3_u8; 15][..], b"7"][..], &[b"ceiling", b"7"], &[&[3; 16], b"7.5"], &[&[3; 16]]]
    {
        assert!(read(odd).is_err(), "{odd:?}");
    }
}

/// A Redis whose filter holds every id, and into which nothing was inserted since a number.
struct Full {
    header: Header,
    last: i64,
    /// How many commands came together.
    sent: Mutex<Vec<usize>>,
}

impl Transport for Full {
    fn send(&self, packed: Packed) -> BoxFuture<'_, RedisResult<Vec<Value>>> {
        self.sent.lock().push(packed.commands);
        let text = |text: &str| Value::BulkString(text.into());
        let (header, last) = (&self.header, self.last);
        let state = i64::from(State::Live.as_byte());
        let numbers = [header.generation.get(), state, header.generation.trailer_number(), last];
        let mut replies = match packed.commands {
            4 => vec![Value::BulkString(vec![0xff; 64]), Value::Array(vec![Value::Nil])],
            _ => vec![Value::Array(Vec::new())],
        };
        replies.push(Value::Array(vec![text("first"), text(&last.to_string()), text("1")]));
        replies.push(Value::Array(numbers.map(Value::Int).into()));
        Box::pin(async { Ok(replies) })
    }
}

/// A store with a session, and a copy of the live filter that is empty and holds all inserts up to 9.
struct Store {
    shards: Arc<Shards>,
    redis: Arc<Full>,
    live: Connection,
    copy: Arc<FilterCopy>,
}

impl Store {
    /// `last` is the number of the last insert, by Redis.
    fn new(last: i64) -> Self {
        let settings = Settings::new("users".into());
        let shards = Arc::new(unreached(&settings));
        let header = Header::new(Generation::new(1).unwrap(), 1, &settings.sizing, 1);
        let digester = Digester::new(&SecretKey::new([7; 16]), "users");
        let header = Header { key_id: digester.key_id(), run: 1, ..header };
        let redis = Arc::new(Full { header, last, sent: Mutex::default() });
        let there = Arc::clone(&redis) as Arc<dyn Transport>;
        let live = joined_by(&shards.all[0].node(), there, 1, b"first", 0);
        live.node.link.put_into_use(&live.on);
        shards.all[0].filter.store(Some(Arc::new(header)));
        let copy = copy_of(header, &digester, 9);
        shards.all[0].copies.put(Arc::clone(&copy));
        Self { shards, redis, live, copy }
    }

    /// Asks for ids, and returns what is said, and how many commands each request had.
    async fn check(&self, ids: &[u64]) -> (Vec<Verdict>, Vec<usize>) {
        let ids: Vec<Id> = ids.iter().map(|id| Id::display(id).unwrap()).collect();
        let sought: Vec<_> = ids.iter().map(|id| (id, None)).collect();
        let lookups = self.shards.check(&sought, Instant::now()).answer().await;
        let sent = self.redis.sent.lock().drain(..).collect();
        (lookups.iter().map(|lookup| lookup.verdict).collect(), sent)
    }

    fn room(&self) -> usize {
        self.shards.all[0].known.settings().checks_in_flight as usize
    }

    /// Joins the next fence.
    fn join(&self) -> Result<Arc<Fence>, Doubt> {
        let fences = &self.live.on.identity.fences;
        match fences.join(0, digest(1), self.room(), Instant::now(), || None)? {
            Joined::Fence { fence, .. } => Ok(fence),
            Joined::Alone(_) => panic!("no id was alone"),
        }
    }
}

const ABSENT: Verdict = Verdict::Absent(Proof::Filter);

#[tokio::test(start_paused = true)]
async fn one_fence_answers_for_all_that_the_copy_lacks() {
    let store = Store::new(9);
    // What was inserted since, the metadata and the header.
    assert_eq!(store.check(&[1, 2]).await, (vec![ABSENT, ABSENT], vec![3]));
    // Another one follows soon: a single id waits, too.
    assert_eq!(store.check(&[1]).await, (vec![ABSENT], vec![3]));
    tokio::time::advance(GAP).await;
    // By itself: its block, its null, the metadata and the header.
    assert_eq!(store.check(&[1]).await, (vec![Verdict::Present], vec![4]));
    store.copy.note_behind(true);
    assert_eq!(store.check(&[1]).await.1, [4]);
}

#[tokio::test(start_paused = true)]
async fn where_a_fence_proves_nothing_redis_is_asked_for_each_id() {
    let store = Store::new(10);
    let lone = [Verdict::Present];
    let fenced = store.join().unwrap();
    assert!(!fenced.0.initialized());
    Lead::new(&store.live.node, &store.live.on, &fenced).start(&store.shards);
    let (said, sent) = store.check(&[1]).await;
    assert_eq!((&*said, sent), (&lone[..], vec![3, 4]));
    assert_eq!(store.check(&[1]).await, (lone.to_vec(), vec![4]), "the copy is behind");
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_fence_that_nobody_leads_is_told() {
    let store = Store::new(9);
    let fence = store.join().unwrap();
    drop(Lead::new(&store.live.node, &store.live.on, &fence));
    assert!(fence.0.get().is_some_and(|proven| proven.is_empty()));
    assert!(!Arc::ptr_eq(&fence, &store.join().unwrap()), "nobody joins it any more");
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_an_answer_that_does_not_come_is_told_in_time() {
    let store = Store::new(9);
    let silent = joined(Scripted::new([]), 1, b"first", 0);
    store.live.node.link.put_into_use(&silent.on);
    let begun = Instant::now();
    let late = Verdict::Unknown(Doubt::Timeout);
    assert_eq!(store.check(&[1, 2]).await.0, [late, late]);
    let deadline = store.shards.all[0].known.settings().check_deadline;
    assert!(begun.elapsed() <= deadline + Duration::from_millis(1));
}

#[tokio::test(start_paused = true)]
async fn a_fence_of_a_session_that_was_left_proves_nothing() {
    let store = Store::new(9);
    let fence = store.join().unwrap();
    let other = joined(Arc::clone(&store.redis) as Arc<dyn Transport>, 1, b"first", 0);
    store.live.node.link.put_into_use(&other.on);
    Lead::new(&store.live.node, &store.live.on, &fence).start(&store.shards);
    assert!(fence.0.wait().await.iter().all(Option::is_none));
    assert!(store.redis.sent.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn nobody_joins_a_fence_that_has_left() {
    let store = Store::new(9);
    let before = store.join().unwrap();
    assert!(Arc::ptr_eq(&before, &store.join().unwrap()));
    let left = store.live.on.identity.fences.leave(GAP).await.unwrap();
    assert!(Arc::ptr_eq(&before, &left.fence) && left.ids == 2);
    assert!(!Arc::ptr_eq(&before, &store.join().unwrap()));
}

#[tokio::test(start_paused = true)]
async fn a_fence_waits_for_more_ids_but_not_for_long() {
    let store = Store::new(9);
    let (fences, pause) = (&store.live.on.identity.fences, Duration::from_millis(32));
    let few = *ENOUGH.start();
    tokio::time::advance(GAP).await;
    // Tokio's timers are coarser than the gap.
    let timer = Duration::from_millis(1);
    for (ids, waits) in [(1, Duration::ZERO), (few, Duration::ZERO), (few - 1, timer)] {
        let begun = Instant::now();
        let first = store.join().unwrap();
        let join = async { (1..ids).for_each(|_| drop(store.join())) };
        let (left, ()) = tokio::join!(fences.leave(pause), join);
        assert_eq!((left.unwrap().ids, begun.elapsed()), (ids, waits));
        let mut lead = Lead::new(&store.live.node, &store.live.on, &first);
        lead.has_left = true;
    }
    // The first that comes after the gap is not left to the timer.
    let begun = Instant::now();
    let _first = store.join();
    let (left, ()) = tokio::join!(fences.leave(pause), async {
        tokio::time::advance(GAP).await;
        store.join().unwrap();
    });
    assert_eq!((left.unwrap().ids, begun.elapsed()), (2, GAP));
    // While one is under way, others leave by the pause.
    let (begun, _second) = (Instant::now(), store.join());
    assert_eq!((fences.leave(pause).await.unwrap().ids, begun.elapsed()), (1, pause));
}

#[tokio::test(start_paused = true)]
async fn no_more_ids_wait_for_a_fence_than_there_is_room_for() {
    let store = Store::new(9);
    for _ in 0..store.room() {
        store.join().unwrap();
    }
    assert_eq!(store.join().err(), Some(Doubt::Overloaded));
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_lacks_what_the_filter_holds_is_dropped() {
    let store = Store::new(9);
    store.shards.audit_copy_of(&Id::display(&1).unwrap()).await;
    assert!(store.shards.all[0].copies.to_fence(&store.copy.header).is_none());
}
