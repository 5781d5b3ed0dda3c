//! What is said where a cluster is named as a server, and a server as a cluster.

use std::time::Duration;

use bloom_guard::access::Credentials;
use bloom_guard::{BoxError, Doubt, Refusal, Verdict};
use support::eventually;
use support::model::{Table, guard_over, live, told};
use support::redis_server::RedisServer;

async fn named(url: &str, doubt: Doubt, words: &str) {
    told(&guard_over(url, &Table::with(0..100)).build().unwrap(), doubt, words).await;
}

#[tokio::test]
async fn a_server_that_is_no_node_is_named() {
    let redis = RedisServer::start();
    let url = format!("redis+cluster://127.0.0.1:{}", redis.port());
    named(&url, Doubt::Disconnected, "cluster support disabled").await;
}

#[tokio::test]
async fn a_cluster_whose_slots_nobody_serves_is_named() {
    let redis = RedisServer::with(&["--cluster-enabled", "yes"]);
    let url = format!("redis+cluster://127.0.0.1:{}", redis.port());
    named(&url, Doubt::Disconnected, "no node for slot").await;
}

/// The words behind `ACL SETUSER` in the guide, and what it says of a cluster.
fn user() -> Vec<&'static str> {
    let guide = include_str!("../../src/guide/redis.md");
    let (_, user) = guide.split_once("ACL SETUSER ").expect("the guide lists the rights");
    let (user, rest) = user.split_once("```").expect("a block of code");
    let (_, more) = rest.split_once("a [cluster](#cluster) `").expect("more for a cluster");
    let (more, _) = more.split_once('`').expect("its end");
    user.split_whitespace().chain(more.split_whitespace()).collect()
}

#[tokio::test]
async fn the_rights_that_the_guide_lists_for_a_cluster_suffice_and_are_needed() {
    let words = user();
    let denied = |right: &str| words.iter().copied().filter(|word| *word != right).collect();
    let needed = ["+cluster|slots", "+cluster|keyslot"];
    for (words, suffices) in [words.clone()]
        .into_iter()
        .map(|words| (words, true))
        .chain(needed.map(|right| (denied(right), false)))
    {
        let alone = ["--cluster-enabled", "yes", "--cluster-require-full-coverage", "no", "--user"];
        let node = RedisServer::with(&[&alone, &words[..]].concat());
        let slot: i64 = node.run(&["CLUSTER", "KEYSLOT", "bg:{users}:bits"]);
        node.run::<()>(&["CLUSTER", "ADDSLOTS", &slot.to_string()]);
        let url = format!("redis+cluster://guard:password@127.0.0.1:{}", node.port());
        if suffices {
            live(&guard_over(&url, &Table::with(0..100)).build().unwrap()).await;
        } else {
            named(&url, Doubt::Refused(Refusal::DENIED), "NOPERM").await;
        }
    }
}

/// Another node may serve the slot by then, and nobody may have asked this one for an id.
#[tokio::test]
async fn a_node_that_says_that_the_cluster_is_down_is_left_by_an_idle_guard_too() {
    let node = RedisServer::with(&["--cluster-enabled", "yes"]);
    node.serves_part(0, 1);
    let url = format!("redis+cluster://127.0.0.1:{}", node.port());
    let guard = guard_over(&url, &Table::with(0..100)).build().unwrap();
    live(&guard).await;
    node.run::<()>(&["CLUSTER", "DELSLOTS", "0"]);
    eventually("the connection is left", Duration::from_secs(20), || async {
        let trouble = guard.state().trouble.unwrap_or_default();
        if trouble.contains("CLUSTERDOWN") { Ok(()) } else { Err(trouble) }
    })
    .await;
    node.run::<()>(&["CLUSTER", "ADDSLOTS", "0"]);
    live(&guard).await;
}

/// It takes longer than a node is given to say who serves the slot.
#[tokio::test]
async fn credentials_that_the_application_gives_slowly_are_told_to_every_node_that_is_asked() {
    let user = ["--user", "guard", "on", ">one", "~*", "+@all"];
    let node = RedisServer::with(&[&["--cluster-enabled", "yes"], &user[..]].concat());
    let open = |url: &str| guard_over(url, &Table::with(0..100));
    node.serves_part(0, 1);
    node.run::<()>(&["ACL", "SETUSER", "default", "on", ">other", "~*", "+@all"]);
    let url = format!("redis+cluster://127.0.0.1:{}", node.port());
    let slow = || async {
        tokio::time::sleep(Duration::from_millis(600)).await;
        let given = Credentials::new("one").user("guard");
        Ok::<_, BoxError>(given.expires_in(Duration::from_secs(3)))
    };
    let guard = open(&url).credentials(slow).build().unwrap();
    live(&guard).await;
    // Longer than two lives of them.
    for id in 1_000..1_070_u64 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        guard.insert(&id).await.unwrap();
        assert_eq!(guard.check(&id).await.unwrap(), Verdict::Present);
    }
    let fails = || async { Err::<Credentials, BoxError>("the vault is sealed".into()) };
    let guard = open(&url).credentials(fails).build().unwrap();
    told(&guard, Doubt::Refused(Refusal::CREDENTIALS), "vault is sealed").await;
}
