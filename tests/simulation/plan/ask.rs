//! Requests: what a client asks, and what the handler makes of it.

use http::Method;

use super::Config;
use crate::rng::Rng;

/// The longest that a handler draws its answer out by chance, ms.
const DRAWN_OUT: u64 = 6000;

/// One request.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) instance: usize,
    pub(crate) id: u64,
    pub(crate) asked: Asked,
    pub(crate) caller: Caller,
    /// How long the handler takes before it reads the database, and after that, ms.
    pub(crate) before: u64,
    pub(crate) after: u64,
    /// How far behind the replica is that it reads, ms.
    pub(crate) lag: u64,
    pub(crate) answers: Answers,
    /// The client hangs up after so many ms.
    pub(crate) hangs_up: Option<u64>,
}

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    Get,
    /// A GET with a query.
    Query,
    Head,
    /// That the row be deleted.
    Delete,
}

/// A caller; also the owner of a row, which is shown to that caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    /// A caller without credentials; as a row's owner, all callers.
    Anybody,
    /// The one with this `Authorization`.
    Bearer,
    /// The one with this `Cookie`.
    Cookie,
}

/// What the handler answers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Answers {
    /// What the database says. Of a row that is missing for all, it may say so by the marker, or by a 410.
    Truly { marked: bool, gone: bool },
    /// This status, with this header, whatever the database says: what was asked for is not the record
    /// itself, or the handler is in trouble.
    Always(u16, Option<(&'static str, &'static str)>),
    /// The handler fails.
    Fails,
}

impl Answers {
    /// As a handler that says no more than it must.
    pub(crate) const PLAINLY: Self = Self::Truly { marked: false, gone: false };

    /// A 404 that must not be kept: the next request may be answered otherwise.
    const NOT_KEPT: [(&'static str, &'static str); 4] = [
        ("cache-control", "no-store"),
        ("cache-control", "max-age=0"),
        ("vary", "accept-language"),
        ("set-cookie", "visited=yes"),
    ];

    fn draw(rng: &mut Rng, config: &Config, asked: Asked) -> Self {
        let rules = &config.rules;
        let not_kept = |rng: &mut Rng| Self::Always(404, Some(rng.pick(&Self::NOT_KEPT)));
        match rng.within(0..1000) {
            0..30 => Self::Always(rng.pick(&[500, 408]), None),
            30..40 => Self::Fails,
            // No such part, no such page, no such language: the record is there nevertheless.
            40..400 if matches!(asked, Asked::Query | Asked::Head) => Self::Always(404, None),
            40..140 if asked == Asked::Get && rules.marker => Self::Always(404, None),
            140..200 if asked == Asked::Get => not_kept(rng),
            200..240 if asked == Asked::Get && (rules.marker || !rules.gone) => {
                Self::Always(410, None)
            }
            _ => Self::Truly {
                marked: rng.happens(if rules.marker { 700 } else { 200 }),
                gone: rules.gone && rng.happens(500),
            },
        }
    }
}

impl Asked {
    fn draw(rng: &mut Rng) -> Self {
        match rng.within(0..100) {
            0..70 => Self::Get,
            70..82 => Self::Query,
            82..92 => Self::Head,
            _ => Self::Delete,
        }
    }

    pub(crate) const fn method(self) -> Method {
        match self {
            Self::Get | Self::Query => Method::GET,
            Self::Head => Method::HEAD,
            Self::Delete => Method::DELETE,
        }
    }
}

impl Caller {
    /// The header that tells this caller apart.
    pub(crate) const fn header(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Anybody => None,
            Self::Bearer => Some(("authorization", "Bearer x")),
            Self::Cookie => Some(("cookie", "session=x")),
        }
    }

    /// Whether this caller is shown a row of that owner.
    pub(crate) fn sees(self, owner: Self) -> bool {
        owner == Self::Anybody || owner == self
    }
}

impl Ask {
    /// A GET without credentials that is answered at once, and truly.
    pub(crate) const fn get(instance: usize, id: u64) -> Self {
        Self {
            instance,
            id,
            asked: Asked::Get,
            caller: Caller::Anybody,
            before: 0,
            after: 0,
            lag: 0,
            answers: Answers::PLAINLY,
            hangs_up: None,
        }
    }

    pub(super) fn draw(rng: &mut Rng, config: &Config, instance: usize, id: u64) -> Self {
        let handler = config.processes[instance].handler_time;
        let drawn_out = (handler * 4).min(DRAWN_OUT);
        let (before, after) = match rng.within(0..10) {
            0..6 => (0, rng.within(0..3)),
            6..9 => (rng.within(0..handler), rng.within(0..handler)),
            _ => (rng.within(0..drawn_out), rng.within(0..drawn_out)),
        };
        let asked = Asked::draw(rng);
        let caller = rng.pick(&[Caller::Anybody, Caller::Anybody, Caller::Bearer, Caller::Cookie]);
        let takes = before + after + 3;
        Self {
            before,
            after,
            asked,
            caller,
            lag: if rng.happens(100) { rng.within(0..handler) } else { 0 },
            answers: Answers::draw(rng, config, asked),
            hangs_up: rng.happens(60).then(|| rng.within(0..takes)),
            ..Self::get(instance, id)
        }
    }
}
