//! `status`: how a filter stands, and which processes have it.

use std::time::Duration;

use serde::Serialize;
use serde_json::json;

use super::outcome::{Outcome, say};
use super::target::{Server, Target};
use crate::error::StoreError;
use crate::mode::Mode;
use crate::observe::state::GuardState;
use crate::store::Record;
use crate::store::redis::keys::Keys;

/// A process polls at least once in this time; after it, another one has the filter settle.
const AWAY: Duration = Duration::from_secs(60);

/// What the metadata and CLIENT LIST say beside what a guard knows.
#[derive(Debug, Serialize)]
pub(super) struct Fleet {
    polled_ago: Duration,
    /// When a rebuild was asked for last, and now, both in µs by Redis's clock.
    asked_us: i64,
    pub(super) now_us: i64,
    /// How long ago the rebuild under way began, and the address of its process.
    rebuilding: Option<(Duration, String)>,
    /// The addresses of the connections for checks, one a process; none if this user may not ask.
    processes: Option<Vec<String>>,
}

impl Fleet {
    pub(super) async fn read(
        server: &Server,
        keys: &Keys,
        target: &Target,
    ) -> Result<Self, StoreError> {
        let words = ["HMGET", &keys.meta, "polled", "asked", "epoch"];
        let fields = server.ask(&words).await?.fields::<3>()?;
        let [polled_ms, asked_us, epoch_us] = fields.map(|field| field.int().unwrap_or(0));
        let [seconds, micros] = server.ask(&["TIME"]).await?.fields::<2>()?;
        let now_us = seconds.int()? * 1_000_000 + micros.int()?;
        let micros = |us: i64| Duration::from_micros(u64::try_from(us).unwrap_or(0));
        let lease = server.ask(&["GET", &keys.lock]).await?.optional_bytes()?;
        Ok(Self {
            polled_ago: micros(now_us - polled_ms * 1000),
            asked_us,
            now_us,
            rebuilding: lease.map(|lease| {
                // The lease ends with the address of its process, as that process sees it.
                let lease = String::from_utf8_lossy(&lease);
                let by = lease.split_once('@').map_or("a process", |(_, address)| address);
                (micros(now_us - epoch_us), by.escape_debug().to_string())
            }),
            processes: processes(server, &target.name).await?,
        })
    }

    pub(super) fn note(&self) -> Option<String> {
        let ago = span(self.polled_ago);
        let note = format!(
            "no process has polled this filter for {ago}: the next one that does has it settle anew"
        );
        (self.polled_ago > AWAY).then_some(note)
    }

    fn text(&self, live_us: i64) -> String {
        let rebuild = match &self.rebuilding {
            Some((since, by)) => format!("under way for {} by {by}", span(*since)),
            None if self.asked_us > live_us => "asked for, and none under way".to_owned(),
            None => "none under way".to_owned(),
        };
        let processes = self.processes.as_ref().map_or_else(
            || "cannot be told, as this user may not ask for CLIENT LIST".to_owned(),
            |all| format!("{} {}", all.len(), all.join(", ")).trim_end().to_owned(),
        );
        let polled = span(self.polled_ago);
        let note = self.note().map_or_else(String::new, |note| format!("\n{note}"));
        format!("rebuild: {rebuild}\nlast polled: {polled} ago\nprocesses: {processes}{note}")
    }
}

async fn processes(server: &Server, name: &str) -> Result<Option<Vec<String>>, StoreError> {
    let list = match server.ask(&["CLIENT", "LIST"]).await {
        Err(StoreError::Refused { .. }) => return Ok(None),
        list => list?.text()?,
    };
    let ours = format!("name=bloom-guard:{name}:checks");
    let lines = list.lines().filter(|line| line.split(' ').any(|field| field == ours));
    let address = |line: &str| {
        line.split(' ').find_map(|field| field.strip_prefix("addr=").map(str::to_owned))
    };
    Ok(Some(lines.filter_map(address).collect()))
}

pub(super) fn span(time: Duration) -> String {
    format!("{} s", time.as_secs())
}

/// Returns why absent ids are not refused, if they are not.
pub(super) fn refuses(state: &GuardState) -> Result<(), String> {
    match (&state.live, state.fleet_mode, state.settling) {
        (Err(doubt), ..) => Err(doubt.to_string()),
        (Ok(_), Mode::Enforce, None) => Ok(()),
        (Ok(_), Mode::Enforce, Some(rest)) => {
            Err(format!("the filter settles for {}, and until the next rebuild", span(rest)))
        }
        (Ok(_), mode, _) => Err(format!("the mode of all processes is {mode}")),
    }
}

/// Returns the guard's report without the lines about the observer itself.
fn report(state: &GuardState) -> String {
    let refuses = match refuses(state) {
        Ok(()) if state.is_ready() => "absent ids are refused".to_owned(),
        Ok(()) => "absent ids are refused in some shards, and not in others".to_owned(),
        Err(why) => format!("nothing is refused: {why}"),
    };
    let own = ["checks:", "inserts:", "rebuilds:", "lane:"];
    let all = state.to_string();
    let of_all = all.lines().filter(|line| !own.iter().any(|own| line.starts_with(own)));
    [&*refuses].into_iter().chain(of_all).collect::<Vec<_>>().join("\n")
}

pub(super) async fn run(target: &Target, json: bool) -> Outcome {
    let guard = target.observe().await?;
    let state = guard.state();
    let (server, keys) = target.found().await?;
    let fleet = Fleet::read(&server, &keys, target).await?;
    let live_us = state.live.as_ref().map_or(0, |live| live.generation.get());
    let text = format!("{}\n{}", report(&state), fleet.text(live_us));
    let refuses = refuses(&state).is_ok();
    say(json, &text, &json!({ "refuses": refuses, "state": state, "fleet": fleet }))?;
    let is_short = state.record.as_ref().is_some_and(Record::is_too_short);
    Ok(!refuses || !state.is_ready() || is_short)
}
