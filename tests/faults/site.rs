//! What a row takes place in: a server, a network before it, two instances of a service, one table.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bloom_guard::rejection::{RejectReason, Rejected};
use bloom_guard::{BloomGuard, Schedule, Verdict};
use http::{Request, StatusCode};
use tokio::time::Instant;
use tower::{Layer, ServiceExt};

use crate::account::{About, Account};
use support::model::{Table, by_default, handler, live};
use support::redis_server::RedisServer;
use support::route::Route;

/// How long a check may take: on a machine that is shared, more than the default.
pub(crate) const DEADLINE: Duration = Duration::from_millis(100);
/// Ids with a row, from 0.
pub(crate) const ROWS: u64 = 5_000;
/// Ids that follow them: in the filter, but deleted.
pub(crate) const GONE: u64 = 100;
/// Ids from here on are created while the traffic runs.
pub(crate) const NEW: u64 = 100_000;
/// Ids from here on may be created by others.
pub(crate) const OTHERS: u64 = 1 << 35;
/// Ids from here on are never created.
pub(crate) const ABSENT: u64 = 1 << 40;

/// One row's world.
pub(crate) struct Site {
    pub(crate) redis: RedisServer,
    pub(crate) route: Route,
    pub(crate) people: Arc<People>,
    url: String,
}

/// The part of it that the traffic sees.
pub(crate) struct People {
    pub(crate) guards: Vec<BloomGuard>,
    pub(crate) table: Table,
    pub(crate) account: Account,
}

impl Site {
    /// Starts everything and waits until both instances refuse.
    pub(crate) async fn open(arguments: &[&str], credentials: &str) -> Self {
        let redis = RedisServer::with(arguments);
        let route = Route::to(redis.port()).await;
        let table = Table::with(0..ROWS + GONE);
        let url = format!("redis://{credentials}127.0.0.1:{}/", route.port());
        let guards: Vec<_> = (0..2).map(|_| instance(&url, &table)).collect();
        for guard in &guards {
            live(guard).await;
        }
        (ROWS..ROWS + GONE).for_each(|id| table.delete(id));
        let people = Arc::new(People { guards, table, account: Account::default() });
        Self { redis, route, people, url }
    }

    /// Creates records through an instance that ends then, and with it all that it remembers.
    pub(crate) async fn create_and_forget(&self, ids: Range<u64>) {
        let guard = instance(&self.url, &self.people.table);
        live(&guard).await;
        for id in ids {
            guard.insert(&id).await.expect("nothing is wrong yet");
            self.people.table.commit(id);
        }
    }
}

fn instance(url: &str, table: &Table) -> BloomGuard {
    by_default(url)
        .check_deadline(DEADLINE)
        .capacity(50_000, 0.001)
        .rebuild(Schedule::manual(), table.clone())
        .build()
        .unwrap()
}

impl People {
    /// Sends a request through one instance, and accounts for it.
    pub(crate) async fn visit(&self, instance: usize, about: About, id: u64) {
        let sent = self.account.phase();
        let born = self.table.born(id);
        let begun = Instant::now();
        let answer = self.get(instance, id).await;
        let over = begun.elapsed().saturating_sub(DEADLINE);
        // A request for what was found lately asks nobody.
        if born.is_some()
            && let Ok(Verdict::Absent(proof)) = self.guards[instance].check(&id).await
            && born == self.table.born(id)
        {
            self.account.false_404(format!("{id} by instance {instance}, {sent:?}: {proof:?}"));
        }
        // The row was there before the request was sent, and the same is there now.
        if answer.is_404() && born.is_some() && born == self.table.born(id) {
            self.account.false_404(format!("{id} by instance {instance}, {sent:?}: {answer:?}"));
        }
        self.account.visit(sent, about, answer, over);
    }

    /// Sends a request, and accounts for nothing.
    pub(crate) async fn get(&self, instance: usize, id: u64) -> Answer {
        let request = Request::get(format!("/users/{id}")).body(String::new()).unwrap();
        let service = self.guards[instance].layer(handler(&self.table));
        let response = service.oneshot(request).await.unwrap();
        let refused = response.extensions().get::<Rejected>().map(Rejected::reason);
        Answer { status: response.status(), refused }
    }

    /// Creates a record as an application should; returns whether it did.
    pub(crate) async fn create(&self, instance: usize, id: u64) -> bool {
        let acknowledged = self.guards[instance].insert(&id).await.is_ok();
        if acknowledged {
            self.table.commit(id);
        }
        self.account.inserted(acknowledged);
        acknowledged
    }
}

/// What a client and its test see of a response.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) refused: Option<RejectReason>,
}

impl Answer {
    pub(crate) fn is_404(self) -> bool {
        self.status == StatusCode::NOT_FOUND
    }

    pub(crate) fn is_busy(self) -> bool {
        self.status == StatusCode::SERVICE_UNAVAILABLE
    }

    /// Whether the handler gave it.
    pub(crate) fn passed(self) -> bool {
        self.refused.is_none() && !self.is_busy()
    }
}
