//! `rediss://` and `rediss+sentinel://`: a certificate is checked, and what is trusted works.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bloom_guard::{BloomGuard, Doubt, PathPattern, Schedule, Verdict, from_iter};
use support::eventually;
use support::redis_server::{RedisServer, free_port};
use support::sentinel::Sentinel;

/// Set in the process that runs [`a_trusted_server_is_used`] for real: the roots that a process trusts
/// are read from its environment.
const URL: &str = "BLOOM_GUARD_TEST_TLS_URL";
const NAME: &str = "mymaster";

struct TlsServer {
    process: Child,
    directory: tempfile::TempDir,
    port: u16,
}

impl TlsServer {
    /// Starts a server with a certificate of its own making for `localhost` and its address.
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let signed =
            rcgen::generate_simple_self_signed(["localhost", "127.0.0.1"].map(str::to_owned))
                .unwrap();
        let file = |name: &str, text: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let certificate = file("certificate.pem", &signed.cert.pem());
        let key = file("key.pem", &signed.signing_key.serialize_pem());
        let port = free_port();
        let process = Command::new("redis-server")
            .args(["--port", "0", "--bind", "127.0.0.1", "--save", "", "--tls-auth-clients", "no"])
            .args(["--tls-port", &port.to_string()])
            .args([Path::new("--tls-cert-file"), &certificate])
            .args([Path::new("--tls-ca-cert-file"), &certificate])
            .args([Path::new("--tls-key-file"), &key])
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed");
        Self { process, directory, port }
    }

    /// Starts Sentinels that know the server, and take and send only TLS.
    fn sentinels(&self) -> Vec<Sentinel> {
        let file = |name: &str| self.directory.path().join(name).display().to_string();
        let (certificate, key) = (file("certificate.pem"), file("key.pem"));
        let lines = [
            "port 0".to_owned(),
            "tls-port {port}".to_owned(),
            "tls-replication yes".to_owned(),
            "tls-auth-clients no".to_owned(),
            format!("tls-cert-file {certificate}"),
            format!("tls-ca-cert-file {certificate}"),
            format!("tls-key-file {key}"),
        ];
        let lines = lines.each_ref().map(String::as_str);
        let never = Duration::from_secs(3_600);
        (0..3).map(|_| Sentinel::start(NAME, self.port, never, &lines)).collect()
    }

    fn url(&self) -> String {
        format!("rediss://localhost:{}/", self.port)
    }
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

fn guard(url: &str) -> BloomGuard {
    BloomGuard::builder("users", PathPattern::<u64>::new("/users/{id}").unwrap())
        .redis(url)
        .settle(Duration::ZERO)
        .rebuild(Schedule::manual(), from_iter(|| 0..100_u64))
        .build()
        .unwrap()
}

#[tokio::test]
async fn an_untrusted_certificate_is_refused_and_named() {
    let server = TlsServer::start();
    let guard = guard(&server.url());
    eventually("the state says why", Duration::from_secs(10), || async {
        let trouble = guard.state().trouble.unwrap_or_default();
        let verdict = guard.check(&1).await.unwrap();
        assert_eq!(verdict, Verdict::Unknown(Doubt::Disconnected));
        if trouble.contains("ertificate") { Ok(()) } else { Err(trouble) }
    })
    .await;
}

#[tokio::test]
async fn a_trusted_server_is_used() {
    if let Ok(url) = std::env::var(URL) {
        let guard = guard(&url);
        return eventually("the guard refuses", Duration::from_secs(20), || async {
            match guard.check(&5_000).await.unwrap() {
                Verdict::Absent(_) => Ok(()),
                other => Err(format!("{other:?} {:?}", guard.state())),
            }
        })
        .await;
    }
    let server = TlsServer::start();
    let sentinels = server.sentinels();
    let hosts: Vec<_> =
        sentinels.iter().map(|sentinel| format!("127.0.0.1:{}", sentinel.port())).collect();
    for url in [server.url(), format!("rediss+sentinel://{}/{NAME}", hosts.join(","))] {
        let ended = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tls::a_trusted_server_is_used"])
            .env(URL, &url)
            .env("SSL_CERT_FILE", server.directory.path().join("certificate.pem"))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ended.stdout);
        assert!(ended.status.success() && said.contains("1 passed"), "{url}: {said}");
    }
}

/// Waits until the state says this.
async fn told(url: &str, words: &str) {
    let guard = guard(url);
    eventually(words, Duration::from_secs(10), || async {
        let trouble = guard.state().trouble.unwrap_or_default();
        let verdict = guard.check(&1).await.unwrap();
        assert_eq!(verdict, Verdict::Unknown(Doubt::Disconnected));
        if trouble.contains(words) { Ok(()) } else { Err(trouble) }
    })
    .await;
}

#[tokio::test]
async fn a_port_that_takes_tls_only_is_named() {
    let server = TlsServer::start();
    told(&format!("redis://localhost:{}/", server.port), "rediss://").await;
}

#[tokio::test]
async fn a_port_that_takes_no_tls_is_named() {
    let redis = RedisServer::start();
    told(&format!("rediss://localhost:{}/", redis.port()), "redis://").await;
}
