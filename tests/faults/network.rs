//! The way to the server breaks.

use std::time::Duration;

use tokio::time::sleep;

use crate::site::Site;
use crate::table::Filter::{Fails, Holds};
use crate::wire::Weather;
use crate::{Fault, Happening, LASTS};

pub(crate) const FAULTS: &[Fault] = &[
    Fault::new("black hole", Fails, |site| during(site, Weather::BlackHole)),
    Fault::new("+200 ms", Fails, |site| during(site, Weather::Late(Duration::from_millis(200)))),
    Fault::new("+10 ms", Holds, |site| during(site, Weather::Late(Duration::from_millis(10)))),
    Fault::new("connection resets", Fails, resets),
    Fault::new("half a reply, then closed", Fails, |site| during(site, Weather::Half)),
    Fault::new("one byte a second", Fails, |site| {
        during(site, Weather::Trickle(Duration::from_secs(1)))
    }),
];

fn during(site: &mut Site, weather: Weather) -> Happening<'_> {
    Box::pin(async move {
        site.wire.set(weather);
        sleep(LASTS).await;
        site.wire.set(Weather::Fair);
    })
}

fn resets(site: &mut Site) -> Happening<'_> {
    Box::pin(async move {
        let (every, times) = (Duration::from_millis(50), 40);
        for _ in 0..times {
            site.wire.reset();
            sleep(every).await;
        }
    })
}
