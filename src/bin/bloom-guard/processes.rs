//! Which processes have a filter, as Redis's list of connections tells.

use bloom_guard::StoreError;
use bloom_guard::inspect::Filter;
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
    /// Asks the node of the first shard that answers: each process is connected to all.
    pub(crate) async fn of(filter: &Filter, name: &str) -> Result<Self, Failure> {
        let Some(shard) = filter.shards.iter().find(|shard| shard.away.is_none()) else {
            return Ok(Self(None));
        };
        let list = match shard.server().ask(&["CLIENT", "LIST"]).await {
            Err(StoreError::Refused { .. }) => return Ok(Self(None)),
            list => list?.text(),
        };
        let ours = format!("name=bloom-guard:{name}:checks");
        let lines = list.lines().filter(|line| line.split(' ').any(|field| field == ours));
        Ok(Self(Some(lines.map(Process::read).collect())))
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
