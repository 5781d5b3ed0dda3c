//! Numbers, times and ids as people read them.

use std::time::Duration;

/// A number with commas.
pub(crate) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// So many of a thing.
pub(crate) fn count(of: u64, one: &str, many: &str) -> String {
    format!("{} {}", number(of), if of == 1 { one } else { many })
}

/// Bytes in the unit that suits them.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match UNITS.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / unit as f64),
        None => format!("{bytes} bytes"),
    }
}

/// How long something takes.
pub(crate) fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Milliseconds of Redis as a span; nothing of what is negative.
pub(crate) fn span_ms(ms: i64) -> String {
    span(Duration::from_millis(u64::try_from(ms).unwrap_or(0)))
}

/// A moment, by the clock that gave it, ms since 1970.
pub(crate) fn moment(ms: i64) -> String {
    chrono::DateTime::from_timestamp_millis(ms)
        .map_or_else(|| format!("{ms} ms"), |time| time.format("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// A rate of false positives.
pub(crate) fn rate(rate: f64) -> String {
    const LEAST: f64 = 1e-9;
    if rate < LEAST {
        return "less than 1 in 1,000,000,000".to_owned();
    }
    format!("1 in {}", number((1.0 / rate).round() as u64))
}

/// An id that was given, fit for a terminal.
pub(crate) fn id(id: &[u8]) -> String {
    let text = String::from_utf8_lossy(id);
    if text.chars().any(char::is_control) { format!("{text:?}") } else { text.into_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_commas_and_ids_steer_no_terminal() {
        assert_eq!(number(1_234_567), "1,234,567");
        assert_eq!(number(123), "123");
        assert_eq!(rate(0.001), "1 in 1,000");
        assert_eq!(id(b"\x1b[2J"), "\"\\u{1b}[2J\"");
    }
}
