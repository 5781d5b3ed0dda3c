//! The model of Redis against the real one: what a run sent to the model is sent to a redis-server, and
//! every reply has to be the same.
//!
//! The server cannot be given the run's clock, so the scripts are: TIME is replaced by the moment the
//! model was at, and a key that ended in the model is deleted. All else is the server's own doing.

use redis::{Connection, Value};

use crate::model::keyspace::{Bytes, Keyspace};
use crate::model::node::Node;
use crate::model::reply::Reply;
use crate::plan::{Flavour, Mishap, Plan, What};
use crate::recording::{self, Record};
use crate::redis_server::RedisServer;
use crate::{scripts, world};

/// Runs that are compared.
const RUNS: usize = 16;

/// Compares; returns how many commands, or the first difference in words.
pub(crate) fn compare(operations: usize) -> Result<usize, String> {
    let server = RedisServer::start();
    let mut connection = server.connection();
    let mut compared = replay(&mut connection, &records_of_batches())
        .map_err(|difference| format!("what batches send: {difference}"))?;
    let plans = (0..).map(|seed| Plan::draw(seed, operations)).filter(comparable).take(RUNS);
    for mut plan in plans {
        // Moods of the process are no matter of its keys.
        plan.operations.retain(|operation| {
            !matches!(
                operation.what,
                What::Redis(
                    Mishap::Room(_)
                        | Mishap::Misconfigured(_)
                        | Mishap::Lonely(_)
                        | Mishap::Loading(_)
                ) | What::Trap(_)
            )
        });
        recording::begin();
        world::run(&plan, false);
        let records = recording::end();
        compared += replay(&mut connection, &records)
            .map_err(|difference| format!("seed {}: {difference}", plan.seed))?;
    }
    Ok(compared)
}

/// What batches send, for strings that are whole, short, missing or none.
fn records_of_batches() -> Vec<Record> {
    let text: [u8; 100] = std::array::from_fn(|n| ((n * 167) >> 3) as u8);
    let commands: [&[&[u8]]; 17] = [
        &[b"SET", b"bits", &text],
        &[b"HSET", b"hash", b"field", b"value"],
        &[b"SET", b"null:1", b"e17"],
        &[b"SET", b"null:2", b"a17", b"PX", b"1000000"],
        &[b"GETRANGE", b"bits", b"0", b"63"],
        &[b"GETRANGE", b"bits", b"64", b"127"],
        &[b"GETRANGE", b"bits", b"100", b"163"],
        &[b"GETRANGE", b"bits", b"4096", b"4159"],
        &[b"GETRANGE", b"none", b"64", b"127"],
        &[b"GETRANGE", b"hash", b"64", b"127"],
        &[b"MGET", b"null:1", b"null:3", b"null:2", b"null:1"],
        &[b"MGET", b"null:3"],
        &[b"MGET", b"null:1", b"hash"],
        &[b"MGET"],
        &[
            b"BITFIELD",
            b"bits",
            b"GET",
            b"i64",
            b"736",
            b"GET",
            b"i64",
            b"768",
            b"GET",
            b"i64",
            b"4096",
        ],
        &[b"BITFIELD", b"bits", b"GET", b"u63", b"745", b"GET", b"u8", b"795", b"GET", b"u1", b"7"],
        &[
            b"BITFIELD",
            b"bits",
            b"GET",
            b"u63",
            b"15",
            b"GET",
            b"u17",
            b"99",
            b"GET",
            b"i64",
            b"64",
        ],
    ];
    let mut node = Node::start("7.0.15", 1, 1, Keyspace::default());
    recording::begin();
    for words in commands {
        node.execute(words, 0, 1_000_000);
    }
    recording::end()
}

/// Whether a run stays on one Redis process of the version at hand.
fn comparable(plan: &Plan) -> bool {
    plan.config.version == "7.0.15"
        && !plan.config.cluster
        && !matches!(plan.config.flavour, Flavour::Forgetful | Flavour::Wild)
}

fn replay(connection: &mut Connection, records: &[Record]) -> Result<usize, String> {
    send(connection, &[b"FLUSHALL"]);
    send(connection, &[b"SCRIPT", b"FLUSH"]);
    let mut compared = 0;
    for record in records {
        for key in &record.ended {
            send(connection, &[b"DEL", key]);
        }
        let Some(words) = on_the_server(record) else { continue };
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let theirs = send(connection, &words);
        compared += 1;
        if !same(&theirs, &record.reply) {
            let name = scripts::name_of(&record.words);
            return Err(format!(
                "command {compared}, {name}: redis says {theirs:?}, the model {:?}; {:?}",
                record.reply,
                record.words.iter().map(|word| String::from_utf8_lossy(word)).collect::<Vec<_>>()
            ));
        }
    }
    Ok(compared)
}

/// A command as the server has to be sent it; none if it is no matter of keys.
fn on_the_server(record: &Record) -> Option<Vec<Bytes>> {
    let mut words = record.words.clone();
    match words[0].as_slice() {
        b"INFO" | b"TIME" => return None,
        // Time passes more slowly in the run.
        b"PEXPIRE" => words[2] = b"1000000".to_vec(),
        b"EVAL" | b"EVALSHA" => {
            if let Some(code) = &record.code {
                words[0] = b"EVAL".to_vec();
                words[1] = at_that_moment(code, record.now_us).into_bytes();
            }
        }
        _ => {}
    }
    Some(words)
}

/// A script with a clock that stands at one moment, and lifetimes a thousand times as long.
fn at_that_moment(code: &str, now_us: u64) -> String {
    let (seconds, micros) = (now_us / 1_000_000, now_us % 1_000_000);
    let code = code.replace("redis.call('TIME')", &format!("{{'{seconds}', '{micros}'}}"));
    // Lifetimes are the run's, which has to end before a key does on a busy machine.
    let code = code.replace("'PX', ARGV", "'PX', 1000 * ARGV");
    code.replace("'PEXPIRE', KEYS[1], ARGV", "'PEXPIRE', KEYS[1], 1000 * ARGV")
}

fn send(connection: &mut Connection, words: &[&[u8]]) -> Value {
    let mut command = redis::Cmd::new();
    for word in words {
        command.arg(*word);
    }
    let packed = command.get_packed_command();
    match redis::ConnectionLike::req_packed_command(connection, &packed) {
        Ok(value) => value,
        Err(error) => {
            let code = error.code().unwrap_or("ERR");
            Value::SimpleString(format!("-{code}"))
        }
    }
}

/// Whether two replies are the same; of errors, the code.
fn same(theirs: &Value, ours: &Reply) -> bool {
    match (theirs, ours) {
        (Value::SimpleString(text), Reply::Error(error)) if text.starts_with('-') => {
            error.split(' ').next() == text.get(1..)
        }
        (Value::ServerError(theirs), Reply::Error(error)) => {
            error.split(' ').next() == Some(theirs.code())
        }
        _ => *theirs == ours.clone().into_value(),
    }
}
