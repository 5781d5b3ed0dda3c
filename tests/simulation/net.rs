//! The network between the instances and Redis: delays, losses, cuts, and the processes at its end.
//!
//! Everything a run knows of Redis is in one place per thread, as a run is one thread's. Commands
//! travel as events in order of time; those of one connection never overtake one another.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::mem::replace;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use redis::{RedisError, RedisResult, Value};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep, sleep_until};

use crate::cluster::{self, Map};
use crate::invariants;
use crate::mishaps;
use crate::model::keyspace::{Keyspace, number};
use crate::model::node::Node;
use crate::model::reply::Reply;
use crate::oracle;
use crate::plan::{Config, Mishap};
use crate::rng::Rng;
use crate::scripts;
use crate::store::BoxFuture;
use crate::store::link::connector::Connector;
use crate::store::link::resp::Packed;
use crate::store::link::transport::Transport;
use crate::trace;

/// Redis's clock as a run begins: noon of the first day of 2026.
const EPOCH_US: u64 = 1_767_268_800_000_000;

thread_local! {
    static NET: RefCell<Option<Net>> = const { RefCell::new(None) };
    /// What is polled just now must not ask Redis.
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Polls a future that must not send anything to Redis.
pub(crate) async fn quiet<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|cx| {
        QUIET.set(true);
        let polled = future.as_mut().poll(cx);
        QUIET.set(false);
        polled
    })
    .await
}

/// A check is about to be queued. Changed sources tell.
pub(crate) fn asked() {
    if QUIET.get() {
        oracle::violated(format!("{} ms: a check is asked for what is known", now_ms()));
    }
}

/// Requests of several commands that others come between, in a thousand.
const PARTED: u64 = 40;
/// For how long a request's other commands are on their way, ms.
const REST: [u64; 6] = [1, 1, 1, 2, 5, 30];

/// How long a process that ends is away, ms.
const BEGINS_ANEW: u64 = 5;

/// The network of a run.
pub(crate) struct Net {
    began: Instant,
    pub(crate) rng: Rng,
    pub(crate) nodes: Vec<Node>,
    /// The processes that the addresses lead to: one, or the nodes of a cluster.
    pub(crate) primaries: Vec<usize>,
    /// Replies that take long, in a thousand.
    pub(crate) slow: u64,
    pub(crate) clock_skew_us: i64,
    connections: BTreeMap<u64, Connection>,
    next_connection: u64,
    events: BTreeMap<(u64, u64), Event>,
    next_event: u64,
    news: Arc<Notify>,
    /// What is to befall requests, and whether it has befallen one.
    traps: Vec<(Trap, bool)>,
    /// Nothing goes wrong any more.
    healed: bool,
    /// Until when an instance reaches nobody.
    cut_off: BTreeMap<usize, u64>,
    /// The instances that are to end, and who waits for one.
    deaths: Vec<usize>,
    death: Arc<Notify>,
}

struct Connection {
    instance: usize,
    node: usize,
    /// Which start of the process it leads to.
    run_id: u64,
    /// Nothing on it arrives before these moments: there, and back.
    free: (u64, u64),
    /// Until when the rest of a request is on its way.
    parted_until: u64,
    waiting: BTreeMap<u64, oneshot::Sender<Vec<Value>>>,
}

enum Event {
    Request(Request),
    Reply { connection: u64, request: u64, replies: Vec<Value> },
}

struct Request {
    number: u64,
    connection: u64,
    run_id: u64,
    commands: Vec<Vec<Vec<u8>>>,
    /// To those of the commands that were executed.
    replies: Vec<Value>,
    effect: Option<Effect>,
}

/// What befalls the next requests of a kind.
#[derive(Debug, Clone)]
pub(crate) struct Trap {
    /// A script's or a command's name; any request if empty.
    pub(crate) on: &'static str,
    /// One instance's, or anybody's.
    pub(crate) instance: Option<usize>,
    pub(crate) effect: Effect,
    pub(crate) times: u32,
}

