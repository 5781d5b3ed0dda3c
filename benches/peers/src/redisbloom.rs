//! A server with `RedisBloom`'s module.

use std::path::Path;

use crate::redis_server::RedisServer;
use crate::redisbloom_module::{WHEEL, module};
use crate::report::Report;

/// Starts a server, with RedisBloom if that can be had; returns whether it could.
pub fn start(report: &mut Report) -> (RedisServer, bool) {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/redisbloom.so");
    let loaded = module(kept).and_then(|module| {
        RedisServer::with_module(Some(&module)).ok_or_else(|| "it does not load".to_owned())
    });
    let found = loaded.is_ok();
    let server = match loaded {
        Ok(server) => {
            let (wheel, _) = WHEEL.split_once(' ').expect("a hash follows");
            report.version(format!("RedisBloom of {}", wheel.replace("==", " ")));
            server
        }
        Err(why) => {
            report.leave_out(format!("RedisBloom: {why}"));
            RedisServer::start()
        }
    };
    report.version(format!("redis-server {}", server.version()));
    (server, found)
}
