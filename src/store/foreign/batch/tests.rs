//! Batches of checks on a Redis of a few lines, in which things happen between any two requests.

use std::collections::{HashMap, HashSet};

use ::redis::{Cmd, RedisResult, Value, from_redis_value};
use parking_lot::Mutex;
use tokio::sync::oneshot::Receiver;

use super::*;
use crate::filter::Generation;
use crate::settings::Settings;
use crate::store::BoxFuture;
use crate::store::foreign::bitmap;
use crate::store::foreign::bitmap::BITS;
use crate::store::foreign::filter::ForeignFilter;
use crate::store::foreign::layout::Place;
use crate::store::foreign::record::Record;
use crate::store::foreign::rounds::FIRST;
use crate::store::foreign::trust::Trust;
use crate::store::link::connection::tests::connection;
use crate::store::link::connector::Connector;
use crate::store::link::node;
use crate::store::link::resp::{Packed, values};
use crate::store::link::transport::Transport;
use crate::store::map::endpoint::Endpoint;

const SEAL: i64 = 0x0123_4567_89ab_cdef;
/// Checks in a flood of ids that do not exist.
const FLOOD: u64 = 100;

/// What there is in Redis, and what it was asked.
#[derive(Default)]
struct Keys {
    set: HashSet<(String, u64)>,
    /// By key; others are not sealed.
    seals: HashMap<String, i64>,
    record: Option<Vec<u8>>,
    /// The seals that the statement names.
    named: Vec<i64>,
    /// Commands of each request.
    asked: Vec<Vec<Vec<String>>>,
    /// What happens before the next requests, each with the number of requests until then.
    events: Vec<(usize, Event)>,
}

type Event = fn(&mut Keys);

#[derive(Default)]
struct FakeRedis(Mutex<Keys>);

impl Keys {
    fn answer(&mut self, command: &[String]) -> Value {
        let field = |name: &str| match (name, &self.record) {
            ("on", Some(on)) => Value::BulkString(on.clone()),
            ("seal", Some(_)) => Value::BulkString(self.named[0].to_be_bytes().into()),
            ("before", Some(_)) => Value::BulkString(self.named[1].to_be_bytes().into()),
            _ => Value::Nil,
        };
        match &*command[0] {
            "BITFIELD" => {
                let (key, gets) = (&command[1], command[2..].chunks(3));
                Value::Array(gets.map(|get| Value::Int(self.bits(key, &get[1], &get[2]))).collect())
            }
            "HMGET" => Value::Array(command[2..].iter().map(|name| field(name)).collect()),
            "EVAL" if command[1] == include_str!("../look.lua") => Value::Int(1),
            "EVAL" => {
                self.record = None;
                Value::Int(1)
            }
            other => panic!("{other} is not asked for"),
        }
    }

    fn bits(&self, key: &str, kind: &str, at: &str) -> i64 {
        let at: u64 = at.parse().unwrap();
        match kind {
            "u1" => self.set.contains(&(key.to_owned(), at)).into(),
            _ => self.seals.get(key).copied().unwrap_or_default(),
        }
    }
}

impl Transport for FakeRedis {
    fn send(&self, packed: Packed) -> BoxFuture<'_, RedisResult<Vec<u8>>> {
        let mut keys = self.0.lock();
        for (left, event) in std::mem::take(&mut keys.events) {
            match left {
                0 => event(&mut keys),
                _ => keys.events.push((left - 1, event)),
            }
        }
        let sent = values(&packed.bytes, packed.commands).unwrap();
        let words = |command| -> Vec<Vec<u8>> { from_redis_value(command).unwrap() };
        let text = |word: Vec<u8>| String::from_utf8_lossy(&word).into_owned();
        let commands: Vec<Vec<String>> = sent
            .into_iter()
            .map(|command| words(command).into_iter().map(text).collect())
            .collect();
        let replies: Vec<u8> =
            commands.iter().flat_map(|command| resp(keys.answer(command))).collect();
        keys.asked.push(commands);
        Box::pin(std::future::ready(Ok(replies)))
    }
}

/// Writes a reply as Redis does.
fn resp(reply: Value) -> Vec<u8> {
    match reply {
        Value::Nil => b"$-1\r\n".to_vec(),
        Value::Int(number) => format!(":{number}\r\n").into_bytes(),
        Value::BulkString(bytes) => {
            [format!("${}\r\n", bytes.len()).as_bytes(), &bytes, b"\r\n"].concat()
        }
        Value::Array(items) => {
            let head = format!("*{}\r\n", items.len()).into_bytes();
            head.into_iter().chain(items.into_iter().flat_map(resp)).collect()
        }
        other => panic!("{other:?} is not replied"),
    }
}