#[derive(Debug, Clone)]
pub(crate) enum Effect {
    /// The connection breaks before the request arrives.
    LoseRequest,
    /// The connection breaks after it is executed.
    LoseReply,
    /// It takes so long to arrive, ms, and what follows on the connection too.
    DelayRequest(u64),
    /// Its reply does.
    DelayReply(u64),
    /// As soon as it is executed, this happens.
    Then(Mishap),
    /// In the midst of its commands, this happens.
    Midway(Mishap),
    /// In the midst of its commands, all arrives that is on its way on other connections.
    Overtaken,
    /// While one of its commands is executed, the live filter is put aside.
    Blink,
    /// As soon as it is executed, the instance reaches nobody for so long, ms.
    FallSilent(u64),
    /// As soon as it is executed, its process ends, and begins anew.
    SenderDies,
}

/// The name of inserts that are said again.
pub(crate) const AGAIN: &str = "add.lua again";

/// Looks at the network.
pub(crate) fn with<T>(see: impl FnOnce(&mut Net) -> T) -> T {
    NET.with_borrow_mut(|net| see(net.as_mut().expect("a run is under way")))
}

/// Milliseconds since the run began.
pub(crate) fn now_ms() -> u64 {
    with(|net| net.now_ms())
}

/// Begins a run's network; needs a runtime with a paused clock.
pub(crate) fn begin(config: &Config, seed: u64) {
    let Config { version, slow, .. } = *config;
    let mut rng = Rng::new(seed ^ 0xA11C_E5ED);
    let mut start = || {
        let (run_id, history) = (rng.next(), rng.next());
        Node::start(version, run_id, history, Keyspace::default())
    };
    let mut nodes = vec![start()];
    let mut primaries = vec![0];
    if config.cluster {
        for at in cluster::NODES {
            if at > 0 {
                primaries.push(nodes.len());
                nodes.push(start());
            }
            nodes[primaries[at]].map = Some(Map::first(at));
        }
    }
    let net = Net {
        began: Instant::now(),
        rng,
        primaries,
        nodes,
        slow,
        clock_skew_us: 0,
        connections: BTreeMap::new(),
        next_connection: 0,
        events: BTreeMap::new(),
        next_event: 0,
        news: Arc::new(Notify::new()),
        traps: Vec::new(),
        healed: false,
        cut_off: BTreeMap::new(),
        deaths: Vec::new(),
        death: Arc::new(Notify::new()),
    };
    NET.with_borrow_mut(|place| *place = Some(net));
}

/// Ends the run's network.
pub(crate) fn end() {
    NET.with_borrow_mut(|place| *place = None);
}

/// Waits for an instance that is to end.
pub(crate) async fn death() -> usize {
    let death = with(|net| Arc::clone(&net.death));
    loop {
        if let Some(instance) = with(|net| net.deaths.pop()) {
            return instance;
        }
        death.notified().await;
    }
}

/// Carries events out when their time comes, for as long as it is polled.
pub(crate) async fn carry() {
    let (began, news) = with(|net| (net.began, Arc::clone(&net.news)));
    loop {
        let next = with(|net| net.events.first_key_value().map(|((at, _), _)| *at));
        match next {
            None => news.notified().await,
            Some(at) if at <= now_ms() => step(),
            Some(at) => {
                tokio::select! {
                    biased;
                    () = news.notified() => {}
                    () = sleep_until(began + Duration::from_millis(at)) => {}
                }
            }
        }
    }
}

/// Carries the first event out.
fn step() {
    let Some(((_, number), event)) = with(|net| net.events.pop_first()) else { return };
    match event {
        Event::Reply { connection, request, replies } => with(|net| {
            let waiting =
                net.connections.get_mut(&connection).and_then(|c| c.waiting.remove(&request));
            if let Some(waiting) = waiting {
                waiting.send(replies).ok();
            }
        }),
        // The client may have closed the connection already: what it has sent still arrives.
        Event::Request(request) => {
            if let Some(until) = with(|net| net.held_until(&request)) {
                // By its old number: it overtakes nothing, and nothing overtakes it.
                with(|net| net.events.insert((until, number), Event::Request(request)));
                return;
            }
            arrive(request);
        }
    }
}

