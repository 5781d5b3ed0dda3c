//! A Redis user with the rights that the guide lists, and no others, does all that a guard does.

use std::time::Duration;

use bloom_guard::ForeignFilter;
use support::eventually;
use support::redis_server::RedisServer;

use crate::guarded::{KNOWN, SOON, connected_at, refused, refuses_strangers, trust, untrusted};
use crate::writers::{RATE, Writer};

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

#[tokio::test(flavor = "multi_thread")]
async fn the_rights_that_the_guide_lists_are_enough_for_each_layout() {
    let expiry = Some(Duration::from_secs(500));
    for writer in Writer::all(2 * IDS).into_iter().chain([Writer::redisbloom()]) {
        let server = writer.server();
        let (constructor, config) = match writer.name {
            "go-zero" => ("go_zero", "-"),
            "Redisson" => ("redisson", "{users}:config"),
            "rueidisprob" => ("rueidisprob", "{users}:c"),
            "Jedis" => ("jedis", "-"),
            "RedisTemplate" => ("redis_template", "-"),
            "PHP BKDR" => ("php_bkdr", "-"),
            "Orestes" => ("orestes", "orestes"),
            "RedisBloom" => ("redisbloom", "-"),
            other => panic!("{other} is new: the guide has to list it, too"),
        };
        let commands = listed(constructor);
        assert!(commands.len() > 6, "{commands:?}");
        let url = user(&server, &commands, &[writer.key, &writer.statement(), config]);
        writer.write(&server, 0..IDS);
        let filter = match writer.name {
            "Jedis" => ForeignFilter::jedis("users", 2 * IDS, RATE, expiry),
            _ => writer.filter(),
        };
        let guard = connected_at(&url, filter).await;
        trust(&guard, KNOWN).await;
        refuses_strangers(&guard, writer.name).await;
        guard.insert_many(IDS..IDS + 200).await.unwrap();
        assert_eq!(refused(&guard, 0..IDS + 200).await, [0; 0]);
        let ttl: i64 = server.run(&["TTL", writer.key]);
        assert_eq!(ttl > 400, writer.name == "Jedis", "{}: {ttl}", writer.name);
        server.run::<()>(&["DEL", writer.key]);
        untrusted(&guard).await;
        // Taking the statement back needs rights, too, and comes after.
        eventually(writer.name, SOON, || async {
            let statement: String = server.run(&["GET", &writer.statement()]);
            if statement == "ended" { Ok(()) } else { Err(statement) }
        })
        .await;
        if writer.name == "go-zero" {
            let line = GUIDE.split("ACL SETUSER").nth(1).expect("an example");
            let named = |command: &String| line.contains(&format!("+{}", command.to_lowercase()));
            assert!(commands.iter().all(named), "{commands:?}");
        }
    }
}
