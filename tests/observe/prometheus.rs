//! Prometheus, as Debian's package `prometheus` has it: the server, and promtool.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use support::eventually;
use support::redis_server::free_port;
use tempfile::TempDir;

use crate::file;
use crate::service::get;

const MISSING: &str = "Prometheus is not installed; `bash tests/run.sh` installs it";

/// Runs promtool beside the rules.
pub(crate) fn promtool(arguments: &[&str]) {
    let ran = Command::new("promtool").args(arguments).current_dir(file("")).output();
    let ran = ran.expect(MISSING);
    let said = [ran.stdout, ran.stderr].concat();
    assert!(ran.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&said));
}

/// A server that scrapes one service each second and has the alerts, stopped on drop.
pub(crate) struct Prometheus {
    process: Child,
    address: SocketAddr,
    _directory: TempDir,
}

impl Prometheus {
    pub(crate) async fn start(service: SocketAddr) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let config = directory.path().join("prometheus.yml");
        let text = format!(
            "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\n\
             rule_files: ['{}']\n\
             scrape_configs:\n\
             - {{ job_name: users-service, static_configs: [{{ targets: ['{service}'] }}] }}\n",
            file("alerts.yml").display()
        );
        std::fs::write(&config, text).expect("it is written");
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let process = Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", directory.path().join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .args(["--log.level=error"])
            .stdout(Stdio::null())
            .spawn()
            .expect(MISSING);
        let server = Self { process, address, _directory: directory };
        eventually("Prometheus answers", Duration::from_secs(30), || async {
            let there = tokio::net::TcpStream::connect(address).await;
            there.map(drop).map_err(|error| error.to_string())
        })
        .await;
        server
    }

    /// The values of a query now.
    pub(crate) async fn values(&self, query: &str) -> Result<Vec<f64>, String> {
        let query = utf8_percent_encode(query, NON_ALPHANUMERIC);
        let reply = get(self.address, &format!("/api/v1/query?query={query}")).await;
        let reply: Value = serde_json::from_str(&reply).map_err(|error| error.to_string())?;
        let results = reply["data"]["result"].as_array().ok_or_else(|| reply.to_string())?;
        let value = |result: &Value| result["value"][1].as_str()?.parse().ok();
        Ok(results.iter().filter_map(value).collect())
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}