/// Executes a request, or the part of it that has arrived.
fn arrive(mut request: Request) {
    let Some(upto) = with(|net| net.execute(&mut request)) else { return };
    let whole = upto == request.commands.len();
    let mishap = match &request.effect {
        Some(Effect::Midway(mishap)) => Some(mishap.clone()),
        Some(Effect::Then(mishap)) if whole => Some(mishap.clone()),
        _ => None,
    };
    if whole && matches!(request.effect, Some(Effect::SenderDies)) {
        with(|net| net.sender_dies(request.connection));
    }
    if whole {
        with(|net| net.reply(request));
    } else {
        with(|net| net.part(request));
    }
    if let Some(mishap) = mishap
        && !with(|net| net.healed)
    {
        mishaps::befall(&mishap);
    }
}

impl Net {
    pub(crate) fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    pub(crate) fn clock_us(&self) -> u64 {
        (EPOCH_US + self.now_ms() * 1000).saturating_add_signed(self.clock_skew_us)
    }

    /// How long one way takes, ms.
    fn latency(&mut self) -> u64 {
        let slow = self.slow;
        match self.rng.within(0..1000) {
            n if n < slow / 20 => self.rng.within(20..400),
            n if n < slow => self.rng.within(2..25),
            n if n < 700 => 0,
            _ => 1,
        }
    }

    fn push(&mut self, at: u64, event: Event) {
        self.next_event += 1;
        self.events.insert((at, self.next_event), event);
        self.news.notify_one();
    }

    fn request(
        &mut self,
        id: u64,
        commands: Vec<Vec<Vec<u8>>>,
    ) -> io::Result<oneshot::Receiver<Vec<Value>>> {
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        let connection = self.connections.get(&id).ok_or_else(broken)?;
        let (instance, run_id) = (connection.instance, connection.run_id);
        let effect = self.spring(instance, &commands);
        if matches!(effect, Some(Effect::LoseRequest)) {
            self.break_connection(id);
            return Err(broken());
        }
        let extra = if let Some(Effect::DelayRequest(ms)) = effect { ms } else { 0 };
        let at = self.now_ms() + self.latency() + extra;
        let connection = self.connections.get_mut(&id).ok_or_else(broken)?;
        let at = at.max(connection.free.0);
        connection.free.0 = at;
        let (answer, answered) = oneshot::channel();
        let number = self.next_event + 1;
        connection.waiting.insert(number, answer);
        let replies = Vec::with_capacity(commands.len());
        let request = Request { number, connection: id, run_id, commands, replies, effect };
        self.push(at, Event::Request(request));
        Ok(answered)
    }

    /// Whether a trap is set for a request, and what it does.
    fn spring(&mut self, instance: usize, commands: &[Vec<Vec<u8>>]) -> Option<Effect> {
        if self.traps.is_empty() {
            return None;
        }
        let name = name_of(commands);
        let at = self.traps.iter().position(|(trap, _)| {
            trap.instance.is_none_or(|of| of == instance) && (trap.on.is_empty() || trap.on == name)
        })?;
        let (trap, has_sprung) = &mut self.traps[at];
        let effect = trap.effect.clone();
        trap.times -= 1;
        let is_over = trap.times == 0;
        if !replace(has_sprung, true) {
            oracle::note(|findings| findings.sprung += 1);
        }
        if is_over {
            self.traps.remove(at);
        }
        trace::line(|| format!("{:>6} trap: {effect:?} on {name} of {instance}", self.now_ms()));
        Some(effect)
    }

    /// Until when a request has to wait, if it does: for a process that stands still, or for the rest of
    /// another one on its connection.
    fn held_until(&self, request: &Request) -> Option<u64> {
        let node = self.nodes.iter().find(|node| node.run_id == request.run_id)?;
        let parted = self.connections.get(&request.connection).map_or(0, |c| c.parted_until);
        Some(node.still_until.max(parted)).filter(|until| *until > self.now_ms())
    }

