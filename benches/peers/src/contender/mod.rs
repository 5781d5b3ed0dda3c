//! The ways to ask a Redis whether an id exists, all behind one call.

mod layout;

use std::sync::Arc;
use std::time::Duration;

use bloom_guard::{BloomGuard, ForeignFilter, PathPattern, Schedule, Verdict, from_iter};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, RedisResult, Value, cmd};
use tokio::task::JoinSet;

pub use self::layout::Layout;
use crate::ids::{Kind, Random};
use crate::redis_server::RedisServer;

/// Ours, in tables and charts.
pub const OURS: &str = "bloom-guard";
/// The plain way.
pub const GETBITS: &str = "7 pipelined GETBIT";
/// Absent ids that are asked for to see how many are found.
const SAMPLE: u64 = 20_000;
/// Checks at once while that is done.
const AT_ONCE: u64 = 50;

/// Ids a call for many.
const MANY: u64 = 64;

/// What a contender says of an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    Present,
    Absent,
    /// And why.
    Unknown(&'static str),
}

impl Said {
    fn present_if(present: bool) -> Self {
        if present { Self::Present } else { Self::Absent }
    }

    fn of(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Present => Self::Present,
            Verdict::Absent(_) => Self::Absent,
            Verdict::Unknown(doubt) => Self::Unknown(doubt.as_str()),
            _ => FAILED,
        }
    }
}

/// Redis answered oddly or not at all.
const FAILED: Said = Said::Unknown("failed");

/// A filled filter, and the way to ask it.
#[derive(Clone)]
pub struct Contender {
    pub name: &'static str,
    /// The share of absent ids that it should find.
    rate: f64,
    way: Way,
}

#[derive(Clone)]
enum Way {
    Script(Arc<Script>, MultiplexedConnection),
    Getbits(Layout, MultiplexedConnection),
    RedisBloom(MultiplexedConnection),
    Get(MultiplexedConnection),
    Ours(BloomGuard),
    OursMany(BloomGuard),
}

struct Script {
    sha: String,
    keys: &'static [&'static str],
    /// What comes before the offsets.
    arguments: Vec<String>,
    layout: Layout,
}

impl Contender {
    pub async fn go_zero(server: &RedisServer, ids: u64) -> Self {
        let layout = Layout::go_zero(ids);
        let text = include_str!("go_zero.lua");
        Self::script("GETBIT in Lua (go-zero)", server, ids, layout, text, &["go-zero"], vec![])
            .await
    }

    /// The filter of [`go_zero`](Self::go_zero), which has to be there, asked by a guard.
    pub async fn go_zero_guarded(server: &RedisServer, ids: u64) -> Self {
        let layout = Layout::go_zero(ids);
        let builder =
            BloomGuard::builder("go-zero", PathPattern::<u64>::new("/users/{id}").expect("valid"))
                .redis(&server.url())
                .check_deadline(Duration::from_secs(1))
                .foreign(ForeignFilter::go_zero("go-zero", layout.bits));
        let guard = builder.build().expect("valid");
        guard.trust_foreign(0..ids.min(100)).await.expect("the filter is whole");
        guard.ready().await;
        let name = "go-zero's filter (bloom-guard)";
        Self { name, rate: layout.rate(ids), way: Way::Ours(guard) }
    }

    pub async fn rueidisprob(server: &RedisServer, ids: u64, rate: f64) -> Self {
        let layout = Layout::rueidisprob(ids, rate);
        let text = include_str!("rueidisprob.lua");
        let arguments = vec![layout.hashes.to_string()];
        let name = "BITFIELD in Lua (rueidisprob)";
        Self::script(name, server, ids, layout, text, &["{rueidisprob}"], arguments).await
    }

    pub async fn redisson(server: &RedisServer, ids: u64, rate: f64) -> Self {
        let layout = Layout::redisson(ids, rate);
        let text = include_str!("redisson.lua");
        let (size, hashes) = (layout.bits.to_string(), layout.hashes.to_string());
        let config = ["HSET", "{redisson}:config", "size", &size, "hashIterations", &hashes];
        server.run::<()>(&config);
        let keys = &["{redisson}:config", "redisson"];
        let arguments = vec![size, hashes, 1.to_string()];
        Self::script("config, GETBIT in Lua (Redisson)", server, ids, layout, text, keys, arguments)
            .await
    }

