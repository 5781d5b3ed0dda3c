//! Redis is killed, stays away and comes back, and the service is scraped the whole time.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use serde_json::Value;
use support::eventually;
use support::model::live;
use tokio::time::interval;

use crate::prometheus::Prometheus;
use crate::queries::{Series, alerts, board, selectors};
use crate::service::Guarded;

/// The recorded outage.
pub(crate) const FILE: &str = "outage_test.yml";

/// How long a recording takes: scrapes before, during and after the outage, so many seconds apart.
pub(crate) struct Plan {
    before: usize,
    away: usize,
    after: usize,
    seconds: u64,
}

pub(crate) const SHORT: Plan = Plan { before: 1, away: 1, after: 1, seconds: 1 };
/// Long enough for every alert that an outage fires, and for all to end.
pub(crate) const LONG: Plan = Plan { before: 5, away: 24, after: 26, seconds: 15 };

const HEAD: &str = "\
# An outage of Redis as a guarded service's /metrics showed it: scraped, not invented.
# `OUTAGE_RECORD=1 bash tests/run.sh --test observe the_recorded_outage` records it anew.
rule_files: [alerts.yml]
";

/// Records an outage as a test of the rules.
pub(crate) async fn record(plan: Plan) -> String {
    let mut service = Guarded::start().await;
    let mut recorded = BTreeMap::<Series, Vec<f64>>::new();
    let mut beat = interval(Duration::from_secs(plan.seconds));
    let wanted: Vec<_> = alerts().iter().flat_map(|query| selectors(&query.text)).collect();
    for scrape in 0..plan.before + plan.away + plan.after {
        beat.tick().await;
        for (mut series, value) in service.scrape().await {
            if wanted.iter().any(|selector| selector.asks_for(&series)) {
                series.labels.insert("job".to_owned(), "users-service".to_owned());
                series.labels.insert("instance".to_owned(), "one".to_owned());
                recorded.entry(series).or_default().push(value);
            }
        }
        // Between two scrapes, so that it is plain which one sees what.
        if scrape + 1 == plan.before {
            service.redis.kill();
        } else if scrape + 1 == plan.before + plan.away {
            service.redis.restart();
        }
    }
    live(&service.guard).await;
    written(&recorded, &plan)
}

fn written(recorded: &BTreeMap<Series, Vec<f64>>, plan: &Plan) -> String {
    let mut text = HEAD.to_owned();
    let seconds = plan.seconds;
    writeln!(text, "evaluation_interval: {seconds}s\ntests:\n  - interval: {seconds}s").unwrap();
    writeln!(text, "    input_series:").unwrap();
    for (series, values) in recorded {
        let values: Vec<String> = values.iter().map(|value| number(*value)).collect();
        writeln!(text, "      - series: '{series}'\n        values: '{}'", values.join(" "))
            .unwrap();
    }
    writeln!(text, "    promql_expr_test:").unwrap();
    // The last scrapes before the kill and before the restart.
    let killed = (plan.before as u64 - 1) * seconds;
    let back = killed + plan.away as u64 * seconds;
    let all = &["InsertsFail", "NoFilter", "Overloaded", "Unknown"];
    for (at, firing, why) in [
        (killed, &[][..], "Redis is there"),
        (killed + 30, &all[..1], "it was killed half a minute ago"),
        (killed + 120, &all[..3], "two minutes ago"),
        (back, &all[..], "six minutes ago; now it is started again"),
        (back + 150, &all[3..], "it came back two minutes and a half ago"),
        (back + 360, &[][..], "six minutes ago"),
    ] {
        fires(&mut text, at, firing, why);
    }
    text
}

/// Which alerts fire then.
fn fires(text: &mut String, at: u64, firing: &[&str], why: &str) {
    let expression = r#"sum by (alertname, job, filter) (ALERTS{alertstate="firing"})"#;
    writeln!(text, "      # {why}\n      - expr: {expression}\n        eval_time: {at}s").unwrap();
    let none = if firing.is_empty() { " []" } else { "" };
    writeln!(text, "        exp_samples:{none}").unwrap();
    for name in firing {
        let labels = r#"filter="users", job="users-service""#;
        writeln!(text, "          - labels: '{{alertname=\"BloomGuard{name}\", {labels}}}'")
            .unwrap();
        writeln!(text, "            value: 1").unwrap();
    }
}

fn number(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        "Inf".to_owned()
    } else {
        ((value * 1000.0).round() / 1000.0).to_string()
    }
}

/// The series of a recorded outage.
pub(crate) fn series(recorded: &str) -> Vec<String> {
    let recorded: Value = serde_yaml_ng::from_str(recorded).expect("YAML");
    let inputs = recorded["tests"][0]["input_series"].as_array().expect("series");
    inputs.iter().map(|input| input["series"].as_str().expect("a series").to_owned()).collect()
}

/// Has a real Prometheus watch an outage: until the alert is due, or until it fires.
pub(crate) async fn watched_by_prometheus(fires: bool) {
    let mut service = Guarded::start().await;
    let prometheus = Prometheus::start(service.address).await;
    // One rebuild that it sees.
    holds(&prometheus, "bloom_guard_filter_live", Duration::from_secs(20)).await;
    service.guard.rebuild_now().await.expect("a rebuild");
    has_values(&prometheus).await;
    service.redis.kill();
    let state = if fires { "firing" } else { "pending" };
    let alert = format!("ALERTS{{alertname=\"BloomGuardNoFilter\", alertstate=\"{state}\"}}");
    holds(&prometheus, &alert, Duration::from_secs(120)).await;
    holds(&prometheus, "bloom_guard_inserts_failing_seconds > 1", Duration::from_secs(20)).await;
    service.redis.restart();
    live(&service.guard).await;
    let over =
        "bloom_guard_filter_live == 1 unless on(filter) ALERTS{alertname=\"BloomGuardNoFilter\"}";
    holds(&prometheus, over, Duration::from_secs(20)).await;
    println!("{alert}, and over again");
}

async fn holds(prometheus: &Prometheus, query: &str, within: Duration) {
    eventually(query, within, || async {
        let values = prometheus.values(query).await?;
        if values.is_empty() { Err("no value".to_owned()) } else { Ok(()) }
    })
    .await;
}

/// Each query of the board has a value that is known.
async fn has_values(prometheus: &Prometheus) {
    for query in board() {
        // Variables list labels; alerts come and go.
        if query.text.starts_with("label_values") || query.text.starts_with("ALERTS") {
            continue;
        }
        let text = query.text.replace("$__rate_interval", "10s").replace("$job", ".*");
        let text = text.replace("$filter", ".*");
        let value = eventually(&query.from, Duration::from_secs(30), || async {
            let values = prometheus.values(&text).await?;
            let known = values.iter().copied().find(|value| !value.is_nan());
            known.ok_or_else(|| format!("{text}: {values:?}"))
        })
        .await;
        println!("{}: {value} by {text}", query.from);
    }
}