    /// Executes a request on the process it was sent to, or a part of it; returns how many of its commands have
    /// been executed, or nothing if that process has ended.
    fn execute(&mut self, request: &mut Request) -> Option<usize> {
        let at = self.nodes.iter().position(|node| node.run_id == request.run_id)?;
        let (run_ms, clock_us) = (self.now_ms(), self.clock_us());
        let upto = self.draw_part(request);
        let done = request.replies.len();
        let blink = matches!(request.effect, Some(Effect::Blink)) && done == 0 && upto > 1;
        let blink = blink.then(|| self.rng.within(1..upto as u64) as usize);
        for (number, command) in request.commands.iter().enumerate().take(upto).skip(done) {
            let words: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
            let node = &mut self.nodes[at];
            let name = scripts::name_of(command);
            mishaps::watch(node, command, run_ms);
            let before = invariants::before(node, command);
            let reply = if blink == Some(number) {
                mishaps::without_filter(node, |node| node.execute(&words, run_ms, clock_us))
            } else {
                node.execute(&words, run_ms, clock_us)
            };
            note(run_ms, request.connection, name, command, &reply);
            invariants::after(node, before.as_ref(), &reply, run_ms);
            request.replies.push(reply.into_value());
        }
        Some(upto)
    }

    /// How many of a request's commands have arrived.
    fn draw_part(&mut self, request: &Request) -> usize {
        let (next, all) = (request.replies.len() + 1, request.commands.len());
        let parted = next < all
            && !self.healed
            && (matches!(request.effect, Some(Effect::Midway(_) | Effect::Overtaken))
                || self.rng.happens(PARTED));
        if parted { self.rng.within(next as u64..all as u64) as usize } else { all }
    }

    /// Puts a request's rest off, before which other connections' requests are executed.
    fn part(&mut self, mut request: Request) {
        let now = self.now_ms();
        let effect = request.effect.take();
        if matches!(effect, Some(Effect::Overtaken)) || self.rng.happens(500) {
            self.bring_forward(&request);
        }
        // What befalls it midway, befalls it once.
        request.effect =
            effect.filter(|effect| !matches!(effect, Effect::Midway(_) | Effect::Overtaken));
        let until = now + self.rng.pick(&REST);
        if let Some(connection) = self.connections.get_mut(&request.connection) {
            connection.parted_until = until;
            connection.free.0 = connection.free.0.max(until);
        }
        trace::line(|| format!("{now:>6}   c{} parted until {until}", request.connection));
        // By its old number: what follows on its connection does not overtake it.
        self.events.insert((until, request.number), Event::Request(request));
    }

    /// Lets all arrive that is on its way on other connections to the same process.
    fn bring_forward(&mut self, parted: &Request) {
        let now = self.now_ms();
        let others = self.events.iter().filter(|(_, event)| {
            matches!(event, Event::Request(other)
                if other.connection != parted.connection && other.run_id == parted.run_id)
        });
        for (at, number) in others.map(|(key, _)| *key).collect::<Vec<_>>() {
            if let Some(event) = self.events.remove(&(at, number)) {
                self.events.insert((now, number), event);
            }
        }
    }

    /// Sends the replies to a request, all of whose commands were executed.
    fn reply(&mut self, request: Request) {
        let Request { connection: id, number, commands, replies, effect, .. } = request;
        let run_ms = self.now_ms();
        count(&commands);
        match effect {
            Some(Effect::LoseReply) => {
                self.break_connection(id);
                return;
            }
            Some(Effect::FallSilent(for_ms)) if !self.healed => {
                if let Some(instance) = self.connections.get(&id).map(|c| c.instance) {
                    self.cut_off(instance, for_ms);
                }
                return;
            }
            _ => {}
        }
        let held_up = if let Some(Effect::DelayReply(ms)) = effect { ms } else { 0 };
        let at = run_ms + self.latency() + held_up;
        let Some(connection) = self.connections.get_mut(&id) else { return };
        // Replies come in the order of requests.
        let at = at.max(connection.free.1);
        connection.free.1 = at;
        self.push(at, Event::Reply { connection: id, request: number, replies });
    }

