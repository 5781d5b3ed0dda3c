//! `rediss://` and `rediss+sentinel://`: a certificate is checked, an authority of one's own trusted, a certificate shown.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bloom_guard::access::TlsSettings;
use bloom_guard::{BloomGuard, Builder, Doubt, Refusal, SettingError};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use support::model::{Table, guard_over, live, told};
use support::redis_server::{RedisServer, free_port};
use support::sentinel::Sentinel;
use tempfile::TempDir;

use super::words::named;

const UNTRUSTED: Doubt = Doubt::Refused(Refusal::TLS);

/// Signs certificates.
pub(super) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(super) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(super) fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for this machine, and its key.
    pub(super) fn signs(&self) -> [String; 2] {
        self.signs_for(&["localhost", "127.0.0.1"])
    }

    fn signs_for(&self, names: &[&str]) -> [String; 2] {
        let names: Vec<_> = names.iter().copied().map(str::to_owned).collect();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(names).unwrap();
        [params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem()]
    }
}

/// A server that takes TLS only.
struct Site {
    process: Child,
    directory: TempDir,
    port: u16,
}

impl Site {
    fn start(authority: &Authority) -> Self {
        Self::with(authority, "yes")
    }

    /// Starts a server from whose clients a certificate is wanted, or not.
    fn with(authority: &Authority, wanted: &str) -> Self {
        Self::showing(authority.signs(), authority, wanted)
    }

    /// Starts a server that shows this certificate.
    fn showing(shown: [String; 2], authority: &Authority, wanted: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let port = free_port();
        let process = Self::launch(&directory, port, shown, authority, wanted);
        Self { process, directory, port }
    }

    fn launch(
        directory: &TempDir,
        port: u16,
        [certificate, key]: [String; 2],
        authority: &Authority,
        wanted: &str,
    ) -> Child {
        let file = |name: &str, text: &str| {
            let path = directory.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        Command::new("redis-server")
            .args([
                "--port",
                "0",
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--tls-auth-clients",
                wanted,
            ])
            .args(["--tls-port", &port.to_string(), "--tls-ca-cert-file"])
            .arg(file("server-ca.pem", &authority.pem()))
            .arg("--tls-cert-file")
            .arg(file("server.pem", &certificate))
            .arg("--tls-key-file")
            .arg(file("server.key", &key))
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed")
    }

    /// Another server at the same port, of another authority.
    fn is_replaced(&mut self, authority: &Authority) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.process =
            Self::launch(&self.directory, self.port, authority.signs(), authority, "yes");
    }

    fn guard(&self, tls: TlsSettings) -> BloomGuard {
        let url = format!("rediss://localhost:{}/", self.port);
        guard_over(&url, &Table::with(0..100)).tls(tls).build().unwrap()
    }

