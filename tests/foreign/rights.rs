//! A Redis user with the rights that the guide lists, and no others, does all that a guard does.

use std::time::Duration;

use bloom_guard::{BloomGuard, ForeignFilter, Schedule, from_iter};
use support::eventually;
use support::redis_server::RedisServer;

use crate::guarded::{
    KNOWN, SOON, connected_at, insert, refused, refuses_strangers, trust, untrusted,
};
use crate::writers::Writer;
use crate::{copies, redisbloom};

const GUIDE: &str = include_str!("../../src/guide/other_filters.md");
const IDS: u64 = 1_000;

/// The commands that the guide lists for a constructor of `ForeignFilter`.
fn listed(constructor: &str) -> Vec<String> {
    let rights = GUIDE.split("# Rights").nth(1).expect("the guide lists them");
    let rows = rights.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
    let is_for = |of: &str| of == "all of them" || of.contains(&format!("`{constructor}`"));
    let commands = rows.filter(|(of, _)| is_for(of)).flat_map(|(_, row)| row.split('`'));
    let is_command =
        |word: &&str| word.chars().all(|letter| letter.is_ascii_uppercase() || letter == '.');
    let commands = commands.filter(|word| !word.is_empty()).filter(is_command);
    commands.map(str::to_owned).collect()
}

/// Makes a user with these rights on these keys; returns how it is reached.
fn user(server: &RedisServer, commands: &[String], keys: &[&str]) -> String {
    let mut rights = redis::cmd("ACL");
    rights.arg(&["SETUSER", "guard", "reset", "on", ">secret", "-@all"]);
    for command in commands {
        rights.arg(format!("+{}", command.to_lowercase()));
    }
    for key in keys {
        rights.arg(format!("~{key}"));
    }
    rights.exec(&mut server.connection()).unwrap();
    format!("redis://guard:secret@127.0.0.1:{}/", server.port())
}

/// Has a guard do all that it does, through a loss and back.
async fn do_all(
    url: &str,
    [filter, refilled]: [ForeignFilter; 2],
    lose: impl Fn(),
    repair: impl Fn(),
) -> BloomGuard {
    let guard = connected_at(url, filter).await;
    trust(&guard).await;
    refuses_strangers(&guard, "it is trusted").await;
    guard.insert_many(IDS..IDS + 200).await.unwrap();
    assert_eq!(refused(&guard, 0..IDS + 200).await, [0; 0]);
    lose();
    untrusted(&guard).await;
    repair();
    trust(&guard).await;
    refuses_strangers(&guard, "it is trusted again").await;
    lose();
    untrusted(&guard).await;
    repair();
    let source = from_iter(|| 0..IDS + 200);
    let refilling =
        support::model::foreign_guard(url).foreign(refilled).rebuild(Schedule::manual(), source);
    let refilling = refilling.longest_transaction(Duration::from_secs(1)).build().unwrap();
    refuses_strangers(&refilling, "it is refilled").await;
    assert_eq!(refused(&refilling, 0..IDS + 200).await, [0; 0]);
    guard
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rights_that_the_guide_lists_are_enough_for_each_layout() {
    let expiry = Some(Duration::from_secs(500));
    for writer in Writer::all(2 * IDS) {
        let server = RedisServer::start();
        let (constructor, config) = match writer.name {
            "go-zero" => ("go_zero", "-"),
            "Redisson" => ("redisson", "{users}:config"),
            "rueidisprob" => ("rueidisprob", "{users}:c"),
            "Jedis" => ("jedis", "-"),
            "RedisTemplate" => ("redis_template", "-"),
            "PHP BKDR" => ("php_bkdr", "-"),
            "Orestes" => ("orestes", "orestes"),
            other => panic!("{other} is new: the guide has to list it, too"),
        };
        let commands = listed(constructor);
        assert!(commands.len() > 10, "{commands:?}");
        let statement = copies::statement(&writer);
        let url = user(&server, &commands, &[writer.key, &statement, config]);
        writer.write(&server, 0..IDS);
        let filters = [(); 2].map(|()| match writer.name {
            "Jedis" => ForeignFilter::jedis("users", 2 * IDS, crate::writers::RATE, expiry),
            _ => writer.filter(),
        });
        let lose = || server.run::<()>(&["DEL", writer.key]);
        let guard = do_all(&url, filters, lose, || writer.write(&server, 0..IDS)).await;
        copies::turned_over(&server, &writer, 2).await;
        refuses_strangers(&guard, writer.name).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rights_that_the_guide_lists_are_enough_for_a_module() {
    let server = redisbloom::server();
    let commands = listed("redisbloom");
    let url = user(&server, &commands, &["users", "{users}:bg:trust"]);
    let write = || redisbloom::write(&server, "users", 0..IDS);
    write();
    let lose = || server.run::<()>(&["DEL", "users"]);
    do_all(&url, [(); 2].map(|()| ForeignFilter::redisbloom("users")), lose, write).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_right_that_is_missing_is_named() {
    let server = RedisServer::start();
    let writer = Writer::go_zero(2 * IDS);
    writer.write(&server, 0..IDS);
    let statement = copies::statement(&writer);
    let all = listed("go_zero");
    let url = user(&server, &all, &[writer.key, &statement]);
    let guard = connected_at(&url, writer.filter()).await;
    trust(&guard).await;
    refuses_strangers(&guard, "it is trusted").await;
    // The seal is not turned over any more: an old copy would not show.
    let fewer: Vec<String> = all.into_iter().filter(|command| command != "SETRANGE").collect();
    user(&server, &fewer, &[writer.key, &statement]);
    eventually("the missing right is named", SOON, || async {
        let state = format!("{:?}", guard.state());
        if state.contains("Denied") { Ok(()) } else { Err(state) }
    })
    .await;
    assert_eq!(refused(&guard, KNOWN).await, [0; 0]);
    user(&server, &listed("go_zero"), &[writer.key, &statement]);
    insert(&guard, &bloom_guard::Id::display(&7_777_777_u64).unwrap()).await;
}