    /// Opens a connection for an instance, to one of the addresses.
    fn connect(&mut self, Address { instance, site }: &Address) -> io::Result<u64> {
        let (instance, node) = (*instance, self.primaries[*site]);
        if self.cut_off.get(&instance).is_some_and(|until| *until > self.now_ms()) {
            return Err(io::Error::from(io::ErrorKind::ConnectionRefused));
        }
        self.next_connection += 1;
        let run_id = self.nodes[node].run_id;
        let connection = Connection {
            instance,
            node,
            run_id,
            free: (0, 0),
            parted_until: 0,
            waiting: BTreeMap::new(),
        };
        self.connections.insert(self.next_connection, connection);
        Ok(self.next_connection)
    }

    /// Breaks a connection: whoever waits on it learns so at once.
    pub(crate) fn break_connection(&mut self, id: u64) {
        self.connections.remove(&id);
    }

    /// Breaks the connections of an instance; none stands for all instances.
    pub(crate) fn break_connections(&mut self, instance: Option<usize>) {
        self.connections.retain(|_, c| instance.is_some_and(|instance| c.instance != instance));
    }

    /// Breaks the connections to a process.
    pub(crate) fn break_node(&mut self, node: usize) {
        self.connections.retain(|_, c| c.node != node);
    }

    /// Lets an instance reach nobody for a while.
    pub(crate) fn cut_off(&mut self, instance: usize, for_ms: u64) {
        let until = self.now_ms() + for_ms;
        self.cut_off.insert(instance, until);
        self.break_connections(Some(instance));
    }

    /// The instance is to end that has this connection.
    fn sender_dies(&mut self, connection: u64) {
        let instance = self.connections.get(&connection).map(|connection| connection.instance);
        if let Some(instance) = instance.filter(|_| !self.healed) {
            // It gives no lease back, and takes a moment to begin anew.
            self.cut_off(instance, BEGINS_ANEW);
            self.deaths.push(instance);
            self.death.notify_one();
        }
    }

    pub(crate) fn set(&mut self, trap: Trap) {
        self.traps.push((trap, false));
    }

    /// Ends all that is set to go wrong.
    pub(crate) fn heal(&mut self) {
        self.healed = true;
        self.traps.clear();
        self.deaths.clear();
        self.cut_off.clear();
        self.slow = 0;
        cluster::heal(self);
        for node in &mut self.nodes {
            for key in mishaps::keys(&["bits", "recent", "fleet"]) {
                node.keys.run(&[b"PERSIST", &key]);
            }
            node.limit = None;
            node.misconfigured = false;
            node.lonely = false;
            if let Some((_, history)) = node.demoted {
                node.demote(history);
            }
            node.loading_until = 0;
            node.still_until = 0;
        }
    }
}

/// Takes the words of the first command.
fn words(sent: &mut &[u8]) -> Vec<Vec<u8>> {
    (0..count_of(b'*', sent)).map(|_| word(sent)).collect()
}

fn word(sent: &mut &[u8]) -> Vec<u8> {
    let len = count_of(b'$', sent);
    let (word, rest) = sent.split_at(len);
    *sent = rest.strip_prefix(b"\r\n").expect("a word ends");
    word.to_vec()
}

/// Takes a line of this kind: a number.
fn count_of(kind: u8, sent: &mut &[u8]) -> usize {
    let end = sent.iter().position(|byte| *byte == b'\r').expect("a line ends");
    let (line, rest) = sent.split_at(end);
    *sent = rest.strip_prefix(b"\r\n").expect("a line ends");
    number(line.strip_prefix(&[kind]).expect("a command is an array of strings")) as usize
}

/// How many bytes a reply takes, or some more.
fn len_of(reply: &Value) -> usize {
    const LINE: usize = 24;
    match reply {
        Value::BulkString(bytes) => LINE + bytes.len(),
        Value::Array(items) => LINE + items.iter().map(len_of).sum::<usize>(),
        Value::SimpleString(text) => LINE + text.len(),
        _ => LINE,
    }
}

