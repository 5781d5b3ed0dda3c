//! `rediss+cluster://`: a cluster whose nodes name each other by their TLS ports.

use std::time::Duration;

use bloom_guard::access::TlsSettings;
use bloom_guard::{BloomGuard, Doubt, Refusal, SecretKey, Verdict};
use support::eventually;
use support::model::{Table, guard_over, live, told};
use support::redis_server::{RedisServer, free_port};

use super::tls::Authority;

const SOON: Duration = Duration::from_secs(20);
const NODES: usize = 3;

/// Primaries that speak TLS among each other and to guards. The test itself uses their other ports.
struct TlsCluster {
    nodes: Vec<(RedisServer, u16)>,
    _files: tempfile::TempDir,
}

impl TlsCluster {
    async fn start(authority: &Authority) -> Self {
        let files = tempfile::tempdir().unwrap();
        let [certificate, key] = authority.signs();
        let file = |name: &str, text: &str| {
            let path = files.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let authority = file("ca.pem", &authority.pem());
        let (certificate, key) = (file("server.pem", &certificate), file("server.key", &key));
        let start = |_| {
            let port = free_port();
            let node = RedisServer::with(&[
                "--cluster-enabled",
                "yes",
                "--tls-port",
                &port.to_string(),
                "--tls-cluster",
                "yes",
                "--tls-auth-clients",
                "no",
                "--tls-ca-cert-file",
                &authority,
                "--tls-cert-file",
                &certificate,
                "--tls-key-file",
                &key,
            ]);
            (node, port)
        };
        let cluster = Self { nodes: (0..NODES).map(start).collect(), _files: files };
        cluster.form().await;
        cluster
    }

    async fn form(&self) {
        let meet = self.nodes[0].1.to_string();
        for (at, (node, _)) in self.nodes.iter().enumerate() {
            node.serves_part(at, NODES);
            node.run::<()>(&["CLUSTER", "MEET", "127.0.0.1", &meet]);
        }
        for (node, _) in &self.nodes {
            eventually("the cluster serves", SOON, || async {
                let said: String = node.run(&["CLUSTER", "INFO"]);
                let serves = said.contains("state:ok") && said.contains("known_nodes:3");
                if serves { Ok(()) } else { Err(said) }
            })
            .await;
        }
    }

    fn guard(&self, table: &Table, authority: &Authority) -> BloomGuard {
        let url = format!("rediss+cluster://localhost:{}", self.nodes[0].1);
        guard_over(&url, table)
            .secret_key(SecretKey::new([7; 16]))
            .shards(16)
            .tls(TlsSettings::new().root_certificates_pem(authority.pem()))
            .build()
            .unwrap()
    }
}

#[tokio::test]
async fn a_cluster_over_tls_is_guarded_on_all_of_its_nodes_and_no_other_authority_is_believed() {
    let (ours, other) = (Authority::new("one"), Authority::new("other"));
    let cluster = TlsCluster::start(&ours).await;
    let table = Table::with(0..2_000);
    let guard = cluster.guard(&table, &ours);
    guard.ready().await;
    live(&guard).await;
    for (node, _) in &cluster.nodes {
        assert!(!node.keys().is_empty(), "each node has shards");
    }
    guard.insert_many(&(2_000..2_200).collect::<Vec<u64>>()).await.unwrap();
    for id in 0..2_200_u64 {
        assert_eq!(guard.check(&id).await.unwrap(), Verdict::Present, "{id}");
    }
    let stranger = cluster.guard(&table, &other);
    told(&stranger, Doubt::Refused(Refusal::TLS), "UnknownIssuer").await;
}
