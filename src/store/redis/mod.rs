//! The store in Redis, shared by all instances of a service.

mod add;
mod build;
mod check;
mod connection;
pub(crate) mod dial;
mod distrust;
mod enrolment;
mod journal;
mod keys;
mod lease;
mod null;
mod own;
mod refusal;
mod reply;
mod script;
mod server;
mod stall;
mod view;
mod vouch;
mod wire;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::redis::{Client, IntoConnectionInfo, RedisError};
use arc_swap::ArcSwapOption;
use tokio::sync::Semaphore;

use self::build::RedisBuild;
use self::connection::{Link, Live, Purpose};
use self::dial::{Address, Dial};
use self::enrolment::Enrolment;
use self::keys::Keys;
use self::own::OwnAdds;
use self::script::VIEW;
use self::server::Eviction;
use self::view::View;
use super::{Answer, Begun, BoxFuture, Condition, Lookup, NullClaim, Remembered, Store, Survey};
use crate::background::{Background, persist};
use crate::error::{InsertError, SettingError, StoreError};
use crate::filter::{Generation, Header};
use crate::id::Id;
use crate::nulls::scope::Scope;
use crate::settings::{Retention, Settings};
use crate::verdict::Doubt;

/// How long a survey may take.
const SURVEY: Duration = Duration::from_secs(1);

/// Where Redis is: a URL that has been read.
#[derive(Clone)]
pub(crate) struct Server(pub(crate) Arc<dyn Dial>);

impl Server {
    /// Reads a `redis://`, `rediss://` or `redis+unix://` URL.
    pub(crate) fn parse(url: &str) -> Result<Self, SettingError> {
        if url.starts_with("rediss:") && !cfg!(feature = "tls") {
            return Err(SettingError::TlsFeature);
        }
        #[cfg(feature = "tls")]
        choose_crypto();
        let unreadable =
            |error: RedisError| SettingError::RedisUrl { source: reason(url, &error).into() };
        let info = url.into_connection_info().map_err(unreadable)?;
        let tcp = info.tcp_settings().clone().set_nodelay(true);
        let client = Client::open(info.set_tcp_settings(tcp)).map_err(unreadable)?;
        Ok(Self(Arc::new(Address::new(client))))
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server({:?})", self.0)
    }
}

/// Says what is wrong with a URL, without a word of it: it may hold a password.
fn reason(url: &str, error: &RedisError) -> String {
    const SCHEMES: [&str; 6] =
        ["redis:", "rediss:", "redis+unix:", "valkey:", "valkeys:", "valkey+unix:"];
    if !SCHEMES.iter().chain(&["unix:"]).any(|scheme| url.starts_with(scheme)) {
        return "it has another scheme, or none".to_owned();
    }
    // The client's description comes first; what follows may quote the URL.
    let told = error.to_string();
    match told.split(" - ").next().unwrap_or_default() {
        "" | "Redis URL did not parse" => {
            "it is no url (in a password, / ? # and @ are percent-encoded)".to_owned()
        }
        description => description.to_lowercase(),
    }
}

/// Chooses rustls's cryptography for the process, if the application has not: with more than one
/// provider compiled in, the first connection would panic for want of a choice.
#[cfg(feature = "tls")]
fn choose_crypto() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Another thread may have been first; then its choice stands.
        let _chosen_elsewhere = rustls::crypto::ring::default_provider().install_default();
    }
}

/// What all handles and tasks of one store share.
struct Shared {
    name: Arc<str>,
    server: Server,
    check_deadline: Duration,
    retention: Retention,
    keys: Keys,
    checks: Arc<Link>,
    adds: Arc<Link>,
    bulk: Arc<Link>,
    own: Arc<OwnAdds>,
    accept_eviction: bool,
    eviction_said: AtomicBool,
    /// Room for checks; without any the answer is unknown.
    in_flight: Semaphore,
    /// The live header that checks compute with. Absent until one was seen.
    filter: ArcSwapOption<Header>,
    /// Both headers, as adds know them.
    view: ArcSwapOption<View>,
    /// Why the last look at the live filter found none to trust.
    doubt: Mutex<Doubt>,
    /// The newest generation seen live, and in which incarnation.
    newest: Mutex<(Vec<u8>, i64)>,
}