    /// Files of the guard's.
    fn files(&self) -> [PathBuf; 3] {
        ["ca.pem", "client.pem", "client.key"].map(|name| self.directory.path().join(name))
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// Settings that trust an authority, and show what one has signed.
fn trusting(authority: &Authority, of: &Authority) -> TlsSettings {
    let [chain, key] = of.signs();
    TlsSettings::new().root_certificates_pem(authority.pem()).client_certificate_pem(chain, key)
}

#[tokio::test]
async fn an_authority_of_ones_own_is_trusted_and_a_certificate_of_its_shown() {
    let (ours, other) = (Authority::new("one"), Authority::new("other"));
    let site = Site::start(&ours);
    live(&site.guard(trusting(&ours, &ours))).await;
    told(&site.guard(trusting(&other, &ours)), UNTRUSTED, "UnknownIssuer").await;
    told(&site.guard(TlsSettings::new()), UNTRUSTED, "ertificate").await;
    let roots = || TlsSettings::new().root_certificates_pem(ours.pem());
    let silent = site.guard(roots());
    told(&silent, UNTRUSTED, "ertificate").await;
    let trouble = silent.state().trouble.unwrap_or_default();
    assert!(!trouble.contains("rediss://"), "it speaks TLS: {trouble}");
    let stranger = site.guard(trusting(&ours, &other));
    told(&stranger, UNTRUSTED, "alert").await;
}

#[tokio::test]
async fn what_is_wrong_with_a_certificate_is_told_and_what_to_do() {
    let (ours, other) = (Authority::new("one"), Authority::new("other"));
    let authority = [ours.pem(), ours.0.key().serialize_pem()];
    for (shown, trusted, words) in [
        (ours.signs(), &other, "UnknownIssuer"),
        (ours.signs_for(&["redis.internal"]), &ours, "redis.internal"),
        (authority, &ours, "CaUsedAsEndEntity"),
    ] {
        let site = Site::showing(shown, &ours, "no");
        let guard = site.guard(TlsSettings::new().root_certificates_pem(trusted.pem()));
        named(&guard, UNTRUSTED, words).await;
        let trouble = guard.state().trouble.unwrap_or_default();
        assert!(!trouble.contains("redis://"), "it speaks TLS: {trouble}");
    }
}

#[tokio::test]
async fn files_that_are_replaced_are_used_by_the_next_connection() {
    let (old, new) = (Authority::new("one"), Authority::new("other"));
    let mut site = Site::start(&old);
    let [roots, chain, key] = site.files();
    let tls =
        TlsSettings::new().root_certificates_file(&roots).client_certificate_files(&chain, &key);
    let guard = site.guard(tls);
    told(&guard, Doubt::Refused(Refusal::CREDENTIALS), "ca.pem").await;
    fs::write(&roots, old.pem()).unwrap();
    told(&guard, Doubt::Refused(Refusal::CREDENTIALS), "client.pem").await;
    let signed = old.signs();
    fs::write(&chain, &signed[0]).unwrap();
    fs::write(&key, "-----BEGIN PRIVATE KEY-----").unwrap();
    told(&guard, Doubt::Refused(Refusal::CREDENTIALS), "client.key").await;
    fs::write(&key, &old.signs()[1]).unwrap();
    told(
        &guard,
        Doubt::Refused(Refusal::CREDENTIALS),
        "cannot be used with its key: keys may not be consistent",
    )
    .await;
    fs::write(&key, &signed[1]).unwrap();
    live(&guard).await;
    site.is_replaced(&new);
    told(&guard, UNTRUSTED, "UnknownIssuer").await;
    fs::write(&roots, new.pem()).unwrap();
    told(&guard, UNTRUSTED, "alert").await;
    for (path, text) in [&chain, &key].into_iter().zip(new.signs()) {
        fs::write(path, text).unwrap();
    }
    live(&guard).await;
}

#[tokio::test]
async fn sentinels_are_reached_so_too() {
    let ours = Authority::new("one");
    let site = Site::start(&ours);
    let file = |name: &str| site.directory.path().join(name).display().to_string();
    let lines = [
        "port 0".to_owned(),
        "tls-port {port}".to_owned(),
        "tls-replication yes".to_owned(),
        format!("tls-cert-file {}", file("server.pem")),
        format!("tls-ca-cert-file {}", file("server-ca.pem")),
        format!("tls-key-file {}", file("server.key")),
    ];
    let lines = lines.each_ref().map(String::as_str);
    let never = Duration::from_secs(3_600);
    let sentinels: Vec<_> =
        (0..3).map(|_| Sentinel::start("mymaster", site.port, never, &lines)).collect();
    let hosts: Vec<_> = sentinels.iter().map(|it| format!("127.0.0.1:{}", it.port())).collect();
    let url = format!("rediss+sentinel://{}/mymaster", hosts.join(","));
    let guard = guard_over(&url, &Table::with(0..100)).tls(trusting(&ours, &ours)).build().unwrap();
    live(&guard).await;
}

/// Set in the process that runs [`the_systems_roots_are_trusted`] for real: they are read from its environment.
const URL: &str = "BLOOM_GUARD_TEST_TLS_URL";

#[tokio::test]
async fn the_systems_roots_are_trusted() {
    if let Ok(url) = std::env::var(URL) {
        return live(&guard_over(&url, &Table::with(0..100)).build().unwrap()).await;
    }
    let site = Site::with(&Authority::new("one"), "no");
    let ended = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tls::the_systems_roots_are_trusted"])
        .env(URL, format!("rediss://localhost:{}/", site.port))
        .env("SSL_CERT_FILE", site.directory.path().join("server-ca.pem"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success() && said.contains("1 passed"), "{said}");
}

#[tokio::test]
async fn a_port_that_takes_tls_only_and_one_that_takes_none_are_named() {
    let (site, redis) = (Site::with(&Authority::new("one"), "no"), RedisServer::start());
    for (url, words) in [
        (format!("redis://localhost:{}/", site.port), "rediss://"),
        (format!("rediss://localhost:{}/", redis.port()), "redis://"),
    ] {
        let guard = guard_over(&url, &Table::with(0..100)).build().unwrap();
        told(&guard, Doubt::Disconnected, words).await;
    }
}

const UNKNOWN_KEY: &str = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";

/// The problems of settings that cannot be, in words.
fn problem(builder: Builder) -> String {
    let error = builder.build().expect_err("it cannot be");
    let [SettingError::Invalid { setting: "tls", .. }] = error.problems() else {
        panic!("{error:?}")
    };
    error.to_string()
}

#[test]
fn what_cannot_be_read_or_used_is_an_error_at_once() {
    let (ours, table) = (Authority::new("one"), Table::with(0..1));
    let ([chain, key], [_, other]) = (ours.signs(), ours.signs());
    let tls = TlsSettings::new;
    let over = |url: &str, tls: TlsSettings| problem(guard_over(url, &table).tls(tls));
    for url in ["redis://localhost", "redis+sentinel://a,b,c/mymaster", "redis+cluster://a,b"] {
        assert!(over(url, tls()).contains("tls: has no effect on a redis:// url"), "{url}");
    }
    let nowhere = support::model::in_process(&table, 100, 0.01).tls(tls());
    assert!(problem(nowhere).contains("tls: has no effect on a filter in this process"));
    for (tls, words) in [
        (tls().root_certificates_pem("no pem"), "there is no certificate"),
        (tls().root_certificates_pem(&key), "there is no certificate"),
        (tls().root_certificates_pem("-----BEGIN CERTIFICATE-----\nAAAA"), "section end"),
        (tls().client_certificate_pem("no pem", &key), "there is no certificate"),
        (tls().client_certificate_pem(&chain, &chain), "there is no private key"),
        (
            tls().client_certificate_pem(&chain, &other),
            "cannot be used with its key: keys may not be consistent",
        ),
        (tls().client_certificate_pem(&chain, UNKNOWN_KEY), "cannot be used with its key"),
    ] {
        let told = over("rediss://localhost", tls);
        assert!(told.contains(words) && !told.contains("PRIVATE"), "{told}");
    }
    let shown =
        format!("{:?}", tls().client_certificate_pem(&chain, &key).root_certificates_file("/ca"));
    assert!(shown.contains("/ca") && !shown.contains("BEGIN"), "{shown}");
}
