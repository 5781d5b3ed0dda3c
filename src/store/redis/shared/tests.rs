//! Each reason not to believe a filter holds by itself.

use ::redis::RedisResult;

use super::*;
use crate::filter::{Generation, Sizing};
use crate::settings::Settings;
use crate::store::BoxFuture;
use crate::store::link::dial::Dial;
use crate::store::link::endpoint::Endpoint;
use crate::store::link::resp::Packed;
use crate::store::link::wire::Wire;
use crate::store::redis::RedisStore;
use crate::store::redis::incarnation::identity::tests::joined;

/// A Redis that never answers.
#[derive(Debug)]
struct Silent;

impl Wire for Silent {
    fn send(&self, _: Packed) -> BoxFuture<'_, RedisResult<Vec<u8>>> {
        Box::pin(std::future::pending())
    }
}

impl Dial for Silent {
    fn dial(&self) -> BoxFuture<'_, RedisResult<Arc<dyn Wire>>> {
        Box::pin(std::future::pending())
    }
}

fn shared() -> Arc<Shared> {
    let settings = Settings::new("users".into());
    RedisStore::new(&settings, Endpoint(Arc::new(Silent))).shared
}

fn to(run: u32, incarnation: &[u8], newest: i64) -> Arc<Connection> {
    joined(Arc::new(Silent), run, incarnation, newest)
}

/// The header of a filter that was built on a Redis process, under the connections' secret key.
fn header(generation: i64, run: u32) -> Header {
    let key_id = to(run, b"first", 0).identity.digester.key_id();
    let generation = Generation::new(generation).unwrap();
    let header = Header::new(generation, 1, &Sizing::DEFAULT, run);
    Header { key_id, run, ..header }
}

#[tokio::test(start_paused = true)]
async fn a_filter_is_trusted_by_the_connection_whose_redis_key_and_generation_are_its_own() {
    let live = to(1, b"first", 7);
    for generation in [7, 8] {
        assert!(trusted(header(generation, 1), &live).is_ok());
    }
    assert_eq!(trusted(header(6, 1), &live), Err(Doubt::Suspect), "an older one put back");
    assert_eq!(trusted(header(7, 2), &live), Err(Doubt::Suspect), "of another process");
    let other_key = Header { key_id: 1, ..header(7, 1) };
    assert_eq!(trusted(other_key, &live), Err(Doubt::OtherKey));
}

#[tokio::test(start_paused = true)]
async fn an_older_filter_than_one_seen_live_is_not_adopted_in_its_incarnation() {
    let shared = shared();
    assert!(shared.adopt(&header(7, 1), b"first").is_ok());
    assert_eq!(shared.adopt(&header(6, 1), b"first").map(|_| ()), Err(Doubt::Suspect));
    assert!(shared.adopt(&header(7, 1), b"first").is_ok());
    assert!(shared.adopt(&header(6, 1), b"second").is_ok(), "its clock may be behind");
}

#[tokio::test(start_paused = true)]
async fn absences_are_believed_where_the_own_inserts_are() {
    let shared = shared();
    let (here, elsewhere) = (to(1, b"first", 0), to(2, b"second", 0));
    for connection in [&here, &elsewhere] {
        assert_eq!(shared.believes(connection), Ok(()), "there are none");
    }
    shared.recent.acknowledged(&[Digest::from_bytes([1; 16])], here.identity.digester.key_id());
    shared.recent.note_held_by(b"first");
    assert_eq!(shared.believes(&here), Ok(()));
    assert_eq!(shared.believes(&elsewhere), Err(Doubt::Suspect));
}

#[tokio::test(start_paused = true)]
async fn connections_that_lead_to_two_redises_are_given_up_all_three() {
    for stray in 0..3 {
        let shared = shared();
        let connections: Vec<_> =
            (0..3).map(|at| to(if at == stray { 2 } else { 1 }, b"first", 0)).collect();
        for (link, connection) in shared.node.links().into_iter().zip(&connections) {
            link.put_into_use(connection);
        }
        shared.node.keep_to_one_redis(&connections[1]).ok();
        let used: Vec<bool> = shared
            .node
            .links()
            .into_iter()
            .zip(&connections)
            .map(|(link, connection)| link.uses(connection))
            .collect();
        let strays_only: Vec<bool> =
            (0..3).map(|at| at != 1 && at != stray && stray != 1).collect();
        assert_eq!(used, strays_only, "{stray}");
    }
    let shared = shared();
    let connections: Vec<_> = (0..3).map(|_| to(1, b"first", 0)).collect();
    for (link, connection) in shared.node.links().into_iter().zip(&connections) {
        link.put_into_use(connection);
    }
    shared.node.keep_to_one_redis(&connections[1]).ok();
    assert!(shared.node.links().into_iter().zip(&connections).all(|(link, own)| link.uses(own)));
}
