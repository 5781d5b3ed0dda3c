//! A model of the application: a table of ids, a handler over it, guards in front.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bloom_guard::rebuild::{IdSink, RebuildSource};
use bloom_guard::{
    BloomGuard, BoxError, Builder, Doubt, Generation, NegativeCaching, OnUnknown, PathPattern,
    Removed, Schedule, Verdict,
};
use http::{Request, Response, StatusCode};
use tower::{Layer, Service, ServiceExt};

use super::eventually;
use super::redis_server::RedisServer;

/// How long a busy machine may take for anything.
const SOON: Duration = Duration::from_secs(20);

/// A table of committed ids. Cloning shares it.
#[derive(Clone, Default)]
pub struct Table {
    /// Each id with the number of the commit that made it.
    ids: Arc<Mutex<BTreeMap<u64, u64>>>,
    commits: Arc<AtomicU64>,
    lookups: Arc<AtomicU64>,
}

impl Table {
    pub fn with(ids: impl IntoIterator<Item = u64>) -> Self {
        let table = Self::default();
        ids.into_iter().for_each(|id| table.commit(id));
        table
    }

    pub fn commit(&self, id: u64) {
        let commit = self.commits.fetch_add(1, Ordering::SeqCst);
        self.ids.lock().unwrap().insert(id, commit);
    }

    /// Which commit made the row there is: the same at two times when it was there in between.
    pub fn born(&self, id: u64) -> Option<u64> {
        self.ids.lock().unwrap().get(&id).copied()
    }

    pub fn delete(&self, id: u64) {
        self.ids.lock().unwrap().remove(&id);
    }

    /// Look-ups made by handlers so far.
    pub fn lookups(&self) -> u64 {
        self.lookups.load(Ordering::SeqCst)
    }

    /// Looks an id up, as a handler does.
    pub fn look_up(&self, id: u64) -> bool {
        self.lookups.fetch_add(1, Ordering::SeqCst);
        self.ids.lock().unwrap().contains_key(&id)
    }

    /// The largest ids committed now, so many at most.
    pub fn newest(&self, count: usize) -> Vec<u64> {
        self.ids.lock().unwrap().keys().rev().take(count).copied().collect()
    }

    /// The ids committed now.
    pub fn snapshot(&self) -> Vec<u64> {
        self.ids.lock().unwrap().keys().copied().collect()
    }
}

impl RebuildSource for Table {
    async fn scan(&self, ids: &mut IdSink<'_>) -> Result<(), BoxError> {
        // Pages over the key, as a database is read: rows committed behind the cursor are not seen.
        let mut from = 0;
        loop {
            let page: Vec<u64> =
                self.ids.lock().unwrap().range(from..).take(1_000).map(|(id, _)| *id).collect();
            let Some(last) = page.last() else { return Ok(()) };
            from = last + 1;
            for id in &page {
                ids.push(id).await?;
            }
        }
    }
}

/// Ids that nobody can guess the order of, and none of which exists.
pub struct Strangers(pub u64);

impl Iterator for Strangers {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        Some((mixed ^ (mixed >> 27)) | 1 << 63)
    }
}

/// A guard over `/users/{id}` in Redis with the default deadline, lane and audits.
pub fn by_default(url: &str) -> Builder {
    at(url).settle(Duration::ZERO)
}

fn at(url: &str) -> Builder {
    BloomGuard::builder("users", PathPattern::<u64>::new("/users/{id}").unwrap()).redis(url)
}

/// A guard over `/users/{id}` in Redis, patient and permissive.
pub fn guard(url: &str) -> Builder {
    // A copy comes at a moment that is drawn, and answers what they ask of Redis; those of the copy have it.
    patient(by_default(url)).copy_limit(0)
}

/// The same for a filter that another system writes, which neither settles nor is copied.
pub fn foreign_guard(url: &str) -> Builder {
    patient(at(url))
}

fn patient(builder: Builder) -> Builder {
    builder
        // Tests share two cores with servers and other tests: what they check is not speed.
        .check_deadline(Duration::from_secs(1))
        // Most tests count what reaches the handler; those of the canary turn it on.
        .audits_per_second(0)
        // And most ask for more in a second than the lane takes; those of the lane have it.
        .on_unknown(OnUnknown::Pass)
}

/// A guard over `/users/{id}` in Redis with a table behind it, rebuilt only by hand once it is live.
pub fn guard_over(url: &str, table: &Table) -> Builder {
    guard(url).rebuild(Schedule::manual(), table.clone())
}

/// With transactions and handlers so short that no insert is recent for longer than a test.
pub fn brief(builder: Builder) -> Builder {
    let builder = builder.longest_transaction(Duration::from_secs(1));
    builder.negative_caching(NegativeCaching::new().handler_time(Duration::from_millis(100)))
}

/// A guard over `/users/{id}` with its filter in this process, sized for so many ids.
pub fn in_process(table: &Table, ids: u64, rate: f64) -> Builder {
    BloomGuard::builder("users", PathPattern::<u64>::new("/users/{id}").unwrap())
        .in_process()
        .capacity(ids, rate)
        .rebuild(Schedule::manual(), table.clone())
        .audits_per_second(0)
}

/// Waits for what a thread that is not the runtime's has a part in, such as a rebuild of more ids than one batch. A paused clock
/// would jump to its next timer meanwhile; it stands for as long as a blocking task runs.
pub async fn while_the_clock_stands<T>(work: impl Future<Output = T>) -> T {
    let (hold, held) = std::sync::mpsc::channel::<()>();
    let blocked = tokio::task::spawn_blocking(move || held.recv().unwrap_err());
    let done = work.await;
    drop(hold);
    blocked.await.unwrap();
    done
}

