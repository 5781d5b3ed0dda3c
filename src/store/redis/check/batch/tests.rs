//! What a batch sends, and whom it answers.

use tokio::sync::oneshot;

use super::*;
use crate::filter::Generation;
use crate::settings::Settings;
use crate::store::link::node;
use crate::store::link::transport::Transport;
use crate::store::redis::connection::tests::{Scripted, joined, unreached};

struct Batch {
    shards: Shards,
    redis: Arc<Scripted>,
    live: Connection,
}

impl Batch {
    /// A store that knows a live filter.
    fn new() -> Self {
        let settings = Settings::new("users".into());
        let shards = unreached(&settings);
        let redis = Scripted::new([]);
        let live = joined(Arc::clone(&redis) as Arc<dyn Transport>, 1, b"first", 0);
        shards.groups.servers[0].node.link.put_into_use(&live.on);
        let generation = Generation::new(1).unwrap();
        let header = Header::new(generation, 1, &settings.sizing, 1);
        shards.all[0].filter.store(Some(Arc::new(header)));
        Self { shards, redis, live }
    }

    /// Asks for these digests; returns how many commands each request had.
    async fn ask(&self, asked: &[(u8, &Connection)]) -> Vec<usize> {
        let check = |&(byte, live): &(u8, &Connection)| PendingCheck {
            session: Arc::clone(&live.on),
            asked: Digest::from_bytes([byte; 16]),
            answer: oneshot::channel().0,
        };
        let mut checks = asked.iter().map(check).collect();
        let shards = &self.shards;
        node::answer(shards, &shards.groups.servers[0].node, &mut checks).await;
        assert!(checks.is_empty(), "each is answered");
        self.redis.sent.lock().drain(..).map(|sent| sent.commands).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn equal_ids_are_sent_once() {
    let batch = Batch::new();
    let live = &batch.live;
    // Two blocks, their nulls, the metadata and the header.
    assert_eq!(batch.ask(&[(2, live), (1, live), (2, live), (1, live)]).await, [5]);
    assert_eq!(batch.ask(&[(2, live), (2, live)]).await, [4]);
}

#[tokio::test(start_paused = true)]
async fn checks_of_another_connection_are_not_sent() {
    let batch = Batch::new();
    let other = joined(Arc::clone(&batch.redis) as Arc<dyn Transport>, 1, b"first", 0);
    assert_eq!(batch.ask(&[(1, &other), (2, &batch.live)]).await, [4]);
    assert_eq!(batch.ask(&[(1, &other), (2, &other)]).await, [0; 0]);
}
