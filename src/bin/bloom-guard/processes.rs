//! Which processes have a filter, as Redis's list of connections tells.

use std::ptr;

use bloom_guard::StoreError;
use bloom_guard::inspect::{Filter, Server};
use serde_json::{Value, json};

use crate::outcome::Failure;
use crate::words;

/// How many are named.
const MOST_NAMED: usize = 20;

/// A process that checks ids: each has one connection for that.
struct Process {
    /// As Redis sees it.
    address: String,
    connected_seconds: u64,
}

/// The processes of a filter; none where the user may not ask.
pub(crate) struct Processes(Option<Vec<Process>>);

impl Processes {
    /// Asks each node. Each process is connected to all, unless one has left it: the node that most are connected to tells.
    pub(crate) async fn of(filter: &Filter, name: &str) -> Result<Self, Failure> {
        let ours = format!("name=bloom-guard:{name}:checks");
        let (mut asked, mut most): (Vec<&Server>, Option<Vec<Process>>) = (Vec::new(), None);
        for shard in filter.shards.iter().filter(|shard| shard.away.is_none()) {
            let server = shard.server();
            if asked.iter().any(|known| ptr::eq(*known, server)) {
                continue;
            }
            asked.push(server);
            let list = match server.ask(&["CLIENT", "LIST"]).await {
                Err(StoreError::Refused { .. }) => continue,
                list => list?.text(),
            };
            let lines = list.lines().filter(|line| line.split(' ').any(|field| field == ours));
            let here: Vec<_> = lines.map(Process::read).collect();
            if most.as_ref().is_none_or(|most| here.len() > most.len()) {
                most = Some(here);
            }
        }
        Ok(Self(most))
    }

    pub(crate) fn text(&self) -> String {
        let Some(all) = &self.0 else {
            return "processes: cannot be told, as this user may not ask for CLIENT LIST"
                .to_owned();
        };
        let mut named: Vec<String> = all.iter().take(MOST_NAMED).map(Process::text).collect();
        if all.len() > MOST_NAMED {
            named.push("…".to_owned());
        }
        if all.is_empty() {
            return "processes: none whose connections have the filter's name".to_owned();
        }
        format!("processes: {}: {}", words::number(all.len() as u64), named.join(", "))
    }

    pub(crate) fn value(&self) -> Value {
        let value = |process: &Process| json!({ "address": process.address, "connected_seconds": process.connected_seconds });
        json!(self.0.as_ref().map(|all| all.iter().map(value).collect::<Vec<_>>()))
    }
}

impl Process {
    /// Reads a line of `CLIENT LIST`.
    fn read(line: &str) -> Self {
        let field = |name: &str| line.split(' ').find_map(|field| field.strip_prefix(name));
        Self {
            address: field("addr=").unwrap_or_default().to_owned(),
            connected_seconds: field("age=").and_then(|age| age.parse().ok()).unwrap_or(0),
        }
    }

    fn text(&self) -> String {
        let since = std::time::Duration::from_secs(self.connected_seconds);
        format!("{} for {}", self.address, words::span(since))
    }
}