/// Waits until a guard without Redis is ready, on a paused clock.
pub async fn ready(guard: &BloomGuard) {
    while_the_clock_stands(async {
        while !guard.state().is_ready() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Waits until a guard refuses. Any one id may be a false positive, so each time it is another.
pub async fn live(guard: &BloomGuard) {
    let mut absent = u64::MAX;
    eventually("the guard refuses", SOON, || {
        absent -= 1;
        async move {
            match guard.check(&absent).await.unwrap() {
                Verdict::Absent(_) => Ok(()),
                other => Err(format!("{other:?}, {:?}", guard.state())),
            }
        }
    })
    .await;
}

/// Waits until nobody else is connected to a server.
pub async fn left(redis: &RedisServer) {
    eventually("all others are gone", SOON, || async {
        let clients: String = redis.run(&["CLIENT", "LIST"]);
        if clients.lines().count() == 1 { Ok(()) } else { Err(clients) }
    })
    .await;
}

/// Waits until a look-up says this of an id.
pub async fn says(guard: &BloomGuard, id: u64, wanted: Verdict) {
    eventually("a look-up says so", SOON, || async {
        let said = guard.check(&id).await.unwrap();
        if said == wanted { Ok(()) } else { Err(format!("{said:?} of {id}, and not {wanted:?}")) }
    })
    .await;
}

/// Waits until a filter of a later generation is trusted.
pub async fn rebuilt(guard: &BloomGuard, old: Generation) {
    eventually("a newer filter is trusted", SOON, || async {
        let verdict = guard.check(&u64::MAX).await.unwrap();
        let state = guard.state();
        let is_newer = state.live.is_ok_and(|live| live.generation > old);
        let trusts = is_newer && matches!(verdict, Verdict::Absent(_));
        if trusts { Ok(()) } else { Err(format!("{verdict:?}, {:?}", guard.state())) }
    })
    .await;
}

/// Waits until inserts are acknowledged.
pub async fn inserted(guard: &BloomGuard, ids: impl IntoIterator<Item = u64> + Clone) {
    eventually("inserts are acknowledged", SOON, || async {
        guard.insert_many(ids.clone()).await.map_err(|error| error.to_string())
    })
    .await;
}

/// Waits until a removal is remembered.
pub async fn removed(guard: &BloomGuard, id: u64) {
    eventually("a removal is remembered", SOON, || async {
        match guard.remove(&id).await.unwrap() {
            Removed::Remembered => Ok(()),
            withheld => Err(format!("{withheld:?}")),
        }
    })
    .await;
}

/// Waits until no filter answers for this reason, and the state says so in these words; nothing is refused.
pub async fn told(guard: &BloomGuard, doubt: Doubt, words: &str) {
    eventually(words, SOON, || async {
        assert!(!matches!(guard.check(&5_000).await.unwrap(), Verdict::Absent(_)), "{words}");
        let state = guard.state();
        let trouble = state.trouble.clone().unwrap_or_default();
        let is_told = state.live == Err(doubt) && trouble.contains(words);
        if is_told { Ok(()) } else { Err(format!("{state:?}")) }
    })
    .await;
}

/// Waits until a guard has a copy of the filter that is live. Where its limit is small, the copies of other tests have to
/// go first: the room is the process's.
pub async fn copied(guard: &BloomGuard) {
    eventually("the live filter is copied", Duration::from_secs(60), || async {
        let state = guard.state();
        let generation =
            state.live.map(|live| live.generation).map_err(|doubt| doubt.to_string())?;
        let copy = state.copy.ok_or("there is no copy")?;
        if copy.generation == generation { Ok(()) } else { Err(format!("{copy:?}")) }
    })
    .await;
}

/// The handler over a table: 200 or 404.
pub fn handler(
    table: &Table,
) -> impl Service<
    Request<String>,
    Response = Response<String>,
    Error = std::convert::Infallible,
    Future: Send,
> + Clone
+ Send
+ use<> {
    let table = table.clone();
    tower::service_fn(move |request: Request<String>| {
        let table = table.clone();
        async move {
            let id = request.uri().path().rsplit('/').next().and_then(|id| id.parse().ok());
            let found = id.is_some_and(|id| table.look_up(id));
            let status = if found { StatusCode::OK } else { StatusCode::NOT_FOUND };
            Ok(Response::builder().status(status).body(String::new()).unwrap())
        }
    })
}

/// Sends one GET for an id through a guard to the table's handler.
pub async fn get(guard: &BloomGuard, table: &Table, id: u64) -> StatusCode {
    get_through(guard.layer(handler(table)), id).await
}

/// Sends one GET for an id to a service.
pub async fn get_through<S>(service: S, id: u64) -> StatusCode
where
    S: Service<Request<String>, Response = Response<String>, Error = std::convert::Infallible>,
{
    let request = Request::get(format!("/users/{id}")).body(String::new()).unwrap();
    service.oneshot(request).await.unwrap().status()
}

/// What a request for an existing id meets where the guard has to look it up, as it need not for an id that
/// was found lately: 404 if a check holds the id absent, or else the answer to a GET.
pub async fn get_looked_up(guard: &BloomGuard, table: &Table, id: u64) -> StatusCode {
    match guard.check(&id).await.unwrap() {
        Verdict::Absent(_) => StatusCode::NOT_FOUND,
        _ => get(guard, table, id).await,
    }
}
