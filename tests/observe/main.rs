//! The board and the alerts of `examples/observe`, against a guarded service, its Redis and a real Prometheus.
//!
//! `OUTAGE_FIRES=1` has the outage under the board last until the alert fires (a minute).

mod outage;
mod page;
mod prometheus;
mod queries;
mod service;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use queries::{Query, alerts, board};
use service::Guarded;

/// What Prometheus adds to each series, and what it keeps of alerts.
const OF_PROMETHEUS: [&str; 4] = ["job", "instance", "alertname", "alertstate"];

/// A file of the example.
fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/observe").join(name)
}

fn read(name: &str) -> String {
    std::fs::read_to_string(file(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[tokio::test]
async fn board_and_alerts_name_what_a_scrape_has() {
    let service = Guarded::start().await;
    let scraped = service.scrape().await;
    let known: BTreeSet<&str> =
        scraped.iter().flat_map(|(series, _)| series.labels.keys().map(String::as_str)).collect();
    let (board, alerts) = (board(), alerts());
    let mut wrong = Vec::new();
    for Query { from, text } in board.iter().chain(&alerts) {
        let selectors = queries::selectors(text);
        assert!(!selectors.is_empty(), "{from}: names nothing");
        for selector in selectors {
            // Alerts are Prometheus's own.
            let of_guard = selector.name != "ALERTS";
            if of_guard && !scraped.iter().any(|(series, _)| selector.asks_for(series)) {
                wrong.push(format!("{from}: no series for {selector:?}"));
            }
        }
    }
    let grouped = board.iter().chain(&alerts).flat_map(|query| queries::grouped_by(&query.text));
    let shown = ["dashboard.json", "alerts.yml"].map(|file| queries::shown(&read(file)));
    for label in grouped.chain(shown.into_iter().flatten()) {
        if !known.contains(label.as_str()) && !OF_PROMETHEUS.contains(&label.as_str()) {
            wrong.push(format!("no label {label}"));
        }
    }
    assert!(board.len() > 40 && alerts.len() > 8, "{} {}", board.len(), alerts.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_alerts_hold_and_fire_as_their_tests_say() {
    prometheus::promtool(&["check", "rules", "alerts.yml"]);
    prometheus::promtool(&["test", "rules", "alerts_test.yml", "outage_test.yml"]);
}

#[test]
fn each_alert_is_tested_and_leads_to_a_page_of_the_guide() {
    let tests = read("alerts_test.yml") + &read("outage_test.yml");
    for alert in queries::rules() {
        let name = alert["alert"].as_str().expect("a name");
        let fires = [format!("alertname=\"{name}\""), format!("alertname: {name}\n")];
        assert!(fires.iter().any(|fires| tests.contains(fires)), "{name}: has no test");
        let annotations = &alert["annotations"];
        assert!(annotations["do"].as_str().is_some_and(|text| text.ends_with('.')), "{name}");
        let page = annotations["page"].as_str().expect("a page");
        assert!(page::has(page), "{name}: no {page}");
    }
}

#[tokio::test]
async fn each_query_of_the_board_has_a_value_through_an_outage() {
    outage::watched_by_prometheus(std::env::var_os("OUTAGE_FIRES").is_some()).await;
}
