//! The server dies, stands still, comes back with something else.

use tokio::time::sleep;

use crate::site::{OTHERS, Site};
use crate::table::Filter::Fails;
use crate::{Fault, Happening, LASTS};

/// Every write is on disk before it is acknowledged.
const DURABLE: &[&str] = &["--appendonly", "yes", "--appendfsync", "always"];

pub(crate) const FAULTS: &[Fault] = &[
    Fault::new("kill -9, comes back empty", Fails, killed),
    Fault::new("kill -9, comes back with all its data", Fails, killed).on(DURABLE),
    Fault::new("kill -9, comes back from a stale dump", Fails, stale_dump),
    Fault::new("restart at once, empty", Fails, restarted),
    Fault::new("SIGSTOP, SIGCONT", Fails, stopped),
];

fn killed(site: &mut Site) -> Happening<'_> {
    Box::pin(async move {
        site.redis.kill();
        sleep(LASTS).await;
        site.redis.restart();
    })
}

fn stale_dump(site: &mut Site) -> Happening<'_> {
    Box::pin(async move {
        site.redis.run::<()>(&["SAVE"]);
        // Records are created that the dump knows nothing of, the last of them by an instance that nobody
        // can ask again.
        site.create_and_forget(OTHERS..OTHERS + 300).await;
        site.redis.restart();
    })
}

fn restarted(site: &mut Site) -> Happening<'_> {
    Box::pin(async move { site.redis.restart() })
}

fn stopped(site: &mut Site) -> Happening<'_> {
    Box::pin(async move {
        site.redis.pause();
        sleep(LASTS).await;
        site.redis.resume();
    })
}
