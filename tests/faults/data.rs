//! The keys are lost or damaged.

use std::time::Duration;

use tokio::time::sleep;

use crate::site::Site;
use crate::table::Filter::Fails;
use crate::{Fault, Happening, LASTS};

pub(crate) const BITS: &str = "bg:{users}:bits";
const HEADER: usize = 64;

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

/// Bits flip one after another, and stay flipped until a rebuild.
fn flipped(site: &mut Site) -> Happening<'_> {
    Box::pin(async move {
        let mut connection = site.redis.connection();
        let flips = 40;
        for flip in 0..flips {
            // A stride that meets all fields. Not those that name a newer format: such a filter is
            // never replaced.
            let bit = (flip * 197 + 133) % (HEADER * 8);
            if (64..88).contains(&bit) {
                continue;
            }
            let is = redis::cmd("GETBIT").arg(BITS).arg(bit).query::<u8>(&mut connection).unwrap();
            redis::cmd("SETBIT").arg(BITS).arg(bit).arg(1 - is).exec(&mut connection).unwrap();
            sleep(LASTS / flips as u32).await;
        }
    })
}