impl Shared {
    fn note_doubt(&self, doubt: Doubt) {
        *self.doubt.lock().unwrap_or_else(PoisonError::into_inner) = doubt;
    }

    /// Forgets a live header that turned out to be outdated, unless it was replaced already.
    fn forget(&self, outdated: &Arc<Header>) {
        self.filter.compare_and_swap(outdated, None::<Arc<Header>>);
    }

    /// Reads both headers and Redis's clock.
    async fn survey_view(
        &self,
        link: &Link,
        live: &Arc<Live>,
        deadline: Duration,
    ) -> Result<View, StoreError> {
        let keys = [self.keys.bits.as_str(), self.keys.next.as_str()];
        let reply = link.script(live, &VIEW, &keys, &[], deadline).await?;
        View::read(reply.fields()?)
    }

    /// Surveys, and lets checks know what was found.
    async fn survey(&self) -> Result<Survey, StoreError> {
        let live = self.bulk.connected(SURVEY).await?;
        let view = self.survey_view(&self.bulk, &live, SURVEY).await?;
        let found = view.live().and_then(|header| trusted(header, &live)).and_then(|header| {
            self.adopt(&header, &live.identity.incarnation)?;
            Ok(header)
        });
        // The metadata may have been made anew since the checks' connection joined it.
        if let Ok(header) = &found
            && let Some(checks) = self.checks.live()
            && trusted(*header, &checks) == Err(Doubt::OtherKey)
        {
            self.checks.withdraw(&checks);
        }
        if let Err(doubt) = &found {
            self.note_doubt(*doubt);
            self.filter.store(None);
        }
        Ok(Survey { live: found, now_us: view.now_us })
    }

    /// Has checks compute with a header, unless a newer one was seen live in the same incarnation: within
    /// one, generations only grow, and an older filter was put back by somebody else's hand.
    fn adopt(&self, header: &Header, incarnation: &[u8]) -> Result<Arc<Header>, Doubt> {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let generation = header.generation.get();
        if newest.0 == incarnation && newest.1 > generation {
            return Err(Doubt::Suspect);
        }
        *newest = (incarnation.to_vec(), generation);
        let header = Arc::new(*header);
        self.filter.store(Some(Arc::clone(&header)));
        Ok(header)
    }

    fn condition(&self) -> Condition {
        let links = [&self.checks, &self.adds, &self.bulk];
        let trouble = links.iter().find_map(|link| link.trouble());
        let Some(connection) = self.checks.live() else {
            return Condition { live: Err(Doubt::Disconnected), trouble };
        };
        let doubt = *self.doubt.lock().unwrap_or_else(PoisonError::into_inner);
        let live =
            self.filter.load_full().ok_or(doubt).and_then(|header| trusted(*header, &connection));
        let live = live.and_then(|header| self.believes(&connection).map(|()| header));
        let trouble = trouble.or_else(|| live.as_ref().err().map(|doubt| self.describe(*doubt)));
        Condition { live, trouble }
    }

    /// Whether an absence may be believed that a connection tells of: the filters of its incarnation
    /// hold what this process has added, and the server does not throw parts of the books away.
    fn believes(&self, live: &Live) -> Result<(), Doubt> {
        if live.eviction() == Eviction::Takes && !self.accept_eviction {
            if !self.eviction_said.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    filter = &*self.name,
                    "redis may evict any key (allkeys-*): nothing is refused"
                );
            }
            return Err(Doubt::Eviction);
        }
        self.eviction_said.store(false, Ordering::Relaxed);
        if self.own.are_in(&live.identity.incarnation) { Ok(()) } else { Err(Doubt::Suspect) }
    }

    fn describe(&self, doubt: Doubt) -> String {
        format!("key {:?}: {doubt}", self.keys.bits)
    }
}

