//! `doctor`: whether a Redis can serve a guard, and what to do where it cannot.

use bloom_guard::inspect::{Filter, InspectError, Server, shards_of};
use bloom_guard::{Doubt, StoreError};

use crate::findings::Findings;
use crate::nodes::{self, Node};
use crate::outcome::{Ending, Failure, Outcome, say};
use crate::rights;
use crate::server::{self, Info, Times, is_away, user};
use crate::target;
use crate::words;

/// Says what is wrong with a Redis for a guard, and what mends it: of a cluster, with each primary, or with that which has the filter
/// where it is not in shards.
///
/// Rights are tried on keys of its own (`bg:{NAME}:doctor:…`, or `bg:{NAME#doctor…}:…` of a filter in shards), which end within ten
/// seconds and are deleted; the filter's keys are only read. A user whose rights are for one filter needs its NAME, and --shards where
/// the filter is not there yet and is to be in shards.
///
/// Exit status 1: something is wrong.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Where Redis is; `-` takes it from `BLOOM_GUARD_URL`.
    url: String,
    /// The name of a filter, which need not be there yet.
    name: Option<String>,
    /// In how many shards the filter is; found out if there is only one of this name.
    #[arg(long, value_name = "N")]
    shards: Option<u32>,
}

pub(crate) async fn run(arguments: &Arguments, json: bool) -> Outcome {
    let (url, mut findings) = (target::url(&arguments.url)?, Findings::default());
    examine(arguments, &url, &mut findings).await?;
    say(json, &findings.text(), &findings.value())?;
    Ok(Ending::wrong_if(findings.wrong_count() > 0))
}

async fn examine(arguments: &Arguments, url: &str, findings: &mut Findings) -> Result<(), Failure> {
    let name = arguments.name.as_deref().unwrap_or("doctor");
    let found = match &arguments.name {
        Some(name) => shards_of(url, name, arguments.shards).await,
        None => Ok(Vec::new()),
    };
    let shards = target::only(found.as_deref().unwrap_or_default(), name)?;
    let is_in_shards = shards.or(arguments.shards).is_some_and(|shards| shards > 1);
    let is_on_all = url.contains("+cluster://") && (is_in_shards || arguments.name.is_none());
    let nodes = match is_on_all {
        true => nodes::primaries(url, name).await?,
        false => vec![Node::only(name, is_in_shards)],
    };
    let (infos, has_rights) = of_nodes(&nodes, url, findings).await?;
    if arguments.name.is_none() || infos.is_empty() {
        return Ok(());
    }
    let filter = match (found, shards) {
        (Err(error), _) => Err(error),
        (Ok(_), None) => Ok(None),
        (Ok(_), Some(shards)) => {
            let key = target::secret_key()?;
            Filter::read(url, name, shards, key.as_ref()).await.map(Some)
        }
    };
    of_filter(filter, (name, user(url)), has_rights, &infos, findings)
}

/// What servers tell of themselves, and where each is.
type Infos = Vec<(String, Info)>;

/// What one server tells.
struct Told {
    info: Info,
    /// Whether the user has all rights.
    has_rights: bool,
    times: Option<Times>,
}

/// Judges each; returns what those tell that serve, and whether the user has all rights on all.
async fn of_nodes(
    nodes: &[Node],
    url: &str,
    findings: &mut Findings,
) -> Result<(Infos, bool), Failure> {
    let (mut each, mut infos, mut has_rights) = (Vec::new(), Infos::new(), true);
    let mut times: Option<Times> = None;
    for node in nodes {
        let mut own = Findings::default();
        match of_node(node, url, &mut own).await {
            Ok(Some(told)) => {
                has_rights &= told.has_rights;
                infos.push((node.address.clone(), told.info));
                times = times.into_iter().chain(told.times).reduce(Times::or_worse);
            }
            Ok(None) => {}
            Err(InspectError::Store(error)) if nodes.len() > 1 || !is_away(&error) => {
                of_connection(&error, user(url), &mut own);
            }
            Err(error) => return Err(error.into()),
        }
        each.push((node.address.clone(), own));
    }
    if nodes.len() > 1 {
        let all = nodes.len();
        findings.sound(format!("cluster: {all} primaries; what names none of them is of all"));
    }
    findings.of_each(&each);
    if let Some(times) = times {
        times.judge(findings);
    }
    Ok((infos, has_rights))
}

/// Judges one; returns what it tells, if it serves.
async fn of_node(
    node: &Node,
    url: &str,
    findings: &mut Findings,
) -> Result<Option<Told>, InspectError> {
    let server = Server::open(url, &node.prefix).await?;
    let Some(info) = server::identify(&server, url, findings).await? else { return Ok(None) };
    server::judge(&server, &info, findings).await;
    let keys = (&*node.prefix, &*node.pattern);
    let has_rights = rights::probe(&server, keys, user(url), findings).await;
    Ok(Some(Told { info, has_rights, times: Times::of(&server).await? }))
}

fn of_connection(error: &StoreError, user: &str, findings: &mut Findings) {
    let lacks_select = error.to_string().contains("'select'");
    if lacks_select {
        findings.wrong(
            "rights: this user may not choose another database than 0",
            format!("ACL SETUSER {user} +select, or a URL without a database"),
        );
    } else {
        findings.refused(error);
    }
}

/// Whether the filter is to be trusted, and the next one has room beside it.
fn of_filter(
    filter: Result<Option<Filter>, InspectError>,
    (name, user): (&str, &str),
    has_rights: bool,
    infos: &Infos,
    findings: &mut Findings,
) -> Result<(), Failure> {
    match filter {
        Ok(Some(filter)) => of_live(&filter, infos, findings),
        Ok(None) => findings.note(
            format!("filter: there is none of the name {name:?} yet"),
            "The first guard makes it.",
        ),
        Err(InspectError::Store(StoreError::Refused { doubt: Doubt::Denied, .. })) => {
            // Else it was told with the rights.
            if has_rights {
                findings.unseen_in_shards(name, user);
            }
        }
        Err(InspectError::Store(error)) => findings.refused(&error),
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

fn of_live(filter: &Filter, infos: &Infos, findings: &mut Findings) {
    let numbers = || filter.shards.iter().map(|shard| shard.numbers());
    match numbers().find_map(Result::err) {
        Some(doubt) => findings.wrong(format!("filter: {doubt}"), doubt.advice()),
        None => {
            let key = if filter.has_key() { " and this secret key" } else { "" };
            findings.sound(format!("filter: live, of this Redis process{key}"));
        }
    }
    if let Some(largest) = numbers().flatten().map(|numbers| numbers.4).max() {
        let room = |(address, info): &(String, Info)| (address.clone(), of_room(largest, info));
        findings.of_each(&infos.iter().map(room).collect::<Vec<_>>());
    }
}

/// Whether a server has room for a rebuild, of whose shards the largest takes so many bytes.
fn of_room(largest: u64, info: &Info) -> Findings {
    let mut findings = Findings::default();
    let (limit, used) =
        (info.number("maxmemory").unwrap_or(0), info.number("used_memory").unwrap_or(0));
    let needed = used + largest;
    if limit > 0 && needed > limit {
        findings.wrong(
            format!(
                "room: a rebuild needs {} beside what is there, {} in all, and maxmemory is {}",
                words::bytes(largest),
                words::bytes(needed),
                words::bytes(limit)
            ),
            format!(
                "CONFIG SET maxmemory {} at the least (and in redis.conf)",
                needed + needed / 10
            ),
        );
    } else {
        findings.sound(format!("room: for the {} of a rebuild", words::bytes(largest)));
    }
    findings
}
