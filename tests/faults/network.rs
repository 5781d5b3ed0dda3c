//! The way to the server breaks.

use std::time::Duration;

use tokio::time::sleep;

use crate::site::Site;
use crate::table::Filter::{Fails, Holds};
use crate::{Fault, Happening, LASTS};
use support::route::Traffic;

pub(crate) const FAULTS: &[Fault] = &[
    Fault::new("black hole", Fails, |site| during(site, Traffic::Silent)),
    Fault::new("+300 ms", Fails, |site| during(site, Traffic::Late(Duration::from_millis(300)))),
    Fault::new("+10 ms", Holds, |site| during(site, Traffic::Late(Duration::from_millis(10)))),
    Fault::new("connection resets", Fails, resets),
    Fault::new("half a reply, then closed", Fails, |site| during(site, Traffic::Half)),
    Fault::new("one byte a second", Fails, |site| {
        during(site, Traffic::Trickle(Duration::from_secs(1)))
    }),
];

fn during(site: &mut Site, traffic: Traffic) -> Happening<'_> {
    Box::pin(async move {
        site.route.turn(traffic);
        sleep(LASTS).await;
        site.route.turn(Traffic::Fair);
    })
}

fn resets(site: &mut Site) -> Happening<'_> {
    Box::pin(async move {
        let (every, times) = (Duration::from_millis(50), 40);
        for _ in 0..times {
            site.route.reset();
            sleep(every).await;
        }
    })
}
