//! For how long a response says that it may be kept (RFC 9111 §4.2).

use std::time::{Duration, SystemTime};

use http::header::{self, HeaderMap, HeaderName, HeaderValue};

/// Returns for how many whole seconds a cache that many share may keep a response that came now;
/// without a word of it, for ever.
pub(super) fn fresh_for(headers: &HeaderMap, now: SystemTime) -> Duration {
    let lifetime = directive(headers, "s-maxage")
        .or_else(|| directive(headers, "max-age"))
        .or_else(|| expiry(headers, now));
    lifetime.map_or(Duration::MAX, |lifetime| {
        Duration::from_secs(lifetime.saturating_sub(age(headers)))
    })
}

/// Returns the shortest time that a directive of `Cache-Control` names. What cannot be read is stale
/// (§4.2.1).
fn directive(headers: &HeaderMap, wanted: &str) -> Option<u64> {
    listed(headers, &header::CACHE_CONTROL)
        .filter(|(name, _)| name.eq_ignore_ascii_case(wanted.as_bytes()))
        .map(|(_, argument)| seconds(argument).unwrap_or(0))
        .min()
}

/// Returns what a header lists: the names between its commas, and what is behind the equals sign of each. Commas within quotes
/// split too, which can only find more names than there are.
pub(super) fn listed<'a>(
    headers: &'a HeaderMap,
    header: &HeaderName,
) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    let parts = headers.get_all(header).iter();
    parts.flat_map(|value| value.as_bytes().split(|&b| b == b',')).map(|part| {
        let mut halves = part.splitn(2, |&b| b == b'=');
        (halves.next().unwrap_or_default().trim_ascii(), halves.next().unwrap_or_default())
    })
}

/// Returns the time from `Date`, or from now without it, to the first `Expires`. What cannot be read has
/// expired (§5.3).
fn expiry(headers: &HeaderMap, now: SystemTime) -> Option<u64> {
    let date = headers.get(header::DATE).and_then(time).unwrap_or(now);
    let left = |value| time(value)?.duration_since(date).ok();
    let expires = headers.get_all(header::EXPIRES).iter();
    expires.map(|value| left(value).map_or(0, |left| left.as_secs())).min()
}

/// Returns how long a response had been kept elsewhere. What cannot be read is no age (§5.1).
fn age(headers: &HeaderMap) -> u64 {
    let first =
        headers.get(header::AGE).and_then(|value| value.as_bytes().split(|&b| b == b',').next());
    first.and_then(seconds).unwrap_or(0)
}

fn time(value: &HeaderValue) -> Option<SystemTime> {
    httpdate::parse_http_date(value.to_str().ok()?).ok()
}

/// Reads a number of seconds; one that is too large is as large as can be (§1.2.2).
fn seconds(text: &[u8]) -> Option<u64> {
    let digits = text.trim_ascii();
    let number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    number.then(|| {
        digits
            .iter()
            .fold(0_u64, |sum, digit| sum.saturating_mul(10).saturating_add((digit - b'0').into()))
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    /// Noon of the first day of 2026.
    const NOON: u64 = 1_767_268_800;

    fn kept(headers: &[(&'static str, &'static str)]) -> Duration {
        let line =
            |&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value));
        let headers = headers.iter().map(line).fold(HeaderMap::new(), |mut all, (name, value)| {
            all.append(name, value);
            all
        });
        fresh_for(&headers, SystemTime::UNIX_EPOCH + Duration::from_secs(NOON))
    }

    const fn seconds_of(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn a_response_is_kept_for_no_longer_than_it_says() {
        let kept = |value| kept(&[("cache-control", value)]);
        assert_eq!(kept("public"), Duration::MAX);
        assert_eq!(kept("public, Max-Age=5"), seconds_of(5));
        assert_eq!(kept("max-age=7, max-age=3"), seconds_of(3));
        for unreadable in ["max-age", "max-age=", "max-age=-1", "max-age=soon"] {
            assert_eq!(kept(unreadable), Duration::ZERO, "{unreadable}");
        }
        assert!(kept("max-age=99999999999999999999") > seconds_of(1 << 31), "as long as can be");
    }

    #[test]
    fn what_is_said_to_shared_caches_counts_for_more() {
        let kept = |value| kept(&[("cache-control", value)]);
        assert_eq!(kept("max-age=7, s-maxage = 3"), seconds_of(3));
        assert_eq!(kept("s-maxage=60,max-age=7"), seconds_of(60));
        assert_eq!(kept("s-maxage=soon, max-age=7"), Duration::ZERO);
    }

    #[test]
    fn a_response_is_not_kept_beyond_its_expiry() {
        let date = ("date", "Thu, 01 Jan 2026 11:00:00 GMT");
        let expires = |value| ("expires", value);
        let later = expires("Thu, 01 Jan 2026 12:00:09 GMT");
        assert_eq!(kept(&[later]), seconds_of(9), "by our own clock");
        assert_eq!(kept(&[later, date]), seconds_of(3609), "by the clock it is dated by");
        assert_eq!(kept(&[later, ("date", "today")]), seconds_of(9));
        assert_eq!(kept(&[later, expires("Thu, 01 Jan 2026 12:00:04 GMT")]), seconds_of(4));
        for old in ["Thursday, 01-Jan-26 12:00:09 GMT", "Thu Jan  1 12:00:09 2026"] {
            assert_eq!(kept(&[expires(old)]), seconds_of(9), "{old}");
        }
        for over in [
            "0",
            "-1",
            "",
            "soon",
            "Thu, 01 Jan 2026 12:00:00 GMT",
            "Thu, 01 Jan 1970 00:00:00 GMT",
        ] {
            assert_eq!(kept(&[expires(over)]), Duration::ZERO, "{over}");
        }
    }

    #[test]
    fn an_expiry_beside_a_maximal_age_means_nothing() {
        for control in ["max-age=5", "s-maxage=5"] {
            assert_eq!(kept(&[("expires", "0"), ("cache-control", control)]), seconds_of(5));
        }
        assert_eq!(kept(&[("expires", "0"), ("cache-control", "public")]), Duration::ZERO);
    }

    #[test]
    fn the_time_that_a_response_was_kept_elsewhere_counts() {
        let control = ("cache-control", "max-age=60");
        let aged = |age| kept(&[control, ("age", age)]);
        assert_eq!(aged("50"), seconds_of(10));
        assert_eq!(aged("60"), Duration::ZERO);
        assert_eq!(aged("99999999999999999999"), Duration::ZERO);
        assert_eq!(aged("20, 50"), seconds_of(40), "the first of several");
        for no_age in ["", "-5", "young"] {
            assert_eq!(aged(no_age), seconds_of(60), "{no_age}");
        }
        let expires = ("expires", "Thu, 01 Jan 2026 12:00:09 GMT");
        assert_eq!(kept(&[expires, ("age", "4")]), seconds_of(5));
        assert_eq!(kept(&[("age", "4")]), Duration::MAX, "nothing is said that could be over");
    }
}
