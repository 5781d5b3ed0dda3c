//! Keeps shards in the groups of the nodes that serve their slots.
//!
//! A shard whose slot turns out to be served elsewhere leaves its group, and no other shard notices. Where it went is asked of the
//! cluster, and believed when it was said twice.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::groups::Group;
use super::shards::Shards;
use crate::random;
use crate::store::link::node;
use crate::store::map::endpoint::Server;

/// The first and the longest rest between two questions to the cluster.
const REST: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// A group and its tasks, which end with it.
type Running = (Group, JoinSet<()>);

impl Shards {
    fn run(self: &Arc<Self>, group: Group) -> Running {
        let mut tasks = JoinSet::new();
        node::start(self, &group.node, &self.name, &mut tasks);
        (group, tasks)
    }

    pub(super) async fn keep_grouped(self: Arc<Self>) {
        let Some(slots) = &self.groups.slots else { return };
        let mut running = vec![self.run(self.groups.servers[0].clone())];
        let mut said: Vec<Option<Server>> = vec![None; self.all.len()];
        let mut rest = REST.0;
        loop {
            running.retain(|(group, _)| group.join.first().is_some());
            let is_astray =
                |number: &usize| !running.iter().any(|(group, _)| group.join.has(*number));
            let astray: Vec<usize> = (0..self.all.len()).filter(is_astray).collect();
            if astray.is_empty() {
                let since = Instant::now();
                self.groups.elsewhere.notified().await;
                if since.elapsed() > REST.1 {
                    rest = REST.0;
                }
                said.fill(None);
                continue;
            }
            match slots.primaries().await {
                Ok(now) => {
                    let twice =
                        |number: &usize| now[*number].is_some() && now[*number] == said[*number];
                    for number in astray.into_iter().filter(twice) {
                        self.group(number, &now, &mut running);
                    }
                    said = now;
                }
                Err(error) => tracing::debug!(%error, "nobody says where shards are"),
            }
            // Processes that lose a node together do not ask together.
            sleep(rest.mul_f64(0.5 + random::fraction() / 2.0)).await;
            rest = (rest * 2).min(REST.1);
        }
    }

    fn group(self: &Arc<Self>, number: usize, now: &[Option<Server>], running: &mut Vec<Running>) {
        let serves = |(group, _): &Running| {
            group.join.first().is_some_and(|first| now[first] == now[number])
        };
        let at = running.iter().position(serves).unwrap_or_else(|| {
            running.push(self.run(self.groups.of(number)));
            running.len() - 1
        });
        let Group { node, join } = &running[at].0;
        self.all[number].move_to(Arc::clone(node));
        join.take(number);
        node.link.look_now();
    }
}