#[derive(Debug)]
struct NoConnector;

impl Connector for NoConnector {
    fn connect(&self) -> BoxFuture<'_, RedisResult<Arc<dyn Transport>>> {
        Box::pin(std::future::pending())
    }
}

/// A filter that is believed, and nothing in it.
struct Believing {
    site: Site,
    redis: Arc<FakeRedis>,
    live: Arc<Connection>,
    known: Arc<Known>,
}

impl Believing {
    async fn new(filter: ForeignFilter) -> Self {
        let trust = Trust::new(&filter, 0);
        let endpoint = Endpoint::Primary(Arc::new(NoConnector));
        let site = Site::new(trust, &endpoint, &Settings::new("users".into()));
        let redis = Arc::new(FakeRedis::default());
        let live = connection(Arc::clone(&redis) as Arc<dyn Transport>, 1, ());
        site.node.checks.put_into_use(&live);
        let trust = &site.trust;
        let size = trust.layout.size(&[]).unwrap();
        let seal = trust.layout.end(size).next_multiple_of(64);
        let generation = Generation::new(1).unwrap();
        let record = Record { run: 1, generation, ids: 1, seal, of: trust.of(&Vec::new()) };
        {
            let mut keys = redis.0.lock();
            keys.record = Some(record.encode().into_bytes());
            keys.named = vec![SEAL, SEAL];
            keys.seals = trust.keys.all().map(|key| (key.to_owned(), SEAL)).collect();
        }
        trust.look(&*live.transport(), &live.process).await.unwrap();
        let known = trust.known().unwrap();
        assert!(known.believed().is_ok());
        redis.0.lock().asked.clear();
        Self { site, redis, live, known }
    }

    fn place(&self, id: u64) -> Place {
        let size = *self.known.size.as_ref().unwrap();
        self.site.trust.layout.place(size, id.to_string().as_bytes())
    }

    /// Sets these of an id's bits.
    fn set(&self, id: u64, bits: Range<usize>) {
        let (place, mut keys) = (self.place(id), self.redis.0.lock());
        let key = self.site.trust.keys.at(place.key);
        keys.set.extend(place.bits[bits].iter().map(|bit| (key.to_owned(), *bit)));
    }

    fn insert(&self, id: u64) {
        self.set(id, 0..self.place(id).bits.len());
    }

    /// Has something happen before the request that comes after `request` others.
    fn before(&self, request: usize, event: Event) {
        self.redis.0.lock().events.push((request, event));
    }

    /// Asks for these ids in one batch; returns the answers, and the requests.
    async fn ask(
        &self,
        ids: impl IntoIterator<Item = u64>,
    ) -> (Vec<Result<Verdict, Doubt>>, Vec<Vec<Vec<String>>>) {
        let mut waiting = Vec::new();
        let enter = |id| {
            let asked = Asked { known: Arc::clone(&self.known), place: self.place(id) };
            let (pending, answer) = queue::PendingCheck::new(Arc::clone(&self.live), asked);
            waiting.push(pending);
            answer
        };
        let answers: Vec<Receiver<_>> = ids.into_iter().map(enter).collect();
        node::answer(&self.site, &self.site.node, &mut waiting).await;
        assert!(waiting.is_empty());
        let answers = answers.into_iter().map(|mut answer| answer.try_recv().unwrap()).collect();
        (answers, std::mem::take(&mut self.redis.0.lock().asked))
    }

    /// Has the next batch ask in two rounds.
    async fn flood(&self) {
        let (answers, requests) = self.ask(STRANGERS).await;
        assert_eq!(answers, [ABSENT; FLOOD as usize]);
        assert_eq!(requests.len(), 1);
    }
}

const STRANGERS: Range<u64> = 1_000..1_000 + FLOOD;
const ABSENT: Result<Verdict, Doubt> = Ok(Verdict::Absent(Proof::Filter));
const PRESENT: Result<Verdict, Doubt> = Ok(Verdict::Present);

fn go_zero() -> ForeignFilter {
    ForeignFilter::go_zero("bits", 1 << 30)
}

