//! `trust`: states that a filter which another system writes is whole.

use std::io::{self, BufRead};
use std::time::Duration;

use bloom_guard::{BloomGuard, ForeignFilter, PathPattern, TrustError};
use serde_json::json;

use crate::outcome::{Ending, Failure, Outcome, say};
use crate::target;
use crate::words;

/// States that a filter which another system writes holds every id there is, for all guards of it.
///
/// Reads ids that exist, one a line, as requests name them: a hundred of the oldest and a hundred of the newest, say. All have to be in
/// the filter. They show that system and numbers are right; **that no id is missing is what this states**. So it is for the end of a
/// job that has written the filter anew, or for an operator, and never for a timer.
///
/// Without --yes nothing is done; exit status 2 then.
///
/// Exit status 1: what was found speaks against it, and nothing was stated.
#[derive(Debug, clap::Args)]
#[command(subcommand_value_name = "SYSTEM", subcommand_help_heading = "Systems")]
pub(crate) struct Arguments {
    /// Where Redis is; `-` takes it from `BLOOM_GUARD_URL`.
    url: String,
    /// States it.
    #[arg(long, global = true)]
    yes: bool,
    #[command(subcommand)]
    system: System,
}

/// Whose filter it is, with the numbers that Redis does not hold.
#[derive(Debug, clap::Subcommand)]
enum System {
    /// `core/bloom` of go-zero
    GoZero {
        key: String,
        #[arg(long)]
        bits: u64,
    },
    /// `RBloomFilter` of Redisson
    Redisson { name: String },
    /// `rueidisprob.BloomFilter`
    Rueidisprob {
        name: String,
        #[command(flatten)]
        sized: Sized,
    },
    /// The article's filter with Jedis
    Jedis {
        key: String,
        #[command(flatten)]
        sized: Sized,
        /// The life that each insert gives the key anew, in seconds.
        #[arg(long)]
        expiry: Option<u64>,
    },
    /// The article's filter with `RedisTemplate`
    RedisTemplate {
        key: String,
        #[command(flatten)]
        sized: Sized,
    },
    /// The PHP article's filter, in one key
    PhpBkdr {
        key: String,
        #[command(flatten)]
        bits: Bits,
    },
    /// The PHP article's filter, in a key on each instance
    PhpBkdrSharded {
        name: String,
        #[command(flatten)]
        bits: Bits,
        /// A further instance, in the writer's order.
        #[arg(long = "other", value_name = "URL")]
        others: Vec<String>,
    },
    /// Of Orestes, `BloomFilterRedis`
    Orestes { name: String },
    /// `BF.*` of `RedisBloom`
    Redisbloom { key: String },
}

/// For how many ids it was made, at which rate of false positives.
#[derive(Debug, clap::Args)]
struct Sized {
    #[arg(long)]
    ids: u64,
    #[arg(long)]
    rate: f64,
}

#[derive(Debug, clap::Args)]
struct Bits {
    #[arg(long)]
    bits: u64,
    #[arg(long)]
    hashes: u32,
}

impl System {
    fn filter(&self) -> ForeignFilter {
        match self {
            Self::GoZero { key, bits } => ForeignFilter::go_zero(key, *bits),
            Self::Redisson { name } => ForeignFilter::redisson(name),
            Self::Rueidisprob { name, sized: Sized { ids, rate } } => {
                ForeignFilter::rueidisprob(name, *ids, *rate)
            }
            Self::Jedis { key, sized: Sized { ids, rate }, expiry } => {
                ForeignFilter::jedis(key, *ids, *rate, expiry.map(Duration::from_secs))
            }
            Self::RedisTemplate { key, sized: Sized { ids, rate } } => {
                ForeignFilter::redis_template(key, *ids, *rate)
            }
            Self::PhpBkdr { key, bits: Bits { bits, hashes } } => {
                ForeignFilter::php_bkdr(key, *bits, *hashes)
            }
            Self::PhpBkdrSharded { name, bits: Bits { bits, hashes }, others } => {
                let others: Vec<&str> = others.iter().map(String::as_str).collect();
                ForeignFilter::php_bkdr_sharded(name, *bits, *hashes, &others)
            }
            Self::Orestes { name } => ForeignFilter::orestes(name),
            Self::Redisbloom { key } => ForeignFilter::redisbloom(key),
        }
    }
}

pub(crate) async fn run(arguments: &Arguments, json: bool) -> Outcome {
    if !arguments.yes {
        let none = "Nothing was stated: give --yes to state that no id is missing.";
        return Err(Failure(none.to_owned()));
    }
    let known = known()?;
    let wrong = |error: &dyn std::fmt::Display| Failure(format!("{error}."));
    // A statement belongs to the filter's key, whatever the guard's name is.
    let pattern = PathPattern::<String>::new("/{id}").map_err(|error| wrong(&error))?;
    let builder = BloomGuard::builder("command", pattern).redis(&target::url(&arguments.url)?);
    let guard =
        builder.foreign(arguments.system.filter()).build().map_err(|error| wrong(&error))?;
    match guard.trust_foreign(&known).await {
        Ok(()) => {}
        Err(TrustError::Store(error)) => return Err(error.into()),
        Err(error) => {
            let text = format!("nothing was stated: {error}");
            say(json, &text, &json!({ "stated": false, "error": error.to_string() }))?;
            return Ok(Ending::Wrong);
        }
    }
    let live = guard.state().live.map_err(|doubt| wrong(&doubt))?;
    let text = format!(
        "stated: this filter holds every id there is: about {}; {} absent ids pass",
        words::count(live.items, "id", "ids"),
        words::rate(live.expected_rate),
    );
    say(
        json,
        &text,
        &json!({ "stated": true, "ids": live.items, "false_positive_rate": live.expected_rate }),
    )?;
    Ok(Ending::Fine)
}

/// Reads ids that exist.
fn known() -> Result<Vec<String>, Failure> {
    let lines = io::stdin().lock().lines();
    let lines: Result<Vec<_>, _> =
        lines.map(|line| line.map(|id| id.trim_end().to_owned())).collect();
    Ok(lines?.into_iter().filter(|id| !id.is_empty()).collect())
}
