//! Runs the crate's own scripts, in the Lua that Redis has, on the model's keys.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::mem;

use mlua::{Function, Lua, MultiValue, Value};

use super::node::{Node, Refusal};
use super::reply::Reply;
use crate::seeded;

thread_local! {
    static ENGINE: Engine = Engine::new();
    /// The node a script runs on, for as long as it runs.
    static RUNNING: RefCell<Option<Running>> = const { RefCell::new(None) };
}

struct Running {
    node: Node,
    rules: Rules,
    /// Why the script was ended, in Redis's words.
    failure: Option<String>,
}

/// What Redis allows a script that runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    /// The script declares that it may run without memory to spare.
    pub(crate) allows_oom: bool,
    /// It has written already; then lack of memory does not stop it any more.
    pub(crate) wrote: bool,
}

struct Engine {
    lua: Lua,
    /// Compiled scripts by their hashes, by the bug they were compiled with.
    compiled: RefCell<BTreeMap<Option<usize>, BTreeMap<String, Function>>>,
}

impl Engine {
    fn new() -> Self {
        let lua = Lua::new();
        let call =
            lua.create_function(|lua, args: MultiValue| call(lua, &args)).expect("a function");
        let redis = lua.create_table().expect("a table");
        redis.set("call", call).expect("a field");
        lua.globals().set("redis", redis).expect("a global");
        add_libraries(&lua).expect("functions");
        Self { lua, compiled: RefCell::default() }
    }

    fn function(&self, hash: &str, code: &str) -> Function {
        let mut compiled = self.compiled.borrow_mut();
        let compiled = compiled.entry(seeded::current_index()).or_default();
        if let Some(function) = compiled.get(hash) {
            return function.clone();
        }
        let code = seeded::in_script(code);
        let body = code
            .strip_prefix("#!")
            .map_or(code.as_str(), |rest| rest.split_once('\n').map_or("", |(_, body)| body));
        let function = self.lua.load(body).into_function().expect("the script compiles");
        compiled.insert(hash.to_owned(), function.clone());
        function
    }
}

/// The libraries that Redis gives scripts, as far as the scripts use them: `bit.bor`, and `struct` for big-endian
/// numbers of four bytes.
fn add_libraries(lua: &Lua) -> mlua::Result<()> {
    let bit = lua.create_table()?;
    bit.set("bor", lua.create_function(|_, (a, b): (i32, i32)| Ok(f64::from(a | b)))?)?;
    lua.globals().set("bit", bit)?;
    let library = lua.create_table()?;
    let unpack = |_: &Lua, (format, text, from): (String, mlua::LuaString, Option<usize>)| {
        let begin = from.unwrap_or(1) - 1;
        let count = format.matches(['i', 'I']).count();
        let signed = format.starts_with(">i4");
        let bytes = text.as_bytes();
        let (words, _) = bytes[begin..begin + 4 * count].as_chunks::<4>();
        let value = |word: &[u8; 4]| match signed {
            true => f64::from(i32::from_be_bytes(*word)),
            false => f64::from(u32::from_be_bytes(*word)),
        };
        let next = (begin + 4 * count + 1) as f64;
        let values = words.iter().map(value).chain([next]).map(Value::Number);
        Ok(values.collect::<MultiValue>())
    };
    library.set("unpack", lua.create_function(unpack)?)?;
    let pack = |lua: &Lua, (format, words): (String, mlua::Variadic<i64>)| {
        assert_eq!(format.len() / 2, words.len(), "a number for each");
        let bytes: Vec<u8> = words.iter().flat_map(|word| (*word as u32).to_be_bytes()).collect();
        lua.create_string(bytes)
    };
    library.set("pack", lua.create_function(pack)?)?;
    lua.globals().set("struct", library)
}

/// Runs a script on a node.
pub(crate) fn run(
    node: &mut Node,
    hash: &str,
    code: &str,
    keys: &[&[u8]],
    args: &[&[u8]],
) -> Reply {
    let rules = Rules { allows_oom: code.starts_with("#!lua flags=allow-oom\n"), wrote: false };
    let running = Running { node: mem::take(node), rules, failure: None };
    RUNNING.with_borrow_mut(|place| *place = Some(running));
    let outcome = ENGINE.with(|engine| {
        let function = engine.function(hash, code);
        let list = |items: &[&[u8]]| {
            let strings =
                items.iter().map(|item| engine.lua.create_string(item).expect("a string"));
            engine.lua.create_sequence_from(strings).expect("a table")
        };
        engine.lua.globals().set("KEYS", list(keys)).expect("a global");
        engine.lua.globals().set("ARGV", list(args)).expect("a global");
        function.call::<Value>(()).map(from_lua)
    });
    let running = RUNNING.with_borrow_mut(Option::take).expect("it was put there");
    *node = running.node;
    match (outcome, running.failure) {
        (Ok(reply), _) => reply,
        (Err(_), Some(failure)) => Reply::Error(failure),
        (Err(error), None) => panic!("a script failed by itself: {error}"),
    }
}

/// `redis.call`.
fn call(lua: &Lua, args: &MultiValue) -> mlua::Result<Value> {
    let words: Vec<Vec<u8>> = args.iter().map(word).collect();
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    let reply = RUNNING.with_borrow_mut(|running| {
        let running = running.as_mut().expect("a script runs");
        let reply = match running.node.refusal(&words, Some(&mut running.rules)) {
            Some(Refusal(error)) => Reply::Error(error),
            None => running.node.keys.run(&words),
        };
        if let Reply::Error(error) = &reply {
            running.failure = Some(error.clone());
        }
        reply
    });
    to_lua(lua, reply)
}

/// An argument as Redis turns it into bytes.
fn word(value: &Value) -> Vec<u8> {
    match value {
        Value::String(text) => text.as_bytes().to_vec(),
        Value::Integer(number) => number.to_string().into_bytes(),
        Value::Number(number) => {
            assert!(number.fract() == 0.0 && number.abs() < 1e17, "a whole number: {number}");
            format!("{number:.0}").into_bytes()
        }
        other => panic!("redis.call cannot take {other:?}"),
    }
}

fn to_lua(lua: &Lua, reply: Reply) -> mlua::Result<Value> {
    Ok(match reply {
        Reply::Status(text) => {
            let table = lua.create_table()?;
            table.set("ok", text)?;
            Value::Table(table)
        }
        Reply::Int(number) => Value::Number(number as f64),
        Reply::Bulk(bytes) => Value::String(lua.create_string(&bytes)?),
        Reply::Nil => Value::Boolean(false),
        Reply::Array(items) => {
            let items: mlua::Result<Vec<Value>> =
                items.into_iter().map(|item| to_lua(lua, item)).collect();
            Value::Table(lua.create_sequence_from(items?)?)
        }
        Reply::Error(error) => return Err(mlua::Error::RuntimeError(error)),
    })
}

fn from_lua(value: Value) -> Reply {
    match value {
        Value::String(text) => Reply::bulk(text.as_bytes()),
        Value::Integer(number) => Reply::Int(number),
        Value::Number(number) => Reply::Int(number as i64),
        Value::Boolean(true) => Reply::Int(1),
        Value::Boolean(false) | Value::Nil => Reply::Nil,
        Value::Table(table) => {
            if let Ok(Some(text)) = table.get::<Option<String>>("ok") {
                return Reply::Status(text);
            }
            let items = table.sequence_values::<Value>();
            Reply::Array(items.map(|item| from_lua(item.expect("an element"))).collect())
        }
        other => panic!("a script cannot return {other:?}"),
    }
}
