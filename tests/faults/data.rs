//! The keys are lost or damaged.

use std::time::Duration;

use tokio::time::sleep;

use crate::site::Site;
use crate::table::Filter::Fails;
use crate::{Fault, Happening, LASTS};

pub(crate) const BITS: &str = "bg:{users}:bits";
/// The header's length in bytes, and bits of two of its fields.
const HEADER: usize = 64;
const GENERATION: usize = 16 * 8 + 20;
const SEED: usize = 36 * 8 + 3;

pub(crate) const FAULTS: &[Fault] = &[
    Fault::new("FLUSHALL", Fails, flushed),
    Fault::new("DEL of the live key", Fails, deleted),
    Fault::new("EXPIRE on the live key", Fails, expired),
    Fault::new("the live key cut in half by SET", Fails, halved),
    Fault::new("the live key cut down to its header", Fails, beheaded),
    Fault::new("the live key zeroed by SETRANGE", Fails, zeroed),
    Fault::new("bit flips in the header", Fails, flipped),
];

fn flushed(site: &mut Site) -> Happening<'_> {
    Box::pin(async move { site.redis.run::<()>(&["FLUSHALL"]) })
}

fn deleted(site: &mut Site) -> Happening<'_> {
    Box::pin(async move { assert_eq!(site.redis.run::<i64>(&["DEL", BITS]), 1) })
}

fn expired(site: &mut Site) -> Happening<'_> {
    Box::pin(async move {
        assert_eq!(site.redis.run::<i64>(&["PEXPIRE", BITS, "300"]), 1);
        sleep(Duration::from_millis(300)).await;
    })
}

fn halved(site: &mut Site) -> Happening<'_> {
    Box::pin(async move { cut(site, |len| len / 2) })
}

fn beheaded(site: &mut Site) -> Happening<'_> {
    Box::pin(async move { cut(site, |_| HEADER) })
}

fn cut(site: &Site, keep: impl Fn(usize) -> usize) {
    let whole: Vec<u8> = site.redis.run(&["GET", BITS]);
    let kept = &whole[..keep(whole.len())];
    redis::cmd("SET").arg(BITS).arg(kept).exec(&mut site.redis.connection()).unwrap();
}

/// All bits are zero, header and trailer stay as they are: nothing tells that from a filter without
/// ids, so the header goes too.
fn zeroed(site: &mut Site) -> Happening<'_> {
    Box::pin(async move {
        let len: usize = site.redis.run(&["STRLEN", BITS]);
        let zeros = vec![0_u8; len];
        let mut setrange = redis::cmd("SETRANGE");
        setrange.arg(BITS).arg(0).arg(zeros).exec(&mut site.redis.connection()).unwrap();
    })
}

/// Bits flip one after another, and stay flipped until a rebuild. After each the generation changes for
/// a moment, so that those who knew the header read it again.
fn flipped(site: &mut Site) -> Happening<'_> {
    Box::pin(async move {
        let mut connection = site.redis.connection();
        let (flips, pause) = (24, LASTS / 48);
        for n in 0..flips {
            // A stride that meets all fields, the seed of the positions first.
            let bit = (SEED + n * 197) % (HEADER * 8);
            // A filter that says to be of a newer format is never replaced.
            if (64..88).contains(&bit) {
                continue;
            }
            flip(&mut connection, bit);
            flip(&mut connection, GENERATION);
            sleep(pause).await;
            flip(&mut connection, GENERATION);
            sleep(pause).await;
        }
    })
}

fn flip(connection: &mut redis::Connection, bit: usize) {
    let is: u8 = redis::cmd("GETBIT").arg(BITS).arg(bit).query(connection).unwrap();
    redis::cmd("SETBIT").arg(BITS).arg(bit).arg(1 - is).exec(connection).unwrap();
}