    /// `keys` ends with the key of the bits.
    async fn script(
        name: &'static str,
        server: &RedisServer,
        ids: u64,
        layout: Layout,
        text: &str,
        keys: &'static [&'static str],
        arguments: Vec<String>,
    ) -> Self {
        let mut connection = server.client().get_connection().expect("a connection");
        layout.fill(ids, keys[keys.len() - 1], &mut connection);
        let sha = server.run(&["SCRIPT", "LOAD", text]);
        let script = Script { sha, keys, arguments, layout };
        let way = Way::Script(Arc::new(script), server.multiplexed().await);
        Self { name, rate: layout.rate(ids), way }
    }

    pub async fn getbits(server: &RedisServer, ids: u64, rate: f64) -> Self {
        let layout = Layout::with_hashes(ids, rate, 7);
        let mut connection = server.client().get_connection().expect("a connection");
        layout.fill(ids, "getbits", &mut connection);
        let way = Way::Getbits(layout, server.multiplexed().await);
        Self { name: GETBITS, rate: layout.rate(ids), way }
    }

    /// The server must have the module.
    pub async fn redisbloom(server: &RedisServer, ids: u64, rate: f64) -> Self {
        let mut connection = server.multiplexed().await;
        reserve(&mut connection, "redisbloom", ids, rate).await;
        let numbers: Vec<u64> = (0..ids).collect();
        for some in numbers.chunks(1_000) {
            let added: RedisResult<()> =
                cmd("BF.MADD").arg("redisbloom").arg(some).query_async(&mut connection).await;
            added.expect("room for it");
        }
        Self { name: "BF.EXISTS (RedisBloom)", rate, way: Way::RedisBloom(connection) }
    }

    /// One key an id: no filter, but what one round trip costs at least. The keys are in a database of their own, and
    /// in nobody's way.
    pub async fn get(server: &RedisServer, ids: u64) -> Self {
        let mut connection = server.multiplexed().await;
        cmd("SELECT").arg(1).exec_async(&mut connection).await.expect("a second database");
        let numbers: Vec<u64> = (0..ids).collect();
        for some in numbers.chunks(1_000) {
            let mut command = cmd("MSET");
            for id in some {
                command.arg(get_key(*id)).arg(1);
            }
            command.exec_async(&mut connection).await.expect("room for it");
        }
        Self { name: "GET of a key an id", rate: 0.0, way: Way::Get(connection) }
    }

    /// Its deadline is raised, so that a busy machine makes it slow and not unknown, as it makes the others.
    pub async fn ours(server: &RedisServer, ids: u64, rate: f64) -> Self {
        let builder =
            BloomGuard::builder("users", PathPattern::<u64>::new("/users/{id}").expect("valid"))
                .redis(&server.url())
                .settle(Duration::ZERO)
                .capacity(ids, rate)
                .check_deadline(Duration::from_secs(1))
                .rebuild(Schedule::manual(), from_iter(move || 0..ids));
        let guard = builder.build().expect("valid");
        guard.ready().await;
        Self { name: OURS, rate, way: Way::Ours(guard) }
    }

    /// The same filter, asked for [`MANY`] ids a call.
    ///
    /// # Panics
    ///
    /// When it is another contender's.
    pub fn many(&self) -> Self {
        let Way::Ours(guard) = &self.way else { panic!("{} takes one id a call", self.name) };
        let way = Way::OursMany(guard.clone());
        Self { name: "bloom-guard, check_many of 64", rate: self.rate, way }
    }

    /// How many ids a call is for.
    pub const fn ids_a_call(&self) -> u64 {
        if let Way::OursMany(_) = self.way { MANY } else { 1 }
    }

    /// Asks for so many ids as a call is for; gives the last one's answer, or one that is unknown.
    pub async fn call(&self, mut ids: impl FnMut() -> u64) -> Said {
        let Way::OursMany(guard) = &self.way else { return self.check(ids()).await };
        let asked: Vec<u64> = (0..MANY).map(|_| ids()).collect();
        let Ok(verdicts) = guard.check_many(&asked).await else { return FAILED };
        let mut said = verdicts.into_iter().map(Said::of);
        let unknown = said.find(|said| matches!(said, Said::Unknown(_)));
        unknown.or(said.next_back()).unwrap_or(Said::Absent)
    }

    /// Asks for an id.
    pub async fn check(&self, id: u64) -> Said {
        match &self.way {
            Way::Script(script, connection) => {
                let reply = connection.clone().send_packed_command(&script.command(id)).await;
                said(reply)
            }
            Way::Getbits(layout, connection) => {
                let mut pipeline = Pipeline::with_capacity(layout.hashes as usize);
                for offset in layout.offsets(id) {
                    pipeline.cmd("GETBIT").arg("getbits").arg(offset);
                }
                let bits = pipeline.query_async::<Vec<u8>>(&mut connection.clone()).await;
                bits.map_or(FAILED, |bits| Said::present_if(!bits.contains(&0)))
            }
            Way::RedisBloom(connection) => {
                let mut command = cmd("BF.EXISTS");
                command.arg("redisbloom").arg(id);
                said(connection.clone().send_packed_command(&command).await)
            }
            Way::Get(connection) => {
                let mut command = cmd("GET");
                command.arg(get_key(id));
                said(connection.clone().send_packed_command(&command).await)
            }
            Way::Ours(guard) | Way::OursMany(guard) => {
                guard.check(&id).await.map_or(FAILED, Said::of)
            }
        }
    }

    /// Rebuilds the filter; returns how long that took.
    ///
    /// # Panics
    ///
    /// When it is another contender's.
    pub async fn rebuild(&self) -> Duration {
        let Way::Ours(guard) = &self.way else { panic!("{} is not rebuilt", self.name) };
        guard.rebuild_now().await.expect("a rebuild").took
    }

    /// Sees to it that the filter is filled: it finds what exists, and of the rest no more than it should.
    ///
    /// # Panics
    ///
    /// When it is not.
    pub async fn verify(&self, ids: u64) {
        let present = self.ask(ids, Kind::Present, 1_000).await;
        let lost = present.iter().filter(|said| **said == Said::Absent).count();
        assert_eq!(lost, 0, "{}: ids that exist were not found", self.name);
        let absent = self.ask(ids, Kind::Absent, SAMPLE).await;
        let found = absent.iter().filter(|said| **said == Said::Present).count();
        let expected = self.rate * SAMPLE as f64;
        // Five standard deviations.
        let most = expected + 5.0 * expected.max(1.0).sqrt();
        let name = self.name;
        assert!(
            found as f64 <= most,
            "{name}: {found} of {SAMPLE} absent ids found, {expected} expected"
        );
        let answers = || present.iter().chain(&absent);
        let doubt = answers().find(|said| matches!(said, Said::Unknown(_)));
        let known = answers().filter(|said| !matches!(said, Said::Unknown(_))).count();
        assert!(known as u64 > SAMPLE * 99 / 100, "{name}: {known} answers, and {doubt:?}");
    }

    /// Asks for so many ids, some at a time.
    async fn ask(&self, ids: u64, kind: Kind, count: u64) -> Vec<Said> {
        let mut tasks = JoinSet::new();
        for task in 0..AT_ONCE {
            let (contender, mut random) = (self.clone(), Random::new(task));
            tasks.spawn(async move {
                let mut answers = Vec::new();
                for _ in 0..count.div_ceil(AT_ONCE) {
                    answers.push(contender.check(kind.draw(ids, &mut random)).await);
                }
                answers
            });
        }
        tasks.join_all().await.concat()
    }
}