/// Returns the header if this connection's other end is where it was verified, and its key is ours.
fn trusted(header: Header, live: &Live) -> Result<Header, Doubt> {
    if header.key_id != live.identity.digester.key_id() {
        return Err(Doubt::OtherKey);
    }
    // An older one than was live when the connection enrolled has been put back by hand.
    if header.run != live.server.run || header.generation.get() < live.identity.newest {
        return Err(Doubt::Suspect);
    }
    Ok(header)
}

/// The store in Redis. Its background tasks end with it.
pub(crate) struct RedisStore {
    shared: Arc<Shared>,
    background: Background,
}

impl RedisStore {
    pub(crate) fn new(settings: &Settings, server: Server) -> Self {
        let mark_ttl = settings.retention().mark_ttl();
        // No more than the journal holds: there is nothing to replay into beyond that.
        let capacity = usize::try_from(settings.journal_entries).unwrap_or(usize::MAX);
        let own =
            Arc::new(OwnAdds::new(settings.longest_transaction, settings.handler_time, capacity));
        let key = settings.secret_key.clone();
        let enrolment = Arc::new(Enrolment::new(&settings.name, key, mark_ttl, Arc::clone(&own)));
        let link =
            |purpose| Arc::new(Link::new(Arc::clone(&server.0), Arc::clone(&enrolment), purpose));
        let shared = Shared {
            name: settings.name.as_str().into(),
            keys: Keys::new(&settings.name),
            checks: link(Purpose::Checks),
            adds: link(Purpose::Inserts),
            bulk: link(Purpose::Rebuilds),
            own,
            accept_eviction: settings.accept_eviction,
            eviction_said: AtomicBool::new(false),
            in_flight: Semaphore::new(settings.checks_in_flight as usize),
            filter: ArcSwapOption::empty(),
            view: ArcSwapOption::empty(),
            doubt: Mutex::new(Doubt::Disconnected),
            newest: Mutex::default(),
            server,
            check_deadline: settings.check_deadline,
            retention: settings.retention(),
        };
        Self { shared: Arc::new(shared), background: Background::default() }
    }
}

impl Store for RedisStore {
    fn start(&self) {
        self.background.start(|tasks| {
            let name = &self.shared.name;
            for link in [&self.shared.checks, &self.shared.adds, &self.shared.bulk] {
                let link = Arc::clone(link);
                let supervise = move || Arc::clone(&link).supervise();
                tasks.spawn(persist(Arc::clone(name), "connection", supervise));
            }
            let shared = Arc::clone(&self.shared);
            let vouch = move || Arc::clone(&shared).vouch();
            tasks.spawn(persist(Arc::clone(name), "own inserts", vouch));
        });
    }

    fn check(&self, id: &Id) -> Answer<Lookup> {
        Answer::Pending(Box::pin(Arc::clone(&self.shared).check(id.clone())))
    }

    fn add(&self, ids: Vec<Id>) -> BoxFuture<'_, Result<(), InsertError>> {
        Box::pin(async move { Ok(self.shared.add(ids).await?) })
    }

    fn remember(
        &self,
        id: &Id,
        claim: NullClaim,
        scope: Scope,
        ttl: Duration,
    ) -> Answer<Remembered> {
        Answer::Pending(Box::pin(Arc::clone(&self.shared).remember(id.clone(), claim, scope, ttl)))
    }

    fn remove(&self, id: &Id, ttl: Duration) -> BoxFuture<'_, Result<Remembered, StoreError>> {
        let id = id.clone();
        Box::pin(async move { self.shared.remove(&id, ttl).await })
    }

    fn distrust(&self, generation: Generation) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.shared.distrust(generation))
    }

    fn condition(&self) -> Condition {
        self.shared.condition()
    }

    fn survey(&self) -> BoxFuture<'_, Result<Survey, StoreError>> {
        Box::pin(self.shared.survey())
    }

    fn begin(&self, lease: Duration) -> BoxFuture<'_, Result<Begun, StoreError>> {
        Box::pin(RedisBuild::begin(Arc::clone(&self.shared), lease))
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("server", &self.shared.server)
            .field("keys", &self.shared.keys)
            .finish_non_exhaustive()
    }
}
