//! The server answers, but not what it was asked.

use std::time::Duration;

use redis::Connection;
use tokio::time::sleep;

use crate::site::Site;
use crate::table::Filter::{Fails, Holds};
use crate::{Fault, Happening, LASTS};
use support::redis_server::RedisServer;

const USER: &str = "guard:s3cret@";
const WITH_USER: &[&str] = &["--user", "guard", "on", ">s3cret", "~bg:*", "+@all"];
/// Scripts are busy soon.
const IMPATIENT: &[&str] = &["--lua-time-limit", "100"];
/// Loading takes a moment for each key. While it lasts the server answers after every 2 MiB.
const SLOW_LOADING: &[&str] = &["--key-load-delay", "400", "--rdbcompression", "no"];

pub(crate) const FAULTS: &[Fault] = &[
    Fault::new("REPLICAOF: demoted, then promoted", Fails, demoted),
    Fault::new("NOREPLICAS", Fails, no_replicas),
    Fault::new("LOADING", Fails, loading).on(SLOW_LOADING),
    Fault::new("BUSY: a script that never ends", Fails, busy).on(IMPATIENT),
    Fault::new("SCRIPT FLUSH, over and over", Holds, scripts_flushed),
    Fault::new("ACL: no right to check", Fails, |site| denied(site, &["-bitfield"]))
        .on(WITH_USER)
        .with(USER),
    Fault::new("ACL: no right to run scripts", Holds, |site| denied(site, &["-@scripting"]))
        .on(WITH_USER)
        .with(USER),
    Fault::new("ACL: no right to any key", Fails, |site| denied(site, &["resetkeys"]))
        .on(WITH_USER)
        .with(USER),
    Fault::new("ACL: no right to anything", Fails, |site| denied(site, &["-@all"]))
        .on(WITH_USER)
        .with(USER),
    Fault::new("maxclients", Fails, crowded_out),
];

/// The connections stay open; the server becomes a replica of an empty one, and then not any more.
fn demoted(site: &mut Site) -> Happening<'_> {
    Box::pin(async move {
        let primary = RedisServer::start();
        site.redis.run::<()>(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()]);
        sleep(LASTS).await;
        site.redis.run::<()>(&["REPLICAOF", "NO", "ONE"]);
    })
}

fn no_replicas(site: &mut Site) -> Happening<'_> {
    Box::pin(async move {
        site.redis.run::<()>(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
        sleep(LASTS).await;
        site.redis.run::<()>(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    })
}

/// A restart from a dump with so many keys that it takes a while; it answers LOADING meanwhile.
fn loading(site: &mut Site) -> Happening<'_> {
    Box::pin(async move {
        let fill =
            "for i = 1, 4000 do redis.call('SET', 'ballast' .. i, string.rep('x', 8192)) end";
        site.redis.run::<()>(&["EVAL", fill, "0"]);
        site.redis.run::<()>(&["SAVE"]);
        site.redis.restart();
    })
}

fn busy(site: &mut Site) -> Happening<'_> {
    Box::pin(async move {
        let mut connection = site.redis.connection();
        let script = std::thread::spawn(move || {
            redis::cmd("EVAL").arg("while true do end").arg(0).exec(&mut connection)
        });
        sleep(LASTS).await;
        // The connection is made with a PING, to which the server says BUSY: the last words go past it.
        kill_script(site);
        assert!(script.join().expect("no panic").is_err(), "it was killed");
    })
}

fn kill_script(site: &Site) {
    let client = redis::Client::open(site.redis.url()).unwrap();
    redis::cmd("SCRIPT").arg("KILL").exec(&mut client.get_connection().unwrap()).unwrap();
}

fn scripts_flushed(site: &mut Site) -> Happening<'_> {
    Box::pin(async move {
        let (mut connection, every) = (site.redis.connection(), Duration::from_millis(5));
        for _ in 0..LASTS.as_millis() / every.as_millis() {
            redis::cmd("SCRIPT").arg("FLUSH").exec(&mut connection).unwrap();
            sleep(every).await;
        }
    })
}

/// Takes rights from the guard's user, and gives them back.
fn denied<'a>(site: &'a mut Site, rights: &'static [&'static str]) -> Happening<'a> {
    Box::pin(async move {
        let mut connection = site.redis.connection();
        grant(&mut connection, rights);
        sleep(LASTS).await;
        grant(&mut connection, &["~bg:*", "+@all"]);
    })
}

fn grant(connection: &mut Connection, rights: &[&str]) {
    redis::cmd("ACL").arg("SETUSER").arg("guard").arg(rights).exec(connection).unwrap();
}

/// All connections are closed but one, and the server takes no more than that.
fn crowded_out(site: &mut Site) -> Happening<'_> {
    Box::pin(async move {
        let mut connection = site.redis.connection();
        let mut run = |words: &[&str]| {
            let mut command = redis::Cmd::new();
            command.arg(words);
            command.exec(&mut connection).unwrap();
        };
        run(&["CONFIG", "SET", "maxclients", "1"]);
        run(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        tokio::time::sleep(LASTS).await;
        run(&["CONFIG", "SET", "maxclients", "1000"]);
    })
}