/// A request's name: its script's, or its first command's.
fn name_of(commands: &[Vec<Vec<u8>>]) -> &'static str {
    let Some(command) = commands.first() else { return "" };
    // Both read the header, last unless a seeded bug has it otherwise.
    if commands.len() > 1 && commands.iter().any(|command| scripts::name_of(command) == "check") {
        return if scripts::name_of(command) == "ZRANGEBYSCORE" { "fence" } else { "check" };
    }
    match scripts::name_of(command) {
        // Its last argument says for how long others wait for the next.
        "add.lua" if command.last().is_some_and(|hold| !hold.is_empty()) => AGAIN,
        name => name,
    }
}

/// Counts the ids that a request asks for, if it is a check.
fn count(commands: &[Vec<Vec<u8>>]) {
    match name_of(commands) {
        "check" => {}
        "fence" => return oracle::note(|findings| findings.fences += 1),
        _ => return,
    }
    // Each id's null is read once.
    let ids: usize = commands
        .iter()
        .filter(|command| scripts::name_of(command) == "MGET")
        .map(|command| command.len() - 1)
        .sum();
    oracle::note(|findings| match ids {
        0 | 1 => findings.alone += 1,
        _ => findings.merged += ids as u64,
    });
}

fn note(run_ms: u64, connection: u64, name: &str, command: &[Vec<u8>], reply: &Reply) {
    trace::mix(&run_ms.to_be_bytes());
    trace::mix(&connection.to_be_bytes());
    for word in command {
        trace::mix(word);
    }
    trace::line(|| format!("{run_ms:>6}   c{connection} {name} -> {}", scripts::brief(reply)));
}

/// An address, as one instance knows it.
pub(crate) struct Address {
    pub(crate) instance: usize,
    /// The number of the node of a cluster.
    pub(crate) site: usize,
}

impl Connector for Address {
    fn connect(&self) -> BoxFuture<'_, RedisResult<Arc<dyn Transport>>> {
        Box::pin(async move {
            let latency = with(Net::latency);
            if latency > 0 {
                sleep(Duration::from_millis(latency)).await;
            }
            let id = with(|net| net.connect(self)).map_err(RedisError::from)?;
            let (Self { instance, site }, now) = (self, now_ms());
            trace::line(|| format!("{now:>6}   c{id} is instance {instance}'s, to address {site}"));
            Ok(Arc::new(Line(id)) as Arc<dyn Transport>)
        })
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "model {} of redis, as instance {} reaches it", self.site, self.instance)
    }
}

/// A connection's end.
struct Line(u64);

impl Transport for Line {
    fn send(&self, packed: Packed) -> BoxFuture<'_, RedisResult<Vec<Value>>> {
        Box::pin(async move {
            let (room, mut sent) = (packed.room(), packed.bytes.as_slice());
            let commands: Vec<_> = (0..packed.commands).map(|_| words(&mut sent)).collect();
            if QUIET.get() {
                let name = name_of(&commands);
                oracle::violated(format!("{} ms: {name} is sent for what is known", now_ms()));
            }
            let answered = with(|net| net.request(self.0, commands)).map_err(RedisError::from)?;
            let broken = |_| RedisError::from(io::Error::from(io::ErrorKind::BrokenPipe));
            let replies = answered.await.map_err(broken)?;
            let refused = replies.iter().find_map(|reply| match reply {
                Value::ServerError(error) => Some(error.clone()),
                _ => None,
            });
            if let Some(error) = refused {
                return Err(error.into());
            }
            // A connection that gets more is closed.
            let bytes: usize = replies.iter().map(len_of).sum();
            assert!(bytes <= room, "{bytes} bytes of {room}");
            Ok(replies)
        })
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // A run that ends drops its connections after its network.
        NET.with(|net| {
            if let Ok(mut net) = net.try_borrow_mut()
                && let Some(net) = net.as_mut()
            {
                net.break_connection(self.0);
            }
        });
    }
}
