//! Whatever becomes of a key, no id that exists is refused.

use bloom_guard::{Doubt, Verdict};
use support::redis_server::RedisServer;

use crate::guarded::{connected, refused, trusting};
use crate::writers::Writer;

const IDS: u64 = 2_000;

/// An id that does not exist.
const STRANGER: u64 = 1 << 50;

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_refused_before_the_filter_was_said_to_be_whole() {
    let server = RedisServer::start();
    for writer in Writer::all(IDS) {
        server.run::<()>(&["FLUSHALL"]);
        writer.write(&server, 0..IDS / 2);
        let guard = connected(&server, writer.filter()).await;
        let verdict = guard.check(&STRANGER).await;
        assert_eq!(verdict, Ok(Verdict::Unknown(Doubt::NoFilter)), "{}", writer.name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_was_emptied_and_is_filled_again_refuses_no_id() {
    let server = RedisServer::start();
    for writer in Writer::all(IDS) {
        server.run::<()>(&["FLUSHALL"]);
        writer.write(&server, 0..IDS);
        let guard = trusting(&server, writer.filter()).await;
        assert_eq!(refused(&guard, [STRANGER]).await, [STRANGER]);
        server.run::<()>(&["DEL", writer.key]);
        writer.write(&server, IDS / 2..IDS);
        assert_eq!(refused(&guard, 0..IDS).await, [0; 0], "{}", writer.name);
    }
}
