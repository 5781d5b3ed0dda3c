//! What was found lately is served without a word to Redis.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use http::StatusCode;
use support::model::{Table, get, guard_over, live};
use support::redis_server::RedisServer;

/// Every command that the server executes from now on.
pub(crate) fn monitor(redis: &RedisServer) -> BufReader<TcpStream> {
    let mut monitor = BufReader::new(TcpStream::connect(("127.0.0.1", redis.port())).unwrap());
    monitor.get_ref().set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    monitor.get_mut().write_all(b"MONITOR\r\n").unwrap();
    let mut ok = String::new();
    monitor.read_line(&mut ok).unwrap();
    assert_eq!(ok, "+OK\r\n");
    monitor
}

/// Whether MONITOR shows a check.
pub(crate) fn is_check(line: &str) -> bool {
    line.contains("\"BITFIELD\"") || line.contains(":null:")
}

/// Every command that the server executes, as MONITOR shows it, until one that names `last`.
pub(crate) fn commands_until(mut monitor: BufReader<TcpStream>, last: &str) -> Vec<String> {
    let mut commands = Vec::new();
    loop {
        let mut line = String::new();
        assert_ne!(monitor.read_line(&mut line).unwrap(), 0, "the server goes on");
        if line.contains(last) {
            return commands;
        }
        commands.push(line);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_requests_for_a_found_record_send_no_command() {
    let redis = RedisServer::start();
    let table = Table::with(0..100);
    let guard = guard_over(&redis.url(), &table).build().unwrap();
    live(&guard).await;
    assert_eq!(get(&guard, &table, 7).await, StatusCode::OK);

    let monitor = monitor(&redis);
    for _ in 0..1_000 {
        assert_eq!(get(&guard, &table, 7).await, StatusCode::OK);
    }
    redis.run::<String>(&["ECHO", "between"]);
    // One that was not found yet asks, and MONITOR shows it: so it would have shown the others.
    assert_eq!(get(&guard, &table, 8).await, StatusCode::OK);
    redis.run::<String>(&["ECHO", "the end"]);

    let commands = commands_until(monitor, "the end");
    let between = commands.iter().position(|line| line.contains("between")).unwrap();
    // The guard itself asks once a second.
    let asked = commands[..between].iter().filter(|line| is_check(line)).count();
    assert!(asked < 100, "{asked} of 1,000 asked");
    assert!(commands[between..].iter().any(|line| is_check(line)), "{commands:?}");
}
