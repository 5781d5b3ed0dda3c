//! The guard's metrics by OTLP, as an OpenTelemetry collector takes them at port 4318.
//!
//! `cargo run --manifest-path examples/otlp/Cargo.toml` sends to a stand-in for a collector, shows what arrives, and ends.
//! `OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=http://collector:4318/v1/metrics` names a collector instead.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{Request, StatusCode};
use axum::routing::{get, post};
use axum::{Json, Router};
use bloom_guard::{BloomGuard, BoxError, PathPattern, Schedule, from_iter};
use metrics_exporter_opentelemetry::Recorder;
use opentelemetry_otlp::{MetricExporter, Protocol, WithExportConfig};
use opentelemetry_sdk::metrics::{
    Aggregation, Instrument, InstrumentKind, PeriodicReader, SdkMeterProvider, Stream,
};
use serde_json::Value;
use tokio::net::TcpListener;
use tower::ServiceExt;

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT";
/// OpenTelemetry's own buckets are for milliseconds; the guard's times are seconds.
const BUCKETS: [f64; 8] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 1.0];

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let arrived = Arrived::default();
    let endpoint = match std::env::var(ENDPOINT) {
        Ok(endpoint) => endpoint,
        Err(_) => collect(&arrived).await?,
    };
    // Before the guard is built: it counts for the recorder that is there then.
    let provider = record(endpoint)?;
    let guard = BloomGuard::builder("users", PathPattern::<u64>::new("/users/{id}")?)
        .in_process()
        .rebuild(Schedule::manual(), from_iter(|| 1..=1_000_u64))
        .audits_per_second(0)
        .build()?;
    guard.ready().await;
    let app = Router::new().route("/users/{id}", get(show)).layer(guard);
    for (id, status) in [(7, StatusCode::OK), (7_000, StatusCode::NOT_FOUND)] {
        let request = Request::get(format!("/users/{id}")).body(Body::empty())?;
        assert_eq!(app.clone().oneshot(request).await?.status(), status);
    }
    // Gauges are set once a second.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    // Sends what is left; a service does so as it ends.
    tokio::task::spawn_blocking(move || provider.shutdown()).await??;
    if std::env::var_os(ENDPOINT).is_none() {
        look_at(&arrived.lock().expect("no panic"));
    }
    Ok(())
}

async fn show(Path(id): Path<u64>) -> StatusCode {
    if id <= 1_000 { StatusCode::OK } else { StatusCode::NOT_FOUND }
}

/// Has all metrics of this process sent there, every ten seconds. A value that is not known, or infinite, is not sent: the last
/// one stays.
fn record(endpoint: String) -> Result<SdkMeterProvider, BoxError> {
    let exporter = MetricExporter::builder()
        .with_http()
        .with_protocol(Protocol::HttpJson)
        .with_endpoint(endpoint)
        .build()?;
    let reader = PeriodicReader::builder(exporter).with_interval(Duration::from_secs(10)).build();
    let view = |instrument: &Instrument| {
        // The bridge describes only the first series of a name, and two descriptions are two metrics.
        let stream = Stream::builder().with_description("").with_unit("");
        let stream = match instrument.kind() {
            InstrumentKind::Counter => stream,
            InstrumentKind::Histogram => {
                stream.with_aggregation(Aggregation::ExplicitBucketHistogram {
                    boundaries: BUCKETS.to_vec(),
                    record_min_max: false,
                })
            }
            _ => return None,
        };
        stream.build().ok()
    };
    let (provider, _) = Recorder::builder("users-service")
        .with_meter_provider(|provider| provider.with_reader(reader).with_view(view))
        .install()?;
    Ok(provider)
}

/// The data points of each metric, as they arrived last.
type Arrived = Arc<Mutex<BTreeMap<String, Vec<Value>>>>;

/// A stand-in for a collector; returns where it listens.
async fn collect(arrived: &Arrived) -> Result<String, BoxError> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let endpoint = format!("http://{}/v1/metrics", listener.local_addr()?);
    let app = Router::new().route("/v1/metrics", post(keep)).with_state(Arc::clone(arrived));
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(endpoint)
}

async fn keep(State(arrived): State<Arrived>, Json(sent): Json<Value>) -> Json<Value> {
    let mut now = BTreeMap::new();
    for metric in list(&sent["resourceMetrics"])
        .iter()
        .flat_map(|resource| list(&resource["scopeMetrics"]))
        .flat_map(|scope| list(&scope["metrics"]))
    {
        let kind = ["sum", "gauge", "histogram"].into_iter().find(|kind| metric[kind].is_object());
        let points = list(&metric[kind.expect("a kind")]["dataPoints"]).to_vec();
        let name = metric["name"].as_str().expect("a name").to_owned();
        assert!(now.insert(name, points).is_none(), "one metric of a name");
    }
    *arrived.lock().expect("no panic") = now;
    Json(serde_json::json!({}))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn look_at(arrived: &BTreeMap<String, Vec<Value>>) {
    for (name, points) in arrived {
        for point in points {
            let labels =
                list(&point["attributes"]).iter().map(|label| &label["value"]["stringValue"]);
            let labels: Vec<&str> = labels.filter_map(Value::as_str).collect();
            let value = [&point["asInt"], &point["asDouble"], &point["count"]];
            let value = value.into_iter().find(|value| !value.is_null()).expect("a value");
            println!("{name} {labels:?} {value}");
        }
    }
    let value = |name: &str, outcome: &str| {
        let of =
            |point: &&Value| point["attributes"].to_string().contains(&format!("\"{outcome}\""));
        arrived.get(name)?.iter().find(of).cloned()
    };
    let count =
        |name: &str, outcome: &str| Some(value(name, outcome)?["asInt"].as_str()?.to_owned());
    assert_eq!(count("bloom_guard_requests_total", "refused").as_deref(), Some("1"));
    // There before the first event, so that the first is an increase.
    assert_eq!(count("bloom_guard_audits_total", "false_negative").as_deref(), Some("0"));
    assert_eq!(value("bloom_guard_filter_live", "users").expect("a gauge")["asDouble"], 1.0);
    let times = value("bloom_guard_check_seconds", "absent_by_filter").expect("times");
    assert_eq!(list(&times["explicitBounds"]).len(), BUCKETS.len());
}
