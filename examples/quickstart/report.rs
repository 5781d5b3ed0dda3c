//! The table at the end.

use std::time::Duration;

use crate::flood::Flood;

/// What one flood did.
pub(crate) struct Column {
    pub(crate) flood: Flood,
    pub(crate) took: Duration,
    /// Queries that reached the database.
    pub(crate) queries: u64,
    /// Requests that the guard refused.
    pub(crate) refused: u64,
}

pub(crate) fn print(without: &Column, with: &Column) {
    let row = |name: &str, cell: &dyn Fn(&Column) -> String| {
        println!("{name:<20}{:>18}{:>18}", cell(without), cell(with));
    };
    println!("\n{:<20}{:>18}{:>18}", "", "without the guard", "with the guard");
    row("requests", &|column| column.flood.latencies.len().to_string());
    row("database queries", &|column| column.queries.to_string());
    row("refused", &|column| column.refused.to_string());
    row("requests/s", &|column| {
        format!("{:.0}", column.flood.latencies.len() as f64 / column.took.as_secs_f64())
    });
    row("latency, p50", &|column| millis(percentile(&column.flood.latencies, 50)));
    row("latency, p99", &|column| millis(percentile(&column.flood.latencies, 99)));
    row("false 404s", &|column| column.flood.false_404s.to_string());
}

/// The latency that this share of the requests, in per cent, did not exceed.
fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

fn millis(duration: Duration) -> String {
    format!("{:.2} ms", duration.as_secs_f64() * 1e3)
}
