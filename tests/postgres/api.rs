//! The application: instances of a guard in front of handlers that ask the database.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bloom_guard::rejection::Rejected;
use bloom_guard::{BloomGuard, Builder, PathPattern, Schedule, Verdict};
use http::{Request, Response, StatusCode};
use tower::{Layer, ServiceExt, service_fn};

use crate::scan::Scan;
use crate::users::Users;
use support::eventually;
use support::redis_server::RedisServer;

/// Where the filter is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Home {
    Redis,
    Process,
}

/// Both of them, for tests of what holds wherever the filter is.
pub const HOMES: [Home; 2] = [Home::Redis, Home::Process];

/// Instances over one table. With the filter in Redis there are two of them.
pub struct Api {
    pub guards: Vec<BloomGuard>,
    pub users: Arc<Users>,
    _redis: Option<RedisServer>,
}

impl Api {
    /// Starts instances that rebuild by hand, and waits until they refuse.
    pub async fn start(
        home: Home,
        users: &Arc<Users>,
        scan: &Scan,
        configure: impl Fn(Builder) -> Builder,
    ) -> Self {
        let redis = (home == Home::Redis).then(RedisServer::start);
        let instance = || {
            let pattern = PathPattern::<i64>::new("/users/{id}").unwrap();
            // Every refusal counts: none is let through for a look.
            let builder = BloomGuard::builder("users", pattern).audits_per_second(0);
            let patient = Duration::from_secs(1);
            let builder = match &redis {
                Some(redis) => {
                    builder.redis(&redis.url()).settle(Duration::ZERO).check_deadline(patient)
                }
                None => builder.in_process(),
            };
            configure(builder.rebuild(Schedule::manual(), scan.clone())).build().unwrap()
        };
        let guards: Vec<_> = (0..redis.iter().count() + 1).map(|_| instance()).collect();
        let api = Self { guards, users: Arc::clone(users), _redis: redis };
        for guard in &api.guards {
            eventually("the guard refuses", Duration::from_secs(30), || async {
                let verdict = guard.check(&i64::MAX).await.unwrap();
                let state = || format!("{verdict:?}, {:?}", guard.state());
                matches!(verdict, Verdict::Absent(_)).then_some(()).ok_or_else(state)
            })
            .await;
        }
        api
    }

    /// Sends a GET through an instance.
    pub async fn get_from(&self, guard: &BloomGuard, id: i64) -> Answer {
        let users = Arc::clone(&self.users);
        let handler = service_fn(move |_: Request<String>| {
            let users = Arc::clone(&users);
            async move {
                let found = users.look_up(id).await;
                let status = if found { StatusCode::OK } else { StatusCode::NOT_FOUND };
                Ok::<_, Infallible>(Response::builder().status(status).body(String::new()).unwrap())
            }
        });
        let request = Request::get(format!("/users/{id}")).body(String::new()).unwrap();
        let response = guard.layer(handler).oneshot(request).await.unwrap();
        match (response.status(), response.extensions().get::<Rejected>()) {
            (StatusCode::OK, _) => Answer::Found,
            (StatusCode::NOT_FOUND, None) => Answer::Missing,
            (StatusCode::NOT_FOUND, Some(_)) => Answer::Refused,
            _ => Answer::Unavailable,
        }
    }

    /// Sends a GET through every instance, which agree.
    #[track_caller]
    pub fn get(&self, id: i64) -> impl Future<Output = Answer> {
        let place = std::panic::Location::caller();
        async move {
            let first = self.get_from(&self.guards[0], id).await;
            for guard in &self.guards[1..] {
                assert_eq!(self.get_from(guard, id).await, first, "user {id}, {place}");
            }
            first
        }
    }
}

/// What a client sees, and who said so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The handler found the user.
    Found,
    /// The handler found none: 404.
    Missing,
    /// The guard said 404.
    Refused,
    /// Nobody knows: 503.
    Unavailable,
}