/// How many bits a request asks for.
fn bits_in(request: &[Vec<String>]) -> usize {
    request.iter().flatten().filter(|word| *word == "u1").count()
}

#[tokio::test(start_paused = true)]
async fn in_a_flood_all_bits_are_asked_for_only_of_ids_that_have_the_first() {
    let filter = Believing::new(go_zero()).await;
    filter.insert(1);
    filter.set(2, 0..FIRST);
    filter.flood().await;
    let (answers, requests) = filter.ask(STRANGERS.chain([1, 2])).await;
    assert_eq!(answers[..FLOOD as usize], [ABSENT; FLOOD as usize]);
    assert_eq!(answers[FLOOD as usize..], [PRESENT, ABSENT]);
    let bits: Vec<usize> = requests.iter().map(|request| bits_in(request)).collect();
    assert_eq!(bits, [(FLOOD as usize + 2) * FIRST, 2 * (14 - FIRST)]);
    // Without a flood, at once; and so where few are asked for.
    filter.ask([1, 1, 1]).await;
    assert_eq!(filter.ask(STRANGERS).await.1.len(), 1);
    assert_eq!(filter.ask([1, 2, 3]).await.1.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn each_command_of_either_round_has_the_seal_and_no_more_bits_than_its_share() {
    let filter = Believing::new(go_zero()).await;
    (0..50).for_each(|id| filter.insert(id));
    filter.flood().await;
    let (_, requests) = filter.ask(STRANGERS.chain(0..50)).await;
    assert_eq!(requests.len(), 2);
    for request in requests {
        let (on, commands) = request.split_last().unwrap();
        assert_eq!(on[0], "HMGET", "the statement is read last");
        for command in commands {
            assert_eq!(command[command.len() - 2], "i64");
            assert!(bits_in(std::slice::from_ref(command)) <= BITS);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_seal_that_is_another_in_either_round_refuses_nothing_of_that_round() {
    for round in 0..2 {
        let filter = Believing::new(go_zero()).await;
        filter.set(2, 0..FIRST);
        filter.flood().await;
        filter.before(round, |keys| keys.seals = [("bits".to_owned(), SEAL ^ 1)].into());
        let (answers, _) = filter.ask(STRANGERS.chain([2])).await;
        let first = if round == 0 { Err(Doubt::Foreign) } else { ABSENT };
        assert_eq!(answers[..FLOOD as usize], [first; FLOOD as usize]);
        assert_eq!(answers[FLOOD as usize], Err(Doubt::Foreign));
        assert_eq!(filter.known.believed().err(), Some(Doubt::Foreign));
        let record = filter.redis.0.lock().record.clone();
        assert_eq!(record, None, "the statement is taken back");
    }
}

#[tokio::test(start_paused = true)]
async fn a_seal_that_is_missing_in_one_command_of_many_refuses_nothing() {
    let filter = Believing::new(go_zero()).await;
    (0..FLOOD).for_each(|id| filter.insert(id));
    let all = filter.place(0);
    let seal = filter.known.believed().unwrap().record.seal;
    let parts = vec![(0, all.bits.as_slice()); FLOOD as usize];
    let commands: Vec<Cmd> = bitmap::ask(&filter.site.trust.keys, Some(seal), &parts).collect();
    assert!(commands.len() > 2);
    let reply = |command: &Cmd, seal| {
        let bits = (command.args_iter().len() - 5) / 3;
        Value::Array([vec![Value::Int(0); bits], vec![Value::Int(seal)]].concat())
    };
    for wrong in 0..commands.len() {
        let replies = commands.iter().enumerate();
        let replies = replies.map(|(at, command)| reply(command, SEAL ^ i64::from(at == wrong)));
        let (held, seals) = bitmap::read(Some(seal), &parts, &mut replies.into_iter()).unwrap();
        assert_eq!(seals.len(), commands.len());
        assert_eq!(seals.iter().position(|seal| *seal != SEAL), Some(wrong));
        assert_eq!(held, vec![false; FLOOD as usize]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_seal_that_is_turned_over_within_a_batch_leaves_no_check_unknown_and_an_older_one_does() {
    let turned = |keys: &mut Keys| keys.named = vec![SEAL ^ 1, SEAL];
    let turned_twice = |keys: &mut Keys| keys.named = vec![SEAL ^ 2, SEAL ^ 1];
    for (event, answer) in [(turned as Event, ABSENT), (turned_twice, Err(Doubt::Foreign))] {
        let filter = Believing::new(go_zero()).await;
        filter.flood().await;
        filter.before(0, event);
        let (answers, _) = filter.ask(STRANGERS).await;
        assert_eq!(answers, [answer; FLOOD as usize]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_filter_that_is_replaced_between_the_rounds_refuses_no_id_that_exists() {
    let filter = Believing::new(go_zero()).await;
    filter.insert(1);
    filter.flood().await;
    filter.before(1, |keys| {
        let (record, named) = (keys.record.take(), keys.named.clone());
        *keys = Keys { record, named, ..Keys::default() };
    });
    let (answers, _) = filter.ask(STRANGERS.chain([1])).await;
    assert_eq!(answers[FLOOD as usize], Err(Doubt::Foreign));
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_is_put_back_between_the_rounds_refuses_no_id_that_exists() {
    let filter = Believing::new(go_zero()).await;
    filter.insert(1);
    filter.insert(7);
    let newest = Arc::new(filter.place(7));
    filter.known.believed().unwrap().newest.store(Some(newest));
    filter.flood().await;
    // With its seal, and before the inserts.
    filter.before(1, |keys| keys.set.clear());
    let (answers, _) = filter.ask(STRANGERS.chain([1])).await;
    assert_eq!(answers[FLOOD as usize], Err(Doubt::Foreign));
}

#[tokio::test(start_paused = true)]
async fn a_statement_that_is_taken_back_between_the_rounds_refuses_no_more() {
    let filter = Believing::new(go_zero()).await;
    filter.set(2, 0..FIRST);
    filter.flood().await;
    filter.before(1, |keys| keys.record = None);
    let (answers, _) = filter.ask(STRANGERS.chain([2])).await;
    assert_eq!(answers[0], ABSENT);
    assert_eq!(answers[FLOOD as usize], Err(Doubt::Gone));
}

#[tokio::test(start_paused = true)]
async fn checks_of_ids_with_equal_bits_share_them_in_both_rounds() {
    let filter = Believing::new(go_zero()).await;
    filter.insert(1);
    filter.set(2, 0..FIRST);
    filter.flood().await;
    let (answers, requests) = filter.ask(STRANGERS.chain([2, 1, 2, 1, 2])).await;
    assert_eq!(answers[FLOOD as usize..], [ABSENT, PRESENT, ABSENT, PRESENT, ABSENT]);
    assert_eq!(bits_in(&requests[1]), 2 * (14 - FIRST));
}

#[tokio::test(start_paused = true)]
async fn ids_with_no_more_bits_than_the_first_round_asks_for_are_decided_by_it() {
    for hashes in 1..=FIRST {
        let filter = ForeignFilter::php_bkdr("bits", 1 << 30, hashes as u32);
        let filter = Believing::new(filter).await;
        filter.insert(1);
        filter.flood().await;
        let (answers, requests) = filter.ask(STRANGERS.chain([1])).await;
        assert_eq!(answers[0], ABSENT);
        assert_eq!(answers[FLOOD as usize], PRESENT);
        assert_eq!(requests.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn keys_of_a_filter_that_is_spread_are_asked_apart_each_with_its_seal() {
    let spread = || ForeignFilter::php_bkdr_sharded("bits", 1 << 33, 6, &[]);
    for broken in [None, Some("bits.0"), Some("bits.1")] {
        let filter = Believing::new(spread()).await;
        (0..10).for_each(|id| filter.insert(id));
        filter.flood().await;
        match broken {
            Some("bits.0") => filter.before(1, |keys| keys.seals.retain(|key, _| key != "bits.0")),
            Some(_) => filter.before(1, |keys| keys.seals.retain(|key, _| key != "bits.1")),
            None => {}
        }
        filter.set(10, 0..FIRST);
        let (answers, requests) = filter.ask(STRANGERS.chain(0..11)).await;
        let (strangers, others) = answers.split_at(FLOOD as usize);
        assert_eq!(strangers, [ABSENT; FLOOD as usize]);
        assert_eq!(others[..10], [PRESENT; 10]);
        assert_eq!(others[10], if broken.is_some() { Err(Doubt::Foreign) } else { ABSENT });
        // What may come behind them takes the statement back.
        for request in &requests[..2] {
            let keys: HashSet<_> = request.iter().map(|command| &*command[1]).collect();
            assert!(keys.is_superset(&["bits.0", "bits.1"].into()), "{keys:?}");
        }
    }
}