impl Script {
    fn command(&self, id: u64) -> Cmd {
        let mut command = cmd("EVALSHA");
        command.arg(&self.sha).arg(self.keys.len()).arg(self.keys).arg(&self.arguments);
        for offset in self.layout.offsets(id) {
            command.arg(offset);
        }
        command
    }
}

/// Reads a reply to a question about one id.
fn said(reply: RedisResult<Value>) -> Said {
    match reply {
        Ok(Value::Int(count)) => Said::present_if(count > 0),
        Ok(Value::BulkString(_)) => Said::Present,
        Ok(Value::Nil) => Said::Absent,
        Ok(Value::Array(answers)) => Said::present_if(matches!(answers[..], [Value::Int(1)])),
        Ok(_) | Err(_) => FAILED,
    }
}

fn get_key(id: u64) -> String {
    format!("get:{id}")
}

/// Makes an empty RedisBloom filter under a key, and drops the one before.
pub async fn reserve(connection: &mut MultiplexedConnection, key: &str, ids: u64, rate: f64) {
    let mut pipeline = redis::pipe();
    pipeline.cmd("DEL").arg(key);
    pipeline.cmd("BF.RESERVE").arg(key).arg(rate).arg(ids).arg("NONSCALING");
    pipeline.exec_async(connection).await.expect("the module");
}
