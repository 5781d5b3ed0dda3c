//! `trust`: states that a filter which another system writes is whole.

use std::io::{self, BufRead};
use std::time::Duration;

use serde_json::json;

use super::outcome::{Failure, Outcome, say};
use super::target::{self, insist};
use crate::extract::PathPattern;
use crate::middleware::layer::BloomGuard;
use crate::refusal::Refusal;
use crate::store::foreign::filter::ForeignFilter;

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
pub(super) struct Arguments {
    /// Where Redis is; `-` takes it from `BLOOM_GUARD_URL`.
    url: String,
    /// Whose filter it is.
    system: System,
    /// Its key, or the name that its system knows it by.
    key: String,
    /// How many bits it has: of go-zero and php-bkdr.
    #[arg(long)]
    bits: Option<u64>,
    /// How many of them an id sets: of php-bkdr.
    #[arg(long)]
    hashes: Option<u32>,
    /// For how many ids it was made: of rueidisprob, jedis and redis-template.
    #[arg(long)]
    ids: Option<u64>,
    /// At which rate of false positives: of the same.
    #[arg(long)]
    rate: Option<f64>,
    /// The life that each insert gives the key anew, in seconds: of jedis.
    #[arg(long)]
    expiry: Option<u64>,
    /// A further instance, in the writer's order: of php-bkdr-sharded.
    #[arg(long = "other", value_name = "URL")]
    others: Vec<String>,
    /// States it.
    #[arg(long)]
    yes: bool,
}

/// The systems, as the guide's page `other_filters` lists them.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum System {
    GoZero,
    Redisson,
    Rueidisprob,
    Jedis,
    RedisTemplate,
    PhpBkdr,
    PhpBkdrSharded,
    Orestes,
    Redisbloom,
}

impl Arguments {
    fn filter(&self) -> Result<ForeignFilter, Failure> {
        let key = &self.key;
        let bits = || needed(self.bits, "--bits");
        let hashes = || needed(self.hashes, "--hashes");
        let ids = || needed(self.ids, "--ids");
        let rate = || needed(self.rate, "--rate");
        let others: Vec<&str> = self.others.iter().map(String::as_str).collect();
        Ok(match self.system {
            System::GoZero => ForeignFilter::go_zero(key, bits()?),
            System::Redisson => ForeignFilter::redisson(key),
            System::Rueidisprob => ForeignFilter::rueidisprob(key, ids()?, rate()?),
            System::Jedis => {
                ForeignFilter::jedis(key, ids()?, rate()?, self.expiry.map(Duration::from_secs))
            }
            System::RedisTemplate => ForeignFilter::redis_template(key, ids()?, rate()?),
            System::PhpBkdr => ForeignFilter::php_bkdr(key, bits()?, hashes()?),
            System::PhpBkdrSharded => {
                ForeignFilter::php_bkdr_sharded(key, bits()?, hashes()?, &others)
            }
            System::Orestes => ForeignFilter::orestes(key),
            System::Redisbloom => ForeignFilter::redisbloom(key),
        })
    }
}

fn needed<T>(number: Option<T>, option: &str) -> Result<T, Failure> {
    number.ok_or_else(|| Failure(format!("this system's filter needs {option}")))
}

pub(super) async fn run(arguments: &Arguments, json: bool) -> Outcome {
    if !arguments.yes {
        return Err(Failure(
            "nothing was stated: give --yes to state that no id is missing".to_owned(),
        ));
    }
    let known = io::stdin().lock().lines().collect::<Result<Vec<_>, _>>()?;
    let known = known
        .iter()
        .map(|id| id.trim_start_matches('\u{feff}').trim_end())
        .filter(|id| !id.is_empty());
    // A statement belongs to the filter's key, whatever the guard's name is.
    let guard = BloomGuard::builder("command", PathPattern::<String>::new("/{id}")?)
        .redis(&target::url(&arguments.url)?)
        .foreign(arguments.filter()?)
        .build()?;
    match insist(async || guard.trust_foreign(known.clone()).await).await {
        Ok(()) => {
            say(json, "stated: this filter holds every id there is", &json!({ "stated": true }))?;
            Ok(false)
        }
        Err(error) if !error.is(Refusal::UNFIT) => Err(error.into()),
        Err(error) => {
            let text = format!("nothing was stated: {error}");
            say(json, &text, &json!({ "stated": false, "error": error.to_string() }))?;
            Ok(true)
        }
    }
}
