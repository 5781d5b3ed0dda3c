//! Redis is killed, stays away and comes back, and a real Prometheus watches the whole time.

use std::time::Duration;

use support::eventually;
use support::model::live;

use crate::prometheus::Prometheus;
use crate::queries::board;
use crate::service::Guarded;

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
        eventually(&query.from, Duration::from_secs(30), || async {
            let values = prometheus.values(&text).await?;
            let known = values.iter().copied().find(|value| !value.is_nan());
            known.ok_or_else(|| format!("{text}: {values:?}"))
        })
        .await;
    }
}
